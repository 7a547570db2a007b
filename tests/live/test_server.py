import asyncio
import json
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tasks import Arithmetic

from live import TOPICS, PatientTime, planned_updates, play, prepare, simulated_models
from slotwise.fleet import Fleet
from slotwise.live import farewells
from slotwise.live.mailbox import Rejection
from slotwise.live.memory import MemoryChannel
from slotwise.live.saved_state import decode_state, encode_state
from slotwise.live.state import Snapshot
from slotwise.live.terms import NobodyLeft
from slotwise.live.wire import Label, encode
from slotwise.scenario import Scenario
from slotwise.schedule import scheduler_for


@pytest.fixture
def impatient(monkeypatch):
    """Farewells count almost at once."""
    monkeypatch.setattr(farewells, "SECONDS_TO_RETURN", 0.05)


WORKED_EXAMPLE = Scenario(devices=6, group_size=2, compute_slots=2, link_slots=1)


def assert_as_simulated(live):
    expected = simulated_models(live.plan)
    assert live.updates == planned_updates(live.plan)
    assert live.models.keys() == expected.keys()
    assert all(np.array_equal(live.models[version], expected[version]) for version in expected)


@pytest.mark.parametrize("schedule", ["sync", "async", "idfl"])
def test_a_live_run_gives_the_simulators_models_to_the_bit(schedule):
    live = asyncio.run(play(*prepare(WORKED_EXAMPLE, schedule)))
    assert_as_simulated(live)
    assert not live.mailbox.rejected


@settings(max_examples=15, deadline=None)
@given(
    devices=st.integers(1, 9),
    group_size=st.integers(1, 9),
    compute=st.integers(1, 20),
    link=st.integers(1, 3),
    schedule=st.sampled_from(["sync", "async", "idfl"]),
)
def test_every_scenario_is_played_as_it_was_simulated(devices, group_size, compute, link, schedule):
    scenario = Scenario(
        devices=devices, group_size=min(group_size, devices), compute_slots=compute, link_slots=link
    )
    assert_as_simulated(asyncio.run(play(*prepare(scenario, schedule, rounds=6))))


@settings(max_examples=15, deadline=None)
@given(data=st.data(), schedule=st.sampled_from(["sync", "async", "idfl"]))
def test_unequal_devices_are_played_as_they_were_simulated(data, schedule):
    devices = data.draw(st.integers(1, 6))
    group_size = data.draw(st.integers(1, devices))
    slots = st.lists(st.integers(1, 12), min_size=devices, max_size=devices)
    fleet = Fleet(compute_slots=tuple(data.draw(slots)), link_slots=tuple(data.draw(slots)))
    scenario = Scenario(devices=devices, group_size=group_size, compute_slots=3, link_slots=1, deadline=400)
    live = asyncio.run(play(*prepare(scenario, schedule, fleet=fleet, rounds=6)))
    assert_as_simulated(live)


def test_random_participation_is_the_simulators():
    live = asyncio.run(play(*prepare(WORKED_EXAMPLE, "sync", participation="random")))
    assert_as_simulated(live)


def test_only_the_granted_device_publishes_an_update():
    live = asyncio.run(play(*prepare(WORKED_EXAMPLE, "idfl")))
    granted = None
    updates = 0
    for topic, frame in live.wire:
        if topic.endswith("/grant"):
            granted = frame.label, frame.words["grant"]
        elif topic.endswith("/update"):
            updates += 1
            assert (frame.label, frame.words["grant"]) == granted
            assert TOPICS.sender(topic) == (frame.label.device, "update")
            granted = None
    assert updates == len(live.plan)


def test_a_broadcast_is_one_publish():
    live = asyncio.run(play(*prepare(WORKED_EXAMPLE, "idfl")))
    versions = [frame.label.version for topic, frame in live.wire if "/all/model" in topic]
    assert versions == list(range(live.plan.models))


@pytest.mark.parametrize("schedule", ["async", "idfl"])
def test_a_server_goes_on_from_any_checkpoint_to_the_same_models(schedule):
    live, terms = prepare(WORKED_EXAMPLE, schedule)
    live.on_round = lambda state: live.checkpoints.append(encode_state(Snapshot.of(state)))
    asyncio.run(play(live, terms))
    for data in live.checkpoints[:-1:4]:
        state = decode_state(data, scheduler_for(WORKED_EXAMPLE, schedule))
        begun = state.round
        again, _ = prepare(WORKED_EXAMPLE, schedule, state=state)
        asyncio.run(play(again, terms, resumed=True))
        assert again.updates == planned_updates(live.plan)
        for version in range(begun + 1, live.plan.rounds + 1):
            assert np.array_equal(again.models[version], live.models[version])


@pytest.mark.parametrize("schedule", ["sync", "async", "idfl"])
@pytest.mark.parametrize("back", [True, False], ids=["comes back", "stays away"])
def test_who_goes_while_a_model_is_on_its_way_has_gone_after_a_restart_too(schedule, back):
    """It holds no work any more, and the Scheduler has not been told."""
    live, terms = prepare(WORKED_EXAMPLE, schedule)

    def vanish(state):
        if state.round == 4:
            live.mailbox.vanish(min(state.assigned))
            live.checkpoints.append(encode_state(Snapshot.of(state)))

    live.on_round = vanish
    asyncio.run(play(live, terms))
    state = decode_state(live.checkpoints[0], scheduler_for(WORKED_EXAMPLE, schedule))
    (gone,) = [event.device for event in state.unplanned]
    again, _ = prepare(WORKED_EXAMPLE, schedule, state=state)
    devices = [n for n in range(1, 7) if back or n != gone]
    asyncio.run(play(again, terms, resumed=True, devices=devices))
    assert again.state.round == live.plan.rounds
    assert any(device == gone and k > 4 for k, device, _ in again.updates) == back


def test_a_snapshot_stays_as_it_is_while_the_run_goes_on():
    live, terms = prepare(WORKED_EXAMPLE, "idfl")
    kept = {}

    def keep(state):
        if state.round == 5:
            kept["snapshot"] = Snapshot.of(state)
            kept["then"] = encode_state(kept["snapshot"])

    live.on_round = keep
    asyncio.run(play(live, terms))
    assert encode_state(kept["snapshot"]) == kept["then"]
    again = kept["snapshot"].state(scheduler_for(WORKED_EXAMPLE, "idfl"))
    assert encode_state(Snapshot.of(again)) == kept["then"]


def test_a_damaged_state_is_no_state():
    live, _ = prepare(WORKED_EXAMPLE, "async")
    data = encode_state(Snapshot.of(live.state))
    assert decode_state(data[:-20], scheduler_for(WORKED_EXAMPLE, "async")) is None


def test_however_many_are_silent_in_an_instant_patience_is_lost_once():
    live, terms = prepare(WORKED_EXAMPLE, "async", patience=1.0, rounds=3)

    def mute(number):
        async def be(broker):
            async with broker.connect() as channel:
                await channel.publish(TOPICS.from_device(number, "here"), encode(Label("run", number)))
                await asyncio.sleep(60)

        return be

    told = []
    live.mailbox._told = lambda rejection: told.append((time.monotonic(), rejection.reason))
    asyncio.run(play(live, terms, instead={n: mute(n) for n in (2, 3, 4, 5)}))
    times = [when for when, reason in told if reason.startswith("missing after 1 s")]
    assert len(times) == 4
    assert times[-1] - times[0] < 1.0  # one after the other they would take three times as long


@pytest.mark.usefixtures("impatient")
def test_a_device_that_vanishes_costs_no_round_and_none_of_its_updates_counts_twice():
    live, terms = prepare(WORKED_EXAMPLE, "async", rounds=20)

    async def kill(broker, live):
        while live.state.round < 3:
            await asyncio.sleep(0.001)
        live.tasks[2].cancel()

    asyncio.run(play(live, terms, meanwhile=kill, task=Arithmetic(0.002)))
    assert live.state.round == 20
    assert len(set(live.updates)) == len(live.updates)
    assert max(k for k, device, _ in live.updates if device == 2) < 19
    assert live.mailbox.present == {1, 3, 4, 5, 6}


@pytest.mark.usefixtures("impatient")
def test_a_device_that_comes_back_takes_part_again():
    live, terms = prepare(WORKED_EXAMPLE, "async", rounds=40)

    async def bounce(broker, live):
        while live.state.round < 3:
            await asyncio.sleep(0.001)
        live.tasks[2].cancel()
        while 2 in live.mailbox.present:
            await asyncio.sleep(0.001)
        live.came_back = live.state.round
        live.tasks[2] = live.be(2)

    asyncio.run(play(live, terms, meanwhile=bounce, task=Arithmetic(0.002)))
    assert any(device == 2 and k > live.came_back for k, device, _ in live.updates)


def test_a_device_that_joins_anew_takes_part():
    live, terms = prepare(WORKED_EXAMPLE, "async", rounds=30)
    live.state.scheduler = scheduler_for(WORKED_EXAMPLE, "async", absent=[6])

    async def join(broker, live):
        while live.state.round < 3:
            await asyncio.sleep(0.001)
        live.tasks[6] = live.be(6)

    asyncio.run(play(live, terms, devices=range(1, 6), meanwhile=join, task=Arithmetic(0.002)))
    assert any(device == 6 for _, device, _ in live.updates)


def test_a_device_that_stays_silent_counts_as_gone():
    live, terms = prepare(WORKED_EXAMPLE, "async", patience=1.0)

    async def be_mute(broker):
        async with broker.connect() as channel:
            await channel.publish(TOPICS.from_device(2, "here"), encode(Label("run", 2)))
            await asyncio.sleep(60)

    asyncio.run(play(live, terms, instead={2: be_mute}))
    assert live.state.round == live.plan.rounds
    assert not any(device == 2 for _, device, _ in live.updates)
    reason = "missing after 1 s: the device counts as gone"
    assert Rejection(TOPICS.from_device(2, "ready"), reason) in live.mailbox.log


class Stuck(Arithmetic):
    """One device trains until it is set free."""

    def __init__(self, device):
        super().__init__()
        self._device, self.free = device, threading.Event()

    def local_update(self, model, device, training):
        if device == self._device:
            assert self.free.wait(60)
        return super().local_update(model, device, training)


def test_a_training_that_outlasts_patience_counts_all_the_same():
    live, terms = prepare(WORKED_EXAMPLE, "async", patience=2.0, rounds=4)
    long = Stuck(2)

    async def free_it_when_it_was_asked(broker, live):
        while TOPICS.to_device(2, "call") not in {topic for topic, _ in live.wire}:
            await asyncio.sleep(0.01)
        long.free.set()

    asyncio.run(play(live, terms, task=long, meanwhile=free_it_when_it_was_asked))
    assert_as_simulated(live)
    assert set(live.mailbox.rejected) <= {"ready, said twice"}  # it is told its work again when it answers


def test_who_is_overdue_or_barred_is_so_after_a_restart():
    live, _ = prepare(WORKED_EXAMPLE, "idfl")
    live.state.overdue[3], live.state.barred = 2, {4}
    state = decode_state(encode_state(Snapshot.of(live.state)), scheduler_for(WORKED_EXAMPLE, "idfl"))
    assert (state.overdue, state.barred) == ({3: 2}, {4})


def test_paced_a_device_that_never_gets_ready_counts_as_gone():
    live, terms = prepare(WORKED_EXAMPLE, "sync", rounds=4, patience=0.5)
    slots, stuck = PatientTime(late=[2]), Stuck(2)

    async def go_by(broker, live):
        try:
            await slots.go_by(broker, live)
        finally:
            stuck.free.set()

    asyncio.run(play(live, terms, clock=slots.clock, task=stuck, meanwhile=go_by, workers=12))
    assert live.state.round == 4
    assert not any(device == 2 for _, device, _ in live.updates)
    reason = "missing after 0.5 s: the device counts as gone"
    assert {rejection for rejection in live.mailbox.log if rejection.reason == reason} == {
        Rejection(TOPICS.from_device(2, "ready"), reason)
    }


def test_paced_time_without_a_connection_makes_nobody_overdue(monkeypatch):
    live, terms = prepare(WORKED_EXAMPLE, "sync", rounds=4, patience=2.0)
    slots, stuck = PatientTime(late=[2]), Stuck(2)

    async def lose_the_connection(broker, live):
        going_by = asyncio.create_task(slots.go_by(broker, live))
        while 2 not in live.state.overdue:
            await asyncio.sleep(0.01)
        monkeypatch.setattr(MemoryChannel, "connected", False)
        await asyncio.sleep(2.5)
        monkeypatch.setattr(MemoryChannel, "connections", 2)
        monkeypatch.setattr(MemoryChannel, "connected", True)
        live.mailbox.changed.set()
        await asyncio.sleep(0.1)
        stuck.free.set()
        slots.late.clear()
        await going_by

    asyncio.run(play(live, terms, clock=slots.clock, task=stuck, meanwhile=lose_the_connection, workers=6))
    assert live.updates == planned_updates(live.plan)
    assert not any(reason.startswith("missing") for reason in live.mailbox.rejected)


def test_no_message_deafens_the_server():
    live, terms = prepare(WORKED_EXAMPLE, "async")

    async def shout(broker, live):
        async with broker.connect() as channel:
            good = encode(Label("run", 1), np.zeros(3, dtype=np.float32))
            payload = good.replace(b'"F32"', json.dumps("\ud800").encode())
            length = len(payload) - 8 - 3 * 4
            await channel.publish(TOPICS.from_device(1, "update"), length.to_bytes(8, "little") + payload[8:])

    asyncio.run(play(live, terms, meanwhile=shout))
    assert_as_simulated(live)
    assert "garbage: numbers that are not F32" in live.mailbox.rejected


def test_paced_slots_keep_to_the_plan_when_devices_keep_pace():
    live, terms = prepare(WORKED_EXAMPLE, "idfl", rounds=5)
    slots = PatientTime()
    asyncio.run(play(live, terms, clock=slots.clock, meanwhile=slots.go_by))
    assert_as_simulated(live)
    assert [uplink[3:] for uplink in live.state.record.uplinks] == list(
        zip(live.plan.start.tolist(), live.plan.end.tolist(), strict=True)
    )
    assert not live.state.late


def test_a_device_that_does_not_keep_pace_is_named():
    live, terms = prepare(WORKED_EXAMPLE, "idfl", rounds=6)
    slots, slow = PatientTime(late=[3]), Stuck(3)

    def catch_up(state):
        if state.round == 3:
            slow.free.set()
            slots.late.clear()

    live.on_round = catch_up
    asyncio.run(play(live, terms, clock=slots.clock, task=slow, meanwhile=slots.go_by))
    assert live.state.round == 6
    assert {entry.device for entry in live.state.late} == {3}
    assert any(device == 3 for _, device, _ in live.updates)
    assert live.updates != planned_updates(live.plan)


def test_a_stranger_is_not_heard():
    live, terms = prepare(WORKED_EXAMPLE, "async")

    async def shout(broker, live):
        async with broker.connect() as channel:
            for device in (0, 7, 99):
                label = Label("run", device)
                await channel.publish(f"slotwise/test/from/{device}/update", encode(label, grant="1"))
                await channel.publish(f"slotwise/test/from/{device}/here", encode(label))

    asyncio.run(play(live, terms, meanwhile=shout))
    assert_as_simulated(live)
    assert live.mailbox.rejected == {"a topic of no device": 2, "a stranger: no device of this run": 4}


@pytest.mark.slow
def test_more_devices_than_a_topic_has_seats_train_as_simulated():
    scenario = Scenario(devices=103, group_size=20, compute_slots=30)
    live, terms = prepare(scenario, "idfl", rounds=8)
    asyncio.run(play(live, terms))
    assert_as_simulated(live)


def test_a_run_whose_devices_are_all_out_ends():
    live, terms = prepare(WORKED_EXAMPLE, "async")

    class Broken(Arithmetic):
        def local_update(self, model, device, training):
            return np.full_like(model, np.nan)

    with pytest.raises(NobodyLeft):
        asyncio.run(play(live, terms, task=Broken()))
    assert live.mailbox.barred == {1, 2, 3, 4, 5, 6}
    assert not live.updates
    told = {frame.label.device for topic, frame in live.wire if topic.endswith("/out")}
    assert told == {1, 2, 3, 4, 5, 6}
