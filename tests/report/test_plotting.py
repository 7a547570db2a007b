"""Figures of curves: nothing that is written in them is cut off, and axes have labels."""

from itertools import pairwise
from pathlib import Path

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from slotwise.base.errors import InputError
from slotwise.learning import Point
from slotwise.report.colours import COLOURS
from slotwise.report.curve_axes import CUT_NOTE
from slotwise.report.curves import CurveFigure, FinalPoint, Line, NamedCurve, Panel
from slotwise.report.figure_options import FigureOptions
from slotwise.report.plotting import (
    curves_figure,
    curves_of,
    draw_curves,
    plot_figure,
    save_figure,
)
from slotwise.runs import RunConfig, RunFolder, SavedRun

CURVE = [Point(slot=slot, round=slot, loss=2.0 / (1 + slot), accuracy=0.5, staleness=0) for slot in range(5)]
POINTS = [Point(10 * i, 2 * i, loss, 0.5, 3) for i, loss in enumerate((2.3, 1.0, 0.5))]


def drawn(labels: list[str], title: str, panels: int) -> Figure:
    lines = tuple(Line(label, COLOURS[n % len(COLOURS)], "solid", (CURVE,)) for n, label in enumerate(labels))
    panel = Panel(title, "slot", "loss", lines)
    figure = plot_figure(CurveFigure("", "", "", (panel,) * panels))
    FigureCanvasAgg(figure).draw()
    return figure


@pytest.mark.parametrize("panels", [1, 3, 4, 6])
@pytest.mark.parametrize(
    "labels",
    [
        ["async", "idfl"],
        [f"schedule=idfl,group-size={n},learning-rate=0.001,seed=0" for n in range(12)],
        [
            f"schedule=async, group-size={n}, compute-distribution=two-classes:20:80:0.2, bits=8"
            for n in range(14)
        ],
        ["a name of a run " * 12],
    ],
    ids=["short", "names of runs", "five axes", "longer than the page"],
)
def test_legend_and_titles_stay_inside(labels: list[str], panels: int) -> None:
    figure = drawn(labels, "Final loss against learning-rate (the 14 lowest of 24)", panels)
    page = figure.bbox
    legends = [*figure.legends, *filter(None, (axes.get_legend() for axes in figure.axes))]
    texts = [*legends[0].get_texts(), *(axes.title for axes in figure.axes if axes.axison)]
    assert len(texts) >= len(labels) + panels
    for text in texts:
        box = text.get_window_extent()
        assert page.x0 <= box.x0, text
        assert box.x1 <= page.x1, text
        assert page.y0 <= box.y0, text
        assert box.y1 <= page.y1, text
    titles = [axes.title.get_window_extent() for axes in figure.axes if axes.axison]
    assert not any(one.overlaps(other) for one in titles for other in titles if one is not other)


def test_a_legend_of_several_columns_is_read_along_its_rows() -> None:
    labels = [f"line {number} with a label of some length" for number in range(5)]
    texts = drawn(labels, "", 1).legends[0].get_texts()
    places = {text.get_text(): text.get_window_extent() for text in texts}
    read = sorted(labels, key=lambda label: (-round(places[label].y0), places[label].x0))
    assert read == labels
    rows = [round(places[label].y0) for label in labels]
    assert rows.count(rows[0]) == rows.count(rows[2]) == 2  # of 5 in 2 columns; the last row has the rest


def test_panels_side_by_side_share_a_label_only_if_it_is_theirs() -> None:
    final = Line("S=1", COLOURS[0], "solid", ([FinalPoint(v, 1.0, 0.5) for v in (0.1, 0.2, 1.0)],))
    curve = Line("S=1", COLOURS[0], "solid", (CURVE,))
    panels = (Panel("", "value", "loss", (final,)), *[Panel("", "slot", "loss", (curve,))] * 2)
    figure = plot_figure(CurveFigure("", "", "", panels), FigureOptions(style="ieee"))
    labels = [axes.get_ylabel() for axes in figure.axes[:3]]
    assert labels == ["final training loss", "training loss", ""]
    assert figure.axes[0].get_xscale() == "log"  # the values grow by a factor of ten


@pytest.mark.parametrize(("kind", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_figures_are_drawn_as_files_and_always_the_same(kind: str, start: bytes) -> None:
    panel = Panel("Loss", "slot", "loss", (Line("S=1", COLOURS[0], "solid", (CURVE, CURVE)),))
    figure = CurveFigure("", "", "", (panel,))
    first = save_figure(plot_figure(figure), kind)
    assert first.startswith(start)
    assert first == save_figure(plot_figure(figure), kind)


def test_panels_of_one_kind_share_their_axis() -> None:
    panels = [axes for axes in drawn(["S=1"], "S=1", 5).axes if axes.axison]
    assert len({axes.get_ylim() for axes in panels}) == 1
    assert [axes.get_ylabel() for axes in panels] == ["training loss", ""] * 2 + ["training loss"]


def run_in(path: Path) -> Path:
    folder = RunFolder.create(path, RunConfig().with_options(group_size=1, deadline=104))
    folder.write_points(POINTS)
    return path


@pytest.mark.parametrize(("name", "first"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("A.PDF", b"%PDF")])
def test_curves_are_drawn_in_the_kind_of_the_suffix(tmp_path: Path, name: str, first: bytes) -> None:
    draw_curves(
        curves_figure(
            [NamedCurve("run-a", (POINTS,)), NamedCurve("run-b", (POINTS[:2],)), NamedCurve("empty", ((),))]
        ),
        tmp_path / name,
    )
    assert (tmp_path / name).read_bytes().startswith(first)


def test_run_folders_are_drawn_with_labels_that_tell_them_apart(tmp_path: Path) -> None:
    run = run_in(tmp_path / "small")
    draw_curves(curves_figure(curves_of([SavedRun.read(run)])), tmp_path / "a.svg")
    assert "small: idfl S=1" in (tmp_path / "a.svg").read_text()
    (tmp_path / "elsewhere").mkdir()
    runs = [run, run_in(tmp_path / "elsewhere" / "small")]
    assert [curve.label for curve in curves_of([SavedRun.read(run) for run in runs])] == [
        f"{run}: idfl S=1" for run in runs
    ]
    (curve,) = curves_of([SavedRun.read(run_in(tmp_path / "idfl"))])
    assert (curve.label, curve.subject) == ("idfl S=1", ("idfl", 1))
    with pytest.raises(InputError) as error:
        draw_curves(curves_figure([]), tmp_path / "a.gif")
    assert error.value.parameter == "out"


@pytest.mark.parametrize("end", [1500, 4000, 20_000, 50_000, 72_915])
def test_labels_below_narrow_panels_are_apart(end: int) -> None:
    points = [Point(slot, slot, 1.0 / (1 + slot), 0.5, 0) for slot in range(0, end + 1, end // 5)]
    figure = plot_figure(curves_figure([NamedCurve("a", (points,))]))
    FigureCanvasAgg(figure).draw()
    for axes in figure.axes[:3]:
        first, last = axes.get_xlim()
        shown = [tick for tick in axes.xaxis.get_major_ticks() if first <= tick.get_loc() <= last]
        assert len(shown) >= 3
        boxes = [tick.label1.get_window_extent() for tick in shown]
        letter = boxes[0].width
        assert all(right.x0 - left.x1 > letter for left, right in pairwise(boxes))


@pytest.mark.parametrize(
    ("low", "high"), [(2.3, 3.3), (2.1, 2.2), (0.6, 0.9), (0.9, 1.1), (0.02, 9), (1e-4, 9), (3, 3)]
)
def test_every_loss_axis_has_labels(low: float, high: float) -> None:
    points = [Point(slot, slot, loss, 0.5, 0) for slot, loss in enumerate((high, low))]
    figure = plot_figure(curves_figure([NamedCurve("a", (points,))]))
    figure.draw_without_rendering()
    axis = figure.axes[0].yaxis
    first, last = figure.axes[0].get_ylim()
    shown = [tick for tick in axis.get_major_ticks() if first <= tick.get_loc() <= last]
    assert 2 <= len(shown) <= 9
    assert all(tick.label1.get_text() for tick in shown)
    boxes = [tick.label1.get_window_extent() for tick in shown]
    assert not any(one.overlaps(other) for one, other in pairwise(boxes))


@pytest.mark.parametrize(("peak", "noted"), [(9.0, False), (40.0, True)])
def test_panels_say_that_higher_losses_are_not_shown(peak: float, noted: bool) -> None:
    points = [Point(slot, slot, loss, 0.5, 0) for slot, loss in enumerate((2.3, peak, 1.0, 0.9, 0.8))]
    figure = plot_figure(curves_figure([NamedCurve("a", (points,))]))
    figure.draw_without_rendering()
    by_loss = {axes for axes in figure.axes if axes.get_ylabel() == "training loss"}
    assert by_loss
    for axes in figure.axes:
        notes = [text for text in axes.texts if text.get_text() == CUT_NOTE]
        assert bool(notes) is (noted and axes in by_loss)
        for note in notes:
            box, frame = note.get_window_extent(), axes.get_window_extent()
            assert frame.x0 <= box.x0 <= box.x1 <= frame.x1
            assert frame.y1 <= box.y0 <= box.y1 <= axes.title.get_window_extent().y0


@pytest.mark.parametrize(("best", "tick"), [(0.93, 100), (1.0, 100), (0.71, 80), (0.042, 5)])
def test_the_accuracy_axis_reaches_a_tick_above_the_curves(best: float, tick: float) -> None:
    points = [Point(slot, slot, 1.0, accuracy, 0) for slot, accuracy in enumerate((0.0, best))]
    figure = plot_figure(curves_figure([NamedCurve("a", (points,))]))
    figure.draw_without_rendering()
    axes = figure.axes[1]
    assert axes.get_ylim()[1] >= axes.get_yticks()[-1] == tick


def test_round_0_is_not_drawn_on_a_logarithmic_axis() -> None:
    """It would make the first line flat: on such an axis it is infinitely far to the left."""
    long, short = ([Point(n, n * step, 2.0 / (1 + n), 0.5, 0) for n in range(5)] for step in (100, 1))
    lines = tuple(
        Line(name, COLOURS[0], "solid", (seed,)) for name, seed in (("long", long), ("short", short))
    )
    figure = plot_figure(CurveFigure("", "", "", (Panel("", "round", "loss", lines),)))
    (axes,) = [axes for axes in figure.axes if axes.get_xscale() == "log"]
    assert [len(line.get_xdata()) for line in axes.get_lines()] == [4, 4]
    assert all(min(line.get_xdata()) > 0 for line in axes.get_lines())
