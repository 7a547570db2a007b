"""BatchResults: the tidy tables and the figure of a batch, as far as it has been trained."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from slotwise.base.errors import UserError
from slotwise.base.notebook import Displayable
from slotwise.batch.axes import Axis, full_text
from slotwise.batch.batch_folder import BatchFolder
from slotwise.batch.job import Failure
from slotwise.learning.task import NO_METRICS, metric_names
from slotwise.report import notebook_display
from slotwise.report.colours import Subject
from slotwise.report.curves import CurveFigure, Spread
from slotwise.report.figure_options import ALL, USUAL, FigureOptions, Labels, X, relabelled
from slotwise.report.paper_table import PaperTable
from slotwise.runs import RunConfig, SavedRun
from slotwise.runs.device_data import refuse_mixed_data
from slotwise.runs.saved_run import COMPLETE, MeasuredPoint
from slotwise.schedule.costs import Powers
from slotwise.setting.slot_duration import slot_seconds_of_run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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
    config: RunConfig | None = None  # None if the run is missing

    @property
    def subject(self) -> Subject:
        """Schedule and group size; empty if the run is missing."""
        if self.config is None:
            return Subject()
        return Subject(self.config.schedule, self.config.channel.group_size)

    def slot_seconds(self, given: float | None = None) -> float:
        """Return the seconds of a slot that the run says, or else those ``given``; NaN if neither does."""
        known = given if self.config is None else slot_seconds_of_run(self.config, given)
        return nan if known is None else known


class PointResult(NamedTuple):
    """A point: case, value on each axis, seed and run, and what came of the run so far."""

    case: str
    values: tuple[Any, ...]
    seed: int
    run: str
    outcome: RunOutcome


@dataclass(frozen=True)
class BatchResults(Displayable):
    """The results of a batch so far."""

    axes: tuple[Axis, ...]
    rows: tuple[PointResult, ...]  # one for each point
    has_joules: bool = False  # the powers of the devices are known
    failures: tuple[Failure, ...] = ()  # runs that failed or diverged in the call that made these results
    files: tuple[Path, ...] = ()  # the tables and figures that this call wrote

    @classmethod
    def read(cls, folder: BatchFolder | Path | str) -> BatchResults:
        """Read a folder; each run is read once, however many points share it.

        Raises:
            UserError: the folder is damaged, or its runs were trained on different data of the same source.
        """
        folder = folder if isinstance(folder, BatchFolder) else BatchFolder(Path(folder))
        document = folder.read_manifest()
        with folder.reading_manifest():
            axes = tuple(Axis(name, tuple(values)) for name, values in document["axes"].items())
            powers = Powers(**document["powers"]) if document["powers"] else None
            points = [(str(c), tuple(v), int(seed), str(run)) for c, v, seed, run in document["points"]]
            for _, values, _, run in points:
                # Such names could lead to a folder outside the batch.
                if len(values) != len(axes) or "/" in run or run in ("", ".", ".."):
                    raise ValueError
        refuse_mixed_data(folder.data_uses(run for _, _, _, run in points))
        runs = {
            name: read_run(SavedRun.find(folder.run(name).path), powers)
            for name in dict.fromkeys(p[3] for p in points)
        }
        return cls(axes, tuple(PointResult(*point, runs[point[3]]) for point in points), powers is not None)

    @property
    def is_finished(self) -> bool:
        """Return whether all points are."""
        return all(row.outcome.status in COMPLETE for row in self.rows)

    def problems(self, *, stopped: bool = False) -> dict[str, str]:
        """Return the reason or status of each unfinished run; after a stop, only of those that failed."""
        reasons = {failure.run.name: failure.reason for failure in self.failures}
        return {
            row.run: reasons.get(row.run, row.outcome.status)
            for row in self.rows
            if row.outcome.status not in COMPLETE
            and (not stopped or row.run in reasons or row.outcome.status == "diverged")
        }

    def by_combination(self) -> dict[tuple[str, ...], list[PointResult]]:
        """Return the seeds of each combination by the name of its case and the texts of its values."""
        groups: dict[tuple[str, ...], list[PointResult]] = {}
        for row in self.rows:
            texts = [axis.text(value) for axis, value in zip(self.axes, row.values, strict=True)]
            groups.setdefault((row.case, *texts), []).append(row)
        return groups

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics that any point has beside loss and accuracy."""
        return metric_names(point.metrics for row in self.rows for point in row.outcome.curve)

    def columns(self) -> dict[str, list[Any]]:
        """Return the table of points by column; statistics are None until a point is finished.

        A further metric of the task, such as test_loss, has a column final_test_loss.
        """
        table = self._key_columns(self.rows)
        table["status"] = [row.outcome.status for row in self.rows]
        for number, name in enumerate(PointStatistics._fields):
            table[name] = [
                _known(row.outcome.statistics[number]) if row.outcome.statistics else None
                for row in self.rows
            ]
        for name in self.metrics:
            table[f"final_{name}"] = [_known(row.outcome.final_metrics.get(name, nan)) for row in self.rows]
        table["run"] = [row.run for row in self.rows]
        return table

    def curve_columns(self) -> dict[str, list[Any]]:
        """Return the table of evaluations by column; further metrics of the task are the last columns."""
        table = self._key_columns([row for row in self.rows for _ in row.outcome.curve])
        points = [point for row in self.rows for point in row.outcome.curve]
        for name in MeasuredPoint._fields[:-1]:
            table[name] = [_known(getattr(point, name)) for point in points]
        own = set(table)
        for name in self.metrics:
            column = f"task_{name}" if name in own else name  # a task may name a metric like a column or axis
            table[column] = [_known(point.metrics.get(name, nan)) for point in points]
        return table

    def _key_columns(self, rows: Sequence[PointResult]) -> dict[str, list[Any]]:
        table: dict[str, list[Any]] = {"case": [row.case for row in rows]}
        for number, axis in enumerate(self.axes):
            values = [row.values[number] for row in rows]
            table[axis.name] = [full_text(v) if isinstance(v, list | tuple) else v for v in values]
        table["seed"] = [row.seed for row in rows]
        return table

    def plot(  # type: ignore[override]
        self,
        *,
        metric: str | None = None,
        panel: str = ALL,
        x: X | None = None,
        band: Spread | None = None,
        labels: Labels = (),
        style: str | None = None,
        width: float | None = None,
        ax: Axes | Sequence[Axes] | None = None,
        slot_seconds: float | None = None,
    ) -> Figure:
        """Return the figure of the loss, the accuracy or another metric, as `batch_figure` describes it.

        Args:
            metric: loss (the default), accuracy or another metric, if ``panel`` is all or final.
            panel: all; final, the final values against the numeric axis; or loss, accuracy or another metric:
                its curves alone, with a line for each combination.
            x: Horizontal axis of the curves: slots, seconds, rounds, updates or joules.
            band: Spread over the seeds: min-max (the default), std, or 95% (confidence interval of the mean).
            labels: Texts of the legend in its order, or by the old text.
            style: ieee, or the name or file of a matplotlib style. Default: your matplotlib settings.
            width: Inches. Default: that of the style; of ieee 3.5 for one panel, 7.16 for several.
            ax: Your own axes, one for each panel; one alone gets the curves of the metric.
            slot_seconds: Seconds of a slot, for seconds, unless the runs say it.
        """
        if panel == ALL and ax is not None and not isinstance(ax, Iterable):
            metric, panel = None, metric or "loss"
        options = FigureOptions(panel=panel, x=x, band=band, style=style, width=width)
        figure = self.curve_figure(metric, options, slot_seconds)
        return notebook_display.plot_composed(relabelled(figure, labels) if labels else figure, options, ax)

    def table(
        self,
        *columns: str,
        band: Spread | None = None,
        target: str | None = None,
        best: str | None = None,
        by: Literal["loss", "accuracy", "target"] | None = None,
        slot_seconds: float | None = None,
    ) -> PaperTable:
        """Return a table for a paper: means with their spread over the finished seeds of each combination.

        It has the methods `text`, `csv`, `markdown` and `tex` (booktabs).

        Args:
            columns: Statistics, such as final_loss, rounds or final_test_loss, a metric of the task. Default:
                final loss and accuracy.
            band: The spread: std (one standard deviation, the default), 95% (confidence interval of the mean)
                or min-max.
            target: accuracy=X or loss=X: also the slots, and where known the seconds and joules, until a seed
                reaches it; seeds that do not are counted.
            best: An axis, such as learning_rate: only its best value for each combination of the others.
            by: What is best: the lowest loss (the default), the highest accuracy, or the target: reached by
                the most seeds, then the soonest.
            slot_seconds: Seconds of a slot, unless the runs say it, for seconds to the target.
        """
        from slotwise.batch.summary import TableOptions, batch_table  # noqa: PLC0415  (it reads these results)

        options = TableOptions(columns=columns, target=target, best=best, by=by)
        return batch_table(self, options, band, slot_seconds)

    def curve_figure(
        self,
        metric: str | None = None,
        options: FigureOptions = USUAL,
        slot_seconds: float | None = None,
    ) -> CurveFigure:
        """Return the figure of `batch_figure`; raise a UserError if there is nothing to draw yet."""
        from slotwise.batch.figure import batch_figure  # noqa: PLC0415  (it reads these results)

        if not any(row.outcome.curve for row in self.rows):
            raise UserError("nothing has been evaluated yet; there is nothing to draw")
        figure = batch_figure(self, metric, options, slot_seconds)
        if not figure.panels:
            raise UserError(f"no evaluation has a value of {metric}; there is nothing to draw")
        return figure


def read_run(run: SavedRun | None, powers: Powers | None) -> RunOutcome:
    """Return what came of a run, if there is one; its joules are NaN without powers."""
    if run is None:
        return RunOutcome("missing")
    curve = run.curve(powers)
    if not run.is_complete or not curve:
        return RunOutcome(run.status, curve, config=run.config)
    schedule = run.schedule.totals
    totals = {name: value for name, value in schedule._asdict().items() if name in PointStatistics._fields}
    statistics = PointStatistics(
        final_loss=run.final_loss,
        final_accuracy=run.final_accuracy,
        last_loss=curve[-1].loss,
        last_accuracy=curve[-1].accuracy,
        sgd_steps=run.sgd_steps,
        joules=curve[-1].joules,
        seconds=run.seconds,
        **totals,
    )
    return RunOutcome(run.status, curve, statistics, run.final_metrics, run.config)


def mean_statistics(rows: Iterable[PointResult]) -> PointStatistics | None:
    """Return the means over the finished rows; None if none is finished."""
    finished = [row.outcome.statistics for row in rows if row.outcome.statistics]
    return PointStatistics(*map(fmean, zip(*finished, strict=True))) if finished else None


def _known(value: float) -> float | None:
    return None if isnan(value) else value
