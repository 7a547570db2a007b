"""A chart of plan and measurement on one axis of slots: outlines are planned, colours what became of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from slotwise.base.errors import InputError
from slotwise.base.files import write_atomically
from slotwise.report.gantt.chart import Window
from slotwise.schedule import Timeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Outcome = Literal["arrived", "lost", "collision", "early or late", "frames lost", "silent"]
MOST_SLOTS = 2000  # in one chart
COLOURS: dict[Outcome, str] = {
    "arrived": "#4c9f70",
    "lost": "#c0392b",
    "collision": "#c0392b",
    "early or late": "#e08e0b",
    "frames lost": "#8e6bbf",
    "silent": "#9a9a9a",
}


class ChannelUse(NamedTuple):
    """Slots [first, end) that a device was granted, and what became of its update."""

    device: int
    first: int
    end: int
    outcome: Outcome


def channel_uses(measured: Timeline) -> list[ChannelUse]:
    """Return the uplinks of a timeline: those that arrived, then those that were lost."""
    arrived = np.column_stack([measured.device, measured.start, measured.end]).tolist()
    lost = measured.lost[:, [1, 3, 4]].tolist()
    uses = [ChannelUse(device, first, end, "arrived") for device, first, end in arrived]
    return uses + [ChannelUse(device, first, end, "lost") for device, first, end in lost]


def overlay_chart(
    plan: Timeline, uses: Iterable[ChannelUse], window: Window, crosses: Sequence[tuple[int, int]] = ()
) -> Figure:
    """Return a chart of some slots, with a row for each device.

    Planned uplinks are outlines, measured ones coloured; ``crosses`` are slots and devices of collisions.
    """
    from matplotlib.figure import Figure  # noqa: PLC0415  (slow to import)
    from matplotlib.patches import Patch  # noqa: PLC0415
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    first, end = window
    if not 0 <= first < end <= first + MOST_SLOTS:
        raise InputError("end", end, f"from {first + 1} to {first + MOST_SLOTS}, for a first slot from 0 on")
    devices = plan.scenario.devices
    figure = Figure(figsize=(9, min(12.0, 1.5 + 0.2 * devices)), layout="constrained")
    axes = figure.subplots()
    _draw_plan(axes, plan, window)
    shown: set[Outcome] = set()
    for use in uses:
        if use.first < end and use.end > first:
            shown.add(use.outcome)
            place = (use.device - 0.3, 0.6)
            axes.broken_barh([(use.first, use.end - use.first)], place, color=COLOURS[use.outcome])
    hit = [(slot, device) for slot, device in crosses if first <= slot < end]
    axes.plot([slot + 0.5 for slot, _ in hit], [device for _, device in hit], "kx", markersize=4)
    legend = [Patch(edgecolor="black", facecolor="none", label="planned")]
    legend += [Patch(color=colour, label=name) for name, colour in COLOURS.items() if name in shown]
    axes.legend(handles=legend, loc="upper center", bbox_to_anchor=(0.5, 1.12), ncols=6, frameon=False)
    axes.set(xlim=(first, end), ylim=(devices + 0.7, 0.3), xlabel="slot", ylabel="device")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    return figure


def write_overlay(plan: Timeline, uses: Iterable[ChannelUse], path: Path, window: Window) -> None:
    """Draw plan and measurement to a picture, atomically."""
    buffer = BytesIO()
    figure = overlay_chart(plan, uses, window)
    figure.savefig(buffer, format=path.suffix.lower().lstrip("."))
    write_atomically(path, buffer.getvalue())


def _draw_plan(axes: Axes, plan: Timeline, window: Window) -> None:
    """Draw the uplinks of the plan as outlines, lost ones of its link included."""
    arrived = np.column_stack([plan.device, plan.start, plan.end])
    rows = np.concatenate([arrived, plan.lost[:, [1, 3, 4]]])
    for device, start, stop in rows[(rows[:, 1] < window.end) & (rows[:, 2] > window.first)].tolist():
        box = (device - 0.42, 0.84)
        axes.broken_barh([(start, stop - start)], box, facecolor="none", edgecolor="black", linewidth=0.7)
