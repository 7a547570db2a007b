"""Waiting times between attempts to connect."""

from slotwise.live.transport.backoff import FIRST, LONGEST, LONGEST_REFUSED, Backoff

CLOSED, REFUSED = OSError("closed"), ConnectionRefusedError(111, "Connection refused")


def waits(errors):
    backoff = Backoff()
    return [backoff.next(error, 0.0) for error in errors]


def test_waits_double_up_to_a_limit_and_are_shortened_by_half_at_most():
    found = waits([CLOSED] * 12)
    for number, wait in enumerate(found):
        longest = min(FIRST * 2**number, LONGEST)
        assert longest / 2 <= wait <= longest


def test_a_broker_that_is_not_there_is_tried_again_soon():
    assert max(waits([REFUSED] * 50)) <= LONGEST_REFUSED


def test_a_steady_connection_begins_anew():
    backoff = Backoff()
    for _ in range(10):
        backoff.next(CLOSED, 0.1)
    assert backoff.next(None, 60.0) <= FIRST


def test_two_clients_do_not_come_back_at_the_same_moments():
    assert waits([CLOSED] * 12) != waits([CLOSED] * 12)
