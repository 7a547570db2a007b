"""Devices that never finish, fall silent, come back or flood the server: none stops a run."""

import numpy as np
import pytest
from memory_run import CONFIG, Logging, serve_in_memory
from tasks import SIZE, Arithmetic

from live import FOREVER, TOPICS, play, prepare
from slotwise.live.protocol import Label, decode, encode
from slotwise.live.server.live_status import LiveStatus
from slotwise.live.server.monitor import ANSWER_BURST
from slotwise.live.server.server_config import LivePlan
from slotwise.live.server.timings import MULTIPLE
from slotwise.live.transport import Message
from slotwise.scenario import Scenario

SCENARIO = Scenario(devices=6, group_size=2, compute_slots=2, link_slots=1)


def given_up(live):
    """Return when each device was given up because its training did not end."""
    return [
        (TOPICS.sender(rejection.topic)[0], when)
        for when, rejection in zip(live.times, live.rejections, strict=True)
        if "training has not ended" in rejection.reason
    ]


@pytest.mark.parametrize("schedule", ["sync", "async", "idfl"])
@pytest.mark.parametrize(("longest", "limit", "excluded"), [(300.0, 300.0, {2}), (None, 60.0, set())])
def test_a_device_that_confirms_but_never_finishes_is_given_up(schedule, longest, limit, excluded):
    """By default once, after one timeout: it takes no part until it says something by itself."""
    live = prepare(SCENARIO, schedule, timeout=60.0, longest_training=longest)
    play(live, seconds={2: FOREVER})
    assert live.state.round == live.plan.rounds
    assert not any(device == 2 for _, device, _ in live.updates)
    ((device, when),) = given_up(live)
    assert device == 2
    assert limit <= when < limit + 10.0
    assert live.state.seconds < limit + 10.0
    assert live.state.penalties.excluded == excluded
    assert 2 not in live.state.presence.connected


def test_a_first_training_that_ends_after_it_was_given_up_brings_the_device_back():
    live = prepare(SCENARIO, "async", timeout=20.0, rounds=60)
    others = dict.fromkeys((1, 3, 4, 5, 6), 1.0)
    play(live, seconds=others | {2: 45.0})
    assert [device for device, _ in given_up(live)] == [2]
    assert any(device == 2 for _, device, _ in live.updates)
    assert not live.state.penalties.excluded


def test_a_silent_device_is_asked_before_its_first_training_counts_as_hung():
    """One that freezes has not lost its place: it is called, and comes back when it goes on."""
    live = prepare(SCENARIO, "async", timeout=20.0, rounds=40)
    thawed = []

    async def frozen(broker):
        async with broker.connect() as channel:
            await channel.subscribe(TOPICS.to_device(2, "call"), TOPICS.to_all("call"))
            arrivals = channel.arrivals()
            while True:
                arrival = await anext(arrivals)
                if isinstance(arrival, Message) and arrival.payload:
                    if arrival.topic != TOPICS.to_all("call"):
                        thawed.append(arrival)
                    elif not thawed:
                        label = decode(arrival.payload).label
                        here = encode(Label(label.run, 2), boot="boot2", holds="")
                        await channel.publish(TOPICS.from_device(2, "here"), here)

    play(live, instead={2: frozen}, seconds=dict.fromkeys((1, 3, 4, 5, 6), 1.0))
    assert not given_up(live)
    assert len(thawed) >= 2  # whether it still computes, and to come back


def test_the_default_limit_follows_from_earlier_trainings():
    live = prepare(SCENARIO, "async", timeout=30.0, rounds=30)
    play(live, seconds={2: [20.0, 20.0, 20.0, FOREVER]})
    ((device, _),) = given_up(live)
    assert device == 2
    assert live.state.round == 30
    assert sum(device == 2 for _, device, _ in live.updates) == 3
    assert live.state.seconds < 60.0 + MULTIPLE * 20.0 + 40.0


def test_time_without_a_connection_makes_no_training_too_long():
    live = prepare(SCENARIO, "async", timeout=60.0, longest_training=100.0, rounds=4)

    async def lose_the_connection(play):
        await play.clock.sleep(50.0)
        play.channel.connected = False
        await play.clock.sleep(500.0)
        play.channel.connected = True

    play(live, seconds={2: [90.0]}, meanwhile=lose_the_connection)
    assert not given_up(live)
    assert live.updates


def test_an_excluded_device_returns_after_its_cool_down_and_takes_part():
    class BrokenAtFirst(Arithmetic):
        count = 0

        def local_update(self, model, start):
            update = super().local_update(model, start)
            if start.device == 5:
                self.count += 1
                if self.count <= 4:
                    return update * np.float32(np.nan)
            return update

    live = prepare(SCENARIO, "async", timeout=60.0, cool_down=30.0, rounds=120)
    play(live, task=BrokenAtFirst(), seconds=dict.fromkeys(range(1, 7), 2.0))
    out = [frame for topic, frame in live.wire if topic == TOPICS.to_device(5, "out")]
    (seconds,) = [int(frame.fields["seconds"]) for frame in out]
    assert 30 < seconds < 60  # one and a half points, or more
    assert live.state.round == 120
    assert any(device == 5 for _, device, _ in live.updates)
    assert not live.state.penalties.excluded


def test_a_thousand_greetings_do_not_fetch_a_thousand_models(tmp_path):
    sent = []

    async def greet(broker, clock):
        async with broker.connect() as channel:
            await channel.subscribe(TOPICS.to_device(2, "work"), TOPICS.to_all("call"))
            arrivals = channel.arrivals()
            run = None
            while run is None:
                arrival = await anext(arrivals)
                run = decode(arrival.payload).label.run if isinstance(arrival, Message) else None
            await clock.sleep(0.2)
            for _ in range(1000):
                await channel.publish(TOPICS.from_device(2, "here"), encode(Label(run, 2), boot="boot2"))
            async for arrival in arrivals:
                if isinstance(arrival, Message) and decode(arrival.payload).vector is not None:
                    sent.append(arrival)

    outcome = serve_in_memory(tmp_path / "run", meanwhile=greet)
    assert outcome.status == "finished"
    assert outcome.comparison.first_difference is None
    assert 0 < len(sent) <= ANSWER_BURST + 20


def test_a_flood_of_bad_messages_is_counted_but_not_all_logged(tmp_path):
    async def flood(broker, clock):
        await clock.sleep(0.2)
        frame = encode(Label("x", 2), np.zeros(SIZE, dtype=np.float32))
        async with broker.connect() as channel:
            for _ in range(2000):
                await channel.publish(TOPICS.from_device(2, "update"), frame)

    log = Logging()
    outcome = serve_in_memory(tmp_path / "run", meanwhile=flood, observer=log)
    assert outcome.status == "finished"
    assert sum(outcome.comparison.rejected.values()) >= 2000
    assert len((tmp_path / "run/rejections.log").read_text().splitlines()) < 500
    assert len(log.named("rejected")) <= 4


def test_an_operator_sees_joins_leaves_rounds_and_the_end(tmp_path):
    async def leave(broker, clock):
        await clock.sleep(1.2)
        broker.pass_on(Message(TOPICS.from_device(4, "gone"), encode(Label("", 4), boot="boot4")))

    log = Logging()
    config = CONFIG.with_options(deadline=300)
    outcome = serve_in_memory(tmp_path / "run", config=config, observer=log, meanwhile=leave)
    rounds = LivePlan.of(config).timeline.rounds
    assert {event["device"] for event in log.named("joined")} == set(range(1, 7))
    assert [(event["device"], event["reason"]) for event in log.named("left")] == [(4, "connection lost")]
    assert log.named("round")[-1]["round"] == rounds
    assert log.named("ended") == [{"status": "finished", "round": rounds, "seconds": outcome.state.seconds}]
    assert {event.level for event in log.events if event.event == "round"} == {"info", "debug"}


def test_status_json_has_the_state_of_the_run_and_of_every_device(tmp_path):
    log = Logging()
    outcome = serve_in_memory(tmp_path / "run", observer=log)
    status = LiveStatus.read(tmp_path / "run")
    assert status == log.status
    assert (status.phase, status.round, status.rounds) == ("finished", outcome.state.round, status.round)
    assert (
        status.updates
        == sum(device.updates for device in status.devices)
        == len(LivePlan.of(CONFIG).timeline)
    )
    assert [device.device for device in status.devices] == list(range(1, 7))
    assert status.evaluation["round"] == status.round
    assert all(device.mean_norm > 0 for device in status.devices)


def test_a_stopped_server_does_not_blame_its_devices(monkeypatch):
    """What the clock of a process shows that was stopped for an hour."""
    import time

    from slotwise.live.clock import Clock

    moments = iter([0.0, 1.0, 2.0, 3602.0, 3603.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(moments))
    clock = Clock()
    assert [clock.now() for _ in range(4)] == [1.0, 2.0, 2.0, 3.0]


def test_trainings_that_do_not_end_are_waited_for_together():
    live = prepare(SCENARIO, "async", timeout=100.0, rounds=3)
    play(live, seconds=dict.fromkeys((2, 3, 4), FOREVER))
    assert live.state.round == 3
    times = [when for _, when in given_up(live)]
    assert len(times) == 3
    assert max(times) - min(times) < 100.0
