"""Rules for engineers: step and schedule from numbers of the plan alone, and their errors on held-out cases.

A rule has one constant, which is fitted to the cases of all group sizes but one and then tested on that one,
for each size in turn. Cases are judged runs where a method has them, and its pilots otherwise; schedules are
only compared among runs of equal length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf, isfinite, log, log2, sqrt
from statistics import fmean

from slotwise.paper.tuned import DEADLINE, FIRST_STEP, PILOT_DEADLINE, step_size
from slotwise.paper.tuned_results import TunedMethod, by_group_size, geometric_mean, sine, with_pilots
from slotwise.report.colours import SCHEDULE_COLOURS

DEVICES = 100


@dataclass(frozen=True)
class Case:
    """What a rule may know of a method (size, staleness, rounds), and what was found for it."""

    schedule: str
    size: int
    staleness: int
    rounds: int
    step: float
    loss: float
    losses: Mapping[int, float]  # by the power of the step, of runs with the tuning seed
    is_judged: bool
    seeds: tuple[float, ...] = ()  # losses of the judged runs, or of the one pilot


Shape = Callable[[Case], float]
STEP_RULES: Mapping[str, Shape] = {
    "c": lambda _: 1.0,
    "c / (d + 1)": lambda case: 1 / (case.staleness + 1),
    "c · sin(π/(2(2d+1)))": lambda case: sine(case.staleness),
    "c · √S · sin(π/(2(2d+1)))": lambda case: sqrt(case.size) * sine(case.staleness),
}
"""Step sizes up to a constant: the paper's kind of rule, and three that know the staleness."""


LOCAL_STEPS = 5  # H, of an update
FIRST_CURVATURE = 5.63  # L at the first model: python benchmarks/curvature.py --rounds 0 --seed 10
CURVATURE_RULE = "2/(H·L) · sin(π/(2(2d+1)))"
"""The longest stable step of a quadratic with the curvature of the first model: nothing is fitted."""


def case_of(one: TunedMethod, *, is_judged: bool) -> Case:
    """Return the case of a method: its judged runs, or its best pilot."""
    deadline, runs = (DEADLINE, one.tuning) if is_judged else (PILOT_DEADLINE, one.pilots)
    losses = {power: curve.final_loss for power, curve in runs.items()}
    seeds = tuple(curve.final_loss for curve in (one.judged if is_judged else (one.best_pilot,)))
    step = step_size(one.power) if is_judged and one.power is not None else one.best_step
    size, age, rounds = one.method.group_size, one.method.staleness, one.rounds(deadline)
    return Case(one.schedule, size, age, rounds, step, fmean(seeds), losses, is_judged, seeds)


def cases(methods: Iterable[TunedMethod]) -> tuple[Case, ...]:
    """Return the cases of all methods whose best step is known."""
    return tuple(case_of(one, is_judged=bool(one.judged)) for one in with_pilots(methods))


def held_out(known: Sequence[Case]) -> Iterator[tuple[list[Case], list[Case]]]:
    """Yield, for each group size in turn, the cases of all others and those of that size."""
    for size in sorted({case.size for case in known}):
        others = [case for case in known if case.size != size]
        if others:
            yield others, [case for case in known if case.size == size]


@dataclass(frozen=True)
class StepError:
    """How a rule for the step does on held-out cases.

    Attributes:
        rule: The rule, as text.
        constant: Its constant, fitted to all cases.
        typical: Factor between the predicted and the best step, the geometric mean of the cases.
        largest: The largest of these factors.
        penalties: Loss with the step of the grid nearest to the predicted one over the lowest loss, of the
            cases in which that step was tried.
        cases: Number of cases.
    """

    rule: str
    constant: float
    typical: float
    largest: float
    penalties: tuple[float, ...]
    cases: int


def step_errors(known: Sequence[Case]) -> list[StepError]:
    """Return the errors of all rules for the step."""
    fitted = [_step_error(rule, shape, known) for rule, shape in STEP_RULES.items()]
    constant = 2 / (LOCAL_STEPS * FIRST_CURVATURE)
    return [*fitted, _step_error(CURVATURE_RULE, lambda case: sine(case.staleness), known, constant)]


def _step_error(rule: str, shape: Shape, known: Sequence[Case], given: float | None = None) -> StepError:
    """Return the error of a rule with its constant fitted to other group sizes, or given."""
    factors, penalties = [], []
    for others, tested in held_out(known):
        constant = _fitted(shape, others) if given is None else given
        for case in tested:
            step = constant * shape(case)
            factors.append(exp(abs(log(step / case.step))))
            if (loss := _loss_near(step, case)) is not None:
                penalties.append(loss / min(case.losses.values()))
    typical = geometric_mean(factors)
    constant = _fitted(shape, known) if given is None else given
    return StepError(rule, constant, typical, max(factors), tuple(sorted(penalties)), len(factors))


def _fitted(shape: Shape, known: Sequence[Case]) -> float:
    return geometric_mean(case.step / shape(case) for case in known)


def _loss_near(step: float, case: Case) -> float | None:
    """Return the loss at the step of the grid that is nearest; None if it was not tried or diverged."""
    loss = case.losses.get(round(log2(step / FIRST_STEP)), inf)
    return loss if isfinite(loss) else None


Contest = Mapping[str, Case]
"""The schedules that were trained equally long at one group size."""


def contests(methods: Iterable[TunedMethod], *, pilots: bool = False) -> dict[int, Contest]:
    """Return the schedules at each group size: judged runs if sync and another have them, else pilots.

    Args:
        methods: Methods with what has been trained.
        pilots: Take pilots everywhere.
    """
    found: dict[int, Contest] = {}
    for size, own in by_group_size(with_pilots(methods)).items():
        known = [one for one in own if one.schedule in SCHEDULE_COLOURS]
        judged = [] if pilots else [one for one in known if one.judged]
        has_judged = "sync" in {one.schedule for one in judged} and len(judged) > 1
        chosen = judged if has_judged else known
        if "sync" in {one.schedule for one in chosen} and len(chosen) > 1:
            found[size] = {one.schedule: case_of(one, is_judged=has_judged) for one in chosen}
    return found


def is_lowest_with_every_seed(contest: Contest) -> bool:
    """Return whether one schedule has the lowest loss with each seed."""
    seeds = zip(*(case.seeds for case in contest.values()), strict=True)
    return len({losses.index(min(losses)) for losses in seeds}) == 1


def overlapped(contest: Contest) -> str:
    """Return the schedule that computes while others send: idfl, or async where no delay is free."""
    return "idfl" if "idfl" in contest else "async"


def turns(contest: Contest) -> float:
    """Return the rounds in which each device takes part under synchronous FL."""
    return contest["sync"].rounds * contest["sync"].size / DEVICES


def regret(contest: Contest, schedule: str) -> float:
    """Return the loss of a schedule over that of the best one."""
    return contest[schedule].loss / min(case.loss for case in contest.values())


def most_travel(contest: Contest) -> str:
    """Return the schedule with the most rounds times stable step, how far a run can go."""
    return max(contest, key=lambda name: contest[name].rounds * sine(contest[name].staleness))


def by_turns(contest: Contest, most: float) -> str:
    """Return the overlapped schedule if devices have at most so many turns under sync, else sync."""
    return overlapped(contest) if turns(contest) <= most else "sync"


def fitted_turns(known: Iterable[Contest]) -> float:
    """Return the limit of turns with the lowest mean regret; the smallest such one."""
    found = list(known)
    limits = [0.0, *sorted(turns(contest) for contest in found)]
    return min(limits, key=lambda most: (fmean(regret(one, by_turns(one, most)) for one in found), most))


def schedule_regrets(found: Mapping[int, Contest]) -> dict[str, dict[int, float]]:
    """Return the regret of each rule for the schedule, by group size; fitted rules do not know that size.

    A size is left out where the schedule that a rule chooses has no runs of that length.
    """
    rules: dict[str, Callable[[Contest], str]] = {
        "always synchronous": lambda _: "sync",
        "always idfl": overlapped,
        "always async": lambda _: "async",
        "most rounds · sine": most_travel,
    }
    regrets = {
        name: {size: regret(one, rule(one)) for size, one in found.items() if rule(one) in one}
        for name, rule in rules.items()
    }
    limits = {size: fitted_turns(other for key, other in found.items() if key != size) for size in found}
    by_limit = {size: regret(one, by_turns(one, limits[size])) for size, one in found.items()}
    return {**regrets, "by turns": by_limit}
