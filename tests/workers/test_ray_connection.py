"""Connecting to a Ray cluster; the servers of these tests are threads, and Ray itself is not needed."""

import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from slotwise.base.errors import InputError, UserError
from slotwise.workers import ray_connection
from slotwise.workers.ray_connection import answers, connect

grpc = pytest.importorskip("grpc", reason="needs the extra slotwise[ray]")
Serve = Callable[[bytes], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Answers every connection with some bytes; returns the address."""
    listeners: list[socket.socket] = []

    def start(answer: bytes) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)
        threading.Thread(target=answer_all, args=(listener, answer), daemon=True).start()
        return f"127.0.0.1:{listener.getsockname()[1]}"

    yield start
    for listener in listeners:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def answer_all(listener: socket.socket, answer: bytes) -> None:
    while True:
        try:
            caller, _ = listener.accept()
        except OSError:
            return
        with caller:
            try:
                if caller.recv(1000):
                    caller.sendall(answer)
                    caller.recv(1000)  # until the caller has gone
            except OSError:
                continue


class Unauthenticated(grpc.GenericRpcHandler):
    """Refuses every call of Ray, as a cluster that needs a token does."""

    def service(self, details):
        if details.method.startswith("/ray.rpc."):
            return grpc.unary_unary_rpc_method_handler(
                lambda _, call: call.abort(grpc.StatusCode.UNAUTHENTICATED, "no token")
            )
        return None


@contextmanager
def grpc_server(*handlers: Unauthenticated) -> Iterator[str]:
    server = grpc.server(ThreadPoolExecutor(1), handlers=handlers)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


@pytest.fixture
def head() -> Iterator[str]:
    """The address of a gRPC server that has no services."""
    with grpc_server() as address:
        yield address


@pytest.fixture
def guarded() -> Iterator[str]:
    """The address of a server that needs a token."""
    with grpc_server(Unauthenticated()) as address:
        yield address


def test_a_head_that_is_lost_does_not_answer_any_more(head: str) -> None:
    assert answers(head)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        closed = f"127.0.0.1:{listener.getsockname()[1]}"
    assert not answers(closed)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if Ray were there; nothing of it may be needed before the cluster has answered."""
    monkeypatch.setattr(ray_connection, "require", lambda name: None)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)


@pytest.mark.usefixtures("installed")
def test_a_cluster_that_is_not_there_is_told_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    began = time.monotonic()
    for said in (address, f"ray://{address}"):
        with pytest.raises(UserError, match=f"no Ray cluster at {said}: Connection refused"):
            connect(said)
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(UserError, match=f"no Ray cluster at {address}"):
        connect("auto")
    monkeypatch.delenv("RAY_ADDRESS")
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray/ray_current_cluster").write_text(address)
    with pytest.raises(UserError, match=f"no Ray cluster at {address}"):
        connect("auto")
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    with pytest.raises(UserError, match=f"no Ray cluster at {address}"):
        connect("auto")
    assert time.monotonic() - began < 5


@pytest.mark.usefixtures("installed")
def test_hosts_may_have_underscores_as_those_of_containers_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(address: tuple[str, int], seconds: float) -> socket.socket:
        raise OSError(f"no host {address[0]}")

    monkeypatch.setattr(socket, "create_connection", unknown)
    with pytest.raises(UserError, match="no Ray cluster at ray_head:6379: no host ray_head"):
        connect("ray_head:6379")


@pytest.fixture
def ray_module(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., None]], None]:
    """Puts a module in the place of Ray whose `init` is a function of the test."""

    def use(init: Callable[..., None]) -> None:
        modules = {"ray": SimpleNamespace(init=init), "grpc": grpc}
        monkeypatch.setattr(ray_connection, "import_module", modules.__getitem__)

    return use


@pytest.mark.usefixtures("installed")
def test_what_ray_finds_wrong_is_told_in_one_line_and_whole(head: str, ray_module) -> None:
    def init(**options: object) -> None:
        assert os.environ["RAY_ENABLE_AUTO_CONNECT"] == "0"  # or it would start a cluster one day
        raise RuntimeError("Version mismatch: The cluster was started with:\n    Ray: 1.0\n  Python: 3.9")

    ray_module(init)
    with pytest.raises(UserError, match=r"was started with: Ray: 1\.0 Python: 3\.9$"):
        connect(head)


@pytest.mark.usefixtures("installed")
def test_a_cluster_that_needs_a_token_says_so_at_once(
    guarded: str, ray_module, monkeypatch: pytest.MonkeyPatch
) -> None:
    def init(address: str, **options: object) -> None:
        raise ConnectionError(f"Failed to connect to {address}")

    ray_module(init)
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    for address in (guarded, f"ray://{guarded}"):
        with pytest.raises(UserError, match="needs a token: set RAY_AUTH_MODE=token"):
            connect(address)
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    with pytest.raises(UserError, match=r"Failed to connect .*; it needs a token: RAY_AUTH_TOKEN or"):
        connect(guarded)


@pytest.mark.usefixtures("installed")
def test_auto_leaves_the_choice_of_the_token_to_ray(
    guarded: str, ray_module, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def init(address: str, **options: object) -> None:
        assert address == "auto"

    ray_module(init)
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray/ray_current_cluster").write_text(guarded)
    assert connect("auto")[1] == guarded


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("failures", [1, 5])
def test_a_head_that_could_not_start_a_server_is_asked_again(failures: int, head: str, ray_module) -> None:
    left = [RuntimeError("Initialization failure from server: process lost")] * failures

    def init(**options: object) -> None:
        if left:
            raise left.pop()

    ray_module(init)
    if failures < ray_connection.ATTEMPTS:
        assert connect(head)[1] == head
    else:
        with pytest.raises(UserError, match="process lost"):
            connect(head)
    assert len(left) == max(0, failures - ray_connection.ATTEMPTS)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("answer", [b"HTTP/1.0 400 Bad request\r\n\r\n", b"-ERR unknown command 'PRI'\r\n"])
def test_a_server_of_another_kind_is_told_apart(serve: Serve, answer: bytes) -> None:
    with pytest.raises(UserError, match="the server there is not Ray"):
        connect(serve(answer))


@pytest.mark.usefixtures("installed")
def test_a_server_that_says_nothing_is_not_waited_for(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_connection, "PROBE_TIMEOUT", 0.3)
    with pytest.raises(UserError, match="timed out"):
        connect(serve(b""))


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    "address", ["", "local", "somewhere", "host:0", "host:99999", "http://host:80", "a b:1"]
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(InputError) as error:
        connect(address)
    assert error.value.parameter == "ray"


def test_without_ray_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r"pip install 'slotwise\[ray\]'"):
        connect("auto")
