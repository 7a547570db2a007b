"""The shared medium, against a naive second implementation that compares all pairs."""

from hypothesis import given
from hypothesis import strategies as st

from slotwise.live.slots.medium import SERVER, SharedMedium, VirtualTime
from slotwise.live.slots.slot_layout import air_ns

BIT_RATE = 8 * 10**9  # a nanosecond for each byte


def play(sent, loses=lambda *_: False):
    """Return what each receiver has heard, and the collided frames, as (sender, start)."""
    time = VirtualTime()
    medium = SharedMedium(time, BIT_RATE, loses)
    heard = {number: [] for number in range(4)}
    for number, mine in heard.items():
        medium.attach(number, lambda one, mine=mine: mine.append((one.sender, one.start, one.frame)))
    for sender, start, length in sent:
        medium.send(sender, [bytes(length)], start)
    time.run()
    return heard, medium


SENT = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 60), st.integers(1, 12)), max_size=12)


@given(SENT)
def test_frames_that_overlap_are_lost_and_all_others_are_heard(sent):
    alone = [
        (sender, start, bytes(length))
        for n, (sender, start, length) in enumerate(sent)
        if all(
            m == n or start + length <= other or other + size <= start
            for m, (_, other, size) in enumerate(sent)
        )
    ]
    heard, medium = play(sent)
    assert sorted(heard[SERVER]) == sorted(one for one in alone if one[0] != SERVER)
    for device in (1, 2, 3):
        assert sorted(heard[device]) == sorted(one for one in alone if one[0] == SERVER)
    assert len(medium.collisions) == len(sent) - len(alone)


def test_both_of_two_senders_at_once_are_lost_and_recorded():
    heard, medium = play([(1, 0, 10), (2, 9, 10)])
    assert not any(heard.values())
    assert [(one.sender, one.with_senders) for one in medium.collisions] == [(1, {2}), (2, {1})]


def test_frames_that_only_touch_do_not_collide():
    heard, _ = play([(1, 0, 10), (2, 10, 10)])
    assert [sender for sender, _, _ in heard[SERVER]] == [1, 2]


def test_a_frame_may_be_lost_for_one_receiver_only():
    heard, medium = play([(SERVER, 0, 10)], lambda receiver, *_: receiver == 2)
    assert [len(heard[device]) for device in (1, 2, 3)] == [1, 0, 1]
    assert (medium.lost_senders(0), medium.lost_senders(1)) == ({SERVER}, set())


@given(st.integers(1, 2000), st.integers(1, 10**10))
def test_a_frame_takes_at_least_its_bits(size, bit_rate):
    taken = air_ns(size, bit_rate)
    assert taken * bit_rate >= 8 * size * 10**9 > (taken - 1) * bit_rate


def test_frames_of_one_sender_follow_each_other():
    time = VirtualTime()
    medium, heard = SharedMedium(time, BIT_RATE), []
    medium.attach(SERVER, lambda one: heard.append((one.start, one.end)))
    medium.send(1, [bytes(5), bytes(7)], 100)
    time.run()
    assert heard == [(100, 105), (105, 112)]
