"""What a real mosquitto lets pass under the rules of an enrolment."""

import asyncio
import socket
from typing import Any

from slotwise.live.transport import Message
from slotwise.live.transport.mqtt_client import MqttClient, MqttError

ROOT = "slotwise/trial"


async def heard(client: Any, last: str) -> list[str]:
    """The topics of what arrives, until ``last`` does."""
    topics: list[str] = []
    async with asyncio.timeout(60):
        while not topics or topics[-1] != f"{ROOT}/{last}":
            topics.append((await client.next()).topic)
    return [topic.removeprefix(f"{ROOT}/") for topic in topics]


async def say(client: MqttClient, *topics: str) -> None:
    for topic in topics:
        await client.publish(f"{ROOT}/{topic}", b"x")


def test_a_device_is_heard_under_its_own_number_only(mosquitto) -> None:
    async def told() -> list[str]:
        async with mosquitto.client("server") as server, mosquitto.client("device-7") as device:
            await server.subscribe([f"{ROOT}/from/+/+"])
            await say(device, "from/8/update", "from/77/update", "to/8/grant", "all/end", "from/7/update")
            return await heard(server, "from/7/update")

    assert asyncio.run(told()) == ["from/7/update"]


def test_a_device_reads_what_is_for_it_and_nothing_else(mosquitto) -> None:
    for_others = ("to/8/grant", "to/8/work", "all/model", "all/model/-/-/-/-/-/6/-/8", "all/more")
    for_it = ["to/7/grant", "all/call", "all/model/1/-/-/-/-/-/7/8", "all/end"]

    async def told() -> list[str]:
        async with mosquitto.client("server") as server, mosquitto.client("device-7") as device:
            for topics in ("#", f"{ROOT}/to/8/+", f"{ROOT}/from/+/+", f"{ROOT}/all/#"):
                await device.subscribe([topics])
            await say(server, *for_others, *for_it)
            return await heard(device, "all/end")

    assert list(dict.fromkeys(asyncio.run(told()))) == for_it


def test_a_device_hears_nothing_of_what_others_send(mosquitto) -> None:
    async def told() -> list[str]:
        async with (
            mosquitto.client("server") as server,
            mosquitto.client("device-7") as device,
            mosquitto.client("device-8") as other,
        ):
            await device.subscribe(["#"])
            await say(other, "from/8/update")
            await say(server, "all/end")
            return await heard(device, "all/end")

    assert asyncio.run(told()) == ["all/end"]


def test_the_server_does_not_speak_for_devices(mosquitto) -> None:
    async def told() -> list[str]:
        async with mosquitto.client("server") as server, mosquitto.client("device-1") as device:
            await server.subscribe([f"{ROOT}/from/+/+"])
            await say(server, "from/1/update")
            await say(device, "from/1/ready")
            return await heard(server, "from/1/ready")

    assert asyncio.run(told()) == ["from/1/ready"]


def test_a_server_hears_the_call_of_another(mosquitto) -> None:
    async def told() -> list[str]:
        async with mosquitto.client("server") as server:
            await server.subscribe([f"{ROOT}/all/call"])
            await say(server, "all/call")  # whoever makes one is the same user
            return await heard(server, "all/call")

    assert asyncio.run(told()) == ["all/call"]


def test_a_last_will_is_published_under_the_device_s_own_number_only(mosquitto) -> None:
    async def vanish(client: MqttClient) -> None:
        try:
            await client.__aenter__()
        except MqttError:
            return  # refused with such a will
        client.socket.shutdown(socket.SHUT_RDWR)

    async def told() -> list[str]:
        async with mosquitto.client("server") as server:
            await server.subscribe([f"{ROOT}/from/+/+"])
            await vanish(mosquitto.client("device-7", will=Message(f"{ROOT}/from/8/gone", b"x")))
            await vanish(mosquitto.client("device-7", will=Message(f"{ROOT}/from/7/gone", b"x")))
            return await heard(server, "from/7/gone")

    assert asyncio.run(told()) == ["from/7/gone"]


def test_nobody_throws_another_out_by_taking_its_identifier(mosquitto) -> None:
    async def told() -> list[str]:
        thief = mosquitto.client("device-8", identifier="some-device-7")
        async with mosquitto.client("server") as server, mosquitto.client("device-7") as device:
            await device.subscribe([f"{ROOT}/to/7/+"])
            async with thief:
                await say(server, "to/7/grant")
                return await heard(device, "to/7/grant")

    assert asyncio.run(told()) == ["to/7/grant"]
