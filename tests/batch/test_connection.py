"""Whether there is a cluster is found out without Ray; what answers here is played by a thread."""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slotwise.batch import connection
from slotwise.batch.connection import connect
from slotwise.batch.grpc_answer import grpc_answers
from slotwise.errors import UserError

SETTINGS = bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
HEADERS = bytes((0, 0, 1, 1, 4, 0, 0, 0, 1))
SIZED_HEADERS = bytes((0, 0, 4, 1, 4, 0, 0, 0, 1, 0x3F, 0xE1, 0x1F))
Serve = Callable[[bytes], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Listens, and answers whoever comes with some bytes; gives the address."""
    listeners: list[socket.socket] = []

    def start(answer: bytes) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)
        threading.Thread(target=answer_once, args=(listener, answer), daemon=True).start()
        return f"127.0.0.1:{listener.getsockname()[1]}"

    yield start
    for listener in listeners:
        listener.close()


def answer_once(listener: socket.socket, answer: bytes) -> None:
    caller, _ = listener.accept()
    with caller:
        caller.recv(1000)
        caller.sendall(answer)
        caller.recv(1000)  # until the caller has gone


def asked(address: str, seconds: float = 2.0) -> bool:
    host, port = address.split(":")
    return grpc_answers(host, int(port), seconds)


@pytest.mark.parametrize("answer", [SETTINGS + HEADERS + b"\x88", SETTINGS + SIZED_HEADERS + b"\x88"])
def test_a_grpc_server_is_known_by_its_status(serve: Serve, answer: bytes) -> None:
    assert asked(serve(answer))


@pytest.mark.parametrize(
    "answer",
    [
        SETTINGS + HEADERS + b"\x8d",
        SETTINGS + SIZED_HEADERS + b"\x8d",
        b"HTTP/1.0 400 Bad request\r\n\r\n",
        b"-ERR unknown command 'PRI'\r\n",
        SETTINGS + bytes((0, 0, 2, 1, 4, 0, 0, 0, 1, 0x3F, 0xFF)),
    ],
)
def test_another_server_is_told_apart(serve: Serve, answer: bytes) -> None:
    assert not asked(serve(answer + bytes(9)))


def test_a_server_that_says_nothing_is_not_waited_for(serve: Serve) -> None:
    with pytest.raises(TimeoutError):
        asked(serve(b""), seconds=0.2)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if Ray were there; nothing of it may be needed before the cluster has answered."""
    monkeypatch.setattr(connection, "find_spec", lambda name: object())
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
    def unknown(host: str, port: int, seconds: float) -> bool:
        raise OSError(f"nobody knows {host}")

    monkeypatch.setattr(connection, "grpc_answers", unknown)
    with pytest.raises(UserError, match="no Ray cluster at ray_head:6379: nobody knows ray_head"):
        connect("ray_head:6379")


@pytest.mark.usefixtures("installed")
def test_what_ray_finds_wrong_is_told_in_one_line_and_whole(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ray:
        @staticmethod
        def init(**options: object) -> None:
            assert os.environ["RAY_ENABLE_AUTO_CONNECT"] == "0"  # or it would start a cluster one day
            raise RuntimeError("Version mismatch: The cluster was started with:\n    Ray: 1.0\n  Python: 3.9")

    monkeypatch.setattr(connection, "import_module", lambda name: Ray)
    with pytest.raises(UserError, match=r"was started with: Ray: 1\.0 Python: 3\.9$"):
        connect(serve(SETTINGS + HEADERS + b"\x88"))


@pytest.mark.usefixtures("installed")
def test_a_server_of_another_kind_is_told(serve: Serve) -> None:
    with pytest.raises(UserError, match="what answers there is something else"):
        connect(serve(b"HTTP/1.0 400 Bad request\r\n\r\n" + bytes(9)))


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    "address", ["", "local", "somewhere", "host:0", "host:99999", "http://host:80", "a b:1"]
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(UserError, match="must be auto, HOST:PORT"):
        connect(address)


def test_without_ray_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'slotwise\[ray\]'"):
        connect("auto")
