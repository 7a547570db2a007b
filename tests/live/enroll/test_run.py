"""A whole run over TLS, with the commands that the documentation gives."""

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from slotwise.live.protocol import Topics
from slotwise.live.server.inbox import READY_TWICE
from slotwise.live.transport import Message
from slotwise.live.transport.broker import read_credentials
from slotwise.live.transport.mqtt import connected_channel

ROOT = Path(__file__).parents[3]
TASK = ("--task", "examples.own_task.logistic:make_task")


def begin(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", "from slotwise.cli import main; main()", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)


@pytest.mark.slow
def test_three_devices_and_a_server_complete_a_run(mosquitto, tmp_path: Path) -> None:
    folder, out = mosquitto.folder, tmp_path / "run"
    alone = tmp_path / "alone"  # what is copied to a device is all it needs
    alone.mkdir()
    for path in (folder / "ca.crt", *folder.glob("device-1.*")):
        shutil.copy(path, alone)
    plan = ("--devices", 3, "--group-size", 1, "--compute-slots", 2, "--deadline", 40)
    processes = [
        begin("serve", "--credentials", folder / "server.toml", "--out", out, *plan, *TASK, "--quiet"),
        begin("device", "--id", 1, "--credentials", alone / "device-1.toml", *TASK),
        begin("fleet", "--first", 2, "--devices", 2, "--credentials", folder, *TASK),
    ]
    said = [process.communicate(timeout=300)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], said
    live = json.loads((out / "live.json").read_text())
    assert live["measured"] == live["planned"]
    assert not live["rejected"].keys() - {READY_TWICE}  # a device that was asked twice answers twice


def test_a_large_model_passes_through_tls_whole(mosquitto) -> None:
    topics, payloads = Topics("trial"), [bytes([number]) * 3_500_000 for number in range(3)]

    async def heard() -> list[bytes]:
        async with (
            connected_channel(read_credentials(mosquitto.folder / "server.toml"), "server") as server,
            connected_channel(read_credentials(mosquitto.folder / "device-7.toml"), "device") as device,
        ):
            await device.subscribe(topics.as_receiver(7))
            await device.publish(topics.from_device(7, "here"), b"x")  # in order: it is subscribed then
            (topic,) = topics.to_receivers([2, 7])
            for payload in payloads:
                await server.publish(topic, payload, acknowledged=False)
            got: list[bytes] = []
            async for arrival in device.arrivals():
                if isinstance(arrival, Message):
                    got.append(arrival.payload)
                if len(got) == len(payloads):
                    break
            return got

    assert asyncio.run(asyncio.wait_for(heard(), 60)) == payloads
