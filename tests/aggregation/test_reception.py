"""What rules are told of the uplinks: slot, duration, SNR, bits and energy."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from examples.own_aggregation.by_channel import by_channel

from slotwise import RunConfig, Scenario, Setting, simulate
from slotwise.aggregation import Contribution, Reception, UplinkRadio, Vector, mean
from slotwise.fleet import Fleet, Slotframe
from slotwise.learning import Task, Training, TrainingStart, train
from slotwise.learning.reference import asynchronous, synchronous
from slotwise.runs import resume, run
from slotwise.schedule import Episode, FleetLink
from slotwise.schedule.link import snr_db_of

CELL: dict[str, Any] = {
    **{"devices": 6, "group_size": 2, "compute_slots": 3, "deadline": 150, "schedule": "async"},
    **{"radio_link": "rate-adaptive", "radio_bits": 20_000, "radio_broadcast_bits": 1000},
}


class Kept:
    """The mean, which keeps what it is told of the uplinks."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, int, Reception]] = []

    def __call__(self, model: Vector, contributions: Sequence[Contribution]) -> Vector:
        self.sent += [(sent.round, sent.device, sent.uplink) for sent in contributions]
        return mean(model, contributions)


class Small(Task):
    """Devices pull towards their number."""

    def initial_model(self) -> Vector:
        return np.zeros(4, dtype=np.float32)

    def local_update(self, model: Vector, start: TrainingStart) -> Vector:
        return (0.5 * (model - np.float32(start.device))).astype(np.float32)

    def evaluate(self, model: Vector) -> Any:
        return float(np.square(model - 3).sum()), 0.0


def told(setting: Setting, radio: UplinkRadio) -> list[tuple[int, int, Reception]]:
    kept = Kept()
    train(setting.simulate(), Small(), aggregation=kept, workers=1, radio=radio)
    return kept.sent


@pytest.mark.parametrize("kind", ["rate-adaptive", "fixed-rate"])
def test_a_rule_sees_slots_and_snr_of_the_link_and_the_energy_it_radiates(kind: str) -> None:
    options = {**CELL, "radio_link": kind, "radio_slot_ms": 2.0, "radio_power_dbm": 20.0}
    if kind == "fixed-rate":
        options = {**options, "radio_bits": 2000}
        del options["radio_broadcast_bits"]
    setting = RunConfig.from_options(options)
    timeline, (_, _, link) = setting.simulate(), setting.ready_parts()
    sent = told(setting, setting.uplink_radio(128))
    rows = zip(timeline.round, timeline.device, timeline.start, timeline.end, strict=True)
    expected = [
        (k, n, Reception(first, end - first, link.snr_db(first)[n - 1], 128, 0.1 * 0.002 * (end - first)))
        for k, n, first, end in rows
    ]
    assert len(sent) > 20
    assert len({uplink.snr_db for *_, uplink in sent}) > 10
    for (*which, found), (*wanted, uplink) in zip(sent, expected, strict=True):
        assert which == wanted
        assert found == pytest.approx(uplink, rel=1e-12)


@pytest.mark.parametrize("decided", [False, True])
def test_an_uplink_costs_the_part_of_the_power_that_it_is_sent_with(decided: bool) -> None:
    shared = {"access": "ofdma", "ofdma_power": "shared", "allocation": "min-max", "deadline": 400}
    setting, kept = RunConfig.from_options(CELL | shared), Kept()
    timeline, radio = setting.simulate(), setting.uplink_radio(128)
    if decided:
        episode = Episode(timeline.scenario, "async", fleet=timeline.fleet, link=radio.link)
        while episode.decision is not None:
            episode.answer(max(episode.decision.allowed))
        train(episode, Small(), aggregation=kept, workers=1, radio=radio)
        timeline = episode.timeline
    else:
        train(timeline, Small(), aggregation=kept, workers=1, radio=radio)
    parts = {(n, start): part for n, start, _, part in timeline.reduced.tolist()}
    assert len(set(parts.values())) > 5
    assert len(kept.sent) == len(timeline)
    for _, device, uplink in kept.sent:
        expected = radio.sending_joules[0] * uplink.slots * parts.get((device, uplink.slot), 1.0)
        assert uplink.joules == pytest.approx(expected, rel=1e-12)


def test_batteries_say_what_a_slot_of_sending_takes() -> None:
    listed = {"device_sending_joules": (0.5, 1.0, 1.5, 2.0, 2.5, 3.0), "battery_joules": 1e6}
    setting = RunConfig.from_options(CELL | listed)
    for _, device, uplink in told(setting, setting.uplink_radio(1)):
        assert uplink.joules == 0.5 * device * uplink.slots


def test_only_owned_slots_are_paid_for() -> None:
    scenario = Scenario(devices=3, group_size=1, compute_slots=2, deadline=90)
    frame = Slotframe.in_turn(5, 3)  # devices 1 and 2 own two slots each
    fleet = Fleet(compute_slots=(2,) * 3, link_slots=(4,) * 3, windows=frame)
    timeline, kept = simulate(scenario, "async", fleet=fleet), Kept()
    radio = UplinkRadio(FleetLink.of(scenario, fleet), 8, (2.0,), frame)
    train(timeline, Small(), aggregation=kept, workers=1, radio=radio)
    assert kept.sent
    assert {(uplink.joules, uplink.snr_db, uplink.bits) for *_, uplink in kept.sent} == {(8.0, 0.0, 8)}
    assert all(uplink.slots > 4 for *_, uplink in kept.sent)


def test_without_a_radio_a_rule_knows_slots_and_bits() -> None:
    scenario, kept = Scenario(devices=3, group_size=1, compute_slots=2, link_slots=4, deadline=90), Kept()
    train(simulate(scenario, "async"), Small(), aggregation=kept, workers=1)
    assert {uplink[1:] for *_, uplink in kept.sent} == {(4, 0.0, 4 * 32, 0.0)}


@pytest.mark.parametrize("slot", [0, 7, 63, 64, 1000])
def test_the_snr_of_one_device_is_that_of_all(slot: int) -> None:
    _, _, link = RunConfig.from_options(CELL).ready_parts()
    assert [snr_db_of(link, n, slot) for n in range(1, 7)] == link.snr_db(slot).tolist()


@pytest.mark.parametrize("policy", ["async", "sync"])
def test_engine_and_reference_agree_on_a_rule_that_looks_at_the_channel(policy: str) -> None:
    scenario = Scenario(devices=6, group_size=6 if policy == "sync" else 2, compute_slots=3, deadline=150)
    timeline, (_, _, link) = simulate(scenario, policy), RunConfig.from_options(CELL).ready_parts()
    radio = UplinkRadio(link, 128)
    columns = (timeline.round, timeline.device, timeline.start, timeline.end)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    uplinks = {(k, n): radio.reception(n, first, end) for k, n, first, end in rows}
    with Training(timeline, Small(), aggregation=by_channel, radio=radio) as training:
        found = [training.model for _ in training]

    def uplink(k: int, n: int) -> Reception:
        return uplinks[k, n]

    if policy == "async":
        expected = asynchronous(timeline.scenario, Small(), timeline.rounds, 0, by_channel, uplink)
    else:
        everyone = [1, 2, 3, 4, 5, 6]
        expected = synchronous(Small(), timeline.rounds, lambda _: everyone, by_channel, 6, uplink)
    assert len(found) > 5
    assert all(np.array_equal(*pair) for pair in zip(found, list(expected)[1:], strict=True))
    with Training(timeline, Small(), aggregation=by_channel) as training:
        assert not np.array_equal([training.model for _ in training][-1], found[-1])


def test_a_run_by_channel_is_interrupted_and_resumed_to_the_same_bits(tmp_path: Path) -> None:
    small = {"samples_per_device": 8, "local_steps": 1, "batch_size": 4, "network": "logistic"}
    rule = "examples.own_aggregation.by_channel:by_channel"
    config = RunConfig.from_options({**CELL, **small, "aggregation": rule})
    first = run(config, tmp_path / "one", workers=1)
    assert resume(tmp_path / "one").folder == first.folder
    other = run(config, tmp_path / "two", workers=3)
    assert np.array_equal(first.history.model, other.history.model)
    plain = run(config.with_options(aggregation="mean"), tmp_path / "mean", workers=1)
    assert not np.array_equal(plain.history.model, first.history.model)
