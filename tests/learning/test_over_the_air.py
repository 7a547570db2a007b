"""Training over the air: the server has the sum of each group, with the noise of its receiver."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import slotwise as sw
from slotwise.aggregation import (
    Aggregation,
    Contribution,
    FedAdam,
    Krum,
    Mifa,
    Scaffold,
    ServerMomentum,
    TrimmedMean,
    UplinkRadio,
    Vector,
    coordinate_median,
    fedavg,
    mean,
)
from slotwise.base.errors import InputError
from slotwise.learning import Processes, Task, Training, TrainingStart
from slotwise.learning.randomness import Purpose, generator
from slotwise.radio.over_the_air import OverTheAirLink
from slotwise.runs import Observer, RunConfig, resume, run
from slotwise.schedule import Timeline

CELL: dict[str, Any] = {
    **{"devices": 8, "group_size": 4, "compute_slots": 3, "deadline": 120, "schedule": "sync"},
    **{"radio_link": "rate-adaptive", "radio_bits": 32 * 7, "radio_broadcast_bits": 1000},
    **{"access": "over-the-air", "radio_radius_m": 400.0, "seed": 5},
}
SMALL = {"samples_per_device": 8, "local_steps": 1, "batch_size": 4, "network": "logistic"}


class Pull(Task):
    """Seven numbers; each device pulls towards its own."""

    def __init__(self, unequal: bool = False) -> None:
        self.unequal = unequal

    def initial_model(self) -> Vector:
        return np.zeros(7, dtype=np.float32)

    def local_update(self, model: Vector, start: TrainingStart) -> Vector:
        goal = np.arange(7, dtype=np.float32) + np.float32(start.device)
        return ((model - goal) * np.float32(0.5)).astype(np.float32)

    def evaluate(self, model: Vector) -> Any:
        return float(np.square(model - 4).mean()), 0.0

    def sample_count(self, device: int) -> int:
        return 1 + device % 2 if self.unequal else 3


def config_of(**options: Any) -> RunConfig:
    return RunConfig.from_options({**CELL, **options})


def models_of(config: RunConfig, rule: Aggregation = mean, **how: Any) -> list[Vector]:
    task = Pull()
    radio = config.uplink_radio(task.initial_model().size * 32)
    with Training(config.simulate(), task, aggregation=rule, radio=radio, **how) as training:
        return [training.model for _ in training]


def by_hand(config: RunConfig) -> list[Vector]:
    """The mean of each group plus scaled noise, in one line of numpy a group."""
    timeline, task, (_, _, link) = config.simulate(), Pull(), config.ready_parts()
    assert isinstance(link, OverTheAirLink)
    models, trainings = [task.initial_model()], defaultdict(int)
    for k in range(timeline.rounds):
        groups = defaultdict(list)
        rows = timeline.uplinks(k)
        columns = (timeline.device, timeline.version, timeline.start)
        for n, version, start in zip(*(c[rows].tolist() for c in columns), strict=True):
            update = task.local_update(models[version], TrainingStart(n, trainings[n]))
            trainings[n] += 1
            groups[start].append(update.astype(np.float64))
        total, count = np.zeros(7), 0
        for start, sent in groups.items():
            noise = generator(config.seed, Purpose.RECEIVER_NOISE, training=start).standard_normal(8)[:7]
            scale = max(np.sqrt((update**2).sum() / 4) for update in sent)
            total += sum(sent) + scale * noise * np.sqrt(0.5 / link.target)
            count += len(sent)
        models.append((models[k] - total / count).astype(np.float32))
    return models[1:]


@pytest.mark.parametrize("schedule", ["sync", "async", "idfl"])
@pytest.mark.parametrize("retransmission", ["next-turn", "erasure"])
def test_models_are_those_of_the_noisy_sums_by_hand(schedule: str, retransmission: str) -> None:
    config = config_of(schedule=schedule, retransmission=retransmission)
    found, expected = models_of(config), by_hand(config)
    assert len(found) == len(expected) > 3
    assert np.stack(found) == pytest.approx(np.stack(expected), rel=1e-4, abs=1e-4)


def test_devices_below_the_target_are_left_out_and_the_others_send_at_once() -> None:
    config = config_of(retransmission="erasure", air_snr_db=15.0)
    timeline, (_, _, link) = config.simulate(), config.ready_parts()
    assert isinstance(link, OverTheAirLink)
    rows = [
        (n, start, end, False)
        for n, start, end in zip(
            timeline.device.tolist(), timeline.start.tolist(), timeline.end.tolist(), strict=True
        )
    ]
    rows += [(n, start, end, True) for _, n, _, start, end in timeline.lost.tolist()]
    assert {lost for *_, lost in rows} == {True, False}
    for device, start, end, lost in rows:
        assert end - start == link.slots
        assert lost == (link.snr_db(start)[device - 1] < 15.0)
    starts = defaultdict(list)
    for device, start, *_ in rows:
        starts[start].append(device)
    assert max(map(len, starts.values())) == 4


def test_joules_follow_from_the_inverted_channel_and_who_is_left_out_sends_nothing() -> None:
    changing = {"radio_bandwidth_hz": 1000.0, "radio_slot_ms": 1.0, "radio_coherence_slots": 3}
    setting = config_of(**changing, air_snr_db=25.0, deadline=2000, retransmission="erasure")
    timeline, (_, _, link) = setting.simulate(), setting.ready_parts()
    assert isinstance(link, OverTheAirLink)
    columns = (timeline.device, timeline.start, timeline.end)
    arrived = list(zip(*(column.tolist() for column in columns), strict=True))
    expected = {(n, start): 0.0 for _, n, _, start, _ in timeline.lost.tolist()}
    for n, start, end in arrived:
        needed = [link.target / 10 ** (link.snr_db(slot)[n - 1] / 10) for slot in range(start, end)]
        expected[n, start] = float(np.mean(np.minimum(1.0, needed)))
    assert min(expected.values()) == 0
    assert timeline.powers == pytest.approx({key: part for key, part in expected.items() if part < 1})
    watts = sw.Powers(computing=0.0, sending=2.0, receiving=0.0)
    sent = 2.0 * sum((end - start) * expected[n, start] for n, start, end in arrived)
    assert sw.Costs.of(timeline, watts).joules == pytest.approx(sent)


def test_without_noise_and_errors_it_is_the_plain_mean() -> None:
    config = config_of(air_snr_db=100.0, radio_power_dbm=190.0)
    plain = config.uplink_radio(0)
    with Training(config.simulate(), Pull(), radio=UplinkRadio(plain.link.radio)) as training:  # type: ignore[attr-defined]
        expected = [training.model for _ in training]
    assert np.stack(models_of(config)) == pytest.approx(np.stack(expected), rel=1e-4, abs=1e-4)


def test_errors_of_phase_weaken_the_sum() -> None:
    quiet = {"air_snr_db": 90.0, "radio_power_dbm": 180.0}
    aligned, turned = models_of(config_of(**quiet)), models_of(config_of(**quiet, air_phase_error_deg=30.0))
    # The mean of a cosine of a normal angle is exp(−σ²/2), here 0.87; the first step goes from 0.
    ratio = np.linalg.norm(turned[0]) / np.linalg.norm(aligned[0])
    assert 0.6 < ratio < 1


def test_a_channel_that_fades_during_the_update_is_followed_as_far_as_the_power_suffices() -> None:
    config = config_of(
        **{"radio_bandwidth_hz": 1000.0, "radio_slot_ms": 1.0, "radio_coherence_slots": 1},
        **{"air_snr_db": 35.0, "deadline": 2000},
    )
    _, _, link = config.ready_parts()
    assert isinstance(link, OverTheAirLink)
    assert link.slots == 4  # a symbol a slot
    levels, ends, _ = link.signal([1, 2, 3, 4, 5, 6, 7, 8], 10, 4, np.zeros(8))
    assert list(ends) == [1, 2, 3, 4]
    for block in range(4):
        snr = 10 ** (link.snr_db(10 + block) / 10)
        assert levels[:, block] == pytest.approx(np.minimum(1, np.sqrt(snr / link.target)))
    assert 0 < levels.min() < 1


@pytest.mark.parametrize("workers", [3, Processes(2)])
def test_any_workers_give_the_same_bits(workers: Any) -> None:
    config = config_of(schedule="async")
    alone, together = models_of(config, workers=1), models_of(config, workers=workers)
    assert all(np.array_equal(*pair) for pair in zip(alone, together, strict=True))


class StopAfter(Observer):
    def __init__(self, rounds: int) -> None:
        self.left = rounds

    def round_done(self, round_number: int) -> None:
        self.left -= 1

    def wants_stop(self) -> bool:
        return self.left <= 0


def test_an_interrupted_run_is_resumed_to_the_bit(tmp_path: Path) -> None:
    config = config_of(**SMALL, radio_bits=None, radio_broadcast_bits=None, deadline=200)
    straight = run(config, tmp_path / "straight")
    stopped = run(config, tmp_path / "stopped", observer=StopAfter(3))
    assert stopped.history.rounds == 3
    resumed = resume(tmp_path / "stopped")
    assert np.array_equal(straight.history.model, resumed.history.model)
    other = run(config.with_options(seed=6), tmp_path / "other")
    assert not np.array_equal(straight.history.model, other.history.model)


def doubled(model: Vector, contributions: Any) -> Vector:
    """A rule of one's own that is linear."""
    return (model + 2 * (mean(model, contributions) - model)).astype(np.float32)


def newest_first(model: Vector, contributions: list[Contribution]) -> Vector:
    """A rule of one's own that is not: only the first update counts."""
    return mean(model, contributions[:1])


@pytest.mark.parametrize("rule", [mean, fedavg, ServerMomentum(), FedAdam(), doubled])
def test_rules_of_the_sum_are_used(rule: Aggregation) -> None:
    assert models_of(config_of(), rule)


@pytest.mark.parametrize(
    "rule", [Krum(1), TrimmedMean(0.3), coordinate_median, Mifa(), Scaffold(), newest_first]
)
def test_other_rules_are_refused(rule: Aggregation) -> None:
    with pytest.raises(InputError, match="over the air only a sum is received"):
        models_of(config_of(group_size=8), rule)


def test_weights_by_samples_or_staleness_are_refused_where_they_differ() -> None:
    config, unequal = config_of(), Pull(unequal=True)
    timeline, radio = config.simulate(), config.uplink_radio(0)
    with pytest.raises(InputError, match="fedavg"):
        Training(timeline, unequal, aggregation=fedavg, radio=radio)
    with Training(timeline, unequal, aggregation=mean, radio=radio):
        pass
    late = config_of(schedule="async", group_size=2)
    assert late.simulate().max_staleness() > 0
    with pytest.raises(InputError, match="staleness-weighted"):
        models_of(late, sw.rules.StalenessWeightedMean(sw.rules.Polynomial(0.5)))
    assert models_of(config, sw.rules.StalenessWeightedMean(sw.rules.Polynomial(0.5)))  # all are fresh


def episode_of(schedule: str, decide: Any) -> sw.Episode:
    config = config_of(schedule=schedule)
    policy, fleet, link = config.ready_parts()
    return sw.Episode(config.channel, policy, decide=decide, fleet=fleet, link=link)


def test_of_a_schedule_that_is_decided_meanwhile_updates_of_any_age_are_expected() -> None:
    with pytest.raises(InputError, match="staleness-weighted"):
        Training(episode_of("async", "delay"), Pull(), aggregation="staleness-weighted")
    with Training(episode_of("sync", "participants"), Pull(), aggregation="staleness-weighted"):
        pass


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bits": 8}, "bits = 8: must be 32 over the air"),
        ({"compressor": "top-k", "kept_share": 0.1}, "compressor = top-k: must be none over the air"),
        ({"radio_give_up_slots": 50}, "radio_give_up_slots"),
        ({"sub_channels": 2}, "sub_channels"),
        ({"window_period": 50, "window_length": 30}, "access"),
        ({"air_devices": 0}, "air_devices"),
    ],
)
def test_what_makes_no_sense_over_the_air_is_refused(options: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        config_of(**options)


def test_a_refused_rule_leaves_no_folder(tmp_path: Path) -> None:
    config = config_of(**SMALL, aggregation="median")
    with pytest.raises(InputError, match="over the air only a sum is received"):
        run(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_timeline_is_planned_without_a_model() -> None:
    setting = sw.Setting.from_options(CELL)
    timeline: Timeline = setting.simulate()
    assert timeline.most_at_once == 4
