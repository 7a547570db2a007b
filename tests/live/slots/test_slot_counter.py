"""The slot counter of a device whose clock drifts."""

from hypothesis import given
from hypothesis import strategies as st

from slotwise.live.slots.slot_counter import DriftingClock, SlotCounter
from slotwise.live.slots.slot_layout import SlotLayout

SLOT = 100_000_000
PPB = st.integers(-100_000_000, 100_000_000)
CLOCKS = st.builds(DriftingClock, st.integers(0, 10**13), PPB)


def heard(clock, slots, *, estimate_drift=True):
    """Return a counter that has heard the beacons of some slots."""
    counter = SlotCounter(SLOT, estimate_drift=estimate_drift)
    for slot in slots:
        counter.hear(slot, clock.local(slot * SLOT))
    return counter


def error(clock, counter, slot):
    """Return by how much later than the server's the device begins a slot."""
    return clock.moment(counter.local(slot)) - slot * SLOT


@given(CLOCKS, st.integers(0, 10**15))
def test_a_clock_shows_a_time_first_at_its_moment(clock, moment):
    local = clock.local(moment)
    first = clock.moment(local)
    assert clock.local(first) >= local > clock.local(first - 1)


@given(CLOCKS, st.integers(0, 10**6), st.integers(1, 100))
def test_two_beacons_give_offset_and_drift(clock, slot, apart):
    counter = heard(clock._replace(ppb=clock.ppb // 1000), [slot, slot + apart])
    slow = clock._replace(ppb=clock.ppb // 1000)
    assert abs(error(slow, counter, slot + 2 * apart)) <= 5
    assert abs(counter.drift_ppb - slow.ppb) <= 2 + 4 * 10**9 // (apart * SLOT)


def test_a_counter_without_drift_estimation_is_off_by_the_drift_since_the_last_beacon():
    clock = DriftingClock(12345, 20_000)  # 20 ppm
    counter = heard(clock, range(0, 100, 10), estimate_drift=False)
    assert (counter.slot, counter.beacons, counter.drift_ppb) == (90, 10, 0)
    assert abs(error(clock, counter, 100) + 20e-6 * 10 * SLOT) < 100  # its clock is fast, so it is early


@given(st.integers(-20_000, 20_000), st.lists(st.integers(-2000, 2000), min_size=30, max_size=60))
def test_noise_of_the_beacons_is_not_amplified(ppb, noise):
    clock, counter = DriftingClock(0, ppb), SlotCounter(SLOT)
    for slot, off in enumerate(noise):
        counter.hear(10 * slot, clock.local(10 * slot * SLOT) + off)
    assert abs(error(clock, counter, 10 * len(noise))) < 4 * 2000


def test_the_drift_is_followed_when_it_changes():
    counter, clock = SlotCounter(SLOT), DriftingClock(0, 0)
    for slot in range(0, 100, 10):
        counter.hear(slot, clock.local(slot * SLOT))
    warm = DriftingClock(clock.local(90 * SLOT) - (90 * SLOT + 90 * SLOT * 20_000 // 10**9), 20_000)
    for slot in range(100, 300, 10):
        counter.hear(slot, warm.local(slot * SLOT))
    assert abs(counter.drift_ppb - 20_000) < 200
    assert abs(error(warm, counter, 300)) < 1000


def test_a_counter_that_is_off_by_more_than_half_a_slot_begins_anew():
    counter = heard(DriftingClock(0, 0), [0, 10, 20])
    counter.hear(30, 31 * SLOT)
    assert (counter.beacons, counter.drift_ppb, counter.local(30)) == (1, 0, 31 * SLOT)


def test_an_old_beacon_changes_nothing():
    counter = heard(DriftingClock(5, 100), [0, 10, 20])
    before = counter.local(30)
    counter.hear(20, 20 * SLOT + 50)
    assert (counter.local(30), counter.slot) == (before, 20)


@given(st.integers(1, 200), st.integers(64, 1472), st.integers(10**6, 10**9), st.integers(0, 10**6))
def test_the_lowest_bit_rate_is_enough_for_the_frames(frames, size, slot_ns, guard_ns):
    layout = SlotLayout.for_frames(slot_ns, guard_ns, size, frames)
    if layout is None:
        assert slot_ns - 2 * guard_ns <= frames
        return
    assert layout.frames >= frames
    first, last = layout.moment(3, 0), layout.moment(3, frames - 1)
    assert layout.contains(3, first - guard_ns, first + layout.beacon_ns)
    assert layout.contains(3, last, last + layout.beacon_ns + guard_ns)
    assert not layout.contains(3, first - guard_ns - 1, first)
