"""Frames: what is encoded is decoded, in any order and number, and nothing else is."""

import binascii

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotwise.live.slots.frames import (
    MODEL,
    SMALLEST_FRAME,
    UPDATE,
    AheadGrant,
    Beacon,
    Piece,
    Reassembly,
    decode,
    encode_beacon,
    grants_in_beacon,
    pieces_of,
    split,
)

NUMBER = st.integers(0, 2**32 - 1)
SIZES = st.integers(SMALLEST_FRAME, 300)
MESSAGES = st.binary(min_size=1, max_size=3000)
WORK = st.tuples(st.integers(0, 2**16 - 1), NUMBER, NUMBER)


@st.composite
def beacons(draw):
    slot = draw(st.integers(2**31, 2**62))
    grant = st.builds(
        AheadGrant,
        st.integers(slot - 2**31, slot + 2**31 - 1),
        NUMBER,
        st.integers(0, 2**16 - 1),
        NUMBER,
        NUMBER,
    )
    return Beacon(slot, draw(st.integers(1, 2**63)), tuple(draw(st.lists(grant, max_size=11))))


@given(beacons())
def test_a_beacon_is_decoded_as_it_was(beacon):
    frame = encode_beacon(beacon)
    assert decode(frame) == beacon
    assert len(beacon.grants) <= grants_in_beacon(220)
    assert len(frame) <= 220


def test_the_bytes_of_a_beacon_are_those_of_the_page():
    beacon = Beacon(1200, 100_000_000, (AheadGrant(1204, 7, 7, 31, 4),))
    fields = "01 b0 04 00 00 00 00 00 00 00 e1 f5 05 00 00 00 00 01"
    grant = "04 00 00 00 07 00 00 00 07 00 1f 00 00 00 04 00 00 00"
    assert encode_beacon(beacon)[:-4] == bytes.fromhex(fields + grant)
    assert str(beacon.grants[0]) == "device 7: slots 1204-1210"


def test_the_bytes_of_a_piece_are_those_of_the_page():
    frame = split(UPDATE, (7, 31, 4), b"abc", 220)[0]
    body = bytes.fromhex("02 07 00 1f 00 00 00 04 00 00 00 00 00 01 00 61 62 63")
    assert frame == body + binascii.crc32(body).to_bytes(4, "little")


@given(st.sampled_from([UPDATE, MODEL]), WORK, MESSAGES, SIZES, st.data())
def test_a_message_is_complete_when_all_pieces_have_come_in_any_order_and_number(
    kind, work, message, size, data
):
    frames = split(kind, work, message, size)
    assert len(frames) == pieces_of(len(message), size)
    assert all(len(frame) <= size for frame in frames)
    lost = data.draw(st.sets(st.sampled_from(range(len(frames)))))
    sent = [n for n in range(len(frames)) if n not in lost]
    order = data.draw(st.permutations(sent + data.draw(st.lists(st.sampled_from(sent or [0])))))
    receiver = Reassembly(len(frames))
    whole = [receiver.add(decode(frames[n])) for n in order]
    complete = set(order) == set(range(len(frames)))
    assert [found for found in whole if found is not None] == [message] * complete


@given(WORK, MESSAGES, SIZES, st.data())
def test_a_changed_frame_is_no_frame(work, message, size, data):
    frame = bytearray(data.draw(st.sampled_from(split(UPDATE, work, message, size))))
    frame[data.draw(st.integers(0, len(frame) - 1))] ^= data.draw(st.integers(1, 255))
    assert decode(bytes(frame)) is None


@given(st.binary(max_size=300))
def test_other_bytes_are_no_frame(noise):
    assert decode(noise) is None


PIECES = st.builds(
    Piece,
    st.just(UPDATE),
    st.integers(1, 3),
    NUMBER,
    NUMBER,
    st.integers(0, 20),
    st.integers(1, 2**16 - 1),
    st.binary(max_size=201),
).filter(lambda piece: piece.number < piece.pieces)


@given(st.lists(PIECES, max_size=60), st.integers(1, 30))
def test_a_receiver_keeps_no_more_pieces_than_a_message_of_the_run_has(pieces, most):
    receiver = Reassembly(most)
    for piece in pieces:
        receiver.add(piece)
        assert len(receiver) <= most


@pytest.mark.parametrize("size", [SMALLEST_FRAME, 220, 1472])
def test_a_beacon_has_room_for_two_grants_at_least(size):
    assert grants_in_beacon(size) >= 2
