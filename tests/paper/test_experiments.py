import numpy as np
import pytest

from slotwise.base.errors import InputError
from slotwise.batch.job import Run
from slotwise.learning.course import evaluation_rounds
from slotwise.paper.experiments import (
    PAPER,
    QUICK,
    READINGS,
    TABLE_1,
    UPDATES,
    Readings,
    all_runs,
    selected,
    worked_timelines,
)
from slotwise.runs import RunConfig


def names(study: str, seeds: int = 1) -> list[str]:
    return [run.name for run in all_runs(selected(PAPER, [study]), range(seeds))]


def test_the_runs_are_these_keep_their_names_and_belong_to_one_each() -> None:
    assert names("mnist") == [
        *(f"mnist-{run}-T50000-seed0" for run in ("sync-S5-round-robin", "async-S5", "idfl-S5")),
        *(f"mnist-{run}-T50000-seed0" for run in ("sync-S10-round-robin", "async-S10", "idfl-S10")),
        *(f"mnist-async-S{size}-T50000-seed0" for size in (1, 25, 50, 100)),
        *(f"mnist-idfl-S{size}-T50000-seed0" for size in (1, 25)),
        *(f"mnist-{schedule}-S1-link5-T50000-seed0" for schedule in ("async", "idfl")),
        *(f"mnist-{schedule}-S1-compute10-T50000-seed0" for schedule in ("async", "idfl")),
        *(f"mnist-{schedule}-S1-compute10-link5-T50000-seed0" for schedule in ("async", "idfl")),
    ]
    assert names("cifar10") == [
        *(f"cifar10-async-S{size}-T100000-seed0" for size in (1, 2, 5, 10, 20)),
        *(f"cifar10-idfl-S{size}-T100000-seed0" for size in (1, 2, 5)),
    ]
    runs = {Run.of(config) for e in PAPER for seed in (0, 1) for config in e.configs(seed)}
    assert len({run.name for run in runs}) == len(runs)
    for size in (50, 100):
        idfl = RunConfig.from_options({"schedule": "idfl", "group_size": size})
        assert Run.of(idfl) == Run.of(RunConfig.from_options({"schedule": "async", "group_size": size}))
    assert names("async-mnist", seeds=2)[5:7] == [
        "mnist-async-S100-T50000-seed0",
        "mnist-async-S1-T50000-seed1",
    ]


PARAMETERS = {
    "mnist": {
        **{"devices": 100, "deadline": 50_000, "learning_rate": 0.01, "local_steps": 5, "batch_size": 64},
        **{"samples_per_device": 250, "update": "sum", "input_scale": "standard", "channels": (10, 20)},
    },
    "cifar10": {
        **{"devices": 20, "deadline": 100_000, "compute_slots": 4, "local_steps": 8, "batch_size": 64},
    },
}


@pytest.mark.parametrize("study", PARAMETERS)
def test_the_parameters_are_the_papers(study: str) -> None:
    for run in all_runs(selected(PAPER, [study]), [0]):
        options = run.config.options()
        assert {name: options[name] for name in PARAMETERS[study]} == PARAMETERS[study]


@pytest.mark.parametrize("study", ["mnist-model-average", "cifar10-model-average", "cifar10"])
def test_evaluations_meet_many_chains_of_models(study: str) -> None:
    for run in all_runs(selected(PAPER, [study]), [0]):
        timeline = run.config.simulate()
        chains = int(timeline.staleness.max()) + 1
        rounds = evaluation_rounds(timeline, run.config.slots_between_evaluations)
        met = len({number % chains for number in rounds if number > timeline.rounds / 2})
        assert met >= min(chains, 20), run.name


def test_the_readings_begin_with_the_default_and_are_all_trained() -> None:
    assert READINGS[0] == UPDATES
    assert {(one.update, one.aggregation, one.input_scale, one.network) for one in READINGS} == {
        *(
            (update, aggregation, scale, "cnn")
            for update, aggregation in (("sum", "mean"), ("mean", "mean"), ("sum", "model-average"))
            for scale in ("standard", "unit")
        ),
        ("sum", "model-average", "standard", "cnn-dropout"),
    }
    (experiment,) = selected(PAPER, ["readings"])
    assert isinstance(experiment, Readings)
    chosen = ("update", "aggregation", "input_scale", "network")
    runs = all_runs([experiment], [0])
    trained = {tuple(run.config.options()[name] for name in chosen) for run in runs}
    assert len(trained) == len(READINGS)
    # Async at four sizes, idfl where it differs (S=1 and 10), and both with slow links.
    assert len(names("readings")) == len(READINGS) * (4 + 2 + 2)


def test_the_readings_share_the_runs_of_the_studies_of_a_and_c() -> None:
    studies = all_runs(selected(PAPER, ["mnist", "mnist-model-average"]), [0])
    shared = set(all_runs(selected(PAPER, ["readings"]), [0])) & set(studies)
    assert len(shared) == 2 * (4 + 2 + 2)


def test_the_quick_look_and_a_deadline_shorten_the_papers_runs() -> None:
    short, whole = (all_runs(selected(offered, ["schedules-mnist"]), [1]) for offered in (QUICK, PAPER))
    steps = sum(len(run.config.simulate()) * run.config.training.local_steps for run in short)
    assert steps == 92_525
    for begun, run in zip(short, whole, strict=True):
        timeline = begun.config.simulate()
        beginning = run.config.simulate().first(timeline.rounds)
        for column in ("device", "version", "start", "end", "broadcast_end"):
            assert np.array_equal(getattr(timeline, column), getattr(beginning, column))
        assert begun.config.slots_between_evaluations == run.config.slots_between_evaluations
        same = begun.config.with_options(deadline=run.config.deadline, evaluate_every=None)
        assert Run.of(same) == run
    shorter = [experiment.with_deadline(300) for experiment in PAPER]
    assert {run.config.deadline for run in all_runs(shorter, [0])} == {300}
    assert shorter[:2] == list(PAPER[:2])
    with pytest.raises(InputError, match="all, a study or an experiment") as refused:
        selected(PAPER, ["figure3"])
    assert (refused.value.parameter, refused.value.value) == ("experiments", "figure3")


def test_the_exact_schedule_gives_the_papers_table_and_example() -> None:
    mnist, cifar10 = (row.computed() for row in TABLE_1)
    assert list(mnist.values()) == [24976, 8326, 4541, 1922, 980, 332]
    assert list(cifar10.values()) == [49999, 33333, 16667, 9091, 4001]
    assert [mnist, cifar10] == [row.printed for row in TABLE_1]
    without, with_delay = worked_timelines()
    assert without.device[:6].tolist() == [1, 2, 3, 4, 5, 6]
    assert without.start[:6].tolist() == [2, 3, 5, 6, 8, 9]
    assert without.version[:6].tolist() == [0] * 6
    assert with_delay.version[:6].tolist() == [0, 0, 0, 0, 1, 1]
    assert with_delay.delay == 1
