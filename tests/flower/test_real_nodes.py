"""A real SuperLink and two SuperNodes on loopback, of which one is killed midway."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from slotwise import Timeline

BIN = Path(sys.executable).parent
START_TIMEOUT, RUN_TIMEOUT = 120, 240  # seconds


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Processes:
    """Flower's programs, with a home folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.running: list[subprocess.Popen[bytes]] = []
        home = folder / "home"
        home.mkdir()
        (home / "config.toml").write_text(
            f"""
[superlink]
default = "test"
[superlink.test]
address = "127.0.0.1:{self.port}"
insecure = true
"""
        )
        source = str(Path(__file__).parents[2] / "src")
        self.environment = {
            **os.environ,
            "FLWR_HOME": str(home),
            "PYTHONPATH": os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")])),
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        }

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{len(self.running)}.log").open("wb") as log:
            started = subprocess.Popen(
                [str(BIN / command[0]), *command[1:]],
                cwd=self.folder,
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self.running.append(started)
        return started

    def node(self, number: int) -> subprocess.Popen[bytes]:
        address = ("--insecure", "--superlink", f"127.0.0.1:{self.port}", "--port", str(free_port()))
        return self.start(
            "flower-supernode", *address, "--node-config", f"partition-id={number} num-partitions=2"
        )

    def end(self) -> None:
        for process in reversed(self.running):
            kill(process)

    def logs(self) -> str:
        return "\n".join(
            path.read_text(errors="replace")[-3000:] for path in sorted(self.folder.glob("*.log"))
        )


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a program with all processes that it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def flower(folder: Path) -> Iterator[Processes]:
    processes = Processes(folder)
    try:
        yield processes
    finally:
        processes.end()


def wait_until(condition, seconds: float, processes: Processes) -> None:  # type: ignore[no-untyped-def]
    """Wait for what another process does; there is no event to wait for."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, processes.logs()
        time.sleep(0.2)


def listens(port: int) -> bool:
    with socket.socket() as found:
        return found.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.slow
def test_the_schedule_goes_on_without_a_node_that_is_killed(tmp_path: Path, numpy_example: Path) -> None:
    out = tmp_path / "run"
    with flower(tmp_path) as processes:
        processes.start(
            "flower-superlink",
            *("--insecure", "--disable-runtime-dependency-installation", "--port", str(processes.port)),
        )
        wait_until(lambda: listens(processes.port), START_TIMEOUT, processes)
        nodes = [processes.node(number) for number in range(2)]
        config = f'schedule="async" devices=2 group_size=1 deadline=31 message-timeout=40 out="{out}"'
        processes.start("flwr", "run", str(numpy_example), "test", "--run-config", config)
        checkpoints = out / "live"  # one after every round
        wait_until(
            lambda: any(path.name >= "round-000000001" for path in checkpoints.glob("round-*")),
            RUN_TIMEOUT,
            processes,
        )
        kill(nodes[1])
        finished = out / "messages.json"
        wait_until(finished.exists, RUN_TIMEOUT, processes)
    description = json.loads((out / "run.json").read_text())
    assert description["status"] == "finished"
    measured = json.loads((out / "live.json").read_text())["measured"]
    assert measured["rounds"] == description["rounds"] >= 6
    timeline = Timeline.from_json((out / "timeline.json").read_text())
    assert len(set(timeline.device[-2:].tolist())) == 1
    messages = json.loads(finished.read_text())
    assert messages["unanswered"] >= 1
    assert messages["median"] > 0
