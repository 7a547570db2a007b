"""Results of each method of the tuned study, from its runs: pilots, chosen step, judged runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp, log, pi, sin
from statistics import fmean
from typing import cast

from slotwise.batch.job import schedule_summary
from slotwise.paper.histories import Histories, TrainedCurve
from slotwise.paper.tuned import (
    DEADLINE,
    PILOT_DEADLINE,
    TUNING_SEED,
    Trial,
    choose,
    choose_pilot,
    judging,
    step_size,
)
from slotwise.paper.tuned_cases import METHODS, Method
from slotwise.report.number_text import loss_text

DIGITS = ".3g"
FULL_LENGTH_RUNS = 6  # at least: three steps with the tuning seed, and three judging seeds


def sine(staleness: int) -> float:
    """Return sin(π/(2(2d+1))), to which the longest stable step of a quadratic is proportional."""
    return sin(pi / (2 * (2 * staleness + 1)))


@dataclass(frozen=True)
class TunedMethod:
    """A method and what has been trained of it so far."""

    method: Method
    histories: Histories

    @property
    def schedule(self) -> str:
        """The schedule in a word, or the staleness of a delay in between."""
        return self.method.family

    def rounds(self, deadline: int) -> int:
        """Return the rounds that the method completes by a deadline."""
        power, seed = 0, TUNING_SEED  # on which the schedule does not depend
        return schedule_summary(Trial(self.method, power, seed, deadline).run().config).rounds

    @cached_property
    def pilots(self) -> dict[int, TrainedCurve]:
        """The pilots by the power of their step, ascending."""
        return self._curves(PILOT_DEADLINE)

    @cached_property
    def tuning(self) -> dict[int, TrainedCurve]:
        """The runs of full length with the tuning seed by the power of their step, ascending."""
        return self._curves(DEADLINE)

    def _curves(self, deadline: int) -> dict[int, TrainedCurve]:
        known = sorted(self.histories.of(self.method.name).items())
        return {key.power: curve for key, curve in known if key[1:] == (TUNING_SEED, deadline)}

    @cached_property
    def pilot_power(self) -> int | None:
        """The power of the best step of the pilots; None while they are not finished."""
        return choose_pilot(self.method, self.histories.loss).power

    @property
    def best_pilot(self) -> TrainedCurve:
        """The pilot with the best step; a KeyError while it is not known."""
        return self.pilots[cast("int", self.pilot_power)]

    @property
    def best_step(self) -> float:
        """The best step of the pilots; a TypeError while it is not known."""
        return step_size(cast("int", self.pilot_power))

    @cached_property
    def power(self) -> int | None:
        """The power of the step that the method is judged with; None while it is not known."""
        return choose(self.method, self.histories.loss).power

    @cached_property
    def judged(self) -> tuple[TrainedCurve, ...]:
        """The runs that the method is judged on; none unless all have been trained."""
        if self.power is None:
            return ()
        curves = [self.histories.curve(trial) for trial in judging(self.method, self.power)]
        known = tuple(curve for curve in curves if curve is not None)
        return known if len(known) == len(curves) else ()

    @property
    def runs_left(self) -> int:
        """The fewest runs of full length that are still to be trained."""
        if self.judged:
            return 0
        trained = sum(key.deadline == DEADLINE for key in self.histories.of(self.method.name))
        return max(FULL_LENGTH_RUNS - trained, 1)


def tuned_methods(histories: Histories, methods: Iterable[Method] = METHODS) -> tuple[TunedMethod, ...]:
    """Return every method with its runs, by group size and staleness."""
    ordered = sorted(methods, key=lambda method: (method.group_size, method.staleness))
    return tuple(TunedMethod(method, histories) for method in ordered)


def with_pilots(methods: Iterable[TunedMethod]) -> list[TunedMethod]:
    """Return the methods whose pilots are finished."""
    return [one for one in methods if one.pilot_power is not None]


def by_group_size(methods: Iterable[TunedMethod]) -> dict[int, list[TunedMethod]]:
    """Return methods by their group size, in the order given."""
    sizes: dict[int, list[TunedMethod]] = {}
    for one in methods:
        sizes.setdefault(one.method.group_size, []).append(one)
    return sizes


def spread(values: Sequence[float]) -> float:
    """Return the largest of some positive values as a multiple of the smallest."""
    return max(values) / min(values)


def step_text(power: int | None) -> str:
    """Return the step of a power as text; empty if it is not known."""
    return "" if power is None else f"{step_size(power):g}"


def listed(values: Sequence[object]) -> str:
    """Return values as text, as in "1, 5 and 10"."""
    *others, last = map(str, values)
    return f"{', '.join(others)} and {last}" if others else last


def names(one: TunedMethod) -> tuple[str, str, str]:
    """Return group size, schedule and staleness of a method as cells of a table."""
    return str(one.method.group_size), one.schedule, str(one.method.staleness)


def number(loss: float) -> str:
    """Return a loss with the digits of the page."""
    return loss_text(loss, DIGITS)


def geometric_mean(factors: Iterable[float]) -> float:
    """Return the geometric mean of positive numbers."""
    return exp(fmean(map(log, factors)))


def markdown_table(rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown; the first row is its heading."""
    heading, *others = rows
    lines = [heading, ["---"] * len(heading), *others]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines).replace(" --- ", "---")
