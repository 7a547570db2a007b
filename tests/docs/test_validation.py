"""The page that compares with other people's numbers is made from the accuracies that are kept."""

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import slotwise as sw
from slotwise.batch import BatchSpec

ROOT = Path(__file__).parents[2]


@pytest.fixture
def validation(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import validation

    return validation


@pytest.fixture
def periodic(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "papers"))
    import periodic_aggregation

    return periodic_aggregation


def test_its_tables_are_current(validation: ModuleType) -> None:
    text = validation.PAGE.read_text(encoding="utf-8")
    assert validation.page(text) == text
    for name in validation.published():
        assert text.count(f"<!-- {name} -->") == 1


def test_every_accuracy_has_the_round_that_was_published(validation: ModuleType) -> None:
    published = {**validation.PUBLISHED, **validation.NIID}
    for name in set(validation.published()) & set(published):
        accuracies, numbers = validation.read(name), published[name]
        assert set(accuracies) <= {number.case for number in numbers}
        for number in numbers:
            assert all(number.round in rounds for rounds in accuracies.get(number.case, {}).values())


def test_the_trainings_that_are_kept_are_those_of_the_settings(validation: ModuleType) -> None:
    for name in ("fedavg-steps", "fedavg-first-steps", "fedavg-small-step", "fedavg"):
        spec = BatchSpec.read(validation.SETTINGS / f"{name}.toml")
        asked = {validation.rounds_to_accuracy.Training.of(point) for point in spec.points}
        kept = validation.rounds_to_accuracy.read(validation.HISTORIES / f"{name}.csv")
        assert set(kept) <= asked
        assert kept


def test_steps_are_those_with_the_fewest_rounds(validation: ModuleType) -> None:
    rounds = validation.rounds_to_accuracy
    tried = rounds.read(validation.HISTORIES / "fedavg-steps.csv")
    spec = BatchSpec.read(validation.SETTINGS / "fedavg.toml")
    for case, step in {rounds.Training.of(point)[:2] for point in spec.points}:
        needed = {
            one.learning_rate: rounds.rounds_needed(rows) for one, rows in tried.items() if one.case == case
        }
        reached = {rate: k for rate, k in needed.items() if k is not None}
        assert step == min(reached, key=lambda rate: reached[rate])


def test_a_training_ends_at_the_target(validation: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = validation.rounds_to_accuracy
    monkeypatch.setattr(rounds, "TARGET", 0.2)
    config = sw.RunConfig.from_options(
        {
            **{"devices": 4, "group_size": 4, "schedule": "sync", "compute_slots": 1, "sub_channels": 4},
            **{"deadline": 90, "evaluate_every": 3, "network": "logistic", "partition": "iid"},
            **{"samples_per_device": 40, "learning_rate": 0.05},
        }
    )
    found = list(rounds.records(config, most=30))
    accuracies = [accuracy for _, accuracy in found]
    assert accuracies == sorted(set(accuracies))
    assert max(accuracies[:-1], default=0) < 0.2 <= accuracies[-1]
    assert list(rounds.records(config, most=0)) == found[:1]


def small_config() -> sw.RunConfig:
    options = {"devices": 4, "group_size": 4, "schedule": "sync", "compute_slots": 1, "deadline": 20}
    return sw.RunConfig.from_options(
        {**options, "network": "logistic", "partition": "iid", "samples_per_device": 40}
    )


@pytest.mark.parametrize(
    ("name", "bound", "deviation"),
    [
        ("glorot", (6 / 794) ** 0.5, (2 / 794) ** 0.5),
        ("normal-0.1", 0.2, 0.088),  # cut at two deviations
        ("normal-0.01", 0.02, 0.0088),
    ],
)
def test_other_first_models(validation: ModuleType, name: str, bound: float, deviation: float) -> None:
    rounds = validation.rounds_to_accuracy
    task = rounds.task_of(small_config(), rounds.TestSetOnly)
    usual, task.weights = task.initial_model(), rounds.FIRST_MODELS[name]
    weights, biases = np.split(task.initial_model(), [7840])
    assert np.abs(usual[:7840]).max() < 1 / 28
    assert not biases.any()
    assert 0.9 * bound < np.abs(weights).max() <= bound * 1.0001
    assert weights.std() == pytest.approx(deviation, rel=0.03)


def test_held_out_images_are_those_that_no_device_holds(validation: ModuleType) -> None:
    rounds = validation.rounds_to_accuracy
    task = rounds.task_of(small_config(), rounds.HeldOut)
    data, model = task.samples.dataset, task.initial_model()
    others = [n for n in range(len(data.train_targets)) if n not in set(task.samples.all_rows.tolist())]
    evaluation = task._network.evaluate(model, data.train_inputs[others], data.train_targets[others])
    assert len(others) == 60_000 - 160
    assert task.evaluate(model).accuracy == pytest.approx(evaluation[1] / len(others))


def test_rules_choose_among_the_ready(periodic: ModuleType) -> None:
    labels = np.zeros((40, 10), dtype=np.int64)
    labels[np.arange(40), np.arange(40) % 10] = 100  # one label each
    for rule in periodic.RULES.values():
        timeline, bits = periodic.draw_schedule(rule, labels, 1, is_periodic=True)
        assert timeline.rounds == 140
        assert len(bits) == len(timeline) <= 8 * 140
        for device, version, k in zip(timeline.device, timeline.version, timeline.round, strict=True):
            tier = (timeline.fleet.compute_slots[device - 1] + 2) // periodic.SLOTS
            assert (k + 1) % tier == 0
            assert version == k + 1 - tier
    channel = periodic.draw_schedule(periodic.RULES["best-channel"], labels, 1, is_periodic=False)
    chance = periodic.draw_schedule(periodic.RULES["random"], labels, 1, is_periodic=False)
    assert channel.bits.mean() > chance.bits.mean()
    even = periodic.draw_schedule(periodic.RULES["channel-and-data"], labels, 1, is_periodic=False)

    def mean_labels(timeline: sw.Timeline) -> float:
        groups = [timeline.device[timeline.uplinks(k)] % 10 for k in range(timeline.rounds)]
        return float(np.mean([len(set(group.tolist())) for group in groups]))

    assert mean_labels(even.timeline) > mean_labels(chance.timeline)


def test_a_compressed_update_is_right_on_average_and_has_five_levels(periodic: ModuleType) -> None:
    labels = np.ones((40, 10), dtype=np.int64)
    timeline, bits = periodic.draw_schedule(periodic.RULES["random"], labels, 0, is_periodic=False)
    size = 200

    class Constant(sw.Task):
        def initial_model(self) -> sw.Vector:
            return np.zeros(size, np.float32)

        def local_update(self, model: sw.Vector, start: sw.TrainingStart) -> sw.Vector:
            return np.linspace(-1, 1, size, dtype=np.float32)

        def evaluate(self, model: sw.Vector) -> sw.Evaluation:
            return sw.Evaluation(0.0, 0.0)

    task = periodic.Compressed(Constant(), periodic.Schedule(timeline, bits), 0)
    update = Constant().local_update(task.initial_model(), sw.TrainingStart(1, 0))
    senders = zip(timeline.device.tolist(), timeline.training.tolist(), strict=True)
    sent = [task.local_update(task.initial_model(), sw.TrainingStart(*one)) for one in senders]
    levels = np.array(sent) / (np.linalg.norm(update) / periodic.LEVELS)
    assert np.allclose(levels, np.rint(levels), atol=1e-3)
    assert np.abs(levels).max() <= periodic.LEVELS
    assert np.abs(np.mean(sent, axis=0) - update).mean() < 0.1
