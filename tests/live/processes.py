"""Real processes and a real broker: what the tests of a live run are made of."""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from functools import cached_property
from itertools import count
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from slotwise.live.protocol import BadFrame, decode, encode
from slotwise.live.server.inbox import READY_TWICE

HERE = Path(__file__).parent
NAME = "test"
PATIENT = 300.0  # seconds until a test gives up
# The bound on updates depends on a secret of the run: with some, it clips honest updates on real data.
UNBOUNDED = ("--clip-norm", "off")


# A port that is free now must still be free when a broker listens on it: so below the ports of outgoing
# connections, and from another number on in each test process.
_PORTS = count(random.Random(os.getpid()).randrange(20_000))


def free_port():
    while True:
        port = 10_000 + next(_PORTS) % 20_000
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port


def until(happened, what, seconds=PATIENT):
    """Wait for something; say what has not come."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = happened()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError(f"after {seconds} s: no {what}")


def accepts(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Mosquitto:
    """A broker process that can be killed and started again on the same port."""

    def __init__(self, folder, *settings):
        program = shutil.which("mosquitto", path=f"{os.environ['PATH']}:/usr/sbin")
        if program is None:
            if os.environ.get("SLOTWISE_REQUIRE_MOSQUITTO"):
                pytest.fail("mosquitto is required here and not installed")
            pytest.skip("mosquitto is not installed (Debian: apt install mosquitto)")
        self.port = free_port()
        self.address = f"mqtt://127.0.0.1:{self.port}"
        config = folder / "mosquitto.conf"
        usual = [f"listener {self.port} 127.0.0.1", "allow_anonymous true", "set_tcp_nodelay true"]
        config.write_text("\n".join([*usual, "log_dest none", *settings, ""]))
        self._command = [program, "-c", str(config)]
        self.start()

    def start(self):
        self.process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: accepts(self.port), "broker")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        """In order, as a service manager does it: last wills are told to those who are still connected."""
        self.process.terminate()
        self.process.wait()


class Embedded:
    """The broker that a server starts by itself; nothing runs before the server does."""

    def __init__(self, folder):
        self.port = free_port()
        self.address = f"mqtt://127.0.0.1:{self.port}"

    def kill(self):
        pass


class Process:
    """A slotwise command; its output is in a file."""

    def __init__(self, folder, *arguments, script=None, environment=None, cwd=HERE):
        command = ["-c", "from slotwise.cli import main; main()"] if script is None else [str(HERE / script)]
        self.log = folder / f"process-{time.monotonic_ns()}.log"
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, *command, *map(str, arguments)],
                cwd=cwd,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
            )

    def __getattr__(self, name):
        return getattr(self.process, name)

    def signal(self, number):
        self.process.send_signal(number)

    def kill9(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def ends(self, code=0, seconds=PATIENT):
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running: {self.text}") from None
        assert self.process.returncode == code, self.text

    @property
    def text(self):
        return self.log.read_text(errors="replace")


class Wire:
    """A listener that reads everything on the broker."""

    def __init__(self, port):
        self.messages = []
        self._changed = threading.Condition()
        self._client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id="listener")
        self._client.on_message = self._on_message
        self._client.on_connect = lambda client, *_: client.subscribe("slotwise/#", qos=1)
        listens = threading.Event()
        self._client.on_subscribe = lambda *_: listens.set()
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        assert listens.wait(PATIENT), "no listener"

    def _on_message(self, client, data, message):
        try:
            frame = decode(message.payload)
        except BadFrame:
            frame = None
        with self._changed:
            self.messages.append((message.topic.removeprefix(f"slotwise/{NAME}/"), frame))
            self._changed.notify_all()

    def wait_for(self, wanted, what, seconds=PATIENT):
        """The first message, of those to come as well, that is ``wanted(topic, frame)``."""
        start, end = 0, time.monotonic() + seconds
        with self._changed:
            while True:
                for topic, frame in self.messages[start:]:
                    if frame is not None and wanted(topic, frame):
                        return topic, frame
                start = len(self.messages)
                if not self._changed.wait(end - time.monotonic()):
                    raise AssertionError(f"after {seconds} s: no {what} on the wire")

    def call_again(self):
        """As a server leaves it that was killed before it could say that it is over."""
        _, call = self.wait_for(lambda topic, frame: topic == "all/call", "call")
        self.wait_for(lambda topic, frame: topic == "all/end", "end")
        self.messages.clear()
        for kind, payload in {"end": b"", "call": encode(call.label, **call.fields)}.items():
            said = self._client.publish(f"slotwise/{NAME}/all/{kind}", payload, qos=1, retain=True)
            said.wait_for_publish(PATIENT)

    def round_reached(self, version):
        return self.wait_for(
            lambda topic, frame: topic.startswith("all/model") and frame.label.version >= version,
            f"model {version}",
        )

    def catch_up(self):
        """Wait until all of a run that is over has been heard."""
        self.wait_for(lambda topic, frame: topic == "all/end", "end")

    def count(self, topic):
        return sum(heard == topic for heard, _ in list(self.messages))

    def models(self):
        return {
            f.label.version: f.vector
            for topic, f in list(self.messages)
            if f and topic.startswith("all/model")
        }

    def close(self):
        self._client.disconnect()
        self._client.loop_stop()


class Trial:
    """A broker, a listener, and the processes of one live run."""

    def __init__(self, folder, broker):
        self.folder, self.broker = folder, broker
        self.out = folder / "run"
        self.started = []

    @cached_property
    def wire(self):
        return Wire(self.broker.port)

    def process(self, *arguments, **options):
        started = Process(self.folder, *arguments, **options)
        self.started.append(started)
        return started

    @property
    def where(self):
        return ["--broker", self.broker.address, "--name", NAME]

    def serve(self, *more, task="tasks:make", devices=5, group_size=2, compute_slots=4, deadline=60):
        options = ["--devices", devices, "--group-size", group_size, "--compute-slots", compute_slots]
        options += ["--deadline", deadline, "--checkpoint-every", "0", "--quiet", "--out", self.out]
        own = ["--task", task] if task else []
        return self.process("serve", *self.own_where, *options, *own, *more)

    @property
    def own_where(self):
        """Where the server finds its broker, or starts it."""
        embedded = ["--listen", f"127.0.0.1:{self.broker.port}", "--name", NAME]
        return embedded if isinstance(self.broker, Embedded) else self.where

    def resume(self, *more):
        return self.process(
            "serve", *self.own_where, "--resume", self.out, "--checkpoint-every", "0", "--quiet", *more
        )

    def fleet(self, *more, devices=5, first=1, task="tasks:make_slow", seconds="0.02", gated_from=None):
        own = ["--task", task] if task else []
        return self.process(
            "fleet",
            *self.where,
            *["--devices", devices, "--first", first, "--quiet", *own, *more],
            environment=self._pace(seconds, gated_from),
        )

    def device(self, number, *more, task="tasks:make_slow", seconds="0.02", gated_from=None):
        return self.process(
            "device",
            *self.where,
            *["--id", number, "--task", task, "--quiet", *more],
            environment=self._pace(seconds, gated_from),
        )

    def has_work(self, number):
        """Wait until a device, the last of those who receive it, has a model that is not the first."""

        def reaches(topic, frame):
            return topic.startswith("all/model") and topic.endswith(f"/{number}") and frame.label.version > 0

        self.wire.wait_for(reaches, f"work for device {number}")

    def _pace(self, seconds, gated_from):
        """How slow trainings are; those from a certain one on wait for the gate, so that the run is not over
        before the test has done what it wants."""
        gate = {} if gated_from is None else {"GATE": str(self.gate), "GATED_FROM": str(gated_from)}
        return {"SECONDS_OF_TRAINING": seconds, **gate}

    @property
    def gate(self):
        return self.folder / "gate"

    def open_gate(self):
        self.gate.touch()

    def rogue(self, number=3):
        return self.process(self.broker.address, NAME, number, script="rogue.py")

    def close(self):
        for started in self.started:
            if started.process.poll() is None:
                started.process.send_signal(signal.SIGCONT)
                started.process.kill()
            started.process.wait()
        if "wire" in self.__dict__:
            self.wire.close()

    @property
    def run(self):
        return json.loads((self.out / "run.json").read_text())

    @property
    def checkpoints(self):
        return list((self.out / "live").glob("*.checkpoint"))

    @property
    def uplinks(self):
        """(round, device, version) of every update that was applied."""
        rounds = json.loads((self.out / "timeline.json").read_text())["rounds"]
        return [(r["round"], u["device"], u["version"]) for r in rounds for u in r["uplinks"]]

    @property
    def serious_rejections(self):
        """But for those of a device that was asked twice and answered twice."""
        return [line for line in self.rejections.splitlines() if not line.endswith(READY_TWICE)]

    @property
    def rejections(self):
        path = self.out / "rejections.log"
        return path.read_text() if path.exists() else ""
