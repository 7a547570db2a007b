"""RunOutcome: the status, the evaluations and the statistics of a run of a batch, read from its folder."""

from __future__ import annotations

from collections.abc import Mapping
from math import nan
from typing import NamedTuple

import numpy as np

from slotwise.batch.job import schedule_summary, schedule_timeline
from slotwise.costs import Powers, joules, usage_until
from slotwise.errors import UserError
from slotwise.learning.task import NO_METRICS
from slotwise.report.curves import MeasuredPoint
from slotwise.runs import RunFolder
from slotwise.runs.run_folder import final_accuracy, final_loss, final_metrics
from slotwise.runs.slot_duration import powers_of_run


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


def read_run(run: RunFolder, powers: Powers | None) -> RunOutcome:
    """Read a run; its joules are NaN without powers."""
    if not run.is_run:
        return RunOutcome("missing")
    status, points, config = run.status, run.points(), run.parameters()
    if not points:
        return RunOutcome(status)
    schedule, timeline = schedule_summary(config), schedule_timeline(config)
    if points[-1].round > schedule.rounds:
        raise UserError(f"{run.path}: its history.csv and its run.json are not of the same run")
    spent = np.full(len(points), nan)
    if powers is not None:
        own = powers_of_run(powers, config, check=False)
        spent = joules(usage_until(timeline, [point.slot for point in points]), own)
    curve = tuple(
        MeasuredPoint(
            p.slot, p.round, int(timeline.round_offsets[p.round]), float(used), p.loss, p.accuracy, p.metrics
        )
        for p, used in zip(points, spent, strict=True)
    )
    if status != "finished":
        return RunOutcome(status, curve)
    statistics = PointStatistics(
        final_loss=final_loss(points, config.deadline),
        final_accuracy=final_accuracy(points, config.deadline),
        last_loss=points[-1].loss,
        last_accuracy=points[-1].accuracy,
        sgd_steps=schedule.updates * config.training.local_steps,
        joules=curve[-1].joules,
        seconds=float(run.description().get("seconds", 0.0)),
        **schedule._asdict(),
    )
    return RunOutcome(status, curve, statistics, final_metrics(points, config.deadline))
