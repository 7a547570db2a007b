"""Live runs in memory and in virtual time: the simulator's models, and faults."""

import asyncio
import json
from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tasks import Broken

from live import FOREVER, TOPICS, planned_updates, play, prepare, simulated_models
from slotwise.fleet import Fleet
from slotwise.live.protocol import Label, encode
from slotwise.live.server.aggregator import NotFinite
from slotwise.live.server.inbox import READY_TWICE, Rejection
from slotwise.live.server.round_log import RoundLog
from slotwise.live.server.state import Snapshot, decode_state, encode_state
from slotwise.live.transport import Connected
from slotwise.scenario import Scenario
from slotwise.schedule import scheduler_for

WORKED_EXAMPLE = Scenario(devices=6, group_size=2, compute_slots=2, link_slots=1)


def assert_as_simulated(live):
    expected = simulated_models(live.plan)
    assert live.updates == planned_updates(live.plan)
    assert live.models.keys() == expected.keys()
    assert all(np.array_equal(live.models[version], expected[version]) for version in expected)


def mute(number):
    """A device that says that it is here, and nothing else ever."""

    async def be(broker):
        async with broker.connect() as channel:
            await channel.publish(TOPICS.from_device(number, "here"), encode(Label("run", number)))
            await asyncio.Event().wait()

    return be


def saved(state):
    return encode_state(Snapshot.of(state))


def restored(data, schedule, log=None):
    """Return the state in a checkpoint of a run whose log has gone on since."""
    scheduler = scheduler_for(WORKED_EXAMPLE, schedule)
    return decode_state(data, scheduler, WORKED_EXAMPLE.devices, deepcopy(log) or RoundLog())


@pytest.mark.parametrize("schedule", ["sync", "async", "idfl"])
def test_a_live_run_gives_the_simulators_models_to_the_bit(schedule):
    live = play(prepare(WORKED_EXAMPLE, schedule))
    assert_as_simulated(live)
    assert not live.state.rejected


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
    assert_as_simulated(play(prepare(scenario, schedule, rounds=6)))


@settings(max_examples=15, deadline=None)
@given(data=st.data(), schedule=st.sampled_from(["sync", "async", "idfl"]))
def test_unequal_devices_are_played_as_they_were_simulated(data, schedule):
    devices = data.draw(st.integers(1, 6))
    group_size = data.draw(st.integers(1, devices))
    slots = st.lists(st.integers(1, 12), min_size=devices, max_size=devices)
    fleet = Fleet(compute_slots=tuple(data.draw(slots)), link_slots=tuple(data.draw(slots)))
    scenario = Scenario(devices=devices, group_size=group_size, compute_slots=3, link_slots=1, deadline=400)
    assert_as_simulated(play(prepare(scenario, schedule, fleet=fleet, rounds=6)))


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_the_real_duration_of_trainings_changes_nothing(data):
    seconds = {n: data.draw(st.floats(0.0, 100.0)) for n in range(1, 7)}
    live = prepare(WORKED_EXAMPLE, "idfl", rounds=5, longest_training=200.0)
    assert_as_simulated(play(live, seconds=seconds))


@pytest.mark.slow
def test_random_participation_and_many_devices_are_played_as_simulated():
    assert_as_simulated(play(prepare(WORKED_EXAMPLE, "sync", participation="random")))
    scenario = Scenario(devices=103, group_size=20, compute_slots=30)
    assert_as_simulated(play(prepare(scenario, "idfl", rounds=8)))
    data = saved(prepare(WORKED_EXAMPLE, "async").state)
    assert restored(data[:-20], "async") is None


def test_on_the_wire_only_the_granted_device_publishes_an_update():
    live = play(prepare(WORKED_EXAMPLE, "idfl"))
    granted, updates = None, 0
    for topic, frame in live.wire:
        if topic.endswith("/grant"):
            granted = frame.label, frame.fields["grant"]
        elif topic.endswith("/update"):
            updates += 1
            assert (frame.label, frame.fields["grant"]) == granted
            assert TOPICS.sender(topic) == (frame.label.device, "update")
            granted = None
    assert updates == len(live.plan)


def test_a_broadcast_is_one_publish():
    live = play(prepare(WORKED_EXAMPLE, "idfl"))
    versions = [frame.label.version for topic, frame in live.wire if "/all/model" in topic]
    assert versions == list(range(live.plan.models))


@pytest.mark.parametrize("schedule", ["sync", "async", "idfl"])
def test_a_group_size_that_changes_is_played_as_it_was_simulated(schedule):
    scenario = Scenario(devices=6, group_size="3@0, 1@9, 2@14", compute_slots=2, deadline=60)
    assert_as_simulated(play(prepare(scenario, schedule, rounds=12)))


@pytest.mark.parametrize("schedule", ["async", "idfl"])
def test_a_server_resumes_from_any_checkpoint_to_the_same_models(schedule):
    live = prepare(WORKED_EXAMPLE, schedule)
    live.on_round = lambda state: live.checkpoints.append(saved(state))
    play(live)
    for data in live.checkpoints[:-1:4]:
        state = restored(data, schedule, live.state.log)
        begun = state.round
        again = play(prepare(WORKED_EXAMPLE, schedule, state=state), resumed=True)
        assert again.updates == planned_updates(live.plan)
        for version in range(begun + 1, live.plan.rounds + 1):
            assert np.array_equal(again.models[version], live.models[version])


@pytest.mark.parametrize("schedule", ["sync", "async", "idfl"])
@pytest.mark.parametrize("back", [True, False], ids=["comes back", "stays away"])
def test_a_device_that_leaves_while_a_model_is_sent_has_left_after_a_restart_too(schedule, back):
    """It holds no work any more, and the Scheduler has not been told."""
    live = prepare(WORKED_EXAMPLE, schedule)

    def vanish(state):
        if state.round == 4:
            state.disconnect(min(state.assignments.work))
            live.checkpoints.append(saved(state))

    live.on_round = vanish
    play(live)
    state = restored(live.checkpoints[0], schedule, live.state.log)
    (gone,) = [event.device for event in state.presence.changes]
    assert gone not in state.presence.connected
    again = prepare(WORKED_EXAMPLE, schedule, state=state)
    play(again, resumed=True, devices=[n for n in range(1, 7) if back or n != gone])
    assert again.state.round == live.plan.rounds
    assert any(device == gone and k > 4 for k, device, _ in again.updates) == back


def test_a_snapshot_does_not_change_while_the_run_continues():
    live, kept = prepare(WORKED_EXAMPLE, "idfl"), {}

    def keep(state):
        if state.round == 5:
            kept["snapshot"], kept["then"] = Snapshot.of(state), saved(state)

    live.on_round = keep
    play(live)
    assert encode_state(kept["snapshot"]) == kept["then"]
    live.state.log.go_back(kept["snapshot"].position)
    scheduler = scheduler_for(WORKED_EXAMPLE, "idfl")
    again = kept["snapshot"].restore(scheduler, WORKED_EXAMPLE.devices, live.state.log)
    assert saved(again) == kept["then"]


def test_overdue_and_excluded_devices_are_saved():
    live = prepare(WORKED_EXAMPLE, "idfl")
    live.state.overdue[3] = 2
    live.state.penalties.add(4, points=3.5)
    live.state.penalties.add(5)
    state = restored(saved(live.state), "idfl")
    assert (state.overdue, state.penalties.excluded) == ({3: 2}, {4})
    assert state.penalties.points == {4: 3.5, 5: 1.0}


def test_all_silent_devices_of_an_instant_time_out_together():
    live = prepare(WORKED_EXAMPLE, "async", timeout=100.0, rounds=3)
    play(live, instead={n: mute(n) for n in (2, 3, 4, 5)})
    times = [
        when
        for when, rejection in zip(live.times, live.rejections, strict=True)
        if rejection.reason.startswith("missing")
    ]
    assert len(times) == 4
    assert times[-1] - times[0] < 100.0  # one after the other would take three times as long


def test_a_silent_device_counts_as_disconnected():
    live = prepare(WORKED_EXAMPLE, "async", timeout=60.0)
    play(live, instead={2: mute(2)})
    assert live.state.round == live.plan.rounds
    assert not any(device == 2 for _, device, _ in live.updates)
    reason = "missing after 60 s: the device counts as disconnected"
    assert Rejection(TOPICS.from_device(2, "ready"), reason) in live.rejections


def test_a_device_that_vanishes_costs_no_round_and_none_of_its_updates_counts_twice():
    live = prepare(WORKED_EXAMPLE, "async", rounds=20)

    async def kill(play):
        await play.live.reaches(3)
        play.tasks[2].cancel()

    play(live, meanwhile=kill, seconds=dict.fromkeys(range(1, 7), 0.5))
    assert live.state.round == 20
    assert len(set(live.updates)) == len(live.updates)
    assert max(k for k, device, _ in live.updates if device == 2) < 19
    assert live.state.presence.connected == {1, 3, 4, 5, 6}


def test_a_device_that_returns_takes_part_again():
    live = prepare(WORKED_EXAMPLE, "async", rounds=40)

    async def bounce(play):
        await play.live.reaches(3)
        play.tasks[2].cancel()
        while 2 in play.live.state.presence.connected:
            await play.inbox.changed.next()
        play.live.came_back = play.live.state.round
        play.start(2)

    play(live, meanwhile=bounce, seconds=dict.fromkeys(range(1, 7), 0.5))
    assert any(device == 2 and k > live.came_back for k, device, _ in live.updates)


def test_a_connection_that_is_lost_for_a_moment_changes_nothing():
    live = prepare(WORKED_EXAMPLE, "async", rounds=10)

    async def bounce(play):
        await play.live.reaches(3)
        topic = TOPICS.from_device(2, "gone")
        async with play.broker.connect() as channel:
            await channel.publish(topic, encode(Label("", 2), boot="boot2"))
            await play.clock.sleep(2.0)
            await channel.publish(TOPICS.to_device(2, "call"), encode(Label("run", 2)))

    play(live, meanwhile=bounce, seconds=dict.fromkeys(range(1, 7), 1.0))
    assert_as_simulated(live)


def test_a_device_that_joins_later_takes_part():
    live = prepare(WORKED_EXAMPLE, "async", rounds=30)
    live.state.scheduler = scheduler_for(WORKED_EXAMPLE, "async", absent=[6])

    async def join(play):
        await play.live.reaches(3)
        play.start(6)

    play(live, devices=range(1, 6), meanwhile=join, seconds=dict.fromkeys(range(1, 7), 0.5))
    assert any(device == 6 for _, device, _ in live.updates)


def test_a_training_longer_than_the_timeout_counts_all_the_same():
    live = prepare(WORKED_EXAMPLE, "async", timeout=60.0, rounds=4, longest_training=1100.0)
    play(live, seconds={2: 1000.0})
    assert TOPICS.to_device(2, "call") in {topic for topic, _ in live.wire}
    assert_as_simulated(live)
    assert set(live.state.rejected) <= {READY_TWICE}  # its work is repeated when it answers


def test_no_message_stops_the_server():
    live = prepare(WORKED_EXAMPLE, "async")

    async def shout(play):
        async with play.broker.connect() as channel:
            good = encode(Label("run", 1), np.zeros(3, dtype=np.float32))
            payload = good.replace(b'"F32"', json.dumps("\ud800").encode())
            length = len(payload) - 8 - 3 * 4
            await channel.publish(TOPICS.from_device(1, "update"), length.to_bytes(8, "little") + payload[8:])

    play(live, meanwhile=shout)
    assert_as_simulated(live)
    assert "malformed message: numbers are not F32" in live.state.rejected


def test_messages_of_unknown_devices_are_rejected():
    live = prepare(WORKED_EXAMPLE, "async")

    async def shout(play):
        async with play.broker.connect() as channel:
            for device in (0, 7, 99):
                label = Label("run", device)
                await channel.publish(f"slotwise/test/from/{device}/update", encode(label, grant="1"))
                await channel.publish(f"slotwise/test/from/{device}/here", encode(label))

    play(live, meanwhile=shout)
    assert_as_simulated(live)
    assert live.state.rejected == {"not the topic of a device": 2, "unknown device number": 4}


def test_a_run_in_which_nobody_can_train_has_diverged_and_excludes_nobody():
    live = prepare(WORKED_EXAMPLE, "async")
    with pytest.raises(NotFinite):
        play(live, task=Broken())
    assert not live.state.penalties.excluded
    assert not live.updates


# Slots of a fixed length


def test_paced_slots_keep_to_the_plan_when_devices_keep_pace():
    live = play(prepare(WORKED_EXAMPLE, "idfl", rounds=5), slot_ms=1000)
    assert_as_simulated(live)
    assert [uplink[3:] for uplink in live.state.record.uplinks] == list(
        zip(live.plan.start.tolist(), live.plan.end.tolist(), strict=True)
    )
    assert not live.state.log.late


def test_a_late_device_is_named():
    live = prepare(WORKED_EXAMPLE, "idfl", rounds=12, timeout=100.0)
    play(live, slot_ms=1000, seconds={3: 7.5})
    assert live.state.round == 12
    assert set(live.state.log.late) == {3}
    assert any(device == 3 for _, device, _ in live.updates)
    assert live.updates != planned_updates(live.plan)


def test_a_paced_device_that_is_never_ready_counts_as_disconnected():
    live = prepare(WORKED_EXAMPLE, "sync", rounds=4, timeout=50.0)
    play(live, slot_ms=1000, seconds={2: FOREVER})
    assert live.state.round == 4
    assert not any(device == 2 for _, device, _ in live.updates)
    missing = {rejection for rejection in live.rejections if rejection.reason.startswith("missing")}
    assert {rejection.topic for rejection in missing} == {TOPICS.from_device(2, "ready")}


def test_time_without_a_connection_makes_no_paced_device_overdue():
    live = prepare(WORKED_EXAMPLE, "sync", rounds=4, timeout=50.0)

    async def lose_the_connection(play):
        while 2 not in play.live.state.overdue:
            await play.clock.sleep(1.0)
        play.channel.connected = False
        await play.clock.sleep(500.0)
        play.channel.connected, play.channel.connections = True, 2
        play.channel.inbox.put_nowait(Connected(2))

    # Device 2 is overdue from slot 2 on; its first training lasts longer than the outage.
    play(live, slot_ms=1000, seconds={2: [520.0]}, meanwhile=lose_the_connection)
    assert not any(reason.startswith("missing") for reason in live.state.rejected)
    assert live.updates == planned_updates(live.plan)
