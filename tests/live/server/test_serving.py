"""serve and resume_live: what they do before and after the run itself."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

from memory_run import CONFIG, devices_on
from processes import Mosquitto

from live import TOPICS
from slotwise.base.observer import BaseObserver
from slotwise.live import resume_live, serve
from slotwise.live.server.live_run import LiveOutcome
from slotwise.live.transport import MemoryBroker, mqtt
from slotwise.live.transport.broker import BrokerOptions
from slotwise.runs import RunConfig

SERVER = {"broker": BrokerOptions("mqtt://broker.example"), "name": TOPICS.name}


@asynccontextmanager
async def with_devices(*_, **__):
    """Yield the channel of a server whose devices are in memory, in place of one on MQTT."""
    broker = MemoryBroker()
    with ThreadPoolExecutor(1) as pool:
        async with devices_on(broker, pool), broker.connect() as channel:
            yield channel


class StartsBroker(BaseObserver):
    """Starts the broker when it is missing, and asks to stop when the server waits for devices."""

    def __init__(self, broker):
        self.broker, self.notices, self.waits = broker, [], False

    def notice(self, message):
        self.notices.append(message)
        if len(self.notices) == 1:
            self.broker.start()

    def devices_connected(self, present, expected):
        self.waits = True

    def wants_stop(self):
        return self.waits


def test_a_server_waits_for_its_broker(tmp_path):
    broker = Mosquitto(tmp_path)
    broker.kill()
    observer = StartsBroker(broker)
    try:
        options = BrokerOptions(broker.address)
        outcome = serve(CONFIG, tmp_path / "run", observer=observer, broker=options, name=TOPICS.name)
    finally:
        broker.kill()
    assert outcome.status == "interrupted"
    assert observer.notices[0].startswith(f"waiting for the broker at {broker.address}")


class StopAtOnce(BaseObserver):
    def wants_stop(self):
        return True


def test_the_plan_is_simulated_once(tmp_path, monkeypatch):
    simulated = []
    simulate = RunConfig.simulate
    monkeypatch.setattr(RunConfig, "simulate", lambda config: simulated.append(config) or simulate(config))
    monkeypatch.setattr(mqtt, "connected_channel", with_devices)
    outcome = serve(CONFIG, tmp_path / "run", observer=StopAtOnce(), **SERVER)
    assert (outcome.status, len(simulated)) == ("interrupted", 1)
    outcome = resume_live(tmp_path / "run", **SERVER)
    assert isinstance(outcome, LiveOutcome)
    assert (outcome.status, len(simulated)) == ("finished", 2)
    assert resume_live(tmp_path / "run", **SERVER) is None
    assert len(simulated) == 2
