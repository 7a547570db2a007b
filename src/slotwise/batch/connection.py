"""Finding a Ray cluster that is there, and saying quickly when it is not. None is ever started.

Ray itself tries for a minute and more to reach what does not answer, and cannot be interrupted meanwhile. So
the address is tried out first: a cluster's head is a gRPC server, and answers at once.
"""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from slotwise.batch.grpc_answer import grpc_answers
from slotwise.errors import InputError, UserError

SECONDS_TO_ANSWER = 4.0
SETTINGS = {
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_DEDUP_LOGS_SKIP_REGEX": "^",  # every line: the sweep tells itself which points were lost
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_ENABLE_AUTO_CONNECT": "0",  # else a call after the head was lost looks for another cluster
}
ALLOWED = "auto, HOST:PORT of the cluster's head, or ray://HOST:PORT"


@dataclass(frozen=True)
class Connection:
    """Ray itself, connected to a cluster, and where the cluster's head is."""

    ray: Any
    head: str

    def answers(self) -> bool:
        """Whether the head is still there; without it Ray would end this process after a minute."""
        try:
            _check_answers(self.head)
        except UserError:
            return False
        return True


def connect(address: str) -> Connection:
    """Connect to a cluster.

    Args:
        address: of the head, or ``auto`` for the one that RAY_ADDRESS or this machine knows.

    Raises:
        UserError: Ray is not installed, there is no cluster, or it does not answer.
    """
    if find_spec("ray") is None:
        raise UserError("Ray is not installed: pip install 'slotwise[ray]'")
    chosen = _known_address() if address == "auto" else address
    if chosen is not None:
        _check_answers(chosen)
    _set_up()
    ray = import_module("ray")
    try:
        with _silenced():
            ray.init(
                address=chosen or "auto",
                logging_level=logging.CRITICAL,
                log_to_driver=False,
                configure_logging=False,
            )
    except Exception as error:  # whatever Ray finds wrong
        where = chosen or "this machine"
        raise UserError(f"no Ray cluster at {where}: {_in_a_line(error)}") from None
    return Connection(ray, chosen or ray.get_runtime_context().gcs_address)


def _known_address() -> str | None:
    """Where Ray says the cluster is; None leaves it to Ray to look for one among the processes."""
    said = os.environ.get("RAY_ADDRESS")
    if said and said != "auto":
        return said
    try:
        note = Path(os.environ.get("RAY_TMPDIR") or "/tmp") / "ray" / "ray_current_cluster"
        return note.read_text(encoding="utf-8").strip() or None
    except OSError:
        return None


def _check_answers(address: str) -> None:
    match = re.fullmatch(r"(?:ray://)?([A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\]):([0-9]{1,5})", address)
    if match is None or not 0 < int(match[2]) < 1 << 16:
        raise InputError("ray", address, ALLOWED)
    try:
        there = _answers(match[1].strip("[]"), int(match[2]))
    except OSError as error:
        raise UserError(f"no Ray cluster at {address}: {error.strerror or error}") from None
    if not there:
        raise UserError(f"no Ray cluster at {address}: what answers there is something else")


def _answers(host: str, port: int) -> bool:
    if os.environ.get("RAY_USE_TLS") in {"1", "true"}:  # nothing can be read there without certificates
        socket.create_connection((host, port), SECONDS_TO_ANSWER).close()
        return True
    return grpc_answers(host, port, SECONDS_TO_ANSWER)


def _set_up() -> None:
    """Ray takes these from the environment, some of them when it is imported."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)


@contextmanager
def _silenced() -> Iterator[None]:
    """Ray's core writes to standard error past Python, even that it will not write anything."""
    before = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(nowhere)


def _in_a_line(error: Exception) -> str:
    """All of it: of two versions that do not match, Ray names each in a line of its own."""
    return " ".join(str(error).split()) or type(error).__name__
