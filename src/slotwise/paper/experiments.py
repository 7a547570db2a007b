"""The paper's experiments: what is trained for each of its figures and tables.

An experiment is selected by its name or by its study; the experiments of a study share runs, deadline and
seeds. `figures` draws them, `claims` judges what came out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple, Self

from slotwise.batch.job import Run, distinct
from slotwise.data import DataName, PartitionName
from slotwise.data.dataset_config import InputScale
from slotwise.errors import InputError
from slotwise.learning.local_training import LocalUpdate
from slotwise.runs import RunConfig
from slotwise.scenario import Scenario
from slotwise.schedule import Schedule, Timeline, completed_rounds, simulate

BOTH: tuple[Schedule, ...] = ("async", "idfl")
Slots = tuple[int, int]
"""Compute slots (tau_comp) and link slots (r) of a run."""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A figure or a table of the paper; all that it does not mention is the paper's case for its data set."""

    name: str  # selects this experiment alone
    study: str  # selects all experiments that share its runs
    data: DataName = "mnist"
    partition: PartitionName = "one-label"
    deadline: int = 0  # T in slots; 0 if nothing is trained
    evaluate_every: int | None = None
    aggregation: str = "mean"

    def config(self, schedule: Schedule, group_size: int, seed: int = 0, **options: Any) -> RunConfig:
        """Return the configuration of one curve; ``options`` are those in which it differs from others."""
        names = ("data", "partition", "deadline", "evaluate_every", "aggregation")
        own = {name: getattr(self, name) for name in names}
        chosen = {"schedule": schedule, "group_size": group_size, "seed": seed}
        return RunConfig.from_options({**own, **chosen, **options})

    def configs(self, seed: int) -> Iterator[RunConfig]:  # noqa: ARG002
        """Yield the configuration of every curve."""
        yield from ()

    def runs(self, seed: int) -> tuple[Run, ...]:
        """Return the trainings that the experiment needs, each once."""
        return distinct(Run.of(config) for config in self.configs(seed))

    def with_deadline(self, deadline: int) -> Self:
        """Return the experiment with another deadline, or unchanged if it trains nothing."""
        return replace(self, deadline=deadline) if self.deadline else self


@dataclass(frozen=True, kw_only=True)
class Curves(Experiment):
    """A curve for each schedule and group size.

    With one schedule it is the figure "Performance of asynchronous FL" or "… of IDFL", with both it is
    "Comparison of global loss".
    """

    deadline: int = 50_000
    schedules: tuple[Schedule, ...] = BOTH
    group_sizes: tuple[int, ...] = (1, 5, 10, 25, 50, 100)

    def configs(self, seed: int) -> Iterator[RunConfig]:  # noqa: D102
        return (self.config(schedule, size, seed) for schedule in self.schedules for size in self.group_sizes)


@dataclass(frozen=True, kw_only=True)
class Tradeoff(Experiment):
    """S=1 with fast and slow devices and links (the paper's last two figures): two curves for each slots."""

    deadline: int = 50_000
    slots: tuple[Slots, ...] = ((50, 1), (50, 5), (10, 1), (10, 5))

    def configs(self, seed: int) -> Iterator[RunConfig]:  # noqa: D102
        for (compute, link), schedule in product(self.slots, BOTH):
            yield self.config(schedule, 1, seed, compute_slots=compute, link_slots=link)


class Reading(NamedTuple):
    """One interpretation of what the paper leaves open."""

    input_scale: InputScale
    update: LocalUpdate
    network: tuple[tuple[int, ...], tuple[int, ...]]  # channels of the convolutions, units of dense layers


@dataclass(frozen=True, kw_only=True)
class Readings(Experiment):
    """Every reading of three things the paper leaves open, at a shorter deadline and with fewer S."""

    input_scales: tuple[InputScale, ...] = ("standard", "unit")  # pixels standardised, or 0 to 1
    updates: tuple[LocalUpdate, ...] = ("sum", "mean")  # of the gradients of a local training
    networks: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (((10, 20), (50,)), ((16, 32), (64,)))
    group_sizes: tuple[int, ...] = (1, 10, 50, 100)
    slots: tuple[Slots, ...] = ((50, 1), (50, 5))  # of the runs with S=1; the other runs have the first
    deadline: int = 10_000
    evaluate_every: int | None = 500

    def readings(self) -> tuple[Reading, ...]:
        """Return all combinations, the default first."""
        return tuple(Reading(*parts) for parts in product(self.input_scales, self.updates, self.networks))

    def read_as(
        self, reading: Reading, schedule: Schedule, group_size: int, slots: Slots, seed: int = 0
    ) -> RunConfig:
        """Return the configuration of one curve of one reading."""
        names = ("input_scale", "update", "channels", "hidden", "compute_slots", "link_slots")
        values = (reading.input_scale, reading.update, *reading.network, *slots)
        return self.config(schedule, group_size, seed, **dict(zip(names, values, strict=True)))

    def configs(self, seed: int) -> Iterator[RunConfig]:  # noqa: D102
        # Every reading with every group size, and S=1 with every pair of slots.
        cells = [(size, self.slots[0]) for size in self.group_sizes] + [(1, slots) for slots in self.slots]
        for reading, (size, slots), schedule in product(self.readings(), cells, BOTH):
            yield self.read_as(reading, schedule, size, slots, seed)


class TableRow(NamedTuple):
    """One data set of Table 1 (r=1), with the number of models the paper prints for each group size."""

    data: DataName
    devices: int
    compute_slots: int
    deadline: int
    printed: dict[int, int]

    def computed(self) -> dict[int, int]:
        """Return the models w_0 … w_K that the exact schedule completes; the table counts w_0."""
        case = {"devices": self.devices, "compute_slots": self.compute_slots, "deadline": self.deadline}
        return {size: completed_rounds(Scenario(group_size=size, **case)) + 1 for size in self.printed}


TABLE_1 = (
    TableRow("mnist", 100, 50, 50_000, {1: 24976, 5: 8326, 10: 4541, 25: 1922, 50: 980, 100: 332}),
    TableRow("cifar10", 20, 4, 100_000, {1: 49999, 2: 33333, 5: 16667, 10: 9091, 20: 4001}),
)


def worked_timelines() -> tuple[Timeline, ...]:
    """Return the paper's example with six devices: asynchronous, and with the delay that costs nothing."""
    scenario = Scenario(devices=6, group_size=2, compute_slots=2)  # 2 as in the text; the caption says 1
    return tuple(simulate(scenario, schedule, rounds=6) for schedule in BOTH)


SCHEDULE = tuple(Experiment(name=name, study="schedule") for name in ("table1", "timeline"))


def _study(study: str, **options: Any) -> tuple[Experiment, ...]:
    """Return the curves of each schedule, and of both side by side."""
    return (
        Curves(name=f"async-{study}", study=study, schedules=("async",), **options),
        Curves(name=f"idfl-{study}", study=study, schedules=("idfl",), **options),
        Curves(name=f"comparison-{study}", study=study, **options),
    )


CIFAR10: dict[str, Any] = {"data": "cifar10", "group_sizes": (1, 2, 5, 10, 20), "deadline": 100_000}
PAPER: tuple[Experiment, ...] = (
    *SCHEDULE,
    *_study("mnist"),
    Tradeoff(name="tradeoff", study="mnist"),
    *_study("cifar10", **CIFAR10),
    Readings(name="readings", study="readings"),
    *_study("mnist-model-average", aggregation="model-average"),
    Tradeoff(name="tradeoff-model-average", study="mnist-model-average", aggregation="model-average"),
    Curves(name="comparison-cifar10-iid", study="cifar10-iid", partition="iid", **CIFAR10),
)

# A first look in a couple of minutes on two cores: four group sizes, and 68,000 SGD steps in all.
SHORT: dict[str, Any] = {"deadline": 3_000, "evaluate_every": 250}
QUICK: tuple[Experiment, ...] = (
    *SCHEDULE,
    *_study("mnist", group_sizes=(1, 10, 50, 100), **SHORT),
    Tradeoff(name="tradeoff", study="mnist", slots=((50, 1), (50, 5)), **SHORT),
)


def selected(experiments: Iterable[Experiment], names: Iterable[str]) -> tuple[Experiment, ...]:
    """Return the experiments named by their own name, by their study or by ``all``; else an InputError."""
    wanted, offered = set(names), tuple(experiments)
    known = dict.fromkeys(["all", *(name for e in offered for name in (e.study, e.name))])
    for name in sorted(wanted - known.keys()):
        raise InputError("experiments", name, f"one of {', '.join(known)}")
    return tuple(e for e in offered if wanted & {"all", e.name, e.study})


def all_runs(experiments: Iterable[Experiment], seeds: Iterable[int]) -> tuple[Run, ...]:
    """Return every training the experiments need, each once, seed after seed."""
    chosen = tuple(experiments)
    return distinct([run for seed in seeds for experiment in chosen for run in experiment.runs(seed)])
