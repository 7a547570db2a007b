"""RunOutcome: the status, the evaluations and the statistics of a run of a batch, read from its folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from slotwise.costs import Powers
from slotwise.learning.task import NO_METRICS
from slotwise.runs import RunFolder, SavedRun
from slotwise.runs.saved_run import MeasuredPoint


class PointStatistics(NamedTuple):
    """The statistics of a finished run, or their means over several."""

    final_loss: float  # median training loss over the last tenth of the slots
    final_accuracy: float  # median test accuracy over the same, 0 to 1
    last_loss: float  # training loss of the last model
    last_accuracy: float
    rounds: float  # within the deadline
    updates: float  # applied
    lost: float  # uplinks
    sgd_steps: float  # of the applied updates
    mean_staleness: float  # of the updates, in rounds
    slots: float  # until the last round ended
    joules: float  # of all devices; NaN if their powers are not known
    seconds: float  # that the training took


class RunOutcome(NamedTuple):
    """A run as far as it was trained: its status, its evaluations, and its statistics once it is finished."""

    status: str
    curve: tuple[MeasuredPoint, ...] = ()
    statistics: PointStatistics | None = None
    final_metrics: Mapping[str, float] = NO_METRICS  # beside loss and accuracy, medians as theirs


def read_run(folder: RunFolder, powers: Powers | None) -> RunOutcome:
    """Read a run; its joules are NaN without powers."""
    run = SavedRun.find(folder.path)
    if run is None:
        return RunOutcome("missing")
    curve = run.curve(powers)
    if run.status != "finished" or not curve:
        return RunOutcome(run.status, curve)
    schedule = run.schedule.totals
    totals = {name: value for name, value in schedule._asdict().items() if name in PointStatistics._fields}
    statistics = PointStatistics(
        final_loss=run.final_loss,
        final_accuracy=run.final_accuracy,
        last_loss=curve[-1].loss,
        last_accuracy=curve[-1].accuracy,
        sgd_steps=schedule.updates * run.config.training.local_steps,
        joules=curve[-1].joules,
        seconds=run.seconds,
        **totals,
    )
    return RunOutcome(run.status, curve, statistics, run.final_metrics)
