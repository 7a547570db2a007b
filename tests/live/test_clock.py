"""Clocks, signals and slots."""

import asyncio

import pytest
from virtual_time import run_virtual

from slotwise.live.clock import Clock, RateLimit, Signal, SlotClock, Timeout


def test_a_wait_that_is_cancelled_together_with_the_change_ends_cancelled():
    async def run():
        changed = Signal()
        waiting = asyncio.create_task(Clock().wait([changed.next()], 60.0))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        changed.notify()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(run())


def test_a_wait_without_time_returns_at_once():
    async def run():
        await Clock().wait([Signal().next()], 0.0)

    asyncio.run(run())


def test_a_timeout_does_not_count_time_without_a_connection():
    async def scenario(clock):
        connected = False
        timeout = Timeout(5.0, lambda: connected, Signal(), clock)

        async def connect():
            nonlocal connected
            await clock.sleep(100.5)
            connected = True

        connecting = asyncio.create_task(connect())
        await timeout.until(lambda: False)
        await connecting
        return clock.now()

    assert run_virtual(scenario) == pytest.approx(105, abs=1)


def test_slots_with_a_length_follow_the_clock_and_slots_without_one_follow_the_plan():
    async def scenario(clock):
        paced, unpaced = SlotClock(500, clock), SlotClock(None, clock)
        for slots in (paced, unpaced):
            slots.start(10)
        await clock.sleep(1.2)
        return [
            (slots.paced, slots.reached(11), slots.next_slot(11), slots.seconds_until(14))
            for slots in (paced, unpaced)
        ]

    assert run_virtual(scenario) == [(True, 12, 13, pytest.approx(0.8)), (False, 11, 12, 0.0)]


def test_a_burst_is_allowed_and_then_a_rate_for_each_device_by_itself():
    limit = RateLimit(3, 0.5)
    assert [limit.allows(1, 0.0) for _ in range(5)] == [True, True, True, False, False]
    assert limit.allows(2, 0.0)
    assert not limit.allows(1, 1.0)
    assert limit.allows(1, 2.0)
    assert not limit.allows(1, 2.0)
    assert [limit.allows(1, 100.0) for _ in range(4)] == [True, True, True, False]
