"""Multicast on the loopback interface: real sockets, in this process."""

import asyncio

from processes import free_port
from udp_pair import SECRETS, TOPICS, will_of

from slotwise.live.transport import Message
from slotwise.live.transport.outages import Outages
from slotwise.live.transport.udp_login import MulticastGroup, UdpLogin
from slotwise.live.udp.sockets import connected_device, listening_hub

MODEL = bytes(range(256)) * 500


async def models_over_sockets(group, *, hears):
    """Send a model to two devices; return what came, and the bytes that went to the group."""
    port, outages = free_port(), Outages(lambda _: None, "server")
    server = UdpLogin("127.0.0.1", port, "test", keys=SECRETS)
    how = {"keepalive": 10, "timeout": 60.0, "outages": outages}
    logins = {n: UdpLogin("127.0.0.1", port, "test", f"device-{n}", SECRETS[n]) for n in (1, 2)}
    (topic,) = TOPICS.to_receivers([1, 2])
    async with (
        asyncio.timeout(120),
        listening_hub(server, TOPICS, 220, group) as hub,
        connected_device(logins[1], 1, will=will_of(1), **how) as one,
        connected_device(logins[2], 2, will=will_of(2), **how) as two,
    ):
        clients = hub._clients[1], hub._clients[2]
        while not all(client.hears if hears else client.session for client in clients):
            await asyncio.sleep(0)
        await hub.publish(topic, MODEL)
        came = [await first_message(channel) for channel in (one, two)]
        return came, hub.group.bytes_sent if hub.group else 0


async def first_message(channel):
    async for arrival in channel.arrivals():
        if isinstance(arrival, Message):
            return arrival.payload
    raise AssertionError("arrivals have no end")


def test_a_model_comes_by_multicast_on_the_loopback_interface():
    group = MulticastGroup("239.255.0.1", free_port())
    came, to_group = asyncio.run(models_over_sockets(group, hears=True))
    assert came == [MODEL, MODEL]
    assert to_group > len(MODEL)


def test_without_a_group_devices_get_copies():
    assert asyncio.run(models_over_sockets(None, hears=False)) == ([MODEL, MODEL], 0)


def test_where_a_group_cannot_be_joined_devices_get_copies(monkeypatch):
    monkeypatch.setattr("slotwise.live.udp.group_sockets.socket.IP_ADD_MEMBERSHIP", 999)
    group = MulticastGroup("239.255.0.1", free_port())
    came, to_group = asyncio.run(models_over_sockets(group, hears=False))
    assert came == [MODEL, MODEL]
    assert to_group < len(MODEL)
