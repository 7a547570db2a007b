"""Waiting for the devices."""

import asyncio

import pytest

from slotwise.live.memory import MemoryBroker
from slotwise.live.patience import Patience


def test_who_is_cancelled_in_the_moment_of_a_message_ends():
    async def run():
        async with MemoryBroker().connect() as channel:
            changed = asyncio.Event()
            waiting = asyncio.create_task(Patience(60.0, channel, changed).change(60.0))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            changed.set()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

    asyncio.run(run())


def test_it_waits_no_longer_than_it_is_told_to():
    async def run():
        async with MemoryBroker().connect() as channel:
            await Patience(60.0, channel, asyncio.Event()).change(0.0)

    asyncio.run(run())
