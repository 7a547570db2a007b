"""Tables, plots and HTML of results for notebooks: the functions behind `slotwise.notebook.Displayable`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import singledispatch
from html import escape
from typing import TYPE_CHECKING, Any

from slotwise.errors import UserError
from slotwise.learning import History, Point
from slotwise.planning import PlanTable
from slotwise.report.curves import BLUE, GREEN, VERMILLION, CurveFigure, Line, Panel
from slotwise.report.gantt.chart import describe, whole_window
from slotwise.report.gantt.drawing import compose
from slotwise.report.plotting import WIDTH, clear_frame, figure_style, plot_figure, save_figure
from slotwise.report.tables import plan_title
from slotwise.runs import RunResult
from slotwise.schedule import Timeline

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

MOST_ROWS = 10  # of an HTML table
HTML_SLOTS, HTML_DEVICES = 60, 20  # of an inline Gantt chart
MOST_LABELS = 10  # below a panel
NOTEBOOK_DPI = 110
UPLINK_COLUMNS = ("round", "device", "version", "staleness", "start", "end")


def to_pandas(value: Any) -> DataFrame:
    """Return a result as a pandas table."""
    try:
        from pandas import DataFrame  # noqa: PLC0415  (optional, and slow to import)
    except ModuleNotFoundError:
        raise UserError("pandas is not installed: pip install 'slotwise[pandas]'") from None
    return DataFrame(columns_of(value))


def plot(value: Any) -> Figure:
    """Return a result as a figure that a notebook shows."""
    figure = figure_of(value)
    # A notebook only shows figures of pyplot by itself, and those would stay in its global list.
    setattr(figure, "_repr_png_", lambda: save_figure(figure, "png", NOTEBOOK_DPI))  # noqa: B010
    return figure


@singledispatch
def columns_of(value: Any) -> Mapping[str, Sequence[Any]]:
    """Return the columns of a table; results of higher layers have a method for it."""
    columns: Mapping[str, Sequence[Any]] = value.columns()
    return columns


@singledispatch
def figure_of(value: Any) -> Figure:
    """Return the figure of a result; results of higher layers have a method that composes their curves."""
    return plot_figure(value.curve_figure())


@singledispatch
def to_html(value: Any) -> str:
    """Return a compact table."""
    return _html_table(columns_of(value))


@columns_of.register(Timeline)
def _timeline_columns(timeline: Timeline) -> Mapping[str, Sequence[Any]]:
    return {name: getattr(timeline, name) for name in UPLINK_COLUMNS}


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


@columns_of.register(History)
def _history_columns(history: History) -> Mapping[str, Sequence[Any]]:
    return {name: [getattr(point, name) for point in history.points] for name in Point._fields}


@figure_of.register(History)
def _history_figure(history: History) -> Figure:
    lines = (Line("training", BLUE, False, (history.points,)),)
    panels = (
        Panel("Loss against slots", "slot", "loss", lines),
        Panel("Accuracy against slots", "slot", "accuracy", lines),
    )
    return plot_figure(CurveFigure("history", "", "", panels), legend=False)


columns_of.register(RunResult, lambda result: columns_of(result.history))
figure_of.register(RunResult, lambda result: figure_of(result.history))


@to_html.register(RunResult)
def _run_html(result: RunResult) -> str:
    return _html_table(columns_of(result.history), f"Run: {result.status}")


@columns_of.register(PlanTable)
def _plan_columns(plans: PlanTable) -> Mapping[str, Sequence[Any]]:
    rows = [plan.as_dict() for plan in plans]
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}


@figure_of.register(PlanTable)
def _plan_figure(plans: PlanTable) -> Figure:
    from matplotlib.figure import Figure  # noqa: PLC0415

    columns = columns_of(plans)
    sizes = columns["group_size"]
    labels = _spaced(sizes)
    panels = {
        "completed rounds": {"async and idfl": ("rounds", BLUE), "sync": ("sync_rounds", VERMILLION)},
        "staleness (rounds)": {"async": ("staleness_async", BLUE), "idfl": ("staleness_idfl", GREEN)},
    }
    with figure_style():
        figure = Figure(figsize=(WIDTH, 2.8), layout="constrained")
        figure.suptitle(plan_title(plans[0].scenario), fontsize=8)
        for axes, (title, lines) in zip(figure.subplots(1, 2), panels.items(), strict=True):
            for label, (name, colour) in lines.items():
                axes.plot(sizes, columns[name], "o-", ms=3.5, color=colour.light, label=label)
            axes.set_xscale("log")
            axes.set_xticks(sizes, [f"{size:,}" if size in labels else "" for size in sizes])
            axes.set_xticks([], minor=True)
            axes.set_ylim(bottom=0)
            axes.set(xlabel="group size", ylabel=title)
            axes.yaxis.set_major_formatter("{x:,g}")
            clear_frame(axes)
            axes.legend(frameon=False)
    return figure


def _spaced(sizes: Sequence[int]) -> set[int]:
    """Return the sizes that have room for a label on a logarithmic axis."""
    factor = (max(sizes) / min(sizes)) ** (1 / MOST_LABELS)
    shown: list[int] = []
    for size in sorted(sizes):
        if not shown or size >= factor * shown[-1]:
            shown.append(size)
    return set(shown)


def _html_table(columns: Mapping[str, Sequence[Any]], caption: str = "") -> str:
    """Return an HTML table; rows in the middle of a long one are omitted."""
    rows = list(zip(*columns.values(), strict=True))
    half = MOST_ROWS // 2
    gap = [("…",) * len(columns)]
    shown = rows if len(rows) <= MOST_ROWS else [*rows[:half], *gap, *rows[-half:]]
    head = "".join(f'<th style="text-align:right">{escape(name)}</th>' for name in columns)
    body = "".join("<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row) + "</tr>" for row in shown)
    notes = [caption] * bool(caption) + [f"{len(rows):,} rows"] * (len(rows) > MOST_ROWS)
    return (
        '<table style="text-align:right;border-spacing:1em 0.1em;font-variant-numeric:tabular-nums">'
        f'<caption style="text-align:left">{escape(", ".join(notes))}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, int):
        return f"{value:,}"
    return escape(f"{value:#.4g}" if isinstance(value, float) else str(value))
