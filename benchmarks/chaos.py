"""Random faults in live runs: chaos.py --faults 200 --seed 1.

Runs with six devices in three processes, in turn on mosquitto, on the embedded broker, on mosquitto with
TLS and passwords or certificates, and over UDP, all behind proxies. Every second or so there is a fault:
kill -9, SIGTERM or SIGSTOP of devices, server or broker; connections that are cut, delayed or truncated (over
UDP, datagrams that are lost, doubled and reordered), one or all. Who was killed is started again. A run is
right if it ends with all planned rounds, no update is applied twice, its timeline.json replays to the run's
model to the bit, and no device has ended with an error.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random

import numpy as np

from slotwise.learning import Evaluation, TrainingStart
from slotwise.live import replay
from slotwise.live.enroll.enrolment import Enrolment
from slotwise.live.enroll.enrolment_folder import create_enrolment
from slotwise.live.server.server_config import LivePlan
from slotwise.runs import RunConfig, RunFolder
from slotwise.runs.run_folder import model_sha256
from tcp_proxy import TcpProxy
from udp_proxy import UdpProxy

HERE = Path(__file__).resolve().parent
PROCESSES, DEVICES_EACH = 3, 2
PLAN = {"devices": PROCESSES * DEVICES_EACH, "group-size": 2, "compute-slots": 4, "deadline": 400}
TIMEOUTS = [
    "--timeout",
    "4",
    "--cool-down",
    "10",
    "--wait",
    "60",
]  # short, so that faults do not take minutes
EMBEDDED = "embedded broker"
TLS = {"TLS with passwords": False, "TLS with certificates": True}  # on mosquitto; whether by certificate
UDP = "UDP"
BROKERS = ("mosquitto", EMBEDDED, *TLS, UDP)
WITHOUT_BROKER = (EMBEDDED, UDP)  # none but the server's own
RESTARTED = (-signal.SIGKILL, -signal.SIGTERM, 130)  # exit codes of a server that was killed or stopped
ENDED_BY_ITSELF = (0, 3)  # exit codes of devices at the end of a run; 3 for those that are excluded then


class Arithmetic:
    """A task whose updates tell device, training and model apart."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def initial_model(self) -> np.ndarray:
        """Return 2,000 different numbers."""
        return np.linspace(1, 2, 2000, dtype=np.float32)

    def local_update(self, model: np.ndarray, start: TrainingStart) -> np.ndarray:
        """Return an update that depends on everything."""
        time.sleep(self._seconds)
        step = 1e-3 * start.device * model + 1e-4 * start.training + 1e-5 * start.round + 1e-6 * start.slot
        return step.astype(np.float32)

    def evaluate(self, model: np.ndarray) -> Evaluation:
        """Return the mean as the loss."""
        return Evaluation(float(model.mean()), 0.0)


def make_task(config: RunConfig) -> Arithmetic:
    del config
    return Arithmetic(float(os.environ.get("CHAOS_TRAINING", "0")))


# Below the ports of outgoing connections: nobody else may take the port of a broker that is started again.
_PORTS = count(Random(os.getpid()).randrange(20_000))


def free_port() -> int:
    while True:
        port = 10_000 + next(_PORTS) % 20_000
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port


@dataclass
class Figures:
    """What has happened in all runs so far."""

    faults: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    completed: int = 0
    hung: int = 0
    wrong: int = 0

    def __str__(self) -> str:
        kinds = ", ".join(f"{kind} {times}" for kind, times in sorted(self.faults.items()))
        ends = f"completed {self.completed}  hung {self.hung}  wrong {self.wrong}"
        return f"{kinds}\nfaults {sum(self.faults.values())}  runs {self.runs}  {ends}"


class Trial:
    """One run with its broker, proxies and processes."""

    def __init__(self, folder: Path, broker: str, random: Random, faults: Counter[str]) -> None:
        self.folder, self.out, self._kind, self._random = folder, folder / "run", broker, random
        self._faults, self._fleet = faults, folder / "fleet"
        self._port = free_port()
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._thawing: set[asyncio.Task[None]] = set()
        self.stack = AsyncExitStack()

    async def start(self) -> None:
        """Start everything."""
        self._near = await self.stack.enter_async_context(TcpProxy(free_port(), self._port))
        self._far: TcpProxy | UdpProxy
        if self._kind == UDP:
            far = UdpProxy(free_port(), self._port, self._random)
            self._far = await self.stack.enter_async_context(far)
            enrolment = Enrolment(["127.0.0.1"], self._port, udp=True)
            create_enrolment(self._fleet, enrolment, PROCESSES * DEVICES_EACH)
        else:
            self._far = await self.stack.enter_async_context(TcpProxy(free_port(), self._port))
        if self._kind not in WITHOUT_BROKER:
            self._configure_broker()
            await self._start_broker()
        await self._start_server()
        for index in range(PROCESSES):
            await self._start_devices(f"devices {index}")

    async def close(self) -> None:
        """End everything."""
        for process in self._processes.values():
            _signal(process, signal.SIGCONT)
            _signal(process, signal.SIGKILL)
            await process.wait()
        await self.stack.aclose()

    async def play(self, faults: int) -> str:
        """Inject so many faults, or fewer if the run ends before; return what is wrong, or nothing."""
        while not list(self.out.glob("live/*.checkpoint")) and self._processes["server"].returncode is None:
            await asyncio.sleep(0.1)  # until there is something to disturb
        while faults and self._processes["server"].returncode is None:
            await asyncio.sleep(self._random.uniform(0.1, 1.0))
            faults -= await self._fault()
        while (code := await self._processes["server"].wait()) in RESTARTED:
            await self._start_server()
        if code:
            return f"the server ended with code {code}"
        failed = [party for party, process in self._processes.items() if _failed(party, process)]
        return f"ended with an error: {', '.join(failed)}" if failed else check(self.out)

    # Faults

    async def _fault(self) -> bool:
        """Inject one; return whether there was anything to disturb."""
        server = self._processes["server"]
        proxy = self._random.choice([self._far] if self._kind in WITHOUT_BROKER else [self._near, self._far])
        everyone, seconds = self._random.random() < 0.5, self._random.uniform(0.2, 6.0)
        kinds: dict[str, Callable[[], Awaitable[bool]]] = {
            "cut": lambda: _done(proxy.cut(self._random, everyone=everyone)),
            "delay": lambda: _done(proxy.delay(self._random, seconds, everyone=everyone)),
            "truncate": lambda: _done(proxy.truncate(self._random, everyone=everyone)),
        }
        parties = ["devices 0", "devices 1", "devices 2", "server"]
        parties += [] if self._kind in WITHOUT_BROKER else ["broker"]
        party = self._random.choice(parties)
        who = party.split()[0]
        kinds |= {
            f"kill {who}": lambda: self._end(party, signal.SIGKILL),
            f"terminate {who}": lambda: self._end(party, signal.SIGTERM),
            f"stop {who}": lambda: self._freeze(party, seconds),
        }
        if server.returncode is not None:
            return False
        kind = self._random.choice(list(kinds))
        happened = await kinds[kind]()
        if happened:
            self._faults[kind] += 1
        return happened

    async def _end(self, party: str, number: signal.Signals) -> bool:
        process = self._processes[party]
        if process.returncode is not None:
            return False
        _signal(process, number)
        _signal(process, signal.SIGCONT)  # a stopped process does not end before
        await process.wait()
        if party == "broker":
            await self._start_broker()
        elif party == "server":
            if process.returncode in RESTARTED:  # else it was at its end
                await self._start_server()
        else:
            await self._start_devices(party)
        return True

    async def _freeze(self, party: str, seconds: float) -> bool:
        process = self._processes[party]
        if process.returncode is not None:
            return False
        _signal(process, signal.SIGSTOP)

        async def thaw() -> None:
            await asyncio.sleep(seconds)
            _signal(process, signal.SIGCONT)

        task = asyncio.create_task(thaw())
        self._thawing.add(task)
        task.add_done_callback(self._thawing.discard)
        return True

    # Processes

    def _configure_broker(self) -> None:
        """Write mosquitto.conf, and for TLS the enrolment of the fleet beside it."""
        lines = [f"listener {self._port} 127.0.0.1", "allow_anonymous true", "set_tcp_nodelay true"]
        self._broker_folder = self.folder
        if self._kind in TLS:
            self._broker_folder = self._fleet / "broker"
            enrolment = Enrolment(["127.0.0.1"], self._port, by_certificate=TLS[self._kind])
            create_enrolment(self._fleet, enrolment, PROCESSES * DEVICES_EACH)
            lines = (self._broker_folder / "mosquitto.conf").read_text().splitlines()
        if os.geteuid() == 0:  # else it becomes another user, who cannot read these files
            lines.append("user root")
        (self._broker_folder / "mosquitto.conf").write_text("\n".join(lines) + "\n")

    async def _start_broker(self) -> None:
        program = shutil.which("mosquitto", path=f"{os.environ['PATH']}:/usr/sbin")
        if program is None:
            sys.exit("mosquitto is not installed (Debian: apt install mosquitto)")
        await self._spawn("broker", [program, "-c", "mosquitto.conf"], self._broker_folder)

    async def _start_server(self) -> None:
        """Start the server as a service does: the same command begins the run and resumes it."""
        plan = [word for name, value in PLAN.items() for word in (f"--{name}", str(value))]
        options = ["--out", str(self.out), "--go-on", "--task", "chaos:make_task", *plan]
        embedded = ["--listen", f"127.0.0.1:{self._port}"]
        if self._kind == UDP:
            where = ["--credentials", str(self._fleet / "server.toml")]
        else:
            where = embedded if self._kind == EMBEDDED else self._broker_at(self._near, "server.toml")
        steady = ["--quiet", "--checkpoint-every", "0"]
        await self._spawn("server", _slotwise("serve", *options, *where, *TIMEOUTS, *steady))

    async def _start_devices(self, party: str) -> None:
        first = 1 + DEVICES_EACH * int(party.split()[1])
        numbers = ["--first", str(first), "--devices", str(DEVICES_EACH), "--timeout", "600"]
        where = self._broker_at(self._far)
        await self._spawn(party, _slotwise("fleet", *numbers, *where, "--task", "chaos:make_task", "--quiet"))

    def _broker_at(self, proxy: TcpProxy | UdpProxy, credentials: str = "") -> list[str]:
        if self._kind in TLS:
            login = ["--credentials", str(self._fleet / credentials)]
            return [*login, "--broker", f"mqtts://127.0.0.1:{proxy.port}"]
        if self._kind == UDP:
            return ["--credentials", str(self._fleet), "--broker", f"udp://127.0.0.1:{proxy.port}"]
        return ["--broker", f"mqtt://127.0.0.1:{proxy.port}"]

    async def _spawn(self, party: str, command: list[str], folder: Path = HERE) -> None:
        with (self.folder / f"{party.replace(' ', '-')}.log").open("ab") as log:
            self._processes[party] = await asyncio.create_subprocess_exec(
                *command, cwd=folder, stdout=log, stderr=log, env={**os.environ, "CHAOS_TRAINING": "0.05"}
            )


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """Send a signal; unlike `Process.send_signal` it does not take the exit code away from the event loop."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)


def _failed(party: str, process: asyncio.subprocess.Process) -> bool:
    """Return whether a device has ended by itself, and not because the run is over."""
    code = process.returncode
    return party.startswith("devices") and code is not None and code not in ENDED_BY_ITSELF


async def _done(disturbed: int) -> bool:
    return disturbed > 0


def _slotwise(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from slotwise.cli import main; main()", *arguments]


def check(out: Path) -> str:
    """Return what is wrong with a run, or nothing."""
    folder = RunFolder.open(out)
    description, planned = folder.description(), LivePlan.of(folder.parameters()).timeline.rounds
    if (description["status"], description["rounds"]) != ("finished", planned):
        return f"{description['status']} after {description['rounds']} of {planned} rounds"
    rounds = json.loads((out / "timeline.json").read_text())["rounds"]
    applied = [(uplink["device"], uplink["version"]) for entry in rounds for uplink in entry["uplinks"]]
    if len(set(applied)) != len(applied):
        return "an update was applied twice"
    if model_sha256(replay(out)) != description["model_sha256"]:
        return "the timeline does not replay to the model of the run"
    return ""


async def campaign(
    faults: int, seed: int, each: int, limit: float, brokers: tuple[str, ...], keep: Path
) -> Figures:
    """Play runs until there were so many faults."""
    figures = Figures()
    while (left := faults - sum(figures.faults.values())) > 0:
        number = figures.runs
        figures.runs += 1
        folder, kind = keep / f"{number:03}", brokers[number % len(brokers)]
        folder.mkdir(parents=True)
        trial = Trial(folder, kind, Random(f"{seed}-{number}"), figures.faults)
        began, before = time.monotonic(), sum(figures.faults.values())
        try:
            await trial.start()
            problem = await asyncio.wait_for(trial.play(min(each, left)), limit)
        except TimeoutError:
            figures.hung += 1
            problem = f"hung for {limit:.0f} s"
        else:
            figures.completed += not problem
            figures.wrong += bool(problem)
        finally:
            await trial.close()
        injected, seconds = sum(figures.faults.values()) - before, time.monotonic() - began
        print(f"run {number} on {kind}: {injected} faults, {seconds:.0f} s: {problem or 'right'}", flush=True)
        if not problem:
            shutil.rmtree(folder)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", type=int, default=12, help="faults in one run, at most")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds after which a run hangs")
    parser.add_argument("--broker", choices=[*BROKERS, "all"], default="all")
    parser.add_argument("--keep", type=Path, help="folder for the runs that went wrong")
    options = parser.parse_args()
    brokers = BROKERS if options.broker == "all" else (options.broker,)
    keep = options.keep or Path(tempfile.mkdtemp(prefix="chaos-"))
    figures = asyncio.run(campaign(options.faults, options.seed, options.each, options.limit, brokers, keep))
    print(figures)
    if figures.hung or figures.wrong:
        sys.exit(f"see {keep}")
    shutil.rmtree(keep)


if __name__ == "__main__":
    main()
