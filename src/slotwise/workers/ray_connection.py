"""Connect to a Ray cluster that is running, or say quickly why not. No cluster is ever started.

Ray itself tries for a minute and more to reach what does not answer, and cannot be interrupted meanwhile. So
the address is probed first: the head of a cluster is a gRPC server, and answers at once.
"""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from slotwise.base.errors import InputError, UserError
from slotwise.base.extras import require

PROBE_TIMEOUT = 4.0  # seconds
SETTINGS = {
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_DEDUP_LOGS_SKIP_REGEX": "^",  # every line: the batch reports lost jobs itself
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_ENABLE_AUTO_CONNECT": "0",  # else a call after the head was lost looks for another cluster
}
ATTEMPTS = 3
# The head could not start a server for this client, which may pass.
PROXY_FAILED = "Initialization failure from server"
TOKEN = "RAY_AUTH_TOKEN or ~/.ray/auth_token to that of the cluster"
ALLOWED = "auto, HOST:PORT of the cluster's head, or ray://HOST:PORT"


def answers(head: str) -> bool:
    """Return whether the head of a cluster still answers; without it Ray ends this process after a minute."""
    try:
        _check_answers(head)
    except UserError:
        return False
    return True


def connect(address: str) -> tuple[Any, str]:
    """Connect to the head at an address, or raise a UserError; ``auto`` is the one this machine knows.

    Return the ray module, which is connected then, and the address of the head.
    """
    require("ray")
    given = (os.environ.get("RAY_ADDRESS") or "auto") if address == "auto" else address
    known = _recorded_address() if given == "auto" else given
    needs_token = False
    if known is not None:
        _check_answers(known)
        needs_token = _needs_token(known)
    if needs_token and given != "auto" and os.environ.get("RAY_AUTH_MODE") != "token":
        # Ray would not send its token to an address that was named, and try for half a minute.
        raise UserError(f"the Ray cluster at {known} needs a token: set RAY_AUTH_MODE=token, and {TOKEN}")
    for name, value in SETTINGS.items():  # Ray reads them from the environment, some when it is imported
        os.environ.setdefault(name, value)
    ray = import_module("ray")
    options = {"logging_level": logging.CRITICAL, "log_to_driver": False, "configure_logging": False}
    for attempt in range(ATTEMPTS):
        try:
            with _silent_stderr():
                ray.init(address=given, **options)
            break
        except Exception as error:  # whatever Ray finds wrong; of two versions it names each in its own line
            reason = " ".join(str(error).split()) or type(error).__name__
            if PROXY_FAILED in reason and attempt + 1 < ATTEMPTS:
                continue
            hint = f"; it needs a token: {TOKEN}" if needs_token else ""
            raise UserError(f"no Ray cluster at {known or 'this machine'}: {reason}{hint}") from None
    return ray, known or ray.get_runtime_context().gcs_address


def _recorded_address() -> str | None:
    """Return the address Ray has recorded; None leaves it to Ray to search the processes."""
    try:
        note = Path(os.environ.get("RAY_TMPDIR") or "/tmp") / "ray" / "ray_current_cluster"
        return note.read_text(encoding="utf-8").strip() or None
    except OSError:
        return None


def _check_answers(address: str) -> None:
    """Refuse an address where nothing or no gRPC server answers."""
    host, port = _host_and_port(address)
    try:
        # A plain connection first: its errors are shorter than those of gRPC.
        socket.create_connection((host.strip("[]"), port), PROBE_TIMEOUT).close()
    except OSError as error:
        raise UserError(f"no Ray cluster at {address}: {error.strerror or error}") from None
    if os.environ.get("RAY_USE_TLS") in {"1", "true"}:  # no answer there without certificates
        return
    grpc = import_module("grpc")
    try:
        _call(address, "/grpc.health.v1.Health/Check")
    except grpc.RpcError as error:  # also of a gRPC server without a health service, and that may be Ray
        if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            raise UserError(f"no Ray cluster at {address}: timed out") from None
        if error.code() is grpc.StatusCode.UNAVAILABLE or "http2 header" in (error.details() or ""):
            raise UserError(f"no Ray cluster at {address}: the server there is not Ray") from None


def _needs_token(address: str) -> bool:
    """Return whether a cluster refuses calls without its token."""
    if os.environ.get("RAY_USE_TLS") in {"1", "true"}:
        return False
    grpc = import_module("grpc")
    is_client = address.startswith("ray://")
    method = "RayletDriver/ClusterInfo" if is_client else "NodeInfoGcsService/CheckAlive"
    try:
        _call(address, f"/ray.rpc.{method}")
    except grpc.RpcError as error:
        return error.code() is grpc.StatusCode.UNAUTHENTICATED
    return False


def _call(address: str, method: str) -> None:
    """Call a method of a gRPC server with an empty message."""
    host, port = _host_and_port(address)
    options = [("grpc.enable_http_proxy", 0)]
    with import_module("grpc").insecure_channel(f"{host}:{port}", options=options) as channel:
        # An empty message is a valid request of any type.
        channel.unary_unary(method)(b"", timeout=PROBE_TIMEOUT)


def _host_and_port(address: str) -> tuple[str, int]:
    match = re.fullmatch(r"(?:ray://)?([A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\]):([0-9]{1,5})", address)
    if match is None or not 0 < int(match[2]) < 1 << 16:
        raise InputError("ray", address, ALLOWED)
    return match[1], int(match[2])


@contextmanager
def _silent_stderr() -> Iterator[None]:
    """Discard what Ray's core writes to standard error past Python."""
    before = os.dup(2)
    try:
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
