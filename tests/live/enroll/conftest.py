"""A real mosquitto with the files of an enrolment, and clients of it."""

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from processes import free_port, until

from slotwise.base.errors import UserError
from slotwise.live.enroll.enrolment import Enrolment
from slotwise.live.enroll.enrolment_folder import create_enrolment
from slotwise.live.transport import Message
from slotwise.live.transport.broker import read_credentials
from slotwise.live.transport.mqtt import connected_channel
from slotwise.live.transport.mqtt_client import MqttClient

SECONDS = 60.0  # until a test gives up


class Client(MqttClient):
    """A client that keeps what it receives."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._received: asyncio.Queue[Message] = asyncio.Queue()
        super().__init__(*arguments, receive=self._received.put_nowait, **options)

    async def next(self) -> Message:
        """Return the next message; raises an MqttError if the connection ends first."""
        waiting = [asyncio.ensure_future(one) for one in (self._received.get(), self.ended())]
        try:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            return done.pop().result()
        finally:
            for one in waiting:
                one.cancel()


@dataclass
class Mosquitto:
    """A broker with the files in ``folder``."""

    folder: Path
    process: subprocess.Popen[bytes]

    def reload(self) -> None:
        """Have it read its files again; it does so a moment later."""
        self.process.send_signal(signal.SIGHUP)

    def client(self, name: str, *, will: Message | None = None, identifier: str | None = None) -> Client:
        """A client with the credentials of ``name``, and with an identifier of its own choice."""
        broker = read_credentials(self.folder / f"{name}.toml")
        return Client(broker, identifier or f"some-{name}", will=will)

    async def enter(self, name: str) -> None:
        """Connect as slotwise does, and leave.

        Raises:
            UserError: it was refused.
        """
        async with connected_channel(read_credentials(self.folder / f"{name}.toml"), f"some-{name}"):
            pass

    def soon_refuses(self, name: str) -> str:
        """How it refuses a client, at the latest in a few seconds."""
        return until(lambda: self.refusal(name), "refusal", SECONDS)

    def soon_accepts(self, name: str) -> bool:
        """Whether it does, at the latest in a few seconds."""
        return until(lambda: not self.refusal(name), "welcome", SECONDS)

    def refusal(self, name: str) -> str:
        """Why a client is refused; empty if it is let in."""
        try:
            asyncio.run(self.enter(name))
        except UserError as error:
            return str(error)
        return ""


@pytest.fixture(autouse=True)
def no_power_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting for the disk, hundreds of times, is most of what these tests would do."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture(scope="session")
def mosquitto_program() -> str:
    found = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is not None:
        return found
    if os.environ.get("SLOTWISE_REQUIRE_MOSQUITTO"):
        pytest.fail("mosquitto is not installed, and SLOTWISE_REQUIRE_MOSQUITTO wants it")
    pytest.skip("mosquitto is not installed")


@pytest.fixture
def start(mosquitto_program: str) -> Iterator[Callable[[Path], Mosquitto]]:
    """Starts a broker as the documentation says: in its folder, with the configuration that is there."""
    started: list[Mosquitto] = []

    def begin(folder: Path) -> Mosquitto:
        configuration = folder / "broker" / "mosquitto.conf"
        text = configuration.read_text()
        if os.geteuid() == 0 and "user root" not in text:  # else it becomes one who may not read these files
            configuration.write_text(text + "user root\n")
        command = [mosquitto_program, "-c", "mosquitto.conf"]
        with (folder / "mosquitto.log").open("wb") as log:
            process = subprocess.Popen(command, cwd=folder / "broker", stderr=log)
        started.append(Mosquitto(folder, process))
        # An open port is not enough: until it serves, a reload would end it.
        until(lambda: process.poll() is not None or not started[-1].refusal("server"), "broker")
        assert process.poll() is None, (folder / "mosquitto.log").read_text()
        return started[-1]

    yield begin
    for mosquitto in started:
        mosquitto.process.terminate()
        mosquitto.process.wait(SECONDS)


@pytest.fixture(params=["passwords", "certificates"])
def enrolled(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The folder of an enrolment of eight devices, of either kind."""
    folder = tmp_path / "fleet"
    by_certificate = request.param == "certificates"
    create_enrolment(folder, Enrolment(["localhost"], free_port(), by_certificate=by_certificate), 8)
    return folder


@pytest.fixture
def mosquitto(enrolled: Path, start: Callable[[Path], Mosquitto]) -> Mosquitto:
    """A broker for them."""
    return start(enrolled)
