"""serve(): a live run from its parameters to its folder, in memory."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from tasks import Arithmetic

from live import TOPICS
from slotwise.learning.engine import evaluation_rounds
from slotwise.live.device import Device
from slotwise.live.memory import MemoryBroker
from slotwise.live.run import LiveWatcher, ServerOptions, new_live_folder, serve
from slotwise.runs import RunConfig

PARAMETERS = {"devices": 3, "group_size": 1, "compute_slots": 1, "deadline": 20, "task": "tasks:make"}
OPTIONS = ServerOptions(name=TOPICS.name)


class StopsInRound(LiveWatcher):
    """Somebody who presses Ctrl-C when a round is done."""

    def __init__(self, round_number):
        self._round, self._stop = round_number, False

    def round_done(self, state):
        self._stop = self._stop or state.round == self._round

    def wants_stop(self):
        return self._stop


@asynccontextmanager
async def devices_on(broker, count):
    """Devices in memory, as tasks."""

    async def make(words):
        return Arithmetic()

    async def be(number, pool):
        async with broker.connect() as own:
            await Device(number, TOPICS, own, make, pool).run()

    with ThreadPoolExecutor(2) as pool:
        devices = [asyncio.create_task(be(n, pool)) for n in range(1, count + 1)]
        try:
            yield devices
        finally:
            for device in devices:
                device.cancel()
            await asyncio.gather(*devices, return_exceptions=True)


async def served(folder, parameters, watcher, task=None):
    """The outcome, and whether the devices have heard that it is over."""
    broker = MemoryBroker()
    async with devices_on(broker, parameters.channel.devices) as devices:
        async with broker.connect() as channel:
            serving = serve(
                folder, parameters, task or Arithmetic(), channel, options=OPTIONS, watcher=watcher
            )
            outcome = await asyncio.wait_for(serving, 60)
        await asyncio.wait(devices, timeout=2.0)
        return outcome, all(device.done() for device in devices)


def rejections(folder):
    log = folder.path / "rejections.log"
    return log.read_text() if log.exists() else ""


@pytest.fixture
def run(tmp_path):
    parameters = RunConfig.from_options(PARAMETERS)
    return new_live_folder(tmp_path / "run", parameters, OPTIONS), parameters


def test_devices_are_told_when_it_is_over(run):
    outcome, over = asyncio.run(served(*run, LiveWatcher()))
    assert (outcome.status, outcome.trouble, over) == ("finished", None, True)


def test_devices_are_told_even_if_it_was_to_stop_in_its_last_round(run):
    last = run[1].timeline().rounds
    outcome, over = asyncio.run(served(*run, StopsInRound(last)))
    assert (outcome.status, over) == ("finished", True)


def test_devices_wait_when_it_was_stopped_before_its_last_round(run):
    outcome, over = asyncio.run(served(*run, StopsInRound(3)))
    assert (outcome.status, outcome.state.round, over) == ("interrupted", 3, False)


class SlowToEvaluate(Arithmetic):
    """Evaluates when it is let."""

    def __init__(self):
        super().__init__()
        self.may = threading.Event()

    def evaluate(self, model):
        assert self.may.wait(120)
        return super().evaluate(model)


def test_who_stops_a_run_does_not_wait_for_evaluations_which_are_made_up_for_when_it_goes_on(run):
    slow = SlowToEvaluate()
    try:
        outcome, _ = asyncio.run(served(*run, StopsInRound(3), slow))
    finally:
        slow.may.set()
    assert (outcome.status, outcome.state.points) == ("interrupted", [])
    outcome, _ = asyncio.run(served(*run, LiveWatcher()))
    assert outcome.status == "finished"
    assert [point.round for point in outcome.state.points] == sorted(
        evaluation_rounds(run[1].timeline(), run[1].slots_between_evaluations)
    )


class CannotBeEvaluated(Arithmetic):
    """Its evaluation fails while the run is on."""

    def evaluate(self, model):
        raise ZeroDivisionError("in an own task")


def test_an_evaluation_that_fails_ends_the_run_with_its_error(run):
    with pytest.raises(ZeroDivisionError, match="in an own task"):
        asyncio.run(served(*run, LiveWatcher(), CannotBeEvaluated()))


class Noting(LiveWatcher):
    """Somebody who notes what is wrong with the folder."""

    def passed_over(self, damaged, round_number):
        self.damaged, self.round = damaged, round_number


def test_damaged_checkpoints_are_told_before_it_begins_anew(run):
    asyncio.run(served(*run, StopsInRound(3)))
    checkpoints = sorted((run[0].path / "live").iterdir())
    for path in checkpoints:
        path.write_bytes(b"x")
    watcher = Noting()
    outcome, _ = asyncio.run(served(*run, watcher))
    assert outcome.status == "finished"
    assert (sorted(watcher.damaged), watcher.round) == (checkpoints, 0)


def test_a_run_that_goes_on_waits_for_the_devices_that_were_there(run):
    asyncio.run(served(*run, StopsInRound(3)))
    folder, parameters = run

    async def late():
        broker, waited = MemoryBroker(), asyncio.Event()

        class Waits(LiveWatcher):
            def waiting(self, present, wanted):
                assert wanted == parameters.channel.devices
                waited.set()

        async with broker.connect() as channel:
            serving = asyncio.create_task(
                serve(folder, parameters, Arithmetic(), channel, options=OPTIONS, watcher=Waits())
            )
            await asyncio.wait_for(waited.wait(), 30)
            async with devices_on(broker, parameters.channel.devices):
                return await asyncio.wait_for(serving, 60)

    outcome = asyncio.run(late())
    assert outcome.status == "finished"
    assert outcome.comparison.first_difference is None


def test_a_run_that_goes_on_without_devices_waits_no_longer_than_it_is_told_to(run):
    asyncio.run(served(*run, StopsInRound(3)))
    folder, parameters = run
    options = replace(OPTIONS, patience=1.0, wait=0.1)

    async def alone():
        broker = MemoryBroker()
        async with broker.connect() as channel:
            serving = asyncio.create_task(serve(folder, parameters, Arithmetic(), channel, options=options))
            while "missing after" not in rejections(folder):
                await asyncio.sleep(0.05)
            async with devices_on(broker, parameters.channel.devices):
                return await asyncio.wait_for(serving, 60)

    assert asyncio.run(alone()).status == "finished"
