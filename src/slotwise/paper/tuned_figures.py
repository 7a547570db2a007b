"""Figures of the tuned study: loss against step, best step against staleness, and the judged runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from statistics import fmean

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator

from slotwise.base.files import write_atomically
from slotwise.paper.histories import TrainedCurve
from slotwise.paper.tuned import DEADLINE, GUESS_WITHOUT_STALENESS, PILOT_DEADLINE, step_size
from slotwise.paper.tuned_results import TunedMethod, by_group_size, sine, with_pilots
from slotwise.paper.tuned_rules import case_of
from slotwise.report.colours import BLACK, PINK, SCHEDULE_COLOURS, Colour, size_colour
from slotwise.report.figure_style import COLUMN, StyledFigure, figure_file, using_style
from slotwise.report.number_text import loss_text

PANEL_WIDTH, PANEL_HEIGHT, WIDTH = 3.3, 2.9, 5.2  # inches; WIDTH of a single panel
TOP = 3.0  # of loss axes: above, a run is no better than guessing
LETTERS = "abcdefgh"
Statistic = Callable[[TrainedCurve], float]


def draw_figures(folder: Path, methods: Sequence[TunedMethod]) -> tuple[str, ...]:
    """Draw the figures that there are runs for, as PNG and PDF; return their names."""
    figures = {
        "steps": _steps(methods),
        "staleness": _staleness(methods),
        "map": _map(methods),
        "judged": _judged(methods),
    }
    return _written(folder, figures)


def draw_column_figures(folder: Path, methods: Sequence[TunedMethod]) -> tuple[str, ...]:
    """Draw the figures of the note in the width of a column of an IEEE journal; return their names."""
    with using_style("ieee"):
        figures = {"tuned-map": _map(methods, COLUMN), "tuned-staleness": _staleness(methods, COLUMN)}
        return _written(folder, figures)


def _written(folder: Path, figures: Mapping[str, StyledFigure | None]) -> tuple[str, ...]:
    """Write figures as PNG and PDF; return the names of those that there are."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = {name: figure for name, figure in figures.items() if figure is not None}
    for name, figure in drawn.items():
        for kind in ("png", "pdf"):
            write_atomically(folder / f"{name}.{kind}", figure_file(figure, kind, dpi=150))
    return tuple(drawn)


def _steps(methods: Sequence[TunedMethod]) -> StyledFigure | None:
    """Return the losses of pilots and tuning runs against the step, a panel for each group size."""
    sizes = by_group_size(one for one in methods if one.pilots)
    if not sizes:
        return None
    figure, panels = _figure(len(sizes), share=True)
    for letter, axes, (size, own) in zip(LETTERS, panels, sizes.items(), strict=False):
        for one in own:
            _draw_losses(axes, one)
        axes.set(xlabel="step size", title=f"({letter}) S={size}")
        _log_axes(axes)
    panels[0].set_ylim(top=TOP)  # of all panels; only now, because it fixes both limits
    panels[0].set_ylabel("final training loss")
    looks = {one.schedule: _colour(one) for own in sizes.values() for one in own}
    handles = [
        Line2D([], [], color=look.light, marker=look.marker, label=name) for name, look in looks.items()
    ]
    lengths = {f"T={PILOT_DEADLINE:,}": ("white", "--"), f"T={DEADLINE:,}": ("#555555", "-")}
    handles += [
        Line2D([], [], color="#555555", marker="o", mfc=face, ls=dashes, label=label)
        for label, (face, dashes) in lengths.items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2 * min(len(sizes), 3), frameon=False)
    return figure


def _draw_losses(axes: Axes, one: TunedMethod) -> None:
    """Draw the pilots with hollow markers and dashed lines, the tuning runs with full ones."""
    look = _colour(one)
    for curves, face, dashes in ((one.pilots, "white", "--"), (one.tuning, look.light, "-")):
        known = {p: curve.final_loss for p, curve in curves.items() if isfinite(curve.final_loss)}
        steps = [step_size(power) for power in known]
        axes.plot(
            steps, [*known.values()], dashes, color=look.light, marker=look.marker, mfc=face, ms=5, lw=1.2
        )


def _staleness(methods: Sequence[TunedMethod], width: float = WIDTH) -> StyledFigure | None:
    """Return the best steps of the pilots against d, next to the formula."""
    sizes = by_group_size(with_pilots(methods))
    if not sizes:
        return None
    figure, (axes,) = _figure(1, width=width)
    ages = np.arange(100)
    formula = [GUESS_WITHOUT_STALENESS * sine(int(age)) for age in ages]
    axes.plot(ages + 1, formula, color="#777777", lw=1.2, label="0.128·sin(π/(2(2d+1))), the first guess")
    for size, own in sizes.items():
        look = size_colour(size)
        places = [one.method.staleness + 1 for one in own]
        steps = [step_size(one.pilot_power or 0) for one in own]
        axes.plot(places, steps, ":", color=look.light, marker=look.marker, ms=6, label=f"S={size}")
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="d + 1, with d the staleness in rounds",
        ylabel="best step (pilots)",
    )
    _log_axes(axes)
    axes.legend(frameon=False, fontsize="small")
    return figure


def _map(methods: Sequence[TunedMethod], width: float = WIDTH) -> StyledFigure | None:
    """Return the loss of each method at its best step, by group size and staleness."""
    known = [(one, case_of(one, is_judged=bool(one.judged))) for one in with_pilots(methods)]
    if len(known) < 2:
        return None
    figure, (axes,) = _figure(1, width=width)
    sizes = sorted({case.size for _, case in known})
    norm = LogNorm()
    norm.autoscale(np.ma.masked_invalid([case.loss for _, case in known]))
    for one, case in known:
        look, place = _colour(one), (sizes.index(case.size), case.staleness + 1)
        axes.scatter(
            *place,
            c=[case.loss],
            norm=norm,
            cmap="viridis_r",
            s=29 * width,
            marker=look.marker,
            edgecolors=look.light,
            lw=1.8,
        )
        axes.annotate(
            loss_text(case.loss, ".2g") + "*" * case.is_judged,
            place,
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            fontsize="x-small",
        )
    axes.set(yscale="log", xlabel="group size S", ylabel="d + 1, with d the staleness in rounds")
    axes.set_xticks(range(len(sizes)), [str(size) for size in sizes])
    axes.set(ylim=(0.6, 220), xlim=(-0.5, len(sizes) - 0.1))
    axes.yaxis.set_major_formatter("{x:g}")
    handles = [
        Line2D([], [], ls="", marker=look.marker, mfc="white", mec=look.light, mew=1.8, label=name)
        for name, look in SCHEDULE_COLOURS.items()
    ]
    axes.legend(handles=handles, frameon=False, fontsize="small")
    bar = figure.colorbar(
        axes.collections[0], label="final training loss", format="{x:g}", ticks=LogLocator(subs=(1, 2, 5))
    )
    bar.minorticks_off()
    return figure


def _judged(methods: Sequence[TunedMethod]) -> StyledFigure | None:
    """Return loss and accuracy of the judged runs against the group size, with bands over the seeds."""
    judged = [one for one in methods if one.judged and one.schedule in SCHEDULE_COLOURS]
    if len(judged) < 2:
        return None
    figure, panels = _figure(2)
    sizes = sorted({one.method.group_size for one in judged})
    for shift, schedule in zip((-0.12, 0, 0.12), SCHEDULE_COLOURS, strict=True):  # beside each other
        own = [one for one in judged if one.schedule == schedule]
        places = [sizes.index(one.method.group_size) + shift for one in own]
        _draw_band(panels[0], own, places, lambda curve: curve.final_loss)
        _draw_band(panels[1], own, places, lambda curve: 100 * curve.final_accuracy)
    panels[0].set(ylabel="training loss", title="(a)")
    panels[1].set(ylabel="test accuracy (%)", title="(b)")
    _log_axes(panels[0])
    for axes in panels:
        axes.set(xscale="linear", xlabel="group size S", xlim=(-0.5, len(sizes) - 0.5))
        axes.set_xticks(range(len(sizes)), [str(size) for size in sizes])
    panels[0].legend(frameon=False)
    return figure


def _draw_band(axes: Axes, own: Sequence[TunedMethod], places: Sequence[float], statistic: Statistic) -> None:
    """Draw the mean over the judging seeds, and bars from the lowest to the highest."""
    if not own:
        return
    look = _colour(own[0])
    values = [[statistic(curve) for curve in one.judged] for one in own]
    means = [fmean(seeds) for seeds in values]
    below = [mean - min(seeds) for mean, seeds in zip(means, values, strict=True)]
    above = [max(seeds) - mean for mean, seeds in zip(means, values, strict=True)]
    axes.errorbar(
        places,
        means,
        [below, above],
        ls="",
        color=look.light,
        marker=look.marker,
        capsize=3,
        label=own[0].schedule,
    )


def _log_axes(axes: Axes) -> None:
    """Make both axes logarithmic, with plain numbers at 1, 2 and 5 times powers of ten."""
    axes.set(xscale="log", yscale="log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("")


def _colour(one: TunedMethod) -> Colour:
    """Return the colour of a schedule; delays in between differ in their markers only."""
    if one.schedule in SCHEDULE_COLOURS:
        return SCHEDULE_COLOURS[one.schedule]
    return (PINK if one.method.staleness % 2 else BLACK)._replace(marker=f"${one.method.staleness}$")


def _figure(
    panels: int, width: float = PANEL_WIDTH, *, share: bool = False
) -> tuple[StyledFigure, list[Axes]]:
    figure = StyledFigure(
        figsize=(width * min(panels, 3), PANEL_HEIGHT * -(-panels // 3) + 0.5), layout="constrained"
    )
    grid = figure.subplots(-(-panels // 3), min(panels, 3), squeeze=False, sharex=share, sharey=share)
    axes = list(grid.flat)
    for one in axes:
        one.tick_params(labelbottom=True)  # of shared axes, too
    for empty in axes[panels:]:
        empty.set_visible(False)
    return figure, axes[:panels]
