"""Nothing that is written in a figure of curves is cut off."""

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from slotwise.learning import Point
from slotwise.report.curves.panels import COLOURS, CurveFigure, Line, Panel
from slotwise.report.curves.plotting import draw_figure, plot_figure

CURVE = [Point(slot=slot, round=slot, loss=2.0 / (1 + slot), accuracy=0.5, staleness=0) for slot in range(5)]


def drawn(labels: list[str], title: str, panels: int) -> Figure:
    lines = tuple(Line(label, COLOURS[n % len(COLOURS)], False, (CURVE,)) for n, label in enumerate(labels))
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
    texts = [*figure.legends[0].get_texts(), *(axes.title for axes in figure.axes if axes.get_visible())]
    assert len(texts) >= len(labels) + panels
    for text in texts:
        box = text.get_window_extent()
        assert page.x0 <= box.x0, text
        assert box.x1 <= page.x1, text
        assert page.y0 <= box.y0, text
        assert box.y1 <= page.y1, text
    titles = [axes.title.get_window_extent() for axes in figure.axes if axes.get_visible()]
    assert not any(one.overlaps(other) for one in titles for other in titles if one is not other)


@pytest.mark.parametrize(("kind", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_figures_are_drawn_as_files_and_always_the_same(kind: str, start: bytes) -> None:
    panel = Panel("Loss", "slot", "loss", (Line("S=1", COLOURS[0], False, (CURVE, CURVE)),))
    figure = CurveFigure("", "", "", (panel,))
    first = draw_figure(figure, kind)
    assert first.startswith(start)
    assert first == draw_figure(figure, kind)


def test_panels_of_one_kind_share_their_axis() -> None:
    visible = [axes for axes in drawn(["S=1"], "S=1", 5).axes if axes.get_visible()]
    assert len({axes.get_ylim() for axes in visible}) == 1
    assert [axes.get_ylabel() for axes in visible].count("training loss") == 2
