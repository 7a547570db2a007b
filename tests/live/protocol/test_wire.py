import json
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from safetensors.numpy import load

from slotwise.live.protocol import ARRAY, PACKED, BadFrame, Label, decode, encode

LABEL = Label("run", 7, 3, 2, 1)
NUMBERS = st.integers(0, 10**9)


@given(
    run=st.text(),
    numbers=st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS),
    fields=st.dictionaries(st.text(max_size=5).map("x".__add__), st.text(max_size=20), max_size=3),
    vector=st.none() | arrays(np.float32, st.integers(0, 40)),
)
def test_a_frame_gives_back_what_was_put_in_bit_by_bit(run, numbers, fields, vector):
    frame = decode(encode(Label(run, *numbers), vector, **fields))
    assert (frame.label, frame.fields) == (Label(run, *numbers), fields)
    assert (vector is None) == (frame.vector is None)
    if vector is not None:
        assert frame.vector.tobytes() == vector.tobytes()


@given(st.binary())
def test_packed_numbers_come_out_as_they_went_in(packed):
    frame = decode(encode(LABEL, packed))
    assert (frame.label, frame.vector, frame.packed) == (LABEL, None, packed)


def test_a_frame_is_a_safetensors_file():
    vector = np.arange(5, dtype=np.float32)
    assert np.array_equal(load(encode(LABEL, vector))[ARRAY], vector)
    assert load(encode(LABEL, b"\1\2"))[PACKED].tolist() == [1, 2]


@given(st.binary(max_size=200))
def test_garbage_is_a_bad_frame_and_nothing_worse(payload):
    with pytest.raises(BadFrame):
        decode(payload)


@given(st.data())
def test_a_frame_with_bytes_changed_is_a_frame_or_a_bad_one(data):
    payload = bytearray(encode(LABEL, np.ones(4, dtype=np.float32), grant="9"))
    for _ in range(data.draw(st.integers(1, 5))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    with suppress(BadFrame):
        decode(bytes(payload))


def forged(header, body=b""):
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


METADATA = {"run": "r", "device": "1", "round": "0", "version": "0", "training": "0"}
NUMBER = b"\0\0\x80\x3f"


@pytest.mark.parametrize(
    ("payload", "what"),
    [
        (b"", "no header"),
        ((1 << 63).to_bytes(8, "little") + b"{}", "no header"),
        (forged([]), "not a table"),
        (forged({}), "no label"),
        (forged({"__metadata__": {**METADATA, "round": 3}}), "no label"),
        (forged({"__metadata__": {"run": "r"}}), "incomplete label"),
        (forged({"__metadata__": {**METADATA, "round": "-3"}}), "negative"),
        (forged({"__metadata__": METADATA, "other": {}}), "unexpected array"),
        (forged({"__metadata__": METADATA}, NUMBER), "unexpected array"),
        (forged({"__metadata__": METADATA, ARRAY: {"dtype": "F64", "shape": [1]}}, NUMBER), "not F32"),
        (
            forged({"__metadata__": METADATA, ARRAY: {"dtype": "F32", "shape": [1, 1]}}, NUMBER),
            "not a vector",
        ),
        (
            forged(
                {"__metadata__": METADATA, ARRAY: {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}},
                NUMBER,
            ),
            "number of bytes",
        ),
        (b"\x10\0\0\0\0\0\0\0" + b"[" * 16, "not JSON"),
    ],
)
def test_what_is_wrong_with_a_frame_is_said(payload, what):
    with pytest.raises(BadFrame, match=what):
        decode(payload)
