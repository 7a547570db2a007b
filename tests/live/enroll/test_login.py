"""Whom a real mosquitto with the files of an enrolment lets in."""

import asyncio
import ssl
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from processes import free_port

from slotwise.base.errors import UserError
from slotwise.live.enroll.enrolment import Enrolment
from slotwise.live.enroll.enrolment_folder import change_enrolment, create_enrolment
from slotwise.live.transport.broker import Broker, read_credentials
from slotwise.live.transport.mqtt import connected_channel
from slotwise.live.transport.mqtt_client import MqttError

ROOT = "slotwise/trial"


def enter(broker: Broker) -> None:
    async def come_and_go() -> None:
        async with connected_channel(broker, "somebody"):
            pass

    asyncio.run(come_and_go())


def slotwise(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from slotwise.cli import main; main()", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_everybody_enrolled_is_let_in(mosquitto) -> None:
    for name in ("server", "device-1", "device-8"):
        enter(read_credentials(mosquitto.folder / f"{name}.toml"))


def test_certificates_are_in_order_for_a_strict_reader(mosquitto, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = read_credentials(mosquitto.folder / "device-1.toml")
    context = broker.tls_context()
    assert context is not None
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    monkeypatch.setattr(Broker, "tls_context", lambda _: context)
    enter(broker)


@pytest.mark.parametrize("enrolled", ["passwords"], indirect=True)
@pytest.mark.parametrize(
    "login",
    [{"user": None, "password": None}, {"password": "wrong"}, {"user": "device-2"}, {"user": "device-9"}],
    ids=["anonymous", "wrong password", "the password of another", "a stranger"],
)
def test_without_the_right_password_nobody_is_let_in(mosquitto, login: dict[str, str | None]) -> None:
    with pytest.raises(UserError, match="Not authorized"):
        enter(replace(read_credentials(mosquitto.folder / "device-1.toml"), **login))


@pytest.mark.parametrize("enrolled", ["certificates"], indirect=True)
def test_without_a_certificate_nobody_is_let_in(mosquitto) -> None:
    broker = replace(read_credentials(mosquitto.folder / "device-1.toml"), certificate=None, key=None)
    with pytest.raises(UserError, match="CERTIFICATE_REQUIRED"):
        enter(broker)


@pytest.mark.parametrize("enrolled", ["certificates"], indirect=True)
def test_a_certificate_of_another_authority_is_refused(mosquitto, tmp_path: Path) -> None:
    other = tmp_path / "other"
    create_enrolment(other, Enrolment(["localhost"], by_certificate=True), 1)
    own = read_credentials(mosquitto.folder / "device-1.toml")
    with pytest.raises(UserError, match="rejected this client's certificate"):
        enter(replace(own, certificate=other / "device-1.crt", key=other / "device-1.key"))


@pytest.mark.parametrize("enrolled", ["certificates"], indirect=True)
def test_the_broker_s_own_certificate_lets_nobody_in(mosquitto) -> None:
    broker, own = mosquitto.folder / "broker", read_credentials(mosquitto.folder / "device-1.toml")
    with pytest.raises(UserError, match="rejected this client's certificate"):
        enter(replace(own, certificate=broker / "broker.crt", key=broker / "broker.key"))


@pytest.mark.parametrize("enrolled", ["passwords"], indirect=True)
def test_a_broker_of_an_unknown_authority_is_refused_in_one_line(mosquitto, tmp_path: Path) -> None:
    create_enrolment(tmp_path / "other", Enrolment(["localhost"]), 1)
    address = str(read_credentials(mosquitto.folder / "device-1.toml"))
    outcome = slotwise("device", "--id", 1, "--broker", address, "--ca", tmp_path / "other" / "ca.crt")
    assert outcome.returncode == 2
    assert outcome.stderr.startswith(f"slotwise: {address}: certificate of the broker is not trusted")
    assert outcome.stderr.count("\n") == 1


@pytest.mark.parametrize("enrolled", ["passwords"], indirect=True)
def test_a_broker_under_a_name_that_is_not_its_own_is_refused(mosquitto) -> None:
    credentials = mosquitto.folder / "device-1.toml"
    address = f"mqtts://127.0.0.1:{read_credentials(credentials).port}"
    outcome = slotwise("device", "--id", 1, "--credentials", credentials, "--broker", address)
    assert outcome.returncode == 2
    assert "not valid for '127.0.0.1'" in outcome.stderr


def test_a_broker_with_several_names_is_reached_under_each(tmp_path: Path, start) -> None:
    create_enrolment(tmp_path / "fleet", Enrolment(["localhost", "127.0.0.1"], free_port()), 1)
    own = read_credentials(start(tmp_path / "fleet").folder / "device-1.toml")
    for host in ("localhost", "127.0.0.1"):
        enter(replace(own, host=host))


def test_a_message_larger_than_the_largest_model_ends_the_connection(tmp_path: Path, start) -> None:
    create_enrolment(tmp_path / "fleet", Enrolment(["localhost"], free_port(), largest_model=1000), 1)
    broker = start(tmp_path / "fleet")

    async def publish(size: int) -> None:
        async with broker.client("device-1") as client, asyncio.timeout(60):
            await client.subscribe([f"{ROOT}/all/#"])
            with suppress(MqttError):  # it may be cut off in the middle of it
                await client.publish(f"{ROOT}/from/1/update", bytes(size))
            async with broker.client("server") as server:
                await server.publish(f"{ROOT}/all/end", b"x")
            await client.next()

    asyncio.run(publish(4 * 1000 + 4096))
    with pytest.raises(MqttError):
        asyncio.run(publish(1_000_000))
    assert "oversize packet" in (broker.folder / "mosquitto.log").read_text()


def test_a_device_that_is_added_comes_in_after_a_reload_and_others_still_do(mosquitto) -> None:
    change_enrolment(mosquitto.folder, add=1)
    mosquitto.reload()
    assert mosquitto.soon_accepts("device-9")
    enter(read_credentials(mosquitto.folder / "device-8.toml"))


def test_a_revoked_device_is_refused_after_a_reload_and_others_are_not(mosquitto) -> None:
    kept = files_of(mosquitto.folder, "device-7")
    change_enrolment(mosquitto.folder, revoke=[7])
    mosquitto.reload()
    put_back(mosquitto.folder, kept)
    assert "REVOKED" in (reason := mosquitto.soon_refuses("device-7")) or "Not authorized" in reason
    enter(read_credentials(mosquitto.folder / "device-8.toml"))


def test_a_revoked_device_that_is_still_connected_is_heard_no_more(mosquitto) -> None:
    kept = files_of(mosquitto.folder, "device-6")

    def reloaded() -> None:
        put_back(mosquitto.folder, kept)
        mosquitto.soon_refuses("device-6")

    assert asyncio.run(heard_first(mosquitto, [6, 7], 0, reloaded)) == f"{ROOT}/from/8/update"


@pytest.mark.parametrize("enrolled", ["passwords"], indirect=True)
def test_a_new_password_ends_a_connection_that_was_made_with_the_old_one(mosquitto) -> None:
    def reloaded() -> None:
        mosquitto.soon_accepts("device-9")

    assert asyncio.run(heard_first(mosquitto, [7], 2, reloaded)) == f"{ROOT}/from/8/update"


def files_of(folder: Path, name: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob(f"{name}.*")}


def put_back(folder: Path, files: dict[str, bytes]) -> None:
    """As a device still has them that was revoked."""
    for name, content in files.items():
        (folder / name).write_bytes(content)


async def heard_first(mosquitto, revoked: list[int], added: int, reloaded: Callable[[], None]) -> str:
    """Who is, when device 7 is revoked while it is connected and speaks, and device 8 does so after it.

    ``reloaded`` returns when the broker has read its files again; it must not connect as device 7: that alone
    would end the connection.
    """
    connected = False
    async with mosquitto.client("server") as server, mosquitto.client("device-8") as other:
        await server.subscribe([f"{ROOT}/from/+/+"])
        with suppress(MqttError):  # it may be thrown out at once
            async with mosquitto.client("device-7") as device:
                connected = True
                change_enrolment(mosquitto.folder, revoke=revoked, add=added)
                mosquitto.reload()
                await asyncio.to_thread(reloaded)
                await device.publish(f"{ROOT}/from/7/update", b"x")
        assert connected
        await other.publish(f"{ROOT}/from/8/update", b"x")
        async with asyncio.timeout(60):
            return (await server.next()).topic
