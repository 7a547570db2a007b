"""The metric by which candidates are compared: training loss, test accuracy, or joules until a target.

The lowest loss that a curve may have at the deadline is an optimistic extrapolation. Losses are
lower-is-better numbers here: training losses, or error rates (1 − accuracy).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf, isfinite, isnan
from statistics import fmean
from typing import Literal, NamedTuple

from slotwise.base.errors import InputError, MissingError
from slotwise.learning.target import Quantity, Target
from slotwise.options.checks import checked
from slotwise.recommendation.candidates import Curve
from slotwise.report.number_text import loss_text
from slotwise.runs.run_timeline import schedule_timeline
from slotwise.runs.saved_run import final_accuracy, final_loss
from slotwise.schedule.costs import Powers, joules, spared_until, usage_until

MetricName = Literal["loss", "accuracy", "joules-to-target"]
Score = tuple[float, float]
"""A score: the number of seeds that missed the target, then a value; lower is better."""
DIVERGED: Score = (inf, inf)


@dataclass(frozen=True)
class Metric:
    """Training loss, test accuracy, or joules until a target, which needs the target and powers."""

    name: MetricName = "loss"
    target: Target | None = None
    powers: Powers | None = None

    def __post_init__(self) -> None:
        checked("metric", self.name, MetricName)
        if self.name != "joules-to-target":
            if self.target is not None:
                raise InputError("target", self.target, "omitted unless the metric is joules-to-target")
        elif self.target is None:
            raise MissingError("target", "given for joules-to-target: accuracy=0.9 or loss=0.2")
        elif self.powers is None:
            raise InputError("metric", self.name, "loss or accuracy unless powers are given")

    @property
    def value_name(self) -> str:
        """The name of its values in tables."""
        return "joules" if self.target else self.quantity

    @property
    def quantity(self) -> Quantity:
        """The quantity of a curve that it reads."""
        return self.target.quantity if self.target else "accuracy" if self.name == "accuracy" else "loss"

    def settled(self, curve: Curve) -> bool:
        """Return whether training longer cannot change the score."""
        return curve.diverged or (self.target is not None and self.target.reached(curve.points) is not None)

    def present(self, curve: Curve) -> Score:
        """Return the score of a pilot where it is now.

        A pilot that has not met the target yet is worse than any that has, and is compared by its loss.
        """
        if curve.diverged:
            return DIVERGED
        if self.target:
            first = self.target.reached(curve.points)
            if first is not None:
                return 0, self._joules(curve, first.slot)
            return 1, final_loss(curve.points, curve.slot)
        if self.quantity == "accuracy":
            return 0, _error_rate(final_accuracy(curve.points, curve.slot))
        return 0, final_loss(curve.points, curve.slot)

    def optimistic(self, curve: Curve) -> Score:
        """Return the best score that a pilot may have at the deadline.

        Joules only grow: a pilot that has not met the target needs at least what it has spent.
        """
        deadline = curve.config.deadline
        if self.settled(curve) or curve.slot >= deadline:
            return self.present(curve)
        if self.target:
            return 0, self._joules(curve, curve.slot)
        accuracy = self.quantity == "accuracy"
        measured = [Measured(p.slot, _error_rate(p.accuracy) if accuracy else p.loss) for p in curve.points]
        return 0, optimistic_loss(measured, curve.slot, deadline)

    def _joules(self, curve: Curve, slot: int) -> float:
        assert self.powers is not None  # checked when the metric is made
        timeline = schedule_timeline(curve.config)
        # A pilot may be trained up to a slot after its last round, and joules are counted until that ends.
        until = min(slot, timeline.last_slot)
        less = spared_until(timeline, [until])
        return float(joules(usage_until(timeline, [until]), self.powers, less)[0])

    def over_seeds(self, scores: Sequence[Score]) -> Score:
        """Return one score for those of several seeds.

        Among candidates that met the target with all seeds, the mean of the joules counts; among the others,
        first how many seeds missed it, then the mean loss of those: training ended where it was met.
        """
        missing = [value for missed, value in scores if missed]
        return sum(missed for missed, _ in scores), fmean(missing or [value for _, value in scores])

    def value(self, score: Score) -> float | None:
        """Return the number that a score stands for; None if the target was missed or training diverged."""
        missed, value = score
        if missed:
            return None
        return 1 - value if self.name == "accuracy" else value

    def text(self, value: float | None) -> str:
        """Return a value with its unit, or a dash."""
        if value is None or not isfinite(value):
            return "–"
        if self.target:
            return f"{value:,.0f} J"
        return f"{value:.2%}" if self.name == "accuracy" else loss_text(value)


def _error_rate(accuracy: float) -> float:
    """Return 1 − accuracy; 1 for a task that has no accuracy."""
    return 1.0 if isnan(accuracy) else 1 - accuracy


BEGUN = 0.9  # a run whose lowest loss is above this part of the first one has not begun to learn


class Measured(NamedTuple):
    """A loss at a slot."""

    slot: int
    loss: float


def optimistic_loss(curve: Sequence[Measured], slot: int, deadline: int) -> float:
    """Return an optimistic loss at the deadline T for a curve that is known up to ``slot`` s.

    With m(t) the lowest loss up to slot t, it is m(s) · (m(s) / m(b))^((T − s) / (s − b)): until the deadline
    the loss falls in every slot by the factor by which it has fallen on average since slot b. That is s/2, or
    the last evaluation at which the run had not begun to learn if that was later. Learning curves flatten, so
    a run rarely does as well.

    The result is −inf, which is better than any loss, for a curve that has not begun to learn, because it may
    still begin, and for losses that are not positive, because they have no factors.
    """
    known = [measured for measured in curve if measured.slot <= slot]
    # The running minimum: a spike in the last evaluation must not drop a good candidate.
    lowest = list(accumulate((measured.loss for measured in known), min))
    if slot >= deadline:
        return lowest[-1]
    begun = BEGUN * known[0].loss
    if not 0 < lowest[-1] <= begun:
        return -inf
    waiting = sum(low > begun for low in lowest)  # evaluations before learning began; the first one at least
    begin = max(slot / 2, known[waiting - 1].slot)
    before = lowest[sum(measured.slot <= begin for measured in known) - 1]
    return float(lowest[-1] * (lowest[-1] / before) ** ((deadline - slot) / (slot - begin)))
