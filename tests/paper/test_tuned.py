"""The rule of the tuned study, on losses that are known; and the runner on short trainings."""

from collections.abc import Callable
from math import inf, log2
from pathlib import Path

import pytest

from slotwise.batch.executors import SerialExecutor
from slotwise.learning import Point
from slotwise.paper import tuned
from slotwise.paper.histories import Histories, Key
from slotwise.paper.tuned import Choice, Loss, Trial, choose, judging, needed, step_size
from slotwise.paper.tuned_cases import METHODS, PARTS, Method, chosen_methods
from slotwise.paper.tuned_runs import tune

METHOD = next(method for method in METHODS if method.name == "idfl S=10")


def valley(pilot: float, full: float, trained: set[Trial]) -> Loss:
    """Return a loss with one minimum, at a step that depends on the length of the run."""

    def loss(trial: Trial) -> float | None:
        best = pilot if trial.deadline == tuned.PILOT_DEADLINE else full
        return abs(trial.power - best) if trial in trained else None

    return loss


def train_all(methods: tuple[Method, ...], loss_of: Callable[[set[Trial]], Loss]) -> tuple[set[Trial], int]:
    """Train what is needed until nothing is, and count the stages."""
    trained: set[Trial] = set()
    for stage in range(100):
        missing = needed(methods, loss_of(trained))
        if not missing:
            return trained, stage
        assert trained.isdisjoint(missing)
        trained |= set(missing)
    raise AssertionError("the study does not end")


@pytest.mark.parametrize(("pilot", "full"), [(4, 3), (4, 4), (0, -2), (9, 11), (3.4, 7), (12, 0)])
def test_the_best_step_is_found_and_never_at_an_edge(pilot: float, full: float) -> None:
    trained, _ = train_all((METHOD,), lambda known: valley(pilot, full, known))
    loss = valley(pilot, full, trained)
    power = choose(METHOD, loss).power
    lengths = {trial.power for trial in trained if (trial.seed, trial.deadline) == (10, tuned.DEADLINE)}
    assert power == min(lengths, key=lambda one: (abs(one - full), one))
    assert min(lengths) < power < max(lengths)
    assert set(judging(METHOD, power)) <= trained


def test_tuning_and_judging_seeds_are_disjoint() -> None:
    trained, _ = train_all(METHODS, lambda known: valley(5, 4, known))
    judged = {trial for trial in trained if trial.seed in tuned.JUDGING_SEEDS}
    assert {trial.seed for trial in trained - judged} == {tuned.TUNING_SEED}
    assert tuned.TUNING_SEED not in tuned.JUDGING_SEEDS
    assert len(judged) == len(METHODS) * len(tuned.JUDGING_SEEDS)


def test_a_method_that_always_diverges_ends_at_the_last_step_of_the_search() -> None:
    trained, _ = train_all((METHOD,), lambda known: lambda trial: inf if trial in known else None)
    assert min(trial.power for trial in trained) == tuned.FEWEST_POWER


def test_steps_at_which_the_model_only_guesses_are_left_towards_smaller_ones() -> None:
    def loss(trial: Trial) -> float:
        return 2.1 if trial.power == 8 else 2.3 if trial.power > 3 else 1 + abs(trial.power - 1)

    assert choose(METHOD, loss) == Choice(1)


def test_pilots_come_first_and_methods_between_the_schedules_last() -> None:
    def loss(trial: Trial) -> float | None:
        return None if trial.method != METHOD else abs(trial.power - 5) if trial.deadline == 10_000 else None

    trials = needed(METHODS, loss)
    stages = [(trial.method.part == "delays", trial.deadline) for trial in trials]
    assert stages == sorted(stages)
    assert {trial.method for trial in trials} == set(METHODS)


def test_the_first_guess_of_a_step_falls_with_the_staleness() -> None:
    guesses = {method.staleness: tuned.first_guess(method) for method in METHODS}
    assert [guesses[staleness] for staleness in (0, 1, 5, 9, 25, 99)] == [8, 7, 5, 4, 2, 1]


def test_the_smaller_of_two_equal_steps_is_chosen() -> None:
    trials = {power: Trial(METHOD, power, 0, 1) for power in range(5)}
    losses = {0: 3.0, 1: 1.0, 2: 1.0, 3: 1.0, 4: 3.0}
    found = tuned.search(
        lambda powers: [trials[power] for power in powers], range(5), lambda trial: losses[trial.power]
    )
    assert found == Choice(1)


def test_parts_and_group_sizes_come_in_the_order_that_was_asked_for() -> None:
    chosen = chosen_methods(("delays", "schedules"), (1, 5))
    order = [(method.part, method.group_size) for method in chosen]
    assert list(dict.fromkeys(order)) == [("delays", 1), ("delays", 5), ("schedules", 1), ("schedules", 5)]
    assert [method.family for method in chosen_methods(None, (50,))] == ["sync", "async"]
    assert chosen_methods() == METHODS
    trials = needed(chosen_methods(("schedules",), (10, 5)), lambda trial: abs(trial.power - 5.0))
    assert trials == ()
    first = needed(chosen_methods(("schedules",), (10, 5)), lambda _: None)
    assert [trial.method.group_size for trial in first] == sorted(
        (trial.method.group_size for trial in first), reverse=True
    )


def test_methods_have_distinct_names_and_the_staleness_of_their_timelines() -> None:
    methods = [method for own in PARTS.values() for method in own]
    assert len({method.name for method in methods}) == len(methods)
    for method in methods:
        assert Trial(method, 4, 0, 5_000).run().config.options()["group_size"] == method.group_size
    for method in (*METHODS, *PARTS["fast-devices"]):
        timeline = Trial(method, 4, 0, 5_000).run().config.simulate()
        assert timeline.max_staleness() == method.staleness


def test_steps_are_powers_of_two() -> None:
    assert [log2(step_size(power) / tuned.FIRST_STEP) for power in (-2, 0, 5)] == [-2, 0, 5]


SMALL = (
    Method("tiny sync", "sync", 2, (("schedule", "sync"), ("devices", 4), ("samples_per_device", 16))),
    Method("tiny idfl", "idfl", 1, (("schedule", "idfl"), ("devices", 4), ("samples_per_device", 16))),
)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuned, "GUESS_WITHOUT_STALENESS", tuned.step_size(5))
    monkeypatch.setattr(tuned, "FEWEST_POWER", 4)
    monkeypatch.setattr(tuned, "MOST_POWER", 6)
    monkeypatch.setattr(tuned, "PILOT_DEADLINE", 120)
    monkeypatch.setattr(tuned, "DEADLINE", 180)
    monkeypatch.setattr(tuned, "PILOT_INTERVAL", 60)
    monkeypatch.setattr(tuned, "INTERVAL", 60)


@pytest.mark.slow
@pytest.mark.usefixtures("short")
def test_a_study_is_trained_kept_and_read_without_its_runs(tmp_path: Path) -> None:
    done = tune(tmp_path, SMALL, executor=SerialExecutor())
    assert done.is_finished
    (tmp_path / "runs").rename(tmp_path / "elsewhere")
    again = tune(tmp_path, SMALL)
    assert again.is_finished
    assert not (tmp_path / "runs").exists()
    for method in SMALL:
        assert again.histories.of(method.name) == done.histories.of(method.name)


def test_curves_survive_the_file(tmp_path: Path) -> None:
    class Saved:
        status = "finished"
        points = (Point(0, 0, 2.3025850929940455, 0.1, 0), Point(90, 3, 0.0000123456789, 0.98765432, 2))

    histories, trial = Histories(tmp_path), Trial(METHOD, 3, 10, 100)
    histories.add(trial, Saved())  # type: ignore[arg-type]
    read = Histories(tmp_path)
    assert read.of(METHOD.name) == histories.of(METHOD.name)
    curve = read.of(METHOD.name)[Key(3, 10, 100)]
    assert [point.loss for point in curve.points] == [2.3026, 1.2346e-05]
    assert (curve.slots_to(0.9), curve.slots_to(0.99)) == (90, inf)
    assert read.loss(trial) == curve.final_loss == 1.2346e-05
    assert read.loss(trial._replace(seed=11)) is None


def test_a_run_that_diverged_has_an_infinite_loss(tmp_path: Path) -> None:
    class Saved:
        status = "diverged"
        points = (Point(0, 0, 2.3, 0.1, 0),)

    histories, trial = Histories(tmp_path), Trial(METHOD, 3, 10, 100)
    histories.add(trial, Saved())  # type: ignore[arg-type]
    assert Histories(tmp_path).loss(trial) == inf
