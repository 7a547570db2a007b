import re
import struct
from collections.abc import Iterator
from itertools import pairwise
from xml.etree import ElementTree

import matplotlib as mpl
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from slotwise.base.errors import InputError
from slotwise.report.gantt.chart import Window
from slotwise.report.gantt.drawing import Picture, compose
from slotwise.report.gantt.figure_chart import _Drawing, gantt_file
from slotwise.scenario import Scenario
from slotwise.schedule import Timeline, simulate


def whole(timeline: Timeline) -> Picture:
    return compose(timeline, Window(0, min(timeline.last_slot, 400)))


def texts_of(svg: bytes) -> list[str]:
    tree = ElementTree.fromstring(svg)
    return ["".join(element.itertext()).strip() for element in tree.iter("{http://www.w3.org/2000/svg}text")]


def test_a_png_is_large_always_the_same_and_leaves_global_settings(six_async: Timeline) -> None:
    png = gantt_file(whole(six_async), "png")
    width, height = struct.unpack(">II", png[16:24])
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert width > 1200
    assert height > 500
    assert gantt_file(whole(six_async), "svg") == gantt_file(whole(six_async), "svg")
    before = mpl.rcParams["svg.fonttype"], mpl.rcParams["svg.hashsalt"]
    gantt_file(whole(six_async), "svg")
    assert (mpl.rcParams["svg.fonttype"], mpl.rcParams["svg.hashsalt"]) == before


def test_an_svg_names_devices_models_and_activities(six_idfl: Timeline) -> None:
    texts = texts_of(gantt_file(whole(six_idfl), "svg"))
    assert {"channel", "round", "slot", "device", "w6", "ready, waiting for the channel"} <= set(texts)
    assert "idfl, delay 1: 6 rounds in 20 slots; staleness 1 at most, 0.83 on average" in texts
    assert texts.count("w2") == 3  # its broadcast and two trainings


def test_labels_are_numbers_of_devices_if_there_is_room(hundred: Timeline) -> None:
    texts = texts_of(gantt_file(whole(hundred), "svg"))
    assert {str(device) for device in range(1, 101)} <= set(texts)
    timeline = simulate(Scenario(devices=2, group_size=1, compute_slots=2), rounds=500)
    texts = texts_of(gantt_file(compose(timeline, Window(0, 1000)), "svg"))
    assert "channel" in texts
    assert not any(re.fullmatch(r"w\d+", text) for text in texts)


def texts_on(picture: Picture) -> Iterator[tuple[str, tuple[float, float, float, float]]]:
    """Every written text and its box in pixels."""
    figure = _Drawing(picture).figure()
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    for text in figure.findobj(Text):
        if text.get_visible() and text.get_text():
            box = text.get_window_extent(canvas.get_renderer())
            yield text.get_text(), (box.x0, box.y0, box.x1, box.y1)


@pytest.mark.parametrize(("size", "schedule"), [(1, "async"), (10, "idfl"), (50, "async")])
def test_no_two_labels_overlap(size: int, schedule: str) -> None:
    timeline = simulate(
        Scenario(devices=100, group_size=size, compute_slots=50), schedule, rounds=2 * 100 // size
    )
    boxes = sorted(texts_on(whole(timeline)), key=lambda text: text[1])
    for index, (_, (left, bottom, right, top)) in enumerate(boxes):
        for _, (other_left, other_bottom, _, other_top) in boxes[index + 1 :]:
            if other_left >= right - 1:
                break
            assert min(top, other_top) - max(bottom, other_bottom) <= 2.5, (left, other_left)


def test_losses_and_absences_are_explained_inside_the_chart(unequal: Timeline, six_async: Timeline) -> None:
    rare = {"sending, lost", "away"}
    assert rare <= set(texts_of(gantt_file(whole(unequal), "svg")))
    assert not rare & set(texts_of(gantt_file(whole(six_async), "svg")))
    picture = compose(unequal, Window(0, 5))
    width = _Drawing(picture).width * 100
    assert all(box[2] <= width for _, box in texts_on(picture))


def test_a_chart_for_a_paper_has_the_asked_width_and_legible_letters() -> None:
    timeline = simulate(Scenario(devices=40, group_size=5, compute_slots=12), "async", rounds=12)
    wide, narrow, own = {"style": "ieee"}, {"style": "ieee", "width": 3.5}, {"width": 5}
    for options, width in ((wide, 7.16), (narrow, 3.5), (own, 5)):
        figure = timeline.plot(**options)
        assert figure.get_figwidth() == pytest.approx(width)
        figure.draw_without_rendering()
        texts = [text for text in figure.findobj(Text) if text.get_text() and text.get_visible()]
        assert min(text.get_fontsize() for text in texts) >= 7
        inside = figure.get_tightbbox()
        assert 0 <= inside.x0 <= inside.x1 <= width + 0.01
        assert 0 <= inside.y0 <= inside.y1 <= figure.get_figheight() + 0.01
        labels = [label.get_window_extent() for label in figure.axes[0].get_yticklabels()]
        assert not any(one.overlaps(other) for one, other in pairwise(labels))


def test_a_chart_is_drawn_into_given_axes() -> None:
    timeline = simulate(Scenario(devices=6, group_size=2, compute_slots=2), "idfl", rounds=4)
    own = Figure()
    left, right = own.subplots(1, 2)
    assert timeline.plot(ax=left) is own
    assert left.get_xlabel() == "slot"
    assert not right.get_xlabel()
    with pytest.raises(InputError) as error:
        timeline.plot(x="rounds")
    assert error.value.parameter == "x"
