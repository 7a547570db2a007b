"""Tables and figure of the bounds of Theorem 1, with the measured mean squared gradient norm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rich.box import SIMPLE_HEAD
from rich.table import Table

from slotwise.base.extras import require
from slotwise.report.colours import BLUE, GREEN, PINK, VERMILLION
from slotwise.report.figure_options import FigureOptions
from slotwise.report.tables import table_console
from slotwise.runs.bound_case import BoundCase
from slotwise.theory.bound import Bound

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CONSTANT_NAMES = {
    "smoothness": "L, smoothness of f",
    "device_smoothness": "L of every device's loss",
    "gradient_noise": "σ², gradient noise",
    "noise_growth": "M, noise growth",
    "heterogeneity": "Γ², heterogeneity",
    "initial_gap": "f(w0) − f*",
    "initial_gradient2": "‖∇f(w0)‖²",
}
STYLES = {"published": (VERMILLION, "--"), "corrected": (GREEN, "-"), "round_robin": (PINK, "-.")}
MEASURED = BLUE.light
MOST_POINTS = 300


def print_case(case: BoundCase) -> None:
    """Print the constants, the three bounds side by side, and the reasons for which one does not hold."""
    console, setting, scenario = table_console(), case.setting, case.setting.scenario
    console.print(
        f"{scenario.devices:,} devices, {scenario.group_size:,} a round, {setting.rounds:,} rounds, "
        f"staleness {setting.staleness:,} (delay {setting.delay:,}),\n"
        f"step size {setting.learning_rate:g}, batches of {setting.batch_size:,}",
        highlight=False,
    )
    constants = _table("constant", "value")
    constants.add_column("", no_wrap=True)
    for name, words in CONSTANT_NAMES.items():
        value = getattr(case.constants, name)
        if value is not None:
            constants.add_row(words, f"{value:.4g}", "estimated" if name in case.estimated else "")
    console.print(constants)
    table, bounds = (
        _table("mean of ‖∇f(w_k)‖²", "published", "corrected", "round robin"),
        case.bounds.values(),
    )
    for name in ("q1", "q2", "q3", "q4"):
        table.add_row(name.upper(), *(f"{getattr(b, name):.4g}" for b in bounds))
    table.add_row("bound (Q2+Q3+Q4)/Q1", *(f"{b.value:.4g}" for b in bounds), style="bold")
    if case.measurement is not None:
        mean = f"{case.measurement.running_mean()[-1]:.4g}"
        table.add_row(f"measured at {len(case.measurement.rounds)} rounds", *([mean] * 3))
    table.add_row("largest step covered", *(f"{b.largest_rate:.4g}" for b in bounds))
    table.add_row("covers this case", *("yes" if b.covered else "no" for b in bounds))
    console.print(table)
    for name, bound in case.bounds.items():
        for reason in bound.uncovered:
            console.print(f"{name.replace('_', ' ')} does not cover it: {reason}", highlight=False)
    for note in case.notes:
        console.print(note, highlight=False)


def _table(first: str, *numbers: str) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column(first, no_wrap=True)
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def bound_figure(case: BoundCase, kind: str) -> bytes:
    """Return the content of a file of ``kind``: png, svg or pdf; the same values give the same bytes."""
    require("matplotlib")
    # Half a second that most commands do without.
    from slotwise.report.figure_grid import Grid  # noqa: PLC0415
    from slotwise.report.figure_style import figure_file  # noqa: PLC0415

    setting, measurement = case.setting, case.measurement
    rounds = np.unique(np.rint(np.geomspace(1, setting.rounds, MOST_POINTS)).astype(np.int64))
    bounds = [replace(case, setting=replace(setting, rounds=int(count))).bounds for count in rounds]
    grid = Grid.of(1, FigureOptions())
    (axes,) = grid.axes
    for name in STYLES:
        _draw_theorem(axes, name, rounds, [each[name] for each in bounds])
    if measurement is not None:
        # w_k, the model after k rounds, is at k + 1, the number of models up to it.
        mean, places = measurement.running_mean(), np.array(measurement.rounds) + 1
        axes.plot(np.arange(1, len(mean) + 1), mean, color=MEASURED, lw=1.8, label="measured mean")
        dots: dict[str, Any] = {"color": MEASURED, "ms": 3, "mfc": "white", "mew": 0.8}
        axes.plot(places, measurement.gradient2, "o", label="measured ‖∇f(w$_k$)‖²", **dots)
    _finish(axes, case)
    grid.add_legend([line for line in axes.lines if not str(line.get_label()).startswith("_")])
    return figure_file(grid.figure, kind)


def _draw_theorem(axes: Axes, name: str, rounds: NDArray[np.int64], bounds: Sequence[Bound]) -> None:
    """Draw a full line where the theorem holds, a thin dotted one where only its formula has a value."""
    # A logarithmic axis has no place for the printed formula where it falls below 0.
    values = np.array([bound.value if 0 < bound.value < np.inf else np.nan for bound in bounds])
    covered = np.array([bound.covered for bound in bounds])
    dotted = ~covered  # and its neighbours, so that the two parts of the line meet
    dotted[1:] |= ~covered[:-1]
    dotted[:-1] |= ~covered[1:]
    colour, dashes = STYLES[name][0].light, STYLES[name][1]
    axes.plot(rounds, np.where(covered, values, np.nan), color=colour, linestyle=dashes, lw=1.6)
    axes.plot(rounds, np.where(dotted, values, np.nan), color=colour, linestyle=":", lw=1.0)
    label = name.replace("_", " ") + (" bound" if covered.any() else " (does not hold here)")
    if not np.isfinite(values).any():
        label = name.replace("_", " ") + ": no bound here"
    axes.plot([], [], color=colour, linestyle=dashes if covered.any() else ":", lw=1.6, label=label)


def _finish(axes: Axes, case: BoundCase) -> None:
    setting, constants = case.setting, case.constants
    axes.set_xscale("log")
    if any(np.isfinite(line.get_ydata()).any() for line in axes.lines):
        axes.set_yscale("log")  # which an empty chart cannot have
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("")
    axes.margins(x=0.02)
    axes.plot([], [], color="#6f6f6f", linestyle=":", lw=1.0, label="outside a theorem's range")
    axes.set_xlabel("training rounds, K + 1")
    axes.set_ylabel("mean of ‖∇f(w$_k$)‖² over rounds 0 to K")
    axes.set_title(
        f"N = {setting.scenario.devices}, S = {setting.scenario.group_size}, staleness {setting.staleness}, "
        f"step size {setting.learning_rate:g}, batch {setting.batch_size}\n"
        f"L = {constants.smoothness:.3g} (devices {constants.largest_smoothness:.3g}), "
        f"σ² = {constants.gradient_noise:.3g}, M = {constants.noise_growth:.3g}, "
        f"Γ² = {constants.heterogeneity:.3g}",
        loc="left",
        fontsize="small",
    )
