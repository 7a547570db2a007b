import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slotwise.aggregation import Vector, mean
from slotwise.fleet import Fleet
from slotwise.learning import Evaluation, Task, train
from slotwise.runtime.clock import Clock, PacedClock
from slotwise.runtime.device import Device
from slotwise.runtime.mailbox import Admission, Mailbox
from slotwise.runtime.memory import MemoryBroker
from slotwise.runtime.server import Server, Terms
from slotwise.runtime.state import LiveState
from slotwise.runtime.topics import Topics
from slotwise.scenario import Scenario
from slotwise.schedule import scheduler_for, simulate


class Arithmetic:
    """A task whose updates tell device, training and model apart to the bit."""

    def initial_model(self) -> Vector:
        return np.linspace(1, 2, 7, dtype=np.float32)

    def local_update(self, model: Vector, device: int, training: int) -> Vector:
        return (model * np.float32(0.01 * device) + np.float32(0.001 * training)).astype(np.float32)

    def evaluate(self, model: Vector) -> Evaluation:
        return Evaluation(float(model.sum()), 0.5)

    def named_arrays(self, model: Vector) -> Mapping[str, Vector]:
        return {"w": model}


class Silent:
    def waiting(self, present, wanted):
        pass

    def round_done(self, state):
        pass


async def play(scenario, schedule, fleet=None, clock=None, participation="round-robin", rounds=12):
    devices = fleet or Fleet.equal(scenario)
    plan = simulate(scenario, schedule, fleet=fleet, participation=participation, rounds=rounds)
    task, topics, broker = Arithmetic(), Topics("test"), MemoryBroker()
    scheduler = scheduler_for(scenario, schedule, fleet=fleet, participation=participation, absent=())
    state = LiveState(scheduler, models={0: task.initial_model()})
    models = {0: task.initial_model()}
    mailbox = Mailbox(topics, "r1", scenario.devices, Admission(7), lambda rejection: rejections.append(rejection))
    rejections = []
    terms = Terms("r1", plan.rounds, devices, scenario.link_slots, mean, 5.0, {"devices": str(scenario.devices)})

    class Watching(Silent):
        def round_done(self, state):
            models[state.round] = state.models[state.round]

    async def make(words) -> Task:
        return task

    with ThreadPoolExecutor(2) as pool:
        async with asyncio.TaskGroup() as group, broker.connect() as channel:
            await channel.subscribe(topics.from_all_devices)
            server = Server(terms, state, channel, topics, mailbox, clock or Clock(), Watching())
            mailbox.present.clear()
            listening = group.create_task(server.listen())
            for number in range(1, scenario.devices + 1):

                async def live(number=number):
                    async with broker.connect() as own:
                        await Device(number, topics, own, make, pool).run()

                group.create_task(live())
            await server.gather(scenario.devices, 5)
            mailbox.unplanned.clear()
            await asyncio.wait_for(server.play(), 30)
            await server.end()
            await asyncio.sleep(0.05)
            listening.cancel()
    return plan, state, models, rejections


def simulated(plan):
    from slotwise.learning.engine import Observer

    task = Arithmetic()
    return train(plan, task).model


@pytest.mark.parametrize("schedule", ["sync", "async", "idfl"])
def test_a_run_in_memory_gives_the_simulators_model_and_timeline(schedule):
    scenario = Scenario(devices=6, group_size=2, compute_slots=4, link_slots=1)
    plan, state, models, rejections = asyncio.run(play(scenario, schedule))
    assert np.array_equal(models[plan.rounds], simulated(plan))
    assert [u[:3] for u in state.record.uplinks] == list(
        zip(plan.round.tolist(), plan.device.tolist(), plan.version.tolist(), strict=True)
    )
    assert not rejections
