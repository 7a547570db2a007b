"""The chart of plan and measurement."""

import pytest
from matplotlib.colors import to_rgba
from tasks import Arithmetic

from slotwise.base.errors import InputError
from slotwise.live import run_on_medium
from slotwise.report.gantt.overlay_chart import COLOURS, MOST_SLOTS
from slotwise.runs import RunConfig

CONFIG = RunConfig.from_options(
    {"devices": 6, "group_size": 2, "compute_slots": 5, "deadline": 100, "task": "tasks:make"}
)
END = 60


@pytest.fixture(scope="module")
def run():
    return run_on_medium(CONFIG, Arithmetic(size=20), drift_ppm=10_000, estimate_drift=False)


def bars(axes):
    """Return (first slot, end, device, colour) of all filled bars, and (first, end, device) of outlines."""
    filled, outlines = [], []
    for bar in axes.collections:
        box = bar.get_paths()[0].get_extents()
        place = (round(box.x0), round(box.x1), round((box.y0 + box.y1) / 2))
        faces = bar.get_facecolor()
        if len(faces) and faces[0][3] > 0:
            filled.append((*place, tuple(faces[0])))
        else:
            outlines.append(place)
    return filled, outlines


def test_every_uplink_is_drawn_where_it_was_planned_and_where_it_was(run):
    filled, outlines = bars(run.plot(0, END).axes[0])
    plan = run.plan
    rows = zip(plan.start.tolist(), plan.end.tolist(), plan.device.tolist(), strict=True)
    assert sorted(outlines) == sorted(row for row in rows if row[0] < END)
    used = [(u.first, u.end, u.device, to_rgba(COLOURS[u.outcome])) for u in run.uses if u.first < END]
    assert sorted(filled) == sorted(used)
    assert len({colour for *_, colour in filled}) > 1


def test_collisions_are_crosses(run):
    crosses = run.plot(0, END).axes[0].lines[0]
    collided = [slot for _, slot, senders in run.collisions if slot < END for n in senders if n]
    assert len(crosses.get_xdata()) == len(collided) > 0


@pytest.mark.parametrize(("first", "end"), [(-1, 5), (5, 5), (0, MOST_SLOTS + 1)])
def test_slots_that_cannot_be_drawn_are_refused(run, first, end):
    with pytest.raises(InputError, match="end"):
        run.plot(first, end)


def test_slots_and_devices_are_marked_at_whole_numbers(run):
    axes = run.plot(0, 5).axes[0]
    assert all(float(tick).is_integer() for axis in (axes.xaxis, axes.yaxis) for tick in axis.get_ticklocs())
