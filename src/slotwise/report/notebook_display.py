"""Tables, plots and HTML of results for notebooks: the functions behind `base.notebook.Displayable`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import singledispatch
from html import escape
from math import nan
from typing import TYPE_CHECKING, Any

from slotwise.base.errors import InputError, refuse_unknown_name
from slotwise.base.extras import require
from slotwise.base.user_code import describe_value
from slotwise.data import LabelCounts
from slotwise.learning import History, Point
from slotwise.learning.task import metric_names
from slotwise.options.checks import option_names
from slotwise.report.colours import SCHEDULE_COLOURS, Subject
from slotwise.report.curves import CurveFigure, NamedCurve, Spread, coloured, loss_and_accuracy
from slotwise.report.figure_options import ALL, FigureOptions, Labels, X, relabelled
from slotwise.report.gantt.chart import describe, whole_window
from slotwise.report.gantt.drawing import compose
from slotwise.report.partition_figure import partition_figure
from slotwise.report.plotting import curves_figure, plot_figure, save_figure
from slotwise.runs import RunResult, SavedRun
from slotwise.runs.saved_run import MeasuredPoint, measured_points
from slotwise.schedule import Timeline
from slotwise.schedule.costs import Powers
from slotwise.setting.access_plan import AccessTable
from slotwise.setting.planning import PlanTable

Columns = Mapping[str, Sequence[Any]]

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame

MOST_ROWS = 10  # of an HTML table
HTML_SLOTS, HTML_DEVICES = 60, 20  # of an inline Gantt chart
NOTEBOOK_DPI = 110
UPLINK_COLUMNS = ("round", "device", "version", "staleness", "start", "end")


def to_pandas(value: Any) -> DataFrame:
    """Return a result as a pandas table."""
    require("pandas")
    from pandas import DataFrame  # noqa: PLC0415  (optional, and slow to import)

    return DataFrame(columns_of(value))


def plot(value: Any, *, ax: Any = None, **options: Any) -> Figure:
    """Return a result as a figure that a notebook shows, or the figure of the axes that it was drawn into."""
    figure = figure_of(value, figure_options(**options), ax)
    return figure if ax is not None else _shown(figure)


def plot_composed(figure: CurveFigure, options: FigureOptions, ax: Any) -> Figure:
    """Return a composed figure as one that a notebook shows, or draw it into the axes given."""
    drawn = plot_figure(figure, options, ax=ax)
    return drawn if ax is not None else _shown(drawn)


def figure_options(**options: Any) -> FigureOptions:
    """Return the options of a figure; an unknown name is a UserError."""
    for name in options:
        refuse_unknown_name("option", name, option_names(FigureOptions))
    return FigureOptions(**options)


Training = History | RunResult | SavedRun


def plot_curves(
    results: Mapping[str, Training | Sequence[Training]],
    *,
    metric: str | None = None,
    panel: str = ALL,
    x: X | None = None,
    band: Spread | None = None,
    labels: Labels = (),
    style: str | None = None,
    width: float | None = None,
    ax: Axes | Sequence[Axes] | None = None,
    powers: Powers | None = None,
    slot_seconds: float | None = None,
) -> Figure:
    """Return one figure with the curves of several trainings, by their labels in the legend.

    Curves of different schedules have the colours of these, and curves of different group sizes theirs.
    Losses far above the usual ones are cut off, with a note above the panel: they would flatten all curves.

    Args:
        results: Trainings by label; several of one label are seeds: a mean with a band.
        metric: What to show beside the training loss: accuracy (the default), test_loss or one of your own.
        panel: all, or one panel alone: loss, accuracy or another metric.
        x: Horizontal axis: slots, seconds, rounds, updates or joules.
        band: Spread over the seeds: min-max (the default), std, or 95% (confidence interval of the mean).
        labels: Texts of the legend in its order, or by the old text.
        style: ieee, or the name or file of a matplotlib style. Default: your matplotlib settings.
        width: Inches. Default: that of the style; of ieee 3.5 for one panel, 7.16 for several.
        ax: Your own axes, one for each panel; one alone gets the loss.
        powers: Watts of the devices, for joules.
        slot_seconds: Seconds of a slot, for seconds, unless the runs say it.
    """
    if not isinstance(results, Mapping):
        allowed = 'a mapping of label to History or RunResult, such as {"idfl": history}'
        raise InputError("results", describe_value(results), allowed)
    if not results:
        raise InputError("results", "none", "at least one, there is nothing to draw")
    if panel == ALL and ax is not None and not isinstance(ax, Iterable):
        panel = "loss" if metric is None else metric
        metric = None
    options = FigureOptions(panel=panel, x=x, band=band, style=style, width=width)
    curves = [_named_curve(label, result, powers, slot_seconds) for label, result in results.items()]
    figure = curves_figure(curves, metric, options)
    return plot_composed(relabelled(figure, labels) if labels else figure, options, ax)


def _named_curve(label: str, result: Any, powers: Powers | None, slot_seconds: float | None) -> NamedCurve:
    """Return the curve of one training, or of one with several seeds."""
    seeds = list(result) if isinstance(result, list | tuple) else [result]
    for seed in seeds:
        if not isinstance(seed, Training):
            allowed = "a History, a RunResult or a SavedRun each, or a list of them, one for each seed"
            raise InputError("results", f"{label}: {describe_value(seed)}", allowed)
    if not seeds:
        raise InputError("results", f"{label}: an empty list", "at least one training for each label")
    measured = tuple(_measured(seed, powers) for seed in seeds)
    lengths = {_slot_seconds(seed, slot_seconds) for seed in seeds}
    return NamedCurve(label, measured, _subject(label, seeds[0]), lengths.pop() if len(lengths) == 1 else nan)


def _measured(training: Training, powers: Powers | None) -> tuple[MeasuredPoint, ...]:
    """Return the evaluations with the updates applied and the joules spent; NaN if they are not known."""
    if isinstance(training, SavedRun):
        return training.curve(powers)
    history = training.history if isinstance(training, RunResult) else training
    return measured_points(history.points, history.timeline, powers)


def _slot_seconds(training: Training, given: float | None) -> float:
    """Return the seconds of a slot that a run or the caller says; NaN if neither does."""
    run = SavedRun.find(training.folder) if isinstance(training, RunResult) else training
    known = run.slot_seconds(given) if isinstance(run, SavedRun) else given
    return nan if known is None else known


def _subject(label: str, training: Training) -> Subject:
    """Return schedule and group size of a training; without a timeline, the schedule that its label names."""
    if isinstance(training, SavedRun):
        return Subject(training.config.schedule, training.config.channel.group_size)
    timeline = training.timeline
    if timeline is None:
        return Subject(label if label in SCHEDULE_COLOURS else "")
    return Subject(timeline.schedule, timeline.scenario.group_size)


def point_columns(points: Sequence[Point]) -> Columns:
    """Return evaluations by column; each further metric is a column of its own."""
    names = metric_names(point.metrics for point in points)
    columns = {name: [getattr(point, name) for point in points] for name in Point._fields[:-1]}
    return columns | {name: [point.metrics.get(name, nan) for point in points] for name in names}


def _shown(figure: Figure) -> Figure:
    # A notebook only shows figures of pyplot by itself, and those would stay in its global list.
    setattr(figure, "_repr_png_", lambda: save_figure(figure, "png", NOTEBOOK_DPI))  # noqa: B010
    return figure


@singledispatch
def columns_of(value: Any) -> Columns:
    """Return the columns of a table; results of higher layers have a method for it."""
    columns: Columns = value.columns()
    return columns


@singledispatch
def figure_of(value: Any, options: FigureOptions, ax: Any) -> Figure:
    """Return the figure of a result; results of higher layers have a method that composes their curves."""
    return plot_figure(value.curve_figure(), options, ax=ax)


@singledispatch
def to_html(value: Any) -> str:
    """Return a compact table."""
    return _html_table(columns_of(value))


@figure_of.register(CurveFigure)
def _curve_figure(figure: CurveFigure, options: FigureOptions, ax: Any) -> Figure:
    return plot_figure(figure, options, ax=ax)


@figure_of.register(Timeline)
def _timeline_figure(timeline: Timeline, options: FigureOptions, ax: Any) -> Figure:
    from slotwise.report.gantt.figure_chart import gantt_figure  # noqa: PLC0415  (loads matplotlib)

    return gantt_figure(compose(timeline), options, ax)


@to_html.register(Timeline)
def _timeline_html(timeline: Timeline) -> str:
    from slotwise.report.gantt.figure_chart import gantt_file  # noqa: PLC0415

    picture = compose(timeline, whole_window(timeline).cut(HTML_SLOTS), most_devices=HTML_DEVICES)
    svg = gantt_file(picture, "svg").decode()
    title = escape("; ".join(describe(timeline)))
    return f'<div role="img" aria-label="{title}" style="overflow-x:auto">{svg[svg.index("<svg") :]}</div>'


@figure_of.register(History)
def _history_figure(history: History, options: FigureOptions, ax: Any) -> Figure:
    curve = _named_curve("training", history, None, None)
    if options.panel == ALL and options.x is None:
        figure = CurveFigure("history", "", "", loss_and_accuracy(coloured([curve]))[:2])
    else:
        figure = curves_figure([curve], None, options)
    return plot_figure(figure, options, ax=ax, legend=False)


figure_of.register(LabelCounts, partition_figure)
columns_of.register(Timeline, lambda timeline: {name: getattr(timeline, name) for name in UPLINK_COLUMNS})
columns_of.register(History, lambda history: point_columns(history.points))
columns_of.register(RunResult, lambda result: columns_of(result.history))
figure_of.register(RunResult, lambda result, options, ax: figure_of(result.history, options, ax))
to_html.register(RunResult, lambda run: _html_table(columns_of(run.history), f"Run: {run.status}"))


@columns_of.register(PlanTable)
@columns_of.register(AccessTable)
def _plan_columns(plans: PlanTable | AccessTable) -> Columns:
    rows = [plan.as_dict() for plan in plans]
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}


@figure_of.register(PlanTable)
def _plan_figure(plans: PlanTable, options: FigureOptions, ax: Any) -> Figure:
    require("matplotlib")
    from slotwise.report.plan_figure import plan_figure  # noqa: PLC0415

    return plan_figure(plans, options, ax)


@figure_of.register(AccessTable)
def _access_figure(plans: AccessTable, options: FigureOptions, ax: Any) -> Figure:
    require("matplotlib")
    from slotwise.report.plan_figure import access_figure  # noqa: PLC0415

    return access_figure(plans, options, ax)


def _html_table(columns: Columns, caption: str = "") -> str:
    """Return an HTML table; rows in the middle of a long one are omitted."""
    rows = list(zip(*columns.values(), strict=True))
    half = MOST_ROWS // 2
    gap = [("…",) * len(columns)]
    shown = rows if len(rows) <= MOST_ROWS else [*rows[:half], *gap, *rows[-half:]]
    head = "".join(f'<th style="text-align:right">{escape(name)}</th>' for name in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in shown)
    notes = [caption] * bool(caption) + [f"{len(rows):,} rows"] * (len(rows) > MOST_ROWS)
    return (
        '<table style="text-align:right;border-spacing:1em 0.1em;font-variant-numeric:tabular-nums">'
        f'<caption style="text-align:left">{escape(", ".join(notes))}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def _cell(value: Any) -> str:
    text = f"{value:#.4g}" if isinstance(value, float) else str(value)
    if value is None or isinstance(value, int):
        text = "–" if value is None else f"{value:,}"
    return f"<td>{escape(text)}</td>"
