"""Figure of the bounds of Theorem 1 against rounds, with the measured mean squared gradient norm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from slotwise.learning.estimation import Measurement
from slotwise.report.curves.panels import BLUE, GREEN, PINK, VERMILLION
from slotwise.report.curves.plotting import WIDTH, clear_frame, figure_style, save_figure
from slotwise.theory.bound import Bound, Constants, Setting, corrected, published, round_robin

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Theorem = Callable[[Constants, Setting], Bound]
THEOREMS: dict[str, Theorem] = {"published": published, "corrected": corrected, "round robin": round_robin}
STYLES = {
    "published": (VERMILLION.light, "--"),
    "corrected": (GREEN.light, "-"),
    "round robin": (PINK.light, "-."),
}
MEASURED = BLUE.light
MOST_POINTS = 300
HEIGHT = 4.3  # inches


def bound_figure(
    constants: Constants, setting: Setting, kind: str, measurement: Measurement | None = None
) -> bytes:
    """Return the content of a file of ``kind``: png, svg or pdf; the same values give the same bytes."""
    from matplotlib.figure import Figure  # noqa: PLC0415  (half a second that most commands do without)

    with figure_style():
        figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        axes = figure.subplots()
        for name in THEOREMS:
            _draw_theorem(axes, name, constants, setting)
        if measurement is not None:
            _draw_measured(axes, measurement)
        _finish(axes, constants, setting)
        figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return save_figure(figure, kind)


def _draw_theorem(axes: Axes, name: str, constants: Constants, setting: Setting) -> None:
    """Draw a full line where the theorem holds, a thin dotted one where only its formula has a value."""
    rounds = _rounds(setting.rounds)
    bounds = [THEOREMS[name](constants, replace(setting, rounds=int(count))) for count in rounds]
    # A logarithmic axis has no place for the printed formula where it falls below 0.
    values = np.array([bound.value if 0 < bound.value < np.inf else np.nan for bound in bounds])
    covered = np.array([bound.covered for bound in bounds])
    colour, dashes = STYLES[name]
    axes.plot(rounds, np.where(covered, values, np.nan), color=colour, linestyle=dashes, lw=1.6)
    axes.plot(rounds, np.where(_beside(~covered), values, np.nan), color=colour, linestyle=":", lw=1.0)
    style = dashes if covered.any() else ":"
    axes.plot([], [], color=colour, linestyle=style, lw=1.6, label=_label(name, values, covered))


def _label(name: str, values: NDArray[np.float64], covered: NDArray[np.bool_]) -> str:
    if not np.isfinite(values).any():
        return f"{name}: no bound here"
    return f"{name} bound" if covered.any() else f"{name} (does not hold here)"


def _beside(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Extend a mask to its neighbours, so that two parts of a line meet."""
    wider = mask.copy()
    wider[1:] |= mask[:-1]
    wider[:-1] |= mask[1:]
    return wider


def _rounds(last: int) -> NDArray[np.int64]:
    return np.unique(np.rint(np.geomspace(1, last, MOST_POINTS)).astype(np.int64))


def _draw_measured(axes: Axes, measurement: Measurement) -> None:
    """Draw the measured norms; w_k, the model after k rounds, is at k + 1, the number of models up to it."""
    mean = measurement.running_mean()
    axes.plot(np.arange(1, len(mean) + 1), mean, color=MEASURED, lw=1.8, label="measured mean")
    places = np.array(measurement.rounds) + 1
    label = "measured ‖∇f(w$_k$)‖²"
    axes.plot(places, measurement.gradient2, "o", color=MEASURED, ms=3, mfc="white", mew=0.8, label=label)


def _finish(axes: Axes, constants: Constants, setting: Setting) -> None:
    scenario = setting.scenario
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
    clear_frame(axes)
    axes.set_title(
        f"N = {scenario.devices}, S = {scenario.group_size}, staleness {setting.staleness}, "
        f"step size {setting.learning_rate:g}, batch {setting.batch_size}\n"
        f"L = {constants.smoothness:.3g} (devices {constants.largest_smoothness:.3g}), "
        f"σ² = {constants.gradient_noise:.3g}, M = {constants.noise_growth:.3g}, "
        f"Γ² = {constants.heterogeneity:.3g}",
        loc="left",
        weight="normal",
    )
