"""Credentials: a TOML file that says where the broker is and how this client is let in."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

from slotwise.errors import InputError, UserError
from slotwise.live.mqtt import Broker, broker_of
from slotwise.live.topics import Topics

KEYS = ("broker", "name", "user", "password", "ca", "certificate", "key")


def read_credentials(path: Path) -> Broker:
    """The broker of a file that `slotwise enroll` wrote; other files are named relative to it.

    Raises:
        UserError: one line that names the file and the key.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("credentials", path, f"a readable TOML file ({error})") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError("credentials", path, f"valid TOML ({error})") from None
    for name, value in document.items():
        if name not in KEYS or not isinstance(value, str):
            raise UserError(f"{path}: {name}: allowed are {', '.join(KEYS)}, each as text")
    if "broker" not in document:
        raise UserError(f"{path}: broker: missing: must be given, as in mqtts://host:8883")
    words = {name: document[name] for name in ("user", "password") if name in document}
    files = {name: path.parent / document[name] for name in ("ca", "certificate", "key") if name in document}
    channel = document.get("name")
    try:
        if channel is not None:
            Topics(channel)
        return replace(broker_of(document["broker"]), channel=channel, **words, **files)
    except InputError as error:
        raise UserError(f"{path}: {error}") from None
