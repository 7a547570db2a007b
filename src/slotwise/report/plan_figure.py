"""Figures of plans: rounds and staleness against the group size, and bars of the access schemes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from slotwise.base.errors import InputError
from slotwise.base.extras import importing
from slotwise.report.colours import SCHEDULE_COLOURS
from slotwise.report.figure_grid import Grid, fitting_labels
from slotwise.report.figure_options import ALL, FigureOptions
from slotwise.report.figure_style import figure_of_axes, using_style
from slotwise.report.tables import plan_title
from slotwise.setting.access_plan import AccessTable
from slotwise.setting.planning import FleetPlan, Plan, PlanTable

with importing():
    from matplotlib.axes import Axes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLES = {"rounds": "completed rounds", "staleness": "staleness (rounds)"}
ACCESS_TITLES = {"rounds": "completed rounds", "joules": "joules of all devices"}
COLOURS = SCHEDULE_COLOURS | {"async and idfl": SCHEDULE_COLOURS["async"]}
LABEL = 3.5  # width of a label with its gap, in font sizes


def plan_figure(plans: PlanTable, options: FigureOptions, ax: Axes | Sequence[Axes] | None) -> Figure:
    """Return a figure of both panels, or of the one that the options name."""
    if not plans:
        raise InputError("plans", "none", "at least one, there is nothing to draw")
    names = tuple(TITLES) if options.panel == ALL else (options.panel,)
    if names[0] not in TITLES:
        raise InputError("panel", options.panel, "all, rounds or staleness")
    return _panels(names, partial(draw_plan, plans=plans), options, ax, plan_title(plans[0]))


def draw_plan(axes: Axes, plans: PlanTable, name: str) -> None:
    """Draw rounds or staleness against the group size."""
    sizes = [plan.scenario.group_size for plan in plans]
    values = [_values(plan)[name] for plan in plans]
    for label in values[0]:
        look: dict[str, Any] = {"color": COLOURS[label].light, "marker": COLOURS[label].marker}
        axes.plot(sizes, [value[label] for value in values], label=label, **look)
    axes.set_xscale("log")
    shown = _with_room(sizes, fitting_labels(axes, LABEL))
    axes.set_xticks(sizes, [f"{size:,}" if size in shown else "" for size in sizes])
    axes.set_xticks([], minor=True)
    axes.set_ylim(bottom=0)
    axes.set(xlabel="group size", ylabel=TITLES[name])
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.legend()


def _with_room(sizes: Sequence[int], most: int) -> list[int]:
    """Return the group sizes whose labels have room on a logarithmic axis, if ``most`` have."""
    labels: list[int] = []
    for size in sorted(sizes):
        if not labels or size >= (max(sizes) / min(sizes)) ** (1 / most) * labels[-1]:
            labels.append(size)
    return labels


def _values(plan: Plan | FleetPlan) -> dict[str, dict[str, float]]:
    """Return rounds and staleness by the label of their line."""
    if isinstance(plan, FleetPlan):
        names = ("async", "idfl", "sync")
        rounds: dict[str, float] = {name: plan.schedules[name].rounds for name in names}
        return {
            "rounds": rounds,
            "staleness": {name: plan.schedules[name].mean_staleness for name in names[:2]},
        }
    figures = plan.figures()
    return {
        "rounds": {"async and idfl": figures["rounds"], "sync": figures["sync_rounds"]},
        "staleness": {"async": figures["staleness_async"], "idfl": figures["staleness_idfl"]},
    }


def access_figure(plans: AccessTable, options: FigureOptions, ax: Axes | Sequence[Axes] | None) -> Figure:
    """Return a figure of bars: rounds of every scheme and schedule, and joules where they are known."""
    if not plans:
        raise InputError("plans", "none", "at least one, there is nothing to draw")
    known = [name for name in ACCESS_TITLES if name == "rounds" or plans[0].joules is not None]
    names = known if options.panel == ALL else [options.panel]
    if names[0] not in known:
        raise InputError("panel", options.panel, f"{ALL} or {' or '.join(known)}")
    return _panels(names, partial(_draw_bars, plans=plans), options, ax)


def _panels(
    names: Sequence[str],
    draw: Callable[..., None],
    options: FigureOptions,
    ax: Axes | Sequence[Axes] | None,
    title: str = "",
) -> Figure:
    """Return a figure with a panel for each name, made by ``draw(axes, name=name)``, or draw into ``ax``."""
    if ax is not None:
        options.refuse_own_figure()
        axes = list(ax) if isinstance(ax, Iterable) else [ax]
        for name, one in zip(names, axes, strict=False):
            draw(one, name=name)
        return figure_of_axes(axes[0])
    with using_style(options.style):
        grid = Grid.of(len(names), options)
        for name, one in zip(names, grid.axes, strict=True):
            draw(one, name=name)
        if title and not grid.of_paper:
            grid.figure.suptitle(title, fontsize="medium")
        return grid.figure


def _draw_bars(axes: Axes, plans: AccessTable, name: str) -> None:
    """Draw a group of bars for each scheme and group size, with a bar for each schedule."""
    sizes = {plan.scenario.group_size for plan in plans}
    groups: dict[str, dict[str, float]] = {}
    for plan in plans:
        label = "-\n".join(plan.access.rsplit("-", 1))  # over-the-air is wider than its bars
        label += f"\nS = {plan.scenario.group_size}" if len(sizes) > 1 else ""
        value = plan.totals.rounds if name == "rounds" else plan.joules
        groups.setdefault(label, {})[plan.schedule] = value or 0.0
    schedules = list(next(iter(groups.values())))
    width = 0.8 / len(schedules)
    for number, schedule in enumerate(schedules):
        places = [place + (number - (len(schedules) - 1) / 2) * width for place in range(len(groups))]
        values = [group[schedule] for group in groups.values()]
        axes.bar(places, values, width, label=schedule, color=COLOURS[schedule].light)
    axes.set_axisbelow(True)
    axes.set_xticks(range(len(groups)), list(groups))
    axes.set_ylabel(ACCESS_TITLES[name])
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.legend()
