"""The paper's experiments: what is trained for each of its figures and tables.

An experiment is selected by its name or by its study; the experiments of a study share runs, deadline and
seeds. `figures` draws them, `claims` judges what came out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, ClassVar, NamedTuple, Self

from slotwise.base.errors import InputError, nearest_names
from slotwise.batch.job import Run, distinct
from slotwise.data import DataName, InputScale
from slotwise.learning.engine import EVALUATIONS
from slotwise.learning.local_training import LocalUpdate
from slotwise.runs import RunConfig
from slotwise.scenario import Scenario
from slotwise.schedule import Schedule, Timeline, completed_rounds, simulate

MOST_LISTED = 8  # names in an error
BOTH: tuple[Schedule, ...] = ("async", "idfl")
Slots = tuple[int, int]
"""Compute slots (tau_comp) and link slots (r) of a run."""


class Reading(NamedTuple):
    """One interpretation of what the paper leaves open."""

    letter: str
    title: str
    update: LocalUpdate = "sum"  # of the gradients of a local training
    aggregation: str = "mean"
    input_scale: InputScale = "standard"  # pixels standardised, or 0 to 1
    network: str = "cnn"

    @property
    def options(self) -> dict[str, str]:
        """Options of a run under this reading."""
        return {name: getattr(self, name) for name in ("update", "aggregation", "input_scale", "network")}


SUM = "averaged updates, each the sum of its gradients"
MEAN = "averaged updates, each the mean of its gradients"
UPDATES, MODELS = Reading("a", SUM), Reading("c", "averaged models", aggregation="model-average")
READINGS = (
    UPDATES,
    Reading("a′", f"{SUM}; inputs 0..1", input_scale="unit"),
    Reading("b", MEAN, update="mean"),
    Reading("b′", f"{MEAN}; inputs 0..1", update="mean", input_scale="unit"),
    MODELS,
    Reading("c′", "averaged models; inputs 0..1", aggregation="model-average", input_scale="unit"),
    Reading("d", "averaged models; dropout", aggregation="model-average", network="cnn-dropout"),
)
"""All readings, the default first."""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A figure or a table of the paper; all that it does not mention is the paper's case for its data set."""

    name: str  # selects this experiment alone
    study: str  # selects all experiments that share its runs
    data: DataName = "mnist"
    partition: str = "one-label"
    deadline: int = 0  # T in slots; 0 if nothing is trained
    evaluate_every: int | None = None
    # Slots between evaluations beyond a hundredth of the deadline. Where that is a whole number of turns of
    # all devices, every evaluation meets the same device, or the same chain of averaged models.
    extra_slots: int = 0
    reading: Reading = UPDATES

    def config(self, schedule: Schedule, group_size: int | str, seed: int = 0, **options: Any) -> RunConfig:
        """Return the configuration of one curve; ``options`` are those in which it differs from others."""
        own = {name: getattr(self, name) for name in ("data", "partition", "deadline", "evaluate_every")}
        if self.extra_slots:
            own["evaluate_every"] = (self.evaluate_every or self.deadline // EVALUATIONS) + self.extra_slots
        chosen = {"schedule": schedule, "group_size": group_size, "seed": seed}
        return RunConfig.from_options({**own, **self.reading.options, **chosen, **options})

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
class Schedules(Experiment):
    """Synchronous, asynchronous and intentional-delay FL at the same group sizes."""

    deadline: int = 50_000
    group_sizes: tuple[int, ...] = (5, 10)
    schedules: ClassVar[tuple[Schedule, ...]] = ("sync", *BOTH)

    def configs(self, seed: int) -> Iterator[RunConfig]:  # noqa: D102
        for size, schedule in product(self.group_sizes, self.schedules):
            yield self.config(schedule, size, seed)


@dataclass(frozen=True, kw_only=True)
class Tradeoff(Experiment):
    """S=1 with fast and slow devices and links (the paper's last two figures): two curves for each slots."""

    deadline: int = 50_000
    slots: tuple[Slots, ...] = ((50, 1), (50, 5), (10, 1), (10, 5))

    def configs(self, seed: int) -> Iterator[RunConfig]:  # noqa: D102
        for (compute, link), schedule in product(self.slots, BOTH):
            yield self.config(schedule, 1, seed, compute_slots=compute, link_slots=link)


@dataclass(frozen=True, kw_only=True)
class Readings(Experiment):
    """Every reading at the same few group sizes, so that readings can be compared with each other."""

    deadline: int = 50_000
    readings: tuple[Reading, ...] = READINGS
    group_sizes: tuple[int, ...] = (1, 10, 50, 100)
    slots: tuple[Slots, ...] = ((50, 5),)  # of further runs with S=1

    def configs(self, seed: int) -> Iterator[RunConfig]:  # noqa: D102
        for own in map(self.under, self.readings):
            for size, schedule in product(self.group_sizes, BOTH):
                yield own.config(schedule, size, seed)
            for (compute, link), schedule in product(self.slots, BOTH):
                yield own.config(schedule, 1, seed, compute_slots=compute, link_slots=link)

    def under(self, reading: Reading) -> Self:
        """Return the experiment under one reading; the runs of (a) are those of the study mnist."""
        return replace(self, reading=reading, extra_slots=0 if reading == UPDATES else self.extra_slots)


@dataclass(frozen=True, kw_only=True)
class Remedies(Experiment):
    """Beyond the paper: steps that shrink with the staleness, and group sizes that shrink over time.

    Every update is divided by its staleness d, after the delay-adaptive steps of Mishchenko, Bach, Even and
    Woodworth (NeurIPS 2022, arXiv:2206.07638) and Koloskova, Stich and Jaggi (NeurIPS 2022,
    arXiv:2206.08307). Their thresholds, in proportion to the average delay, would change nothing here, where
    all updates are equally old.
    """

    deadline: int = 50_000
    sizes: tuple[int, ...] = (1, 5, 10)
    shrinking: str = "50@0, 10@10000, 5@30000"

    def configs(self, seed: int) -> Iterator[RunConfig]:  # noqa: D102
        yield from (*self.remedies(seed).values(), *self.fixed(seed).values())

    def remedies(self, seed: int) -> dict[str, RunConfig]:
        """Return the configurations that the paper does not have, by their labels."""
        adaptive = {"aggregation": "delay-adaptive", "delay_threshold": 1.0}
        found = {}
        for schedule in BOTH:
            for size in self.sizes:
                found[f"{schedule} S={size}, steps/d"] = self.config(schedule, size, seed, **adaptive)
            found[f"{schedule} S={self.shrinking}"] = self.config(schedule, self.shrinking, seed)
        return found

    def fixed(self, seed: int) -> dict[str, RunConfig]:
        """Return the paper's configurations beside them, by their labels."""
        return {f"{s} S={size}": self.config(s, size, seed) for s in BOTH for size in self.sizes}


class TableRow(NamedTuple):
    """One data set of Table 1 (r=1), with the number of models the paper prints for each group size."""

    data: DataName
    devices: int
    compute_slots: int
    deadline: int
    printed: dict[int, int]

    def computed(self) -> dict[int, int]:
        """Return the models w_0 … w_K that the exact schedule completes; the table counts w_0."""
        case: dict[str, Any] = {"devices": self.devices, "compute_slots": self.compute_slots}
        case["deadline"] = self.deadline
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


def _comparison(study: str, **options: Any) -> Curves:
    """Return the curves of both schedules side by side."""
    return Curves(name=f"comparison-{study}", study=study, **options)


def _study(study: str, **options: Any) -> tuple[Experiment, ...]:
    """Return the curves of each schedule, and of both side by side."""
    each = (Curves(name=f"{one}-{study}", study=study, schedules=(one,), **options) for one in BOTH)
    return (*each, _comparison(study, **options))


MODEL_AVERAGE: dict[str, Any] = {"reading": MODELS, "extra_slots": 3}
CIFAR10: dict[str, Any] = {"data": "cifar10", "group_sizes": (1, 2, 5, 10, 20), "extra_slots": 3}
PART_OF_CIFAR10 = CIFAR10 | {"deadline": 20_000}  # the runs that the paper does not have
PAPER: tuple[Experiment, ...] = (
    *SCHEDULE,
    Schedules(name="schedules-mnist", study="mnist"),
    *_study("mnist"),
    Tradeoff(name="tradeoff", study="mnist"),
    *_study("mnist-model-average", **MODEL_AVERAGE),
    Tradeoff(name="tradeoff-model-average", study="mnist-model-average", **MODEL_AVERAGE),
    *_study("cifar10", deadline=100_000, **CIFAR10),
    _comparison("cifar10-iid", partition="iid", **PART_OF_CIFAR10),
    _comparison("cifar10-model-average", reading=MODELS, **PART_OF_CIFAR10),
    _comparison("cifar10-iid-model-average", partition="iid", reading=MODELS, **PART_OF_CIFAR10),
    Readings(name="readings", study="readings", extra_slots=3),
    Remedies(name="remedies", study="remedies"),
)

# The beginnings of published runs, evaluated where those are: a minute or two on two cores.
QUICK: tuple[Experiment, ...] = (
    *SCHEDULE,
    Schedules(name="schedules-mnist", study="mnist", deadline=5_000, evaluate_every=500),
)
QUICK_SEEDS = (1, 2, 0)
"""The published seeds, in the order in which they are trained again; 0 was published with earlier kernels."""


def known_names(experiments: Iterable[Experiment]) -> dict[str, None]:
    """Return what experiments can be named by: all, their studies, and their own names."""
    return dict.fromkeys(["all", *(name for e in experiments for name in (e.study, e.name))])


def selected(experiments: Iterable[Experiment], names: Iterable[str]) -> tuple[Experiment, ...]:
    """Return the experiments named by their own name, by their study or by ``all``; else an InputError."""
    wanted, offered = set(names), tuple(experiments)
    known, studies = known_names(offered), dict.fromkeys(e.study for e in offered)
    for name in sorted(wanted - known.keys()):
        offers = nearest_names(name, known)
        if "?" not in offers:
            offers = f"; the studies are {', '.join(studies)}"
        if len(known) <= MOST_LISTED:
            offers = f": {', '.join(known)}"
        raise InputError("experiments", name, f"all, a study or an experiment{offers}")
    return tuple(e for e in offered if wanted & {"all", e.name, e.study})


def all_runs(experiments: Iterable[Experiment], seeds: Iterable[int]) -> tuple[Run, ...]:
    """Return every training the experiments need, each once, seed after seed."""
    chosen = tuple(experiments)
    return distinct([run for seed in seeds for experiment in chosen for run in experiment.runs(seed)])
