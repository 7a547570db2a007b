"""StatusWriter: the last status is the one that stays."""

import asyncio

import pytest
from virtual_time import run_virtual

from live import prepare
from slotwise import Scenario
from slotwise.live.server import live_status
from slotwise.live.server.events import LiveObserver
from slotwise.live.server.live_status import LiveStatus, StatusWriter


def test_a_write_that_comes_after_the_end_is_dropped(tmp_path, monkeypatch):
    late = []

    async def to_busy_thread(function, *arguments):
        late.append(lambda: function(*arguments))
        await asyncio.Event().wait()

    monkeypatch.setattr(live_status.asyncio, "to_thread", to_busy_thread)
    live = prepare(Scenario(devices=2, group_size=1, compute_slots=4), "async")

    async def scenario(clock):
        writer = StatusWriter(tmp_path, live.spec, live.state, LiveObserver(), clock)
        running = asyncio.create_task(writer.run())
        await clock.sleep(1.0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        writer.close(live.state, "finished")
        for write in late:
            write()

    run_virtual(scenario)
    assert len(late) == 1
    assert LiveStatus.read(tmp_path).phase == "finished"
