"""Tables, plots and HTML of results for notebooks: the functions behind `base.notebook.Displayable`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import singledispatch
from html import escape
from math import nan
from typing import TYPE_CHECKING, Any

from slotwise.base.errors import InputError
from slotwise.base.extras import require
from slotwise.base.user_code import describe_value
from slotwise.data import LabelCounts
from slotwise.learning import History, Point
from slotwise.learning.task import metric_names
from slotwise.report.colours import BLUE, SCHEDULE_COLOURS, Colour, Subject, schedule_colours
from slotwise.report.curves import CurveFigure, Line, NamedCurve, loss_and_accuracy
from slotwise.report.gantt.chart import describe, whole_window
from slotwise.report.gantt.drawing import compose
from slotwise.report.partition_figure import partition_figure
from slotwise.report.plotting import (
    WIDTH,
    clear_frame,
    curves_figure,
    figure_style,
    plot_figure,
    save_figure,
)
from slotwise.report.tables import plan_title
from slotwise.runs import RunResult
from slotwise.schedule import Timeline
from slotwise.setting.planning import FleetPlan, Plan, PlanTable

Columns = Mapping[str, Sequence[Any]]

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

MOST_ROWS = 10  # of an HTML table
HTML_SLOTS, HTML_DEVICES = 60, 20  # of an inline Gantt chart
MOST_LABELS = 10  # below a panel
NOTEBOOK_DPI = 110
PLAN_COLOURS = SCHEDULE_COLOURS | {"async and idfl": SCHEDULE_COLOURS["async"]}
UPLINK_COLUMNS = ("round", "device", "version", "staleness", "start", "end")


def to_pandas(value: Any) -> DataFrame:
    """Return a result as a pandas table."""
    require("pandas")
    from pandas import DataFrame  # noqa: PLC0415  (optional, and slow to import)

    return DataFrame(columns_of(value))


def plot(value: Any) -> Figure:
    """Return a result as a figure that a notebook shows."""
    return _shown(figure_of(value))


def plot_curves(results: Mapping[str, History | RunResult], *, metric: str = "accuracy") -> Figure:
    """Return one figure with the curves of several trainings, by their labels in the legend.

    Losses far above the usual ones are cut off, with a note above the panel: they would flatten all curves.

    Args:
        results: Trainings by label.
        metric: What to show beside the training loss: accuracy, test_loss or a metric of your own.
    """
    if not isinstance(results, Mapping):
        allowed = 'a mapping of label to History or RunResult, such as {"idfl": history}'
        raise InputError("results", describe_value(results), allowed)
    if not results:
        raise InputError("results", "none", "at least one, there is nothing to draw")
    curves = []
    for label, result in results.items():
        history = result.history if isinstance(result, RunResult) else result
        if not isinstance(history, History):
            raise InputError("results", f"{label}: {describe_value(result)}", "a History or a RunResult each")
        curves.append(NamedCurve(label, (history.points,), _subject(label, history)))
    return _shown(plot_figure(curves_figure(curves, metric)))


def _subject(label: str, history: History) -> Subject:
    """Return schedule and group size of a training; without a timeline, the schedule that its label names."""
    if history.timeline is None:
        return Subject(label if label in SCHEDULE_COLOURS else "")
    return Subject(history.timeline.schedule, history.timeline.scenario.group_size)


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
def figure_of(value: Any) -> Figure:
    """Return the figure of a result; results of higher layers have a method that composes their curves."""
    return plot_figure(value.curve_figure())


@singledispatch
def to_html(value: Any) -> str:
    """Return a compact table."""
    return _html_table(columns_of(value))


@figure_of.register(CurveFigure)
def _curve_figure(figure: CurveFigure) -> Figure:
    return plot_figure(figure)


@figure_of.register(Timeline)
def _timeline_figure(timeline: Timeline) -> Figure:
    from slotwise.report.gantt.figure_chart import gantt_figure  # noqa: PLC0415  (loads matplotlib)

    return gantt_figure(compose(timeline))


@to_html.register(Timeline)
def _timeline_html(timeline: Timeline) -> str:
    from slotwise.report.gantt.figure_chart import gantt_file  # noqa: PLC0415

    picture = compose(timeline, whole_window(timeline).cut(HTML_SLOTS), most_devices=HTML_DEVICES)
    svg = gantt_file(picture, "svg").decode()
    title = escape("; ".join(describe(timeline)))
    return f'<div role="img" aria-label="{title}" style="overflow-x:auto">{svg[svg.index("<svg") :]}</div>'


def _history_colour(history: History) -> Colour:
    """Return the colour of the schedule, also if it is the only curve."""
    schedule = _subject("", history).schedule
    return schedule_colours([schedule])[schedule] if schedule else BLUE


@figure_of.register(History)
def _history_figure(history: History) -> Figure:
    panels = loss_and_accuracy((Line("training", _history_colour(history), "solid", (history.points,)),))[:2]
    return plot_figure(CurveFigure("history", "", "", panels), legend=False)


figure_of.register(LabelCounts, partition_figure)
columns_of.register(Timeline, lambda timeline: {name: getattr(timeline, name) for name in UPLINK_COLUMNS})
columns_of.register(History, lambda history: point_columns(history.points))
columns_of.register(RunResult, lambda result: columns_of(result.history))
figure_of.register(RunResult, lambda result: figure_of(result.history))
to_html.register(RunResult, lambda run: _html_table(columns_of(run.history), f"Run: {run.status}"))


@columns_of.register(PlanTable)
def _plan_columns(plans: PlanTable) -> Columns:
    rows = [plan.as_dict() for plan in plans]
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}


@figure_of.register(PlanTable)
def _plan_figure(plans: PlanTable) -> Figure:
    require("matplotlib")
    from matplotlib.figure import Figure  # noqa: PLC0415

    if not plans:
        raise InputError("plans", "none", "at least one, there is nothing to draw")
    sizes = [plan.scenario.group_size for plan in plans]
    labels: list[int] = []  # those that have room on a logarithmic axis
    for size in sorted(sizes):
        if not labels or size >= (max(sizes) / min(sizes)) ** (1 / MOST_LABELS) * labels[-1]:
            labels.append(size)
    with figure_style():
        figure = Figure(figsize=(WIDTH, 2.8), layout="constrained")
        figure.suptitle(plan_title(plans[0]), fontsize=8)
        panels = zip(*(_plan_values(plan) for plan in plans), strict=True)
        titles = ("completed rounds", "staleness (rounds)")
        for axes, title, values in zip(figure.subplots(1, 2), titles, panels, strict=True):
            for label in values[0]:
                colour = PLAN_COLOURS[label].light
                axes.plot(sizes, [value[label] for value in values], "o-", ms=3.5, color=colour, label=label)
            axes.set_xscale("log")
            axes.set_xticks(sizes, [f"{size:,}" if size in labels else "" for size in sizes])
            axes.set_xticks([], minor=True)
            axes.set_ylim(bottom=0)
            axes.set(xlabel="group size", ylabel=title)
            axes.yaxis.set_major_formatter("{x:,g}")
            clear_frame(axes)
            axes.legend(frameon=False)
    return figure


def _plan_values(plan: Plan | FleetPlan) -> tuple[dict[str, float], dict[str, float]]:
    """Return rounds and staleness by the label of their line."""
    if isinstance(plan, FleetPlan):
        names = ("async", "idfl", "sync")
        rounds: dict[str, float] = {name: plan.schedules[name].rounds for name in names}
        return rounds, {name: plan.schedules[name].mean_staleness for name in names[:2]}
    figures = plan.figures()
    rounds = {"async and idfl": figures["rounds"], "sync": figures["sync_rounds"]}
    return rounds, {"async": figures["staleness_async"], "idfl": figures["staleness_idfl"]}


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
