"""Whether a gRPC server answers at an address, found out in a moment and without a library.

Every gRPC server answers every call with the HTTP status 200, whatever it then says of the call itself; a web
server, a proxy or a data base does not. So one small call tells them apart.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS = 0, 1, 4  # kinds of frames
END_OF_STREAM, END_OF_HEADERS = 1, 4  # their flags
STATUS_200 = 0x88  # in the table of common headers that HTTP/2 has
MOST_BYTES = 1 << 16


def grpc_answers(host: str, port: int, seconds: float) -> bool:
    """Whether what listens there is a gRPC server.

    Raises:
        OSError: nothing listens there, or it does not answer in time.
    """
    with socket.create_connection((host, port), seconds) as connection:
        connection.settimeout(seconds)
        connection.sendall(_call(host))
        with connection.makefile("rb") as stream:
            return any(kind == HEADERS and _is_200(content) for kind, content in _frames(stream.read))


def _call(host: str) -> bytes:
    """A question for the server's health, with an empty message."""
    headers = (
        bytes((0x83, 0x86, 0x04))  # POST, http, and a path:
        + _text("/grpc.health.v1.Health/Check")
        + bytes((0x01,))  # the host:
        + _text(host)
        + bytes((0x0F, 0x10))  # the type of the content:
        + _text("application/grpc")
        + bytes((0x00,))  # a header by name:
        + _text("te")
        + _text("trailers")
    )
    return (
        PREFACE
        + _frame(SETTINGS, 0, 0, b"")
        + _frame(HEADERS, END_OF_HEADERS, 1, headers)
        + _frame(DATA, END_OF_STREAM, 1, bytes(5))
    )


def _text(text: str) -> bytes:
    return bytes((len(text),)) + text.encode("ascii")


def _frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    return len(content).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + content


def _frames(read: Callable[[int], bytes]) -> Iterator[tuple[int, bytes]]:
    """Up to the first answer: what comes after it is of no interest."""
    while len(head := read(9)) == 9:
        size, kind = int.from_bytes(head[:3]), head[3]
        if size > MOST_BYTES:
            return
        content = read(size)
        yield kind, content
        if kind == HEADERS:
            return


def _is_200(headers: bytes) -> bool:
    """The status comes first, but for what is said about the size of the header table."""
    rest = headers
    while rest and rest[0] & 0xE0 == 0x20:
        length = 1
        if rest[0] & 0x1F == 0x1F:
            while rest[length : length + 1] > b"\x7f":
                length += 1
            length += 1
        rest = rest[length:]
    return rest[:1] == bytes((STATUS_200,))
