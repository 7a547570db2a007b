"""Penalty points: they expire, and bound what one device can cost."""

import pytest

from slotwise.live.server.device_state import COOL_DOWN, LIMIT, Penalties

TIMEOUT = 60.0


def test_three_faults_exclude_and_the_device_returns_after_a_cool_down():
    penalties = Penalties()
    penalties.expire(0.0, 100.0)
    assert [penalties.add(1) for _ in range(3)] == [False, False, True]
    assert penalties.seconds_left(1, 100.0) == 100.0
    assert penalties.expire(99.0, 100.0) == []
    assert penalties.expire(100.5, 100.0) == [1]
    assert not penalties.excluded
    assert not penalties.add(1)  # just below three again
    assert penalties.add(1)


def test_a_device_that_is_excluded_already_is_not_excluded_again():
    penalties = Penalties()
    assert penalties.add(1, LIMIT)
    assert not penalties.add(1)


def test_points_expire_also_after_a_restart_and_are_taken_back():
    penalties = Penalties({1: 2.5}, [2])
    assert penalties.expire(1000.0, 10.0) == [2]  # without points it need not wait
    penalties.expire(1020.0, 10.0)
    assert penalties.points == {1: pytest.approx(0.5)}
    penalties = Penalties({1: 2.0})
    penalties.refund(1, 1.0)
    penalties.refund(1, 5.0)
    assert penalties.points[1] == 0.0


@pytest.mark.parametrize("good", [1, 4, 50])
def test_a_device_that_alternates_between_good_updates_and_silence_costs_a_small_share(good):
    """Silence twice after a number of good updates, each a second: the worst it can do with the channel."""
    penalties, now, wasted = Penalties(), 0.0, 0.0
    while now < 100_000.0:
        if 1 in penalties.excluded:
            now += 1.0
        else:
            now += good
            for _ in range(2):
                if 1 not in penalties.excluded:
                    now, wasted = now + TIMEOUT, wasted + TIMEOUT
                    penalties.add(1)
                    penalties.expire(now, COOL_DOWN * TIMEOUT)
        penalties.expire(now, COOL_DOWN * TIMEOUT)
    assert wasted <= (LIMIT + 1) * TIMEOUT + now / COOL_DOWN
