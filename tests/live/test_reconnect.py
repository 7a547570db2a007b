"""A live run over a real broker whose connections break: all goes to plan all the same."""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import pytest
from processes import Mosquitto
from tasks import Arithmetic

from slotwise.live.device.client import Device
from slotwise.live.protocol import Topics
from slotwise.live.server.events import LiveObserver
from slotwise.live.server.live_run import run_live
from slotwise.live.server.server_config import LivePlan, ServerConfig
from slotwise.live.server.serving import new_live_folder
from slotwise.live.transport.broker import parse_address
from slotwise.live.transport.mqtt import connected_channel
from slotwise.runs import RunConfig

CONFIG = RunConfig.from_options(
    {"devices": 5, "group_size": 2, "compute_slots": 4, "deadline": 60, "task": "tasks:make"}
)
TOPICS = Topics("trial")
NEVER = 600.0  # seconds: a run that waits for so long has failed


@pytest.fixture
def broker(tmp_path):
    mosquitto = Mosquitto(tmp_path)
    yield mosquitto
    mosquitto.kill()


@asynccontextmanager
async def fleet(address):
    """Devices, each with a connection and a last will of its own."""

    async def make(fields):
        return Arithmetic(0.02)

    async def be(number):
        boot = f"boot{number}"
        will = Device.last_will(TOPICS, number, boot)
        async with connected_channel(address, f"device-{number}", will=will) as channel:
            await Device(number, TOPICS, channel, make, pool, boot).run()

    with ThreadPoolExecutor(5) as pool:
        devices = [asyncio.create_task(be(number)) for number in range(1, CONFIG.channel.devices + 1)]
        try:
            yield
        finally:
            for device in devices:
                device.cancel()
            await asyncio.gather(*devices, return_exceptions=True)


def served(tmp_path, broker, disturb=None, observer=None):
    """The outcome of a run; ``disturb(channel)`` may change the server's channel before it begins."""

    async def run():
        address, options = parse_address(broker.address), ServerConfig(timeout=NEVER)
        folder = new_live_folder(tmp_path / "run", CONFIG, options)
        async with fleet(address), connected_channel(address, "server") as channel:
            if disturb is not None:
                disturb(channel)
            running = run_live(
                folder,
                LivePlan.of(CONFIG),
                Arithmetic(),
                channel,
                server=options,
                observer=observer,
                return_timeout=NEVER,  # however slow this machine is
            )
            return await asyncio.wait_for(running, 120)

    return asyncio.run(run())


def assert_as_planned(outcome):
    assert outcome.status == "finished"
    assert outcome.comparison.first_difference is None
    assert not any(reason.startswith("missing") for reason in outcome.comparison.rejected)


class RestartsTheBroker(LiveObserver):
    """Does so after a round."""

    def __init__(self, broker):
        self._broker, self.restarted = broker, False

    def round_done(self, round_number):
        if round_number == 3:
            self._broker.stop()
            self._broker.start()
            self.restarted = True


def test_no_run_minds_that_the_broker_tells_last_wills_when_it_is_restarted(tmp_path, broker):
    observer = RestartsTheBroker(broker)
    outcome = served(tmp_path, broker, observer=observer)
    assert observer.restarted
    assert_as_planned(outcome)


@pytest.mark.parametrize("kind", ["grant", "model"])
def test_what_was_said_while_only_the_server_was_away_is_asked_for_again(tmp_path, broker, kind):
    broken = []

    def disturb(channel):
        publish = channel.publish

        async def publish_and_break(topic, payload, **how):
            await publish(topic, payload, **how)
            if f"/{kind}" in topic and b'"round":"3"' in payload and not broken:
                broken.append(topic)
                channel._client.socket.shutdown(socket.SHUT_RDWR)

        channel.publish = publish_and_break

    outcome = served(tmp_path, broker, disturb)
    assert broken
    assert_as_planned(outcome)
