"""UdpLogin: where a server on UDP is, and the secrets of its devices, from a credentials file."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from slotwise.base.errors import InputError, UserError
from slotwise.base.files import load_toml
from slotwise.live.protocol import MAX_DEVICES, Topics

SCHEME = "udp://"
PORT = 8883
GROUP_PORT = 8884
SCOPED = IPv4Network("239.0.0.0/8")  # administratively scoped: RFC 2365
SECRET_BYTES = 32
FORMS = ("broker", "name", "keys"), ("broker", "name", "user", "secret")  # of a server, and of a device


@dataclass(frozen=True)
class UdpLogin:
    """A server on UDP: a device has its ``secret``, the server the ``keys`` of all devices.

    ``channel`` is the name of the channel of these credentials.
    """

    host: str
    port: int
    channel: str
    user: str = ""
    secret: bytes = field(default=b"", repr=False)
    keys: Mapping[int, bytes] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return f"{SCHEME}{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


class MulticastGroup(NamedTuple):
    """A multicast group of IPv4."""

    address: str
    port: int


def parse_group(text: str) -> MulticastGroup:
    """Return the group of ``ADDRESS[:PORT]``."""
    address, colon, given = text.partition(":")
    port = given if colon else str(GROUP_PORT)
    refused = InputError("multicast", text, f"ADDRESS[:PORT], with an address of {SCOPED}")
    try:
        known = IPv4Address(address) in SCOPED
    except ValueError:
        raise refused from None
    if not known or not re.fullmatch("[1-9][0-9]{0,4}", port) or int(port) > 65535:
        raise refused
    return MulticastGroup(address, int(port))


def is_udp(address: str | None) -> bool:
    """Return whether an address is one of UDP."""
    return address is not None and address.startswith(SCHEME)


def parse_udp_address(address: str) -> tuple[str, int]:
    """Return host and port of ``udp://host[:port]``."""
    refused = InputError("broker", address, "udp://HOST[:PORT]")
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
        host.encode("idna")
    except ValueError:
        raise refused from None
    further = parts.path.strip("/") or parts.query or parts.fragment or parts.username is not None
    if parts.scheme != "udp" or not host or port == 0 or further:
        raise refused
    return host, port or PORT


def read_udp_credentials(path: Path) -> UdpLogin:
    """Return the login in a credentials file, as slotwise enroll --udp writes it."""
    document = load_toml(path, "credentials")
    for name, value in document.items():
        if not isinstance(value, str):
            raise UserError(f"{path}: {name}: must be text")
    if not any(set(form) == document.keys() for form in FORMS):
        raise UserError(f"{path}: with udp:// it must have {' or '.join(map(', '.join, FORMS))}")
    try:
        Topics(document["name"])
        host, port = parse_udp_address(document["broker"])
    except InputError as error:
        raise UserError(f"{path}: {error}") from None
    if "keys" in document:
        return UdpLogin(host, port, document["name"], keys=_read_keys(path.parent / document["keys"]))
    secret = _secret(path, "secret", document["secret"])
    return UdpLogin(host, port, document["name"], document["user"], secret)


def _read_keys(path: Path) -> dict[int, bytes]:
    """Return the secrets of all devices by number."""
    document = load_toml(path, "keys")
    keys = {}
    for name, value in document.items():
        matched = re.fullmatch("device-([1-9][0-9]{0,4})", name)
        if matched is None or int(matched[1]) > MAX_DEVICES:
            raise UserError(f"{path}: {name}: must be device-1 to device-{MAX_DEVICES}")
        keys[int(matched[1])] = _secret(path, name, value)
    return keys


def _secret(path: Path, name: str, value: Any) -> bytes:
    try:
        secret = base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        secret = b""
    if len(secret) != SECRET_BYTES:
        raise UserError(f"{path}: {name}: must be {SECRET_BYTES} bytes in base64")
    return secret
