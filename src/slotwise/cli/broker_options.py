"""Which broker, and how to be let in: the options of the commands of a live run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slotwise.errors import InputError, UserError

if TYPE_CHECKING:
    from slotwise.live.mqtt import Broker

BROKER = "Broker"
PORT = 1883

BrokerAddress = Annotated[
    str | None,
    typer.Option(
        "--broker", metavar="mqtt[s]://HOST[:PORT]", help="The MQTT broker.", rich_help_panel=BROKER
    ),
]
ChannelName = Annotated[
    str | None,
    typer.Option(
        "--name",
        help="Name of the channel on the broker: server and devices must agree on it.",
        show_default="that of the credentials, or trial",
        rich_help_panel=BROKER,
    ),
]


@dataclass(frozen=True)
class BrokerFlags:
    """What is said on the command line of one client."""

    broker: BrokerAddress = None
    name: ChannelName = None
    credentials: Annotated[
        Path | None,
        typer.Option(
            help="TOML file with broker, name, user, password, ca, certificate and key, as by slotwise "
            "enroll.",
            rich_help_panel=BROKER,
        ),
    ] = None
    user: Annotated[str | None, typer.Option(help="To log in with.", rich_help_panel=BROKER)] = None
    password_file: Annotated[
        Path | None, typer.Option(help="File with the password in its first line.", rich_help_panel=BROKER)
    ] = None
    ca: Annotated[
        Path | None,
        typer.Option("--ca", help="Certificates to trust. Default: the system's.", rich_help_panel=BROKER),
    ] = None

    def where(self) -> dict[str, Any]:
        """How to find the broker, to be said again; the channel is not part of it."""
        return {name: value for name, value in vars(self).items() if name != "name"}

    def chosen(self, default: str | None = None) -> Broker | None:
        """The broker that the options name, or ``default``, if there is one.

        Raises:
            UserError: options that do not go together, or a file that cannot be read.
        """
        address = self.broker or (None if self.credentials else default)
        if self.credentials is not None:
            self._refuse_logins("left out where --credentials is given")
            return _enrolled_broker(self.credentials, address)
        if address is None:
            self._refuse_logins("given together with --broker")
            return None
        from slotwise.live.mqtt import broker_of  # noqa: PLC0415

        password = None if self.password_file is None else _password(self.password_file)
        told = broker_of(address)
        if self.ca is not None and not told.tls:
            raise InputError("ca", self.ca, f"left out with {address}, or with mqtts:// in its place")
        return replace(told, user=self.user, password=password, ca=self.ca)

    def _refuse_logins(self, why: str) -> None:
        for name in ("user", "password_file", "ca"):
            value = getattr(self, name)
            if value is not None:
                raise InputError(name, value, why)


def need_mqtt() -> None:
    """Say which extra is missing."""
    for module in ("aiomqtt", "amqtt"):
        if find_spec(module) is None:
            raise UserError(f"{module} is not installed: pip install 'slotwise[mqtt]'")


def _enrolled_broker(credentials: Path, address: str | None) -> Broker:
    """The broker of a file of credentials, under another of its names if one is given."""
    from slotwise.live.credentials import read_credentials  # noqa: PLC0415
    from slotwise.live.mqtt import broker_of  # noqa: PLC0415

    broker = read_credentials(credentials)
    if address is None:
        return broker
    told = broker_of(address)
    if broker.tls and not told.tls:
        raise InputError("broker", address, "an mqtts:// address: these credentials are for TLS only")
    return replace(broker, host=told.host, port=told.port, tls=told.tls)


def channel_name(name: str | None, broker: Broker | None) -> str | None:
    """The channel that the flag names, or the credentials: what the broker drops, it drops without a word."""
    enrolled = None if broker is None else broker.channel
    if name is not None and enrolled is not None and name != enrolled:
        raise InputError("name", name, f"{enrolled}, the channel of these credentials")
    return enrolled if name is None else name


def _password(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").split("\n", 1)[0]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("password_file", path, f"a readable file ({error})") from None
