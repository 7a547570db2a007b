"""Parsers of datagrams: what was encoded comes back, and nothing else is accepted."""

from hypothesis import given
from hypothesis import strategies as st

from slotwise.live.udp import datagrams
from slotwise.live.udp.datagrams import Piece, Received, decode_content, encode_piece, encode_received
from slotwise.live.udp.messages import Kind, Publication, decode_publication, encode_publication

NUMBERS = st.integers(0, 2**32 - 1)
PARSERS = (
    datagrams.kind_and_device,
    datagrams.parse_hello,
    datagrams.parse_welcome,
    decode_content,
    decode_publication,
)


@given(st.binary(max_size=300), st.sampled_from([b"", b"\x51", b"\x52", b"\x53", b"\x01", b"\x02"]))
def test_garbage_is_parsed_to_none_or_to_something_that_encodes_to_the_same_bytes(garbage, begins):
    for parse in PARSERS:
        parsed = parse(begins + garbage)
        if isinstance(parsed, Piece):
            assert encode_piece(parsed) == begins + garbage
            assert parsed.number < parsed.pieces
        elif isinstance(parsed, Publication):
            assert encode_publication(parsed) == begins + garbage


@given(NUMBERS, NUMBERS, st.integers(0, 2**16 - 1), st.binary(max_size=1400))
def test_a_piece_comes_back(message, number, question, data):
    piece = Piece(message, number, min(2**32 - 1, number + 1), question, data)
    expected = piece if piece.number < piece.pieces else None
    assert decode_content(encode_piece(piece)) == expected


@given(NUMBERS, st.integers(0, 2**16 - 1), NUMBERS, st.integers(0, 2**datagrams.WINDOW - 1))
def test_an_acknowledgement_comes_back(message, question, base, bitmap):
    received = Received(message, question, base, bitmap)
    assert decode_content(encode_received(received)) == received


@given(st.binary(min_size=16, max_size=16), st.integers(0, 2**16 - 1))
def test_hello_and_welcome_come_back(some, device):
    hello = datagrams.parse_hello(datagrams.hello_said(device, some) + bytes(16))
    assert hello is not None
    assert (hello.device, hello.client_random, hello.tag) == (device, some, bytes(16))
    welcome = datagrams.parse_welcome(datagrams.welcome_said(device, 220, some, some[::-1]) + bytes(16))
    assert welcome is not None
    assert welcome[:4] == (device, 220, some, some[::-1])
    assert datagrams.parse_welcome(datagrams.welcome_said(device, 40, some, some) + bytes(16)) is None


@given(st.sampled_from(Kind), st.text("abc/-01", max_size=50), st.binary(max_size=50), st.integers(0, 65535))
def test_a_publication_comes_back(kind, topic, payload, seconds):
    one = Publication(kind, topic, payload, seconds)
    assert decode_publication(encode_publication(one)) == one
