"""A chart of plan and measurement on one axis of slots: outlines are planned, colours what became of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slotwise.base.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from slotwise.live.slots.emulation import SlotRun
    from slotwise.live.slots.slot_server import Outcome

MOST_SLOTS = 2000  # in one chart
COLOURS: dict[Outcome, str] = {
    "arrived": "#4c9f70",
    "collision": "#c0392b",
    "early or late": "#e08e0b",
    "frames lost": "#8e6bbf",
    "silent": "#9a9a9a",
}


def overlay_chart(run: SlotRun, first: int, end: int) -> Figure:
    """Return a chart of slots [first, end): a row for each device, with planned and measured uplinks."""
    from matplotlib.figure import Figure  # noqa: PLC0415  (slow to import)
    from matplotlib.patches import Patch  # noqa: PLC0415

    if not 0 <= first < end <= first + MOST_SLOTS:
        raise InputError("end", end, f"from {first + 1} to {first + MOST_SLOTS}, for a first slot from 0 on")
    devices = run.plan.scenario.devices
    figure = Figure(figsize=(9, min(12.0, 1.5 + 0.2 * devices)), layout="constrained")
    axes = figure.subplots()
    _draw_plan(axes, run, first, end)
    shown: set[Outcome] = set()
    for use in run.uses:
        if use.first < end and use.end > first:
            shown.add(use.outcome)
            axes.broken_barh(
                [(use.first, use.end - use.first)], (use.device - 0.3, 0.6), color=COLOURS[use.outcome]
            )
    hit = [(slot, n) for _, slot, senders in run.collisions if first <= slot < end for n in senders if n]
    axes.plot([slot + 0.5 for slot, _ in hit], [n for _, n in hit], "kx", markersize=4)
    legend = [Patch(edgecolor="black", facecolor="none", label="planned")]
    legend += [Patch(color=colour, label=name) for name, colour in COLOURS.items() if name in shown]
    axes.legend(handles=legend, loc="upper center", bbox_to_anchor=(0.5, 1.12), ncols=6, frameon=False)
    axes.set(xlim=(first, end), ylim=(devices + 0.7, 0.3), xlabel="slot", ylabel="device")
    return figure


def _draw_plan(axes: Axes, run: SlotRun, first: int, end: int) -> None:
    """Draw the uplinks of the plan as outlines, lost ones of its link included."""
    plan = run.plan
    arrived = np.column_stack([plan.device, plan.start, plan.end])
    rows = np.concatenate([arrived, plan.lost[:, [1, 3, 4]]])
    for device, start, stop in rows[(rows[:, 1] < end) & (rows[:, 2] > first)].tolist():
        box = (device - 0.42, 0.84)
        axes.broken_barh([(start, stop - start)], box, facecolor="none", edgecolor="black", linewidth=0.7)
