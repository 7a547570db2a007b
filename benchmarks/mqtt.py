"""Granted updates per second of a live run, beside a raw grant/echo loop on the same broker in the same run.

200 devices with models of 21,840 numbers on one machine. The raw loop is what MQTT alone can do: a client
publishes a grant, the granted client echoes as many bytes as an update has, and only then comes the next,
each message acknowledged (QoS 1) or not (--qos 0).
slotwise does the same and schedules, checks, aggregates and broadcasts besides. The two take turns.

With --against TREE, another checkout of slotwise (git worktree add TREE COMMIT), the two versions take turns,
each with its own copy of this script, and the ratio of their granted updates per second is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path

import numpy as np

from slotwise.learning import Evaluation, TrainingStart
from slotwise.live import ServerConfig
from slotwise.live.server.live_run import run_live
from slotwise.live.server.server_config import LivePlan
from slotwise.live.server.serving import new_live_folder
from slotwise.live.transport import Message
from slotwise.live.transport.broker import parse_address
from slotwise.live.transport.mqtt import connected_channel
from slotwise.live.transport.mqtt_client import MqttClient
from slotwise.runs import RunConfig

PARAMETERS = 21_840
HERE = Path(__file__).resolve().parent


class Cheap:
    """A task that costs nothing, so that only the network is measured."""

    def initial_model(self) -> np.ndarray:
        """Return zeros."""
        return np.zeros(PARAMETERS, dtype=np.float32)

    def local_update(self, model: np.ndarray, start: TrainingStart) -> np.ndarray:
        """Return an update that costs hardly anything."""
        return model * np.float32(0.001) + np.float32(start.device + start.training)

    def evaluate(self, model: np.ndarray) -> Evaluation:
        """Return the first number as the loss."""
        return Evaluation(float(model[0]), 0.0)


def make_task(config: RunConfig) -> Cheap:
    del config
    return Cheap()


async def echo(address: str, devices: int, first: int, qos: int) -> None:
    """Run the other side of the raw loop: clients that answer grants with an update's bytes."""
    broker, payload = parse_address(address), bytes(4 * PARAMETERS)

    async def one(number: int) -> None:
        received: asyncio.Queue[Message] = asyncio.Queue()
        async with MqttClient(broker, f"raw-{number}", receive=received.put_nowait) as client:
            await client.subscribe([f"raw/to/{number}"])
            await client.publish("raw/here", b"")
            while (await received.get()).payload != b"end":
                await client.publish(f"raw/from/{number}", payload, qos=qos)

    await asyncio.gather(*(one(number) for number in range(first, first + devices)))


async def raw_loop(address: str, devices: int, processes: int, grants: int, qos: int) -> float:
    """Return the grants per second of the raw loop."""
    received: asyncio.Queue[Message] = asyncio.Queue()
    async with MqttClient(parse_address(address), "raw-server", receive=received.put_nowait) as client:
        await client.subscribe(["raw/from/+", "raw/here"])
        command = [sys.executable, __file__, "--echo", address, "--qos", str(qos)]
        firsts = [1 + devices * i // processes for i in range(processes + 1)]
        children = [
            subprocess.Popen([*command, "--first", str(first), "--devices", str(following - first)])
            for first, following in pairwise(firsts)
        ]
        for _ in range(devices):
            await received.get()
        began = time.perf_counter()
        for grant in range(grants):
            await client.publish(f"raw/to/{grant % devices + 1}", b"grant", qos=qos)
            await received.get()
        seconds = time.perf_counter() - began
        for number in range(1, devices + 1):
            await client.publish(f"raw/to/{number}", b"end")
        for child in children:
            await asyncio.to_thread(child.wait)
    return grants / seconds


async def live_run(
    address: str, devices: int, processes: int, group_size: int, grants: int, folder: Path
) -> float:
    """Return the granted updates per second of a live run."""
    rounds = grants // group_size
    compute = (devices - group_size) // group_size * (group_size + 1)
    options = {"devices": devices, "group_size": group_size, "schedule": "async", "compute_slots": compute}
    deadline = compute + (rounds + 1) * (group_size + 1)
    config = RunConfig.from_options({**options, "deadline": deadline, "task": "mqtt:make_task"})
    name = f"bench{time.monotonic_ns()}"
    command = [sys.executable, "-c", "from slotwise.cli import main; main()", "fleet", "--quiet"]
    command += [
        "--devices",
        str(devices),
        "--processes",
        str(processes),
        "--broker",
        address,
        "--name",
        name,
        "--task",
        "mqtt:make_task",
    ]
    child = subprocess.Popen(command, cwd=HERE)
    async with AsyncExitStack() as stack:
        channel = await stack.enter_async_context(connected_channel(parse_address(address), f"{name}-server"))
        server = ServerConfig(name=name)
        run = new_live_folder(folder, config, server)
        outcome = await run_live(run, LivePlan.of(config), Cheap(), channel, server=server)
    await asyncio.to_thread(child.wait)
    state = outcome.state
    first, last = next(iter(state.log)).seconds, state.seconds
    return group_size * (state.round - 1) / (last - first)


async def compare(
    address: str, devices: int, processes: int, group_size: int, grants: int, repeats: int, qos: int
) -> None:
    raw, live = [], []
    for _ in range(repeats):
        raw.append(await raw_loop(address, devices, processes, grants, qos))
        with tempfile.TemporaryDirectory() as folder:
            live.append(await live_run(address, devices, processes, group_size, grants, Path(folder) / "run"))
        print(f"raw {raw[-1]:.0f}/s  slotwise {live[-1]:.0f}/s  {live[-1] / raw[-1]:.0%}", flush=True)
    ratio = statistics.median(b / a for a, b in zip(raw, live, strict=True))
    print(f"{devices} devices in {processes} processes, S={group_size}: ", end="")
    print(f"raw grant/echo {statistics.median(raw):.0f}/s, ", end="")
    print(f"granted updates {statistics.median(live):.0f}/s, {ratio:.0%} of it")


def compare_trees(other: Path, options: list[str], repeats: int) -> None:
    """Print the granted updates per second of this tree and of another one, and their ratio."""
    trees = {"this": HERE.parent, "other": other.resolve()}
    found: dict[str, list[float]] = {name: [] for name in trees}
    for repeat in range(repeats):
        for name in sorted(trees, reverse=repeat % 2 == 0):  # each is the first of the two as often
            folder = trees[name] / "benchmarks"
            command = [sys.executable, str(folder / "mqtt.py"), *options, "--repeats", "1"]
            environment = {**os.environ, "PYTHONPATH": str(trees[name] / "src")}
            done = subprocess.run(
                command, cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, text=True
            )
            (rate,) = re.findall(r"slotwise (\d+)/s", done.stdout)
            found[name].append(float(rate))
        print("  ".join(f"{name} {rates[-1]:.0f}/s" for name, rates in found.items()), flush=True)
    this, before = (statistics.median(found[name]) for name in ("this", "other"))
    ratio = statistics.median(a / b for a, b in zip(found["this"], found["other"], strict=True))
    print(f"granted updates: this tree {this:.0f}/s, {other} {before:.0f}/s; median ratio {ratio:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("broker", nargs="?", default="mqtt://127.0.0.1:1883")
    parser.add_argument("--devices", type=int, default=200)
    parser.add_argument("--processes", type=int, default=2, help="of the devices, in both")
    parser.add_argument("--group-size", type=int, default=10)
    parser.add_argument("--grants", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--qos", type=int, default=1, choices=[0, 1], help="of the raw loop")
    parser.add_argument("--against", type=Path, metavar="TREE", help="compare with another source tree")
    parser.add_argument("--echo", help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.echo:
        asyncio.run(echo(options.echo, options.devices, options.first, options.qos))
    elif options.against is not None:
        names = ("devices", "processes", "group_size", "grants", "qos")
        given = [f"--{name.replace('_', '-')}={getattr(options, name)}" for name in names]
        compare_trees(options.against, [options.broker, *given], options.repeats)
    else:
        asyncio.run(
            compare(
                options.broker,
                options.devices,
                options.processes,
                options.group_size,
                options.grants,
                options.repeats,
                options.qos,
            )
        )


if __name__ == "__main__":
    main()
