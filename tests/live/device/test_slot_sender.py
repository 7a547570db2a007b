"""SlotSender: a device sends in its slots by its own counter, once for each grant."""

import pytest
from virtual_time import run_virtual

from slotwise.live.device.slot_sender import SlotSender
from slotwise.live.slots.frames import AheadGrant, Beacon, encode_beacon
from slotwise.live.slots.slot_layout import SlotTiming

SLOT, AFTER, GUARD = 100_000_000, 13_000_000, 10_000_000  # ns
AHEAD = 77_000_000_000  # ns, of the device's clock
MINE, LATER, OTHERS = AheadGrant(4, 2, 7, 1, 0), AheadGrant(9, 1, 7, 2, 1), AheadGrant(6, 1, 8, 1, 0)


class Channel:
    def __init__(self, clock):
        self._clock, self.heard = clock, None

    def hear_beacons(self, heard):
        self.heard = heard

    def local_ns(self):
        return AHEAD + round(self._clock.now() * 1e9)

    async def sleep_until(self, local_ns):
        while (left := local_ns - self.local_ns()) > 0:
            await self._clock.sleep(left / 1e9)


def sent(*beacons, slot_ns=SLOT, until=1.5, close_at=None):
    """Let beacons come (second, slot, grants); return when the device sends, in milliseconds, and what."""

    async def scenario(clock):
        channel, found = Channel(clock), []
        timing = SlotTiming(SLOT, AFTER, GUARD)
        sender = SlotSender(7, timing, channel, lambda grant: found.append((round(1e3 * clock.now()), grant)))
        moments = sorted([*((second, slot, grants) for second, slot, *grants in beacons), (until, -1, [])])
        for second, slot, grants in moments:
            while clock.now() < second:
                await clock.sleep(second - clock.now())
                if close_at is not None and clock.now() >= close_at:
                    sender.close()
            if slot >= 0 and channel.heard is not None:
                channel.heard(encode_beacon(Beacon(slot, slot_ns, tuple(grants))), AHEAD + SLOT * slot)
        sender.close()
        return found

    return run_virtual(scenario)


def test_a_device_sends_once_in_each_of_its_slots_and_in_no_others():
    heard = [(0.0, 0, MINE, OTHERS, LATER), (0.1, 1, MINE, OTHERS, LATER), (0.5, 5, MINE, OTHERS, LATER)]
    assert sent(*heard) == [(413, MINE), (913, LATER)]


def test_a_beacon_replaces_what_was_known_of_later_slots():
    assert sent((0.0, 0, MINE, LATER), (0.2, 2, OTHERS), (0.3, 3, LATER)) == [(913, LATER)]


def test_a_device_that_learns_late_of_its_grant_sends_at_once_in_its_slots():
    assert sent((0.58, 4, MINE)) == [(580, MINE)]


@pytest.mark.parametrize("moment", [0.595, 0.7])
def test_it_is_silent_in_the_last_guard_time_and_after_its_slots(moment):
    assert sent((moment, 4, MINE)) == []


def test_beacons_of_other_slots_and_other_frames_are_ignored():
    assert sent((0.0, 0, MINE), slot_ns=SLOT + 1) == []

    async def garbage(clock):
        channel, found = Channel(clock), []
        sender = SlotSender(7, SlotTiming(SLOT, AFTER, GUARD), channel, found.append)
        for frame in (b"", b"\1" * 40, encode_beacon(Beacon(0, SLOT, (MINE,)))[:-1]):
            channel.heard(frame, AHEAD)
        await clock.sleep(1)
        return found, sender.counter.beacons

    assert run_virtual(garbage) == ([], 0)


def test_a_device_that_has_left_the_run_sends_nothing():
    assert sent((0.0, 0, MINE, LATER), (0.5, 5, LATER), close_at=0.5) == [(413, MINE)]
