"""Models by multicast: one copy for all who hear it, repaired in their sessions; forgers are not believed."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from udp_pair import GROUP, TOPICS, Air, unread

from slotwise.base.errors import InputError
from slotwise.live.transport import Message
from slotwise.live.transport.udp_login import GROUP_PORT, parse_group
from slotwise.live.udp.datagrams import GROUP as KIND
from slotwise.live.udp.datagrams import (
    GroupPiece,
    TimedBeacon,
    encode_group_piece,
    encode_timed_beacon,
    header,
)
from slotwise.live.udp.group import MOST_KEPT, GroupReceiver, GroupSender, Offer
from slotwise.live.udp.sealing import Opener, Sealer

EVERYBODY = (1, 2, 3, 4, 5)
MODEL = bytes(range(256)) * 100


def joined(air, numbers=EVERYBODY):
    for number in numbers:
        air.device(number)
    air.run(60, lambda: all(air.hub._clients[n].will for n in numbers))
    air.run(60, lambda: all(air.hub._clients[n].hears for n in numbers if n not in air.deaf))
    air.run(60, lambda: not air.hub.is_busy)
    air.run(1)


def send(air, receivers, payload, topic=None):
    (named,) = TOPICS.to_receivers(receivers)
    asyncio.run(air.hub.publish(topic or named, payload))
    air.run(120, lambda: not air.hub.is_busy)
    assert not air.hub.is_busy
    return named


def came(air, number):
    return [one for one in unread(air.channels[number]) if isinstance(one, Message)]


def sent_by(air, action):
    before = air.hub.bytes_sent, air.hub.group.bytes_sent if air.hub.group else 0
    action()
    after = air.hub.bytes_sent, air.hub.group.bytes_sent if air.hub.group else 0
    return tuple(b - a for a, b in zip(before, after, strict=True))


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.1, 0.4]), st.sets(st.sampled_from(EVERYBODY)))
def test_models_arrive_in_order_and_once_whatever_is_lost_and_whoever_hears(seed, loss, deaf):
    air = Air(seed=seed, loss=loss, double=loss, group=True, deaf=deaf)
    joined(air)
    models = [bytes([n]) * (3000 * n) for n in range(1, 5)]

    async def publish():
        for n, model in enumerate(models):
            await air.hub.publish(TOPICS.to_receivers([1, 2, 3])[0], model)
            await air.hub.publish(TOPICS.to_device(1, "call"), bytes([n]))

    asyncio.run(publish())
    air.run(300, lambda: not air.hub.is_busy)
    assert [m.payload for m in came(air, 2)] == models
    calls = [(TOPICS.to_device(1, "call"), bytes([n])) for n in range(4)]
    assert [m[:2] for m in came(air, 1)][1::2] == calls
    assert came(air, 4) == []


def test_a_model_goes_once_to_all_that_hear_and_as_a_copy_to_others():
    alone, shared, mixed = Air(), Air(group=True), Air(group=True, deaf={5})
    for air in (alone, shared, mixed):
        joined(air)
    copies, _ = sent_by(alone, lambda: send(alone, EVERYBODY, MODEL))
    few, once = sent_by(shared, lambda: send(shared, EVERYBODY, MODEL))
    some, again = sent_by(mixed, lambda: send(mixed, EVERYBODY, MODEL))
    message = 5 + len(TOPICS.to_receivers(EVERYBODY)[0]) + len(MODEL)
    assert once == again == message + 42 * -(-message // 178)
    assert few == 5 * 74  # a question for each
    assert some > once
    assert copies > 5 * once
    for air in (alone, shared, mixed):
        assert {bytes(m.payload) for n in EVERYBODY for m in came(air, n)} == {MODEL}


def test_short_messages_and_those_of_one_device_do_not_go_to_the_group():
    air = Air(group=True)
    joined(air)
    assert sent_by(air, lambda: send(air, [1], MODEL))[1] == 0
    assert sent_by(air, lambda: send(air, EVERYBODY, b"", TOPICS.to_all("end")))[1] == 0


def test_a_device_that_falls_deaf_gets_its_models_all_the_same():
    air = Air(group=True)
    joined(air)
    air.deaf = {2}
    send(air, EVERYBODY, MODEL)
    assert [m.payload for m in came(air, 2)] == [MODEL]


def test_a_device_that_returns_listens_again():
    air = Air(group=True)
    joined(air, [1, 2])
    old = air.hub.group.offer
    air.new_hub()
    air.run(60, lambda: air.hub._clients[1].hears and air.hub._clients[2].hears)
    assert air.hub.group.offer != old
    assert sent_by(air, lambda: send(air, [1, 2], MODEL))[1] > len(MODEL)
    assert [m.payload for m in came(air, 1)] == [MODEL]


def test_a_device_that_never_hears_is_tried_less_and_less_often():
    air = Air(group=True, deaf={1})
    joined(air, [1])
    air.run(600)
    pings = air.hub.group.bytes_sent // 28
    assert 10 <= pings <= 22


def test_a_piece_that_another_device_has_forged_spoils_no_model():
    air = Air(group=True)
    joined(air, [1, 2])
    forger = Sealer(air.hub.group.offer.key)
    forger.counter = 1 << 20
    pieces = -(-(len(MODEL) + 5 + len(TOPICS.to_receivers([1, 2])[0])) // 178)
    forged = forger.seal(header(KIND, 0), encode_group_piece(GroupPiece(0, 3, pieces, b"x" * 178)))
    air.channels[2].receive_from_group(forged)
    before = air.channels[2].connections
    asyncio.run(air.hub.publish(TOPICS.to_receivers([1, 2])[0], MODEL))
    air.run(60, lambda: air.channels[2].connections > before)
    assert [m.payload for m in came(air, 1)] == [MODEL]
    assert came(air, 2) == []  # it has lost its session, as if the connection was lost: the server repeats
    air.run(60, lambda: air.channels[2].connections > before and not air.hub.is_busy)
    assert not air.hub._clients[2].hears
    send(air, [1, 2], MODEL)
    assert [m.payload for m in came(air, 2)] == [MODEL]


def test_strangers_and_replays_are_not_heard():
    sent = []
    sender = GroupSender(GROUP, 220, sent.append)
    sender.post(bytes(1000))
    sender.due(0.0)
    receiver, other = GroupReceiver(sender.offer), GroupReceiver(Offer(bytes(32), bytes(32), GROUP))
    assert [bool(receiver.receive(one)) for one in sent] == [True] * len(sent)
    assert [bool(receiver.receive(one)) for one in sent] == [False] * len(sent)
    for bad in (sent[0][:-1] + b"\0", b"", sent[0][:5], header(KIND, 1) + sent[0][3:]):
        assert not receiver.receive(bad)
    assert not any(other.receive(one) for one in sent)
    assert len(receiver.take(0, len(sent))) == len(sent)
    assert receiver.take(0, len(sent)) == {}


def test_what_a_device_keeps_of_the_group_is_bounded():
    sent = []
    sender = GroupSender(GROUP, 220, sent.append)
    receiver, sealer = GroupReceiver(sender.offer), Sealer(sender.offer.key)
    for number in range(50_000):
        piece = GroupPiece(number // 1000, number, 1 << 31, b"")
        receiver.receive(sealer.seal(header(KIND, 0), encode_group_piece(piece)))
    assert sum(len(kept) for kept in receiver._messages.values()) * 200 <= MOST_KEPT


def test_an_offer_says_key_and_group():
    offer = Offer(bytes(range(32)), bytes(32), parse_group("239.1.2.3:99"))
    assert Offer.decode(offer.encode()) == offer
    assert Offer.decode(offer.encode() + b"x") is None


def test_a_group_has_an_address_that_stays_on_the_site():
    assert parse_group("239.255.0.1") == ("239.255.0.1", GROUP_PORT)
    for text in ("224.0.0.1", "10.0.0.1", "239.1.2", "239.1.2.3:0", "239.1.2.3:70000", "239.1.2.3:", "x"):
        with pytest.raises(InputError, match=r"239\.0\.0\.0/8"):
            parse_group(text)


def heard_by(air, number):
    heard = []
    air.channels[number].hear_beacons(lambda frame, began: heard.append((frame, began)))
    return heard


@pytest.mark.parametrize("group", [False, True])
def test_a_beacon_reaches_every_device_with_the_moment_at_which_its_slot_began(group):
    air = Air(group=group, deaf={5})
    joined(air)
    heard = {number: heard_by(air, number) for number in EVERYBODY}
    began = round(air.now * 1e9) - 7_000_000
    to_devices, to_group = sent_by(air, lambda: air.hub.send_beacon(b"frame", 7_000_000))
    air.run(1)
    for frames in heard.values():
        ((frame, moment),) = frames
        assert frame == b"frame"
        assert 0 < moment - began < 4_000_000  # the delay of the air
    assert (to_group > 0) == group
    assert to_devices == (1 if group else 5) * (27 + 5 + 5)


def test_a_beacon_that_another_device_has_made_is_not_heard():
    air = Air(group=True)
    joined(air, [1, 2])
    heard, sent = heard_by(air, 1), []
    air.hub.group._send_datagram = sent.append
    air.hub.send_beacon(b"frame", 1)
    forger = Sealer(air.hub.group.offer.key)
    forger.counter = 1 << 20
    content = Opener(air.hub.group.offer.key).open(sent[0], 3)
    said = encode_timed_beacon(TimedBeacon(1, b"false"))
    for forged in (content, said, said + bytes(64), said + content[-64:]):  # the first repeats a true one
        air.channels[1].receive_from_group(forger.seal(header(KIND, 0), forged))
    assert heard == []


def test_the_time_of_a_device_is_that_of_its_own_clock():
    air = Air()
    device = air.device(1)
    air.now = 12.5
    slept = []

    async def sleep(seconds):
        slept.append(seconds)
        air.now += seconds / 2 if len(slept) < 3 else seconds  # timers may end too early

    device._sleep = sleep
    asyncio.run(device.sleep_until(13_000_000_000))
    assert slept == pytest.approx([0.5, 0.25, 0.125])
    assert device.local_ns() == 13_000_000_000
