"""Figures respect matplotlib's settings, or have the size, fonts and line styles that a journal asks for."""

import io
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import style
from matplotlib.figure import Figure
from matplotlib.text import Text

import slotwise as sw
from slotwise.base.errors import ConflictError, InputError, MissingError, UserError
from slotwise.learning import History, Point
from slotwise.report.colours import SCHEDULE_COLOURS
from slotwise.report.notebook_display import plot_curves
from slotwise.report.plotting import curves_of
from slotwise.runs import RunFolder, SavedRun
from slotwise.scenario import Scenario
from slotwise.schedule import simulate
from slotwise.schedule.costs import Costs, Powers

DEVICES = Scenario(devices=6, group_size=2, compute_slots=2)
WATTS = Powers(computing=2.0, sending=1.0, receiving=0.5, slot_seconds=0.5)


def history(schedule: str = "idfl", scale: float = 1.0) -> History:
    timeline = simulate(DEVICES, schedule, rounds=20)
    slots = [0, *timeline.broadcast_end.tolist()]
    points = tuple(Point(slots[k], k, scale * 2.0 / (k + 1), k / 25, 0) for k in range(0, 21, 2))
    return History(points, {}, 20, timeline=timeline)


THREE = {name: history(name) for name in ("sync", "async", "idfl")}
SEEDS = {"idfl": [history(scale=scale) for scale in (1.0, 1.3, 0.9)]}


def drawn_texts(figure: Figure) -> list[Text]:
    figure.draw_without_rendering()
    return [text for text in figure.findobj(Text) if text.get_text() and text.get_visible()]


def test_settings_and_style_sheets_of_matplotlib_are_used() -> None:
    with mpl.rc_context({"figure.figsize": (5.0, 3.0), "font.family": "DejaVu Serif", "font.size": 9}):
        figure = plot_curves(THREE)
    assert figure.get_size_inches().tolist() == [5.0, 3.0]
    # Also of ticks, which are made when the settings are others again.
    assert {text.get_fontname() for text in drawn_texts(figure)} == {"DejaVu Serif"}
    figure = plot_curves(THREE, panel="loss", style="grayscale")
    assert figure.get_facecolor()[0] == pytest.approx(0.75)
    with pytest.raises(InputError) as error:
        plot_curves(THREE, style="no such style")
    assert error.value.parameter == "style"


@pytest.mark.parametrize(("options", "width"), [({"panel": "loss"}, 3.5), ({}, 7.16), ({"width": 5.0}, 5.0)])
def test_ieee_figures_have_the_width_of_a_column_and_legible_letters(
    options: dict[str, object], width: float
) -> None:
    figure = plot_curves(THREE, style="ieee", **options)
    assert figure.get_figwidth() == pytest.approx(width)
    texts = drawn_texts(figure)
    assert min(text.get_fontsize() for text in texts) >= 7
    assert {text.get_fontname() for text in texts} == {"STIXGeneral"}
    inside, height = figure.get_tightbbox(), figure.get_figheight()  # inches
    assert -0.01 <= inside.x0 <= inside.x1 <= width + 0.01
    assert -0.01 <= inside.y0 <= inside.y1 <= height + 0.01


def test_ieee_lines_differ_without_colours_and_the_style_is_a_sheet() -> None:
    lines = plot_curves(THREE, style="ieee", panel="loss").axes[0].get_lines()
    assert len({(line.get_linestyle(), line.get_marker()) for line in lines}) == 3
    assert len({line.get_linestyle() for line in lines}) == 3
    with style.context("slotwise.report.ieee"):
        figure = Figure()
        plot_curves(THREE, ax=figure.subplots())
    assert figure.get_figwidth() == 3.5
    assert len({line.get_linestyle() for line in figure.axes[0].get_lines()}) == 3


@pytest.mark.parametrize("style", [None, "ieee"])
def test_a_pdf_has_truetype_fonts(style: str | None) -> None:
    file = io.BytesIO()
    plot_curves(THREE, panel="loss", style=style).savefig(file, format="pdf")
    assert b"/FontFile2" in file.getvalue()
    assert b"/Type3" not in file.getvalue()


def test_curves_are_drawn_into_given_axes() -> None:
    own = Figure(figsize=(4, 4))
    left, right = own.subplots(1, 2)
    assert plot_curves(THREE, ax=left) is own
    plot_curves(THREE, panel="accuracy", ax=right)
    assert [axes.get_ylabel() for axes in own.axes] == ["training loss", "test accuracy (%)"]
    assert [text.get_text() for text in left.get_legend().get_texts()] == list(THREE)
    with pytest.raises(InputError) as error:
        plot_curves(THREE, ax=[left, right])
    assert error.value.parameter == "ax"
    with pytest.raises(ConflictError):
        plot_curves(THREE, ax=left, style="ieee")


def test_several_seeds_are_a_mean_with_a_band() -> None:
    axes = plot_curves(SEEDS, panel="loss", band="std").axes[0]
    losses = np.array([[point.loss for point in seed.points] for seed in SEEDS["idfl"]])
    np.testing.assert_allclose(axes.get_lines()[0].get_ydata(), losses.mean(axis=0))
    edge = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert edge.max() == pytest.approx((losses.mean(axis=0) + losses.std(axis=0, ddof=1)).max())
    with pytest.raises(InputError) as error:
        plot_curves(THREE, band="std")
    assert error.value.parameter == "band"


def test_the_horizontal_axis_can_be_seconds_rounds_updates_or_joules() -> None:
    one = {"idfl": THREE["idfl"]}

    def places(x: str, **options: object) -> list[float]:
        return plot_curves(one, panel="loss", x=x, **options).axes[0].get_lines()[0].get_xdata().tolist()

    points, timeline = THREE["idfl"].points, THREE["idfl"].timeline
    assert places("slots") == [point.slot for point in points]
    assert places("seconds", slot_seconds=0.5) == [point.slot * 0.5 for point in points]
    assert places("rounds") == [point.round for point in points]
    assert places("updates") == [2 * point.round for point in points]
    spent = places("joules", powers=WATTS)
    assert spent[-1] == pytest.approx(Costs.of(timeline, WATTS).joules)
    assert spent == sorted(spent)
    with pytest.raises(MissingError) as error:
        places("seconds")
    assert error.value.parameter == "slot_seconds"
    with pytest.raises(UserError, match="powers"):
        places("joules")
    figure = plot_curves(THREE, x="updates")
    assert [axes.get_xlabel() for axes in figure.axes] == ["updates applied"] * 2


def test_labels_are_replaced_in_order_or_by_name() -> None:
    def labels(**options: object) -> list[str]:
        axes = plot_curves(THREE, panel="loss", **options).axes[0]
        return [line.get_label() for line in axes.get_lines()]

    assert labels(labels=["a", "b", "c"]) == ["a", "b", "c"]
    assert labels(labels={"idfl": "proposed"}) == ["sync", "async", "proposed"]
    for wrong in (["a"], {"other": "a"}, "abc"):
        with pytest.raises(InputError) as error:
            labels(labels=wrong)
        assert error.value.parameter == "labels"


def test_schedules_keep_their_colours_whatever_they_are_called() -> None:
    figure = plot_curves({"ours": THREE["idfl"], "theirs": THREE["async"]}, panel="loss")
    colours = [line.get_color() for line in figure.axes[0].get_lines()]
    assert colours == [SCHEDULE_COLOURS["idfl"].light, SCHEDULE_COLOURS["async"].light]


def test_plans_and_histories_take_axes_and_styles() -> None:
    plans = sw.plan(devices=6, compute_slots=2, deadline=100)
    own = Figure()
    axes = own.subplots(1, 2)
    assert plans.plot(ax=axes) is own
    assert plans.plot(panel="staleness", style="ieee").get_figwidth() == 3.5
    assert THREE["idfl"].plot(panel="accuracy", x="rounds", style="ieee").get_figwidth() == 3.5
    with pytest.raises(InputError) as error:
        plans.plot(panel="loss")
    assert error.value.parameter == "panel"
    with pytest.raises(UserError, match="unknown option styles"):
        plans.plot(styles="ieee")


def run_in(path: Path, seed: int) -> SavedRun:
    folder = RunFolder.create(path, sw.RunConfig().with_options(group_size=1, deadline=104, seed=seed))
    folder.write_points([Point(10 * i, 2 * i, loss + seed, 0.5, 3) for i, loss in enumerate((2.3, 1.0, 0.5))])
    return SavedRun.read(path)


def test_runs_in_folders_are_drawn_like_histories_one_curve_for_all_seeds_if_asked(tmp_path: Path) -> None:
    runs = [run_in(tmp_path / str(seed), seed) for seed in (0, 1)]
    figure = plot_curves({"idfl": runs}, panel="loss", x="updates", band="95%", style="ieee")
    assert figure.axes[0].get_lines()[0].get_xdata().tolist() == [0, 2, 4]
    assert len(figure.axes[0].collections) == 1
    assert [curve.label for curve in curves_of(runs)] == ["0: idfl S=1", "1: idfl S=1"]
    (curve,) = curves_of(runs, merge_seeds=True)
    assert (curve.label, len(curve.seeds)) == ("idfl S=1", 2)
