"""All experiments, in the order in which they are run and reported."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Protocol, cast

from slotwise.batch.job import Run, distinct
from slotwise.errors import UserError
from slotwise.paper.comparison import Comparison
from slotwise.paper.readings import Readings
from slotwise.paper.schedule_curves import ScheduleCurves
from slotwise.paper.table1 import TableOne
from slotwise.paper.tradeoff import Tradeoff
from slotwise.paper.worked_timeline import WorkedTimeline


class Experiment(Protocol):
    """What every experiment has."""

    @property
    def name(self) -> str:
        """As on the command line."""

    @property
    def study(self) -> str:
        """The experiments with which it shares runs, deadline and seeds."""

    def runs(self, seed: int) -> tuple[Run, ...]:
        """What has to be trained."""


CIFAR10_SIZES = (1, 2, 5, 10, 20)
CIFAR10_DEADLINE = 100_000

PAPER: tuple[Experiment, ...] = (
    TableOne(),
    WorkedTimeline(),
    ScheduleCurves(schedule="async"),
    ScheduleCurves(schedule="idfl"),
    Comparison(),
    Tradeoff(),
    ScheduleCurves(schedule="async", data="cifar10", group_sizes=CIFAR10_SIZES, deadline=CIFAR10_DEADLINE),
    ScheduleCurves(schedule="idfl", data="cifar10", group_sizes=CIFAR10_SIZES, deadline=CIFAR10_DEADLINE),
    Comparison(data="cifar10", group_sizes=CIFAR10_SIZES, deadline=CIFAR10_DEADLINE),
    Readings(),
    Comparison(data="cifar10", partition="iid", group_sizes=CIFAR10_SIZES, deadline=CIFAR10_DEADLINE),
)

# A first look in a couple of minutes on two cores: four group sizes, and 68,000 SGD steps in all.
QUICK_SIZES = (1, 10, 50, 100)
QUICK_DEADLINE = 3_000
QUICK_EVALUATION = 250

QUICK: tuple[Experiment, ...] = (
    TableOne(),
    WorkedTimeline(),
    ScheduleCurves(
        schedule="async", group_sizes=QUICK_SIZES, deadline=QUICK_DEADLINE, evaluate_every=QUICK_EVALUATION
    ),
    ScheduleCurves(
        schedule="idfl", group_sizes=QUICK_SIZES, deadline=QUICK_DEADLINE, evaluate_every=QUICK_EVALUATION
    ),
    Comparison(group_sizes=QUICK_SIZES, deadline=QUICK_DEADLINE, evaluate_every=QUICK_EVALUATION),
    Tradeoff(slots=((50, 1), (50, 5)), deadline=QUICK_DEADLINE, evaluate_every=QUICK_EVALUATION),
)


def selected(experiments: Iterable[Experiment], names: Iterable[str]) -> tuple[Experiment, ...]:
    """Those called by their own name, by their study's, or by ``all``."""
    wanted, offered = set(names), tuple(experiments)
    known = {"all", *(e.name for e in offered), *(e.study for e in offered)}
    for name in sorted(wanted - known):
        raise UserError(f"there is no experiment {name}: choose from {', '.join(_in_order(offered))}")
    return tuple(e for e in offered if wanted & {"all", e.name, e.study})


def with_deadline(experiment: Experiment, deadline: int) -> Experiment:
    """The same experiment with other slots; one that has no deadline stays as it is."""
    if isinstance(experiment, TableOne | WorkedTimeline):
        return experiment
    return cast("Experiment", replace(cast("Any", experiment), deadline=deadline))


def all_runs(experiments: Iterable[Experiment], seeds: Iterable[int]) -> tuple[Run, ...]:
    """Every training the experiments need, each once; one seed after the other, the first first."""
    chosen = tuple(experiments)
    return distinct([run for seed in seeds for experiment in chosen for run in experiment.runs(seed)])


def _in_order(experiments: Iterable[Experiment]) -> list[str]:
    """all, then each study before its experiments."""
    return list(dict.fromkeys(["all", *(name for e in experiments for name in (e.study, e.name))]))
