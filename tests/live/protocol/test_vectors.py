"""The published test vectors of the protocol, which other implementations use, hold for this one."""

import json
from pathlib import Path

import numpy as np
import pytest

from slotwise.learning.quantisation import Packing
from slotwise.live.parts import Assembly, Place, checksum, frames
from slotwise.live.protocol import PROTOCOL, BadFrame, Label, Topics, Versions, decode, digest, encode
from slotwise.live.slots.frames import AheadGrant, Beacon, encode_beacon
from slotwise.live.slots.frames import decode as decode_frame
from slotwise.live.slots.slot_counter import OVER_UDP, SlotCounter
from slotwise.live.slots.slot_layout import SlotTiming
from slotwise.live.transport.udp_login import MulticastGroup
from slotwise.live.udp.datagrams import (
    GROUP,
    TimedBeacon,
    decode_timed_beacon,
    encode_timed_beacon,
    header,
)
from slotwise.live.udp.group import GroupReceiver, Offer
from slotwise.live.udp.sealing import Sealer, is_signed

VECTORS = json.loads((Path(__file__).parents[3] / "docs/protocol-vectors.json").read_text(encoding="utf-8"))
SLOTS = VECTORS["slots"]


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


def test_beacons():
    vector = SLOTS["beacon"]
    grants = tuple(AheadGrant(**grant) for grant in vector["grants"])
    beacon, frame = Beacon(vector["slot"], vector["slot_ns"], grants), bytes.fromhex(vector["frame"])
    timed = TimedBeacon(vector["age_ns"], frame)
    assert encode_beacon(beacon) == frame
    assert decode_frame(frame) == beacon
    assert encode_timed_beacon(timed).hex() == vector["content"]
    assert decode_timed_beacon(bytes.fromhex(vector["content"])) == timed


def test_the_offer_of_a_group_and_a_beacon_in_it():
    vector, signed = SLOTS["offer"], SLOTS["signed"]
    key, public = (bytes.fromhex(vector[name]) for name in ("key", "public"))
    offer = Offer(key, public, MulticastGroup(vector["address"], vector["port"]))
    assert offer.encode().hex() == vector["payload"]
    assert Offer.decode(offer.encode()) == offer
    said, signature = bytes.fromhex(signed["said"]), bytes.fromhex(signed["signature"])
    assert is_signed(public, said, signature)
    sealer = Sealer(key)
    sealer.counter = signed["counter"]
    content = bytes.fromhex(SLOTS["beacon"]["content"])
    assert sealer.before_content(header(GROUP, 0)) + content == said
    datagram = sealer.seal(header(GROUP, 0), content + signature)
    assert datagram.hex() == signed["datagram"]
    heard = TimedBeacon(SLOTS["beacon"]["age_ns"], bytes.fromhex(SLOTS["beacon"]["frame"]))
    assert GroupReceiver(offer).receive(datagram) == heard


def test_slot_timing():
    vector = SLOTS["timing"]
    timing = SlotTiming(*(vector[name] for name in SlotTiming._fields))
    assert (timing.field(), SlotTiming.in_field(vector["field"])) == (vector["field"], timing)
    for bad in ("", "1:2", "100:200:10", "100:20:30", "-1:0:0", "100:20:10:5", "1e9:1:1"):
        assert SlotTiming.in_field(bad) is None


def test_slot_counter():
    vector = SLOTS["counter"]
    counter = SlotCounter(vector["slot_ns"], correction=OVER_UDP)
    for row in vector["heard"]:
        counter.hear(row["slot"], row["local"])
        assert counter.beacons == row["beacons"]
        assert (counter.local(row["slot"] + 1), counter.local(100)) == (row["next_slot"], row["slot_100"])
