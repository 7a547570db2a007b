"""A disk that fills up: the run stops with the path and the remedy, and goes on when there is space."""

import shutil
from collections import namedtuple

import pytest
from memory_run import Logging, devices_on, half_a_second, live_run, serve_in_memory
from virtual_time import run_virtual

from live import TOPICS
from slotwise.base.errors import UserError
from slotwise.live import ServerConfig
from slotwise.live.server.disk_space import LITTLE, DiskSpace
from slotwise.live.server.events import EventLog
from slotwise.live.transport import MemoryBroker
from slotwise.runs import RunFolder

Usage = namedtuple("Usage", "free")


def resume_in_memory(path):
    async def scenario(clock):
        broker, server = MemoryBroker(), ServerConfig(name=TOPICS.name)
        async with devices_on(broker, half_a_second(clock)), broker.connect() as channel:
            return await live_run(RunFolder(path), channel, server=server, clock=clock)

    return run_virtual(scenario)


@pytest.mark.parametrize("file", ["timings.csv", "rounds.jsonl"])
def test_a_run_on_a_full_disk_says_so_and_is_resumed(tmp_path, file):
    serve_in_memory(tmp_path / "whole")

    async def fill(broker, clock):
        await clock.sleep(3.0)
        target = tmp_path / "run" / file
        target.rename(tmp_path / "kept")
        target.symlink_to("/dev/full")

    with pytest.raises(UserError) as caught:
        serve_in_memory(tmp_path / "run", meanwhile=fill, checkpoint_every=0)
    reason = "No space left on device (free some space on that disk)"
    assert str(caught.value) == f"cannot write {tmp_path / 'run' / file}: {reason}"
    (tmp_path / "run" / file).unlink()
    (tmp_path / "kept").rename(tmp_path / "run" / file)
    assert resume_in_memory(tmp_path / "run").status == "finished"
    models = [RunFolder(tmp_path / name).description()["model_sha256"] for name in ("whole", "run")]
    assert models[0] == models[1]


def test_little_space_is_said_once(tmp_path, monkeypatch):
    watching, space = Logging(), DiskSpace(tmp_path)
    for free in (LITTLE, LITTLE - 1, LITTLE - 2, 2 * LITTLE, 5 << 20):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: Usage(free))
        space.log_to(EventLog(watching))
    assert [event["free_mb"] for event in watching.named("little_space")] == [255, 5]
    assert watching.named("little_space")[0]["folder"] == str(tmp_path)
