"""Texts of final losses and accuracies, and the staleness beside them: for figures, page and Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from statistics import fmean

from slotwise.batch.job import free_delay
from slotwise.paper.evidence import Evidence
from slotwise.report.number_text import counted, loss_text
from slotwise.runs import RunConfig
from slotwise.runs.saved_run import final_accuracy, final_loss
from slotwise.schedule import Schedule

DIGITS = ".3g"


def mean_text(values: Sequence[float]) -> str:
    """Return the mean over the seeds that did not collapse (NaN) as text, and how many did."""
    known = [value for value in values if not isnan(value)]
    if not known:
        return "collapsed"
    return _noted(loss_text(fmean(known), DIGITS), _collapsed(len(values) - len(known), len(values)))


def final_loss_text(evidence: Evidence, schedule: Schedule, group_size: int) -> str:
    """Return the mean final loss of the seeds that did not collapse, with the lowest and the highest.

    If all collapsed, it says so, with the mean loss of those that did not diverge.
    """
    losses = evidence.final(schedule, group_size)
    known = [loss for loss in losses if not isnan(loss)]
    if known:
        spread = f"{loss_text(min(known), DIGITS)} to {loss_text(max(known), DIGITS)}"
        collapsed = _collapsed(len(losses) - len(known), len(losses))
        return _noted(loss_text(fmean(known), DIGITS), spread if len(known) > 1 else "", collapsed)
    finished = [c for c in evidence.curves(schedule, group_size) if c.status == "finished"]
    ends = [final_loss(curve.points, evidence.base.deadline) for curve in finished]
    return f"collapsed, {loss_text(fmean(ends), DIGITS)}" if ends else "diverged"


def final_accuracy_text(evidence: Evidence, schedule: Schedule, group_size: int) -> str:
    """Return the mean final accuracy of the same seeds as `final_loss_text`, lowest and highest."""
    curves = evidence.curves(schedule, group_size)
    learned = [curve for curve in curves if not evidence.has_collapsed(curve)]
    shown = learned or [curve for curve in curves if curve.status == "finished"]
    found = [final_accuracy(curve.points, evidence.base.deadline) for curve in shown]
    if not found:
        return "diverged"
    left = len(curves) - len(shown)
    without = _collapsed(left, len(curves)) if learned else f"{counted(left, 'seed')} diverged" * bool(left)
    spread = f"{100 * min(found):.1f} to {100 * max(found):.1f}"
    return _noted(f"{fmean(found):.1%}", spread if len(found) > 1 else "", without)


def staleness(config: RunConfig) -> int:
    """Return d, the staleness of updates once every device has sent: G−1, less the delay of idfl."""
    delay = free_delay(config.channel) if config.schedule == "idfl" else 0
    return config.channel.groups - 1 - delay


def _collapsed(collapsed: int, seeds: int) -> str:
    return f"{collapsed} of {seeds} seeds collapsed" if collapsed else ""


def _noted(text: str, *notes: str) -> str:
    """Return a text followed by the notes that are not empty, in brackets."""
    given = ", ".join(filter(None, notes))
    return f"{text} ({given})" if given else text
