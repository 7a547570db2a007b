"""Enrolment as a value: a broker and its clients, and the files that mosquitto reads about them."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from slotwise.base.errors import ConflictError, InputError, MissingError
from slotwise.live.protocol import DEFAULT_NAME, MAX_DEVICES, Topics
from slotwise.live.transport.broker import is_loopback
from slotwise.options import Range
from slotwise.options.checks import Value

if TYPE_CHECKING:
    from slotwise.live.enroll.authority import Host

FORMAT = 1
SERVER = "server"
STATE = "enrolment.json"  # its file, beside the credentials of all clients
MAX_MODEL = 60_000_000  # numbers; an MQTT packet has at most 256 MiB
HEADER_BYTES = 1 << 18  # of a packet beside its numbers: a broadcast names its receivers
SALT_BYTES = 12
# mosquitto's default. Passwords of 256 random bits cannot be guessed anyway, and the broker computes this
# for each connection, and for all of them when it reloads its files.
ITERATIONS = 101
_LABEL = "[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"


@dataclass(frozen=True)
class Enrolment(Value):
    """One broker, one server, and devices.

    Attributes:
        hosts: Name or address of the broker, or over UDP of the server, as devices reach it. May be
            repeated; the first is written into the credentials.
        port: Port of the broker, or over UDP of the server.
        name: Name of the channel.
        by_certificate: Whether clients log in with a certificate instead of a password.
        udp: Whether devices talk to the server over UDP, without a broker; each has a secret key.
        largest_model: Numbers of the largest model; the broker accepts no larger messages.
        days: Days for which certificates are valid.
        server: What is kept of the server's login: the hash of a password, or a certificate's serial number.
            Over UDP nothing, and of a device its key.
        devices: The same for each device.
        revoked: Serial numbers of revoked certificates.
        issued: Owner and last day of each certificate that has not ended, by serial number; of an owner
            there may be two, after a renewal.
    """

    hosts: Sequence[str]
    port: Annotated[int, Range(1, 65_535)] = 8883
    name: str = DEFAULT_NAME
    by_certificate: bool = False
    udp: bool = False
    largest_model: Annotated[int, Range(1, MAX_MODEL)] = 1_000_000
    days: Annotated[int, Range(1, 36_500)] = 3650
    server: str = ""
    devices: Mapping[int, str] = field(default_factory=dict)
    revoked: Sequence[str] = ()
    issued: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.hosts:
            raise MissingError(
                "host",
                f"the name or address of the {'server' if self.udp else 'broker'}, as devices reach it",
            )
        for text in self.hosts:
            parse_host(text)
        Topics(self.name)
        if self.by_certificate and self.udp:
            raise ConflictError("certificates", "udp")
        if self.by_certificate:
            # A damaged file is reported when it is read, and not when a device is revoked.
            for serial in (*self.devices.values(), *self.revoked):
                int(serial, 16)

    def without_ended(self, today: date) -> Enrolment:
        """Return the enrolment without certificates that have ended, which need not be revoked any more."""
        ended = {serial for serial, (_, end) in self.issued.items() if date.fromisoformat(end) < today}
        issued = {serial: entry for serial, entry in self.issued.items() if serial not in ended}
        return replace(self, issued=issued, revoked=[one for one in self.revoked if one not in ended])

    def serials_of(self, owner: str) -> list[str]:
        """Return the serial numbers of an owner's certificates."""
        return [serial for serial, (name, _) in self.issued.items() if name == owner]

    def last_day(self, owner: str) -> date | None:
        """Return the last day of an owner's newest certificate; None if it is not known."""
        days = [date.fromisoformat(end) for name, end in self.issued.values() if name == owner]
        return max(days, default=None)

    @property
    def address(self) -> str:
        """The address of the broker for clients."""
        host = self.hosts[0]
        return f"{'udp' if self.udp else 'mqtts'}://{f'[{host}]' if ':' in host else host}:{self.port}"

    def free_numbers(self, count: int) -> list[int]:
        """Return the next ``count`` device numbers; revoked ones come first, because a run has no gaps."""
        total = len(self.devices) + count
        if total > MAX_DEVICES:
            raise InputError("devices", total, f"at most {MAX_DEVICES}")
        return [n for n in range(1, total + 1) if n not in self.devices][:count]

    def to_json(self) -> str:
        """Return the text of enrolment.json."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Enrolment:
        """Return the enrolment that `to_json` wrote, or raise a ValueError."""
        document: dict[str, Any] = json.loads(text)
        try:
            if document.pop("format") != FORMAT:
                raise ValueError("unknown format")
            numbered = {int(number): str(login) for number, login in document.pop("devices").items()}
            return cls(devices=numbered, **document)
        except (AttributeError, KeyError, TypeError):
            raise ValueError("not written by slotwise enroll") from None


def last_enrolled(credentials: Path) -> int | None:
    """Return the last device of the enrolment in whose folder credentials are; None if that is not known."""
    try:
        text = credentials.with_name(STATE).read_text(encoding="utf-8")
        return max(Enrolment.from_json(text).devices, default=0)
    except (OSError, ValueError):  # copied without it, or not meant for this user
        return None


def parse_host(text: str) -> Host:
    """Return a host name or an IP address."""
    try:
        return ip_address(text)
    except ValueError:
        pass
    # A name that ends in a number is a mistyped address: it could not be looked up.
    is_name = re.fullmatch(rf"{_LABEL}(\.{_LABEL})*", text) and not text.rpartition(".")[2].isdecimal()
    if not is_name or len(text) > 253:
        raise InputError("host", text, "a host name, as in broker.example, or an IP address")
    return text


def device_user(number: int) -> str:
    """Return the user name of a device on the broker."""
    return f"device-{number}"


def access_file(topics: Topics, devices: Iterable[int]) -> str:
    """Return mosquitto's access rules: each device has its own topics, the server all of them.

    Everything else is denied. The server also reads ``all/call``, where another server may announce a run.
    """
    lines = [
        "# Written by slotwise enroll, and again by its --add and --revoke.",
        "",
        f"user {SERVER}",
        f"topic write {topics.to_device('+', '+')}",
        f"topic write {topics.to_all('#')}",
        f"topic read {topics.from_device('+', '+')}",
        f"topic read {topics.to_all('call')}",
    ]
    for number in devices:
        lines += [
            "",
            f"user {device_user(number)}",
            f"topic write {topics.from_device(number, '+')}",
            f"topic read {topics.to_device(number, '+')}",
            f"topic read {topics.as_receiver(number)}",
            f"topic read {topics.to_all('call')}",
            f"topic read {topics.to_all('end')}",
        ]
    return "\n".join(lines) + "\n"


def new_password() -> str:
    """Return 256 random bits as text."""
    return secrets.token_urlsafe(32)


def hash_password(password: str, salt: bytes | None = None) -> str:
    """Return mosquitto's hash of a password: PBKDF2 with SHA-512, marked ``$7$``."""
    chosen = secrets.token_bytes(SALT_BYTES) if salt is None else salt
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), chosen, ITERATIONS)
    return f"$7${ITERATIONS}${base64.b64encode(chosen).decode()}${base64.b64encode(digest).decode()}"


def new_secret() -> str:
    """Return 256 random bits in base64, which the server keeps as they are: both sides need them."""
    return base64.b64encode(secrets.token_bytes(32)).decode()


def keys_file(keys: Mapping[int, str]) -> str:
    """Return the file of the devices' secrets, for the server alone."""
    return "".join(f'{device_user(number)} = "{key}"\n' for number, key in keys.items())


def password_file(hashes: Mapping[str, str]) -> str:
    """Return mosquitto's password file, which has no comments."""
    return "".join(f"{user}:{hashed}\n" for user, hashed in hashes.items())


_LOGINS = {  # by certificate or not
    False: """\
# Clients log in with a password.
allow_anonymous false
password_file passwords""",
    True: """\
# Clients log in with a certificate; its common name is the user name.
allow_anonymous false
require_certificate true
use_identity_as_username true
crlfile revoked.crl""",
}

_CONFIGURATION = """\
# A broker for slotwise: TLS only, and no anonymous clients. Written once: you may change it.
# Files are named relative to this folder, so that it can be copied anywhere. Start mosquitto in this folder:
#     mosquitto -c mosquitto.conf

listener {listener}
tls_version tlsv1.2
certfile broker.crt
keyfile broker.key
cafile ca.crt

{login}

# Access rules. The client identifier is the user name, so that no client can take over another's connection.
acl_file access
use_username_as_clientid true

# Room for a model of {largest_model} numbers; the sender of a larger packet is disconnected.
max_packet_size {packet}

# Hundreds of devices answer a call at once; short messages must not wait to fill a packet.
max_queued_messages 10000
set_tcp_nodelay true

# Nothing has to survive a restart: server and devices repeat what matters.
persistence false

log_dest stderr
log_timestamp_format %Y-%m-%dT%H:%M:%S
"""


def broker_configuration(enrolment: Enrolment) -> str:
    """Return the text of mosquitto.conf; a broker that is reached on its own machine only listens there."""
    local = all(is_loopback(host) for host in enrolment.hosts)
    return _CONFIGURATION.format(
        listener=f"{enrolment.port} {enrolment.hosts[0]}" if local else enrolment.port,
        login=_LOGINS[enrolment.by_certificate],
        largest_model=enrolment.largest_model,
        packet=4 * enrolment.largest_model + HEADER_BYTES,
    )
