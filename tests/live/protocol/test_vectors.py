"""The published test vectors of the protocol, which other implementations use, hold for this one."""

import json
from pathlib import Path

import numpy as np
import pytest

from slotwise.learning.quantisation import Packing
from slotwise.live.parts import Assembly, Place, checksum, frames
from slotwise.live.protocol import PROTOCOL, BadFrame, Label, Topics, Versions, decode, digest, encode

VECTORS = json.loads((Path(__file__).parents[3] / "docs/protocol-vectors.json").read_text(encoding="utf-8"))


def of_name(vector):
    return vector["name"]


def floats(text):
    return np.frombuffer(bytes.fromhex(text), "<f4").astype(np.float32)


def test_they_are_of_this_version():
    assert VECTORS["protocol"] == PROTOCOL


@pytest.mark.parametrize("vector", VECTORS["messages"], ids=of_name)
def test_a_message_means_what_the_vector_says(vector):
    payload = bytes.fromhex(vector["hex"])
    frame = decode(payload)
    assert frame.label == Label(**vector["label"])
    assert frame.fields == vector["fields"]
    packed = bytes.fromhex(vector["packed"]) if "packed" in vector else None
    numbers = floats(vector["vector"]) if "vector" in vector else None
    assert frame.packed == packed
    assert (frame.vector is None) == (numbers is None)
    if numbers is not None:
        assert frame.vector.tobytes() == numbers.tobytes()
        assert np.array_equal(numbers, np.array(vector["numbers"], dtype=np.float32), equal_nan=True)
    if vector["canonical"]:
        assert encode(frame.label, numbers if packed is None else packed, **frame.fields) == payload


@pytest.mark.parametrize("vector", VECTORS["malformed"], ids=of_name)
def test_malformed_bytes_are_refused(vector):
    with pytest.raises(BadFrame):
        decode(bytes.fromhex(vector["hex"]))


@pytest.mark.parametrize("vector", VECTORS["checksums"], ids=lambda vector: vector["sum"])
def test_checksums(vector):
    assert digest(floats(vector["numbers"])) == vector["sum"]
    assert checksum(bytes.fromhex(vector["numbers"])) == vector["sum"]


@pytest.mark.parametrize("vector", VECTORS["packed_updates"], ids=lambda vector: f"{vector['bits']} bits")
def test_packed_updates(vector):
    packing = Packing(np.cumsum(vector["array_sizes"]), vector["bits"])
    update, packed = floats(vector["update"]), bytes.fromhex(vector["packed"])
    assert packing.size == len(packed)
    assert packing.pack(update) == packed
    assert packing.unpack(packed).tobytes() == update.tobytes()


@pytest.mark.parametrize(("name", "first"), [("frames", 0), ("resumed_from_1024", 1024)])
def test_parts(name, first):
    vector = VECTORS["parts"]
    label, numbers = Label(**vector["label"]), bytes.fromhex(vector["numbers"])
    expected = [bytes.fromhex(text) for text in vector[name]]
    assert list(frames(label, numbers, vector["fields"], vector["part_bytes"], first)) == expected
    decoded = [decode(payload) for payload in expected]
    assembly = Assembly(decoded[0].work, Place.in_fields(decoded[0].fields))
    assembly.add(Place.in_fields(decoded[0].fields)._replace(offset=0), numbers[:first])
    for frame in decoded:
        assert assembly.add(Place.in_fields(frame.fields), frame.packed)
    assert assembly.complete == numbers


def test_topics():
    vector = VECTORS["topics"]
    topics = Topics(vector["name"])
    for row in vector["subscriptions"]:
        number = row["device"]
        used = [topics.to_device(number, "+"), topics.as_receiver(number)]
        assert row["topics"] == [*used, topics.to_all("end"), topics.to_all("call")]
        assert row["client_id"] == topics.client_id(f"device-{number}")
        kinds = ("here", "ready", "update", "gone")
        assert row["publishes"] == [topics.from_device(number, kind) for kind in kinds]
    for row in vector["broadcasts"]:
        assert topics.to_receivers(row["receivers"]) == row["topics"]


@pytest.mark.parametrize("vector", VECTORS["versions"], ids=lambda vector: str(vector["fields"]))
def test_versions(vector):
    ours = Versions(vector["protocol"], vector["oldest"], "")
    assert ours.understands(Versions.in_fields(vector["fields"])) == vector["understood"]
