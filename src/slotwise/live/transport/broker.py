"""Brokers: where one is and how to log in, from options or a credentials file; and the embedded one."""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
import stat
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from math import inf
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from slotwise.base.errors import ConflictError, InputError, MissingError, UserError
from slotwise.base.extras import is_installed, require
from slotwise.base.files import load_toml
from slotwise.live.protocol import Topics
from slotwise.live.transport.certificate_end import ends_soon
from slotwise.live.transport.udp_login import (
    UdpLogin,
    is_udp,
    parse_udp_address,
    read_udp_credentials,
)

PORT = 1883
DEFAULT_BROKER, DEFAULT_LISTEN = f"mqtt://127.0.0.1:{PORT}", f"127.0.0.1:{PORT}"
PORTS = {"mqtt": PORT, "mqtts": 8883}
CREDENTIALS = ("broker", "name", "user", "password", "ca", "certificate", "key")
LOOPBACKS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # to reach a broker that listens on all interfaces
LEAVE_TIMEOUT = 3.0  # seconds without a device disconnecting before the embedded broker stops
LEAVE_POLL = 0.1  # seconds


@dataclass(frozen=True)
class Broker:
    """A broker and how to log in: anonymously, with user and password, or with a certificate and its key.

    ``ca`` is the file of the certificates to trust (None: those of the system), ``channel`` the name of the
    only channel that this client may use (None: any).
    """

    host: str
    port: int
    tls: bool = False
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    channel: str | None = None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host  # IPv6
        return f"{'mqtts' if self.tls else 'mqtt'}://{host}:{self.port}"

    def tls_context(self) -> ssl.SSLContext | None:
        """Return the TLS settings; None without TLS."""
        if not self.tls:
            return None
        try:
            context = ssl.create_default_context(cafile=None if self.ca is None else str(self.ca))
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            files = ", ".join(str(path) for path in (self.ca, self.certificate, self.key) if path)
            raise UserError(f"cannot use the certificates {files}: {error.strerror or error}") from None
        return context


@dataclass(frozen=True)
class BrokerOptions:
    """Options that choose the broker and the login.

    Attributes:
        broker: Address of the MQTT broker, mqtt://HOST[:PORT] or mqtts://HOST[:PORT]; or of a server on UDP,
            udp://HOST[:PORT], which needs credentials.
        credentials: TOML file with broker, name, user, password, ca, certificate and key, as written by
            slotwise enroll.
        user: User name.
        password_file: File with the password in its first line.
        ca: File of the certificates to trust. Default: those of the system.
    """

    broker: str | None = None
    credentials: Path | None = None
    user: str | None = None
    password_file: Path | None = None
    ca: Path | None = None

    def login(self, client: str, default: str | None = None) -> Broker | UdpLogin | None:
        """Return the broker for ``client`` ("server" or "device-7"), ``default``, or None."""
        address = self.broker or (None if self.credentials else default)
        given = [name for name in ("user", "password_file", "ca") if getattr(self, name) is not None]
        if given and self.credentials is not None:
            raise ConflictError(given[0], "credentials")
        if is_udp(address) or self._are_for_udp:
            return self._udp_login(client)
        require("paho")
        if self.credentials is not None:
            broker = read_credentials(self.credentials)
            if address is not None:  # another of its addresses
                parsed = parse_address(address)
                # A mistyped address must not send the password in clear text.
                if broker.tls and not parsed.tls:
                    wanted = "an mqtts:// address: these credentials are for TLS only"
                    raise InputError("broker", address, wanted)
                broker = replace(broker, host=parsed.host, port=parsed.port, tls=parsed.tls)
        elif address is None:
            if given:
                raise InputError(given[0], getattr(self, given[0]), "given together with broker")
            require("amqtt", otherwise="name a broker")  # amqtt is the embedded one
            return None
        else:
            # MQTT has no password without a user: the login would be anonymous.
            if self.password_file is not None and self.user is None:
                raise MissingError("user", "given together with password_file")
            password = None if self.password_file is None else _password(self.password_file)
            parsed = parse_address(address)
            if self.ca is not None and not parsed.tls:
                raise InputError("ca", self.ca, f"omitted with {address}; it needs an mqtts:// address")
            broker = replace(parsed, user=self.user, password=password, ca=self.ca)
        # Not those of another client of the enrolment: the broker would disconnect one of the two.
        owner = broker.user or _common_name(broker.certificate)
        if re.fullmatch("server|device-[0-9]+", owner) and owner != client:
            option, allowed = ("user", client) if self.user else ("credentials", f"those of {client}")
            raise InputError(option, owner, allowed)
        return broker

    @property
    def _are_for_udp(self) -> bool:
        if self.credentials is None:
            return False
        address = load_toml(self.credentials, "credentials").get("broker")
        return isinstance(address, str) and is_udp(address)

    def _udp_login(self, client: str) -> UdpLogin:
        """Return the login of ``client`` on UDP, which is that of its credentials."""
        require("cryptography")
        if self.credentials is None:
            raise MissingError("credentials", "given with udp://, as slotwise enroll --udp writes them")
        if not self._are_for_udp:
            raise InputError("broker", self.broker, "an mqtts:// address: these credentials are for MQTT")
        login = read_udp_credentials(self.credentials)
        if self.broker is not None:
            host, port = parse_udp_address(self.broker)
            login = replace(login, host=host, port=port)
        if (login.user or "server") != client:
            raise InputError("credentials", login.user or "server", f"those of {client}")
        return login

    def warnings(self) -> list[str]:
        """Return what is wrong with the files: secrets that all may read, a certificate that ends soon."""
        secrets = [path for path in (self.credentials, self.password_file) if path is not None]
        if self._are_for_udp:
            secrets.append(secrets[0].parent / str(load_toml(secrets[0], "credentials").get("keys", "")))
        warnings = []
        if self.credentials is not None and not self._are_for_udp:
            login = read_credentials(self.credentials)
            secrets += [] if login.key is None else [login.key]
            warnings += [] if login.certificate is None else [ends_soon(login.certificate)]
        warnings += [
            f"{path} can be read by every user of this machine: chmod 600 {path}"
            for path in secrets
            if path.is_file() and path.stat().st_mode & stat.S_IROTH
        ]
        return [warning for warning in warnings if warning]


def parse_address(address: str) -> Broker:
    """Return the broker at ``mqtt://host[:port]`` or ``mqtts://host[:port]``."""
    allowed = "mqtt://HOST[:PORT], mqtts://HOST[:PORT] or, with credentials, udp://HOST[:PORT]"
    refused = InputError("broker", address, allowed)
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
        host.encode("idna")  # as a lookup does: a name that cannot be encoded would fail there
    except ValueError:
        raise refused from None
    further = parts.path.strip("/") or parts.query or parts.fragment or parts.username is not None
    if parts.scheme not in PORTS or not host or port == 0 or further:
        raise refused
    return Broker(host, port or PORTS[parts.scheme], tls=parts.scheme == "mqtts")


def listen_address(listen: str) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT``."""
    matched = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]]+)):([0-9]{1,5})", listen)
    if matched is None or not 0 < int(matched[3]) < 65536:
        raise InputError("listen", listen, "HOST:PORT, as in 127.0.0.1:1883 or [::1]:1883")
    return matched[1] or matched[2], int(matched[3])


def is_loopback(host: str) -> bool:
    """Return whether an address can be reached from this machine only."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def public_address_warning(listen: str) -> str | None:
    """Return a warning if the embedded broker, which accepts everyone, can be reached from other machines."""
    host, _ = listen_address(listen)
    if is_loopback(host):
        return None
    return f"the embedded broker accepts everyone who reaches {listen}; docs/deployment.md has one with TLS"


def channel_name(name: str | None, broker: Broker | UdpLogin | None) -> str | None:
    """Return the given name or that of the credentials: the broker silently drops messages of any other."""
    enrolled = None if broker is None else broker.channel
    if name is not None and enrolled is not None and name != enrolled:
        raise InputError("name", name, f"{enrolled}, the channel of these credentials")
    return enrolled if name is None else name


def read_credentials(path: Path) -> Broker:
    """Return the broker of a credentials file, which names other files relative to itself."""
    document = load_toml(path, "credentials")
    for name, value in document.items():
        if name not in CREDENTIALS or not isinstance(value, str):
            raise UserError(f"{path}: {name}: allowed are {', '.join(CREDENTIALS)}, each as text")
    if "broker" not in document:
        raise UserError(f"{path}: broker is required, as in mqtts://host:8883")
    if "password" in document and "user" not in document:
        raise UserError(f"{path}: user is required together with password")
    login = {name: document[name] for name in ("user", "password") if name in document}
    files = {name: path.parent / document[name] for name in ("ca", "certificate", "key") if name in document}
    channel = document.get("name")
    try:
        if channel is not None:
            Topics(channel)
        return replace(parse_address(document["broker"]), channel=channel, **login, **files)
    except InputError as error:
        raise UserError(f"{path}: {error}") from None


def _password(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").split("\n", 1)[0]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("password_file", path, f"a readable file ({error})") from None


def _common_name(certificate: Path | None) -> str:
    """Return the owner of a certificate; one that cannot be read is reported when it is used."""
    if certificate is None or not is_installed("cryptography"):  # a small device may not have it
        return ""
    from cryptography import x509  # noqa: PLC0415

    try:
        subject = x509.load_pem_x509_certificate(certificate.read_bytes()).subject
    except (OSError, ValueError):
        return ""
    return "".join(str(name.value) for name in subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME))


class _Subscriptions(dict[str, Any]):
    """Subscriptions of the embedded broker. amqtt awaits while it iterates, so it gets a copy."""

    def __iter__(self) -> Iterator[str]:
        return iter(list(super().keys()))

    def items(self) -> Any:
        return list(super().items())


@asynccontextmanager
async def embedded_broker(port: int, host: str = "127.0.0.1") -> AsyncIterator[Broker]:
    """Run a broker in this process that accepts everyone who reaches ``host``: for trials only."""
    from amqtt.broker import Broker as AmqttBroker  # noqa: PLC0415  (slow to import)
    from amqtt.errors import BrokerError  # noqa: PLC0415

    for name in ("amqtt", "transitions"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    broker = AmqttBroker(
        {
            "listeners": {"default": {"type": "tcp", "bind": f"{host}:{port}"}},  # IPv6 without brackets
            "plugins": {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}},
        }
    )
    broker._subscriptions = _Subscriptions()
    try:
        await broker.start()
    except BrokerError as error:
        raise UserError(f"cannot start a broker at {host}:{port}: {error.__cause__ or error}") from None
    try:
        yield Broker(LOOPBACKS.get(host, host), port)
    finally:
        # It acknowledges a message before it has passed it on; devices that have read that the run is over
        # disconnect.
        connected, since = inf, time.monotonic()
        while connected and time.monotonic() - since < LEAVE_TIMEOUT:
            states = [session.transitions.state for session, _ in broker._sessions.values()]
            if (now := states.count("connected")) < connected:
                connected, since = now, time.monotonic()
            if connected:
                await asyncio.sleep(LEAVE_POLL)
        await broker.shutdown()
