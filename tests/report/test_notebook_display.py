"""Tables, plots and HTML of results in a notebook."""

import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure

from slotwise.base.errors import InputError, UserError
from slotwise.base.notebook import Displayable
from slotwise.fleet import Fleet
from slotwise.learning import History, Point
from slotwise.report.curves import NamedCurve
from slotwise.report.notebook_display import plot_curves
from slotwise.report.plotting import curves_figure
from slotwise.runs import RunResult
from slotwise.scenario import Scenario
from slotwise.schedule import Timeline, simulate
from slotwise.setting.planning import PlanTable, plan

POINTS = tuple(Point(10 * k, k, 2.0 / (k + 1), k / 30, min(k, 3)) for k in range(21))


class Batch(Displayable):
    """A result of a higher layer: it brings its own columns and curves."""

    def columns(self) -> dict[str, list[Any]]:
        return {"case": ["<a>", "b"], "final_loss": [0.25, None]}

    def curve_figure(self) -> Any:
        return curves_figure([NamedCurve("a", (POINTS,)), NamedCurve("b", (POINTS,))])


def timeline() -> Timeline:
    return simulate(Scenario(devices=6, group_size=2, compute_slots=2), "idfl", rounds=6)


def plans() -> PlanTable:
    return plan(devices=100, compute_slots=50, deadline=50_000)


def history() -> History:
    return History(POINTS, {}, 20)


def result() -> RunResult:
    return RunResult("finished", history(), timeline(), Path("runs/a"))


ALL = [timeline, plans, history, result, Batch]
Make = Callable[[], Displayable]


def test_timelines_and_plans_have_a_row_for_each_uplink_and_group_size() -> None:
    table = timeline().to_pandas()
    assert list(table.columns) == ["round", "device", "version", "staleness", "start", "end"]
    assert len(table) == 12
    assert table.iloc[4].to_list() == [2, 5, 1, 1, 8, 9]
    value = timeline()
    table = value.to_pandas()
    table.loc[0, "device"] = 99
    assert value.device[0] == 1
    table = plans().to_pandas().set_index("group_size")
    assert table.loc[[1, 5, 10, 25, 50, 100], "models"].to_list() == [24976, 8326, 4541, 1922, 980, 332]
    assert table.loc[10, "staleness_idfl"] == 5
    table = Batch().to_pandas()
    assert table["case"].to_list() == ["<a>", "b"]
    assert pd.isna(table["final_loss"][1])


@pytest.mark.parametrize("make", [history, result], ids=["history", "result"])
def test_a_history_has_a_row_for_each_evaluation(make: Make) -> None:
    table = make().to_pandas()
    assert list(table.columns) == list(Point._fields[:-1])  # metrics have columns of their own
    assert table.itertuples(index=False, name=None).__next__() == tuple(POINTS[0][:-1])
    assert len(table) == len(POINTS)


@pytest.mark.parametrize("make", ALL)
def test_without_pandas_the_error_names_the_extra(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UserError, match=re.escape("pip install 'slotwise[pandas]'")):
        make().to_pandas()


@pytest.mark.parametrize("make", ALL)
def test_every_result_has_a_figure_that_a_notebook_shows(make: Make) -> None:
    figure = make().plot()
    assert isinstance(figure, Figure)
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_pyplot_is_never_loaded() -> None:
    program = (
        "import sys\n"
        "from slotwise.setting.planning import plan\n"
        "figure = plan(devices=6, compute_slots=2, deadline=100).plot()\n"
        "figure._repr_png_()\n"
        "print('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_history_plots_loss_and_accuracy_against_slots() -> None:
    loss, accuracy = history().plot().axes
    assert loss.lines[0].get_xdata().tolist() == [point.slot for point in POINTS]
    assert loss.lines[0].get_ydata().tolist() == [point.loss for point in POINTS]
    assert accuracy.lines[0].get_ydata().tolist() == pytest.approx([100 * p.accuracy for p in POINTS])


def test_plans_plot_rounds_and_staleness_of_every_schedule() -> None:
    rounds, staleness = plans().plot().axes
    assert rounds.lines[0].get_xdata().tolist() == [1, 2, 4, 5, 10, 20, 25, 50, 100]
    assert rounds.lines[0].get_ydata().tolist()[-1] == 331
    assert [line.get_ydata().tolist()[0] for line in staleness.lines] == [99, 25]
    fleet = Fleet(compute_slots=(2, 3, 4, 9), link_slots=(1, 1, 1, 1))
    rounds, staleness = plan(devices=4, compute_slots=2, deadline=100, fleet=fleet).plot().axes
    assert [line.get_label() for line in rounds.lines] == ["async", "idfl", "sync"]
    assert [line.get_label() for line in staleness.lines] == ["async", "idfl"]
    assert rounds.lines[0].get_xdata().tolist() == [1, 2, 4]
    with pytest.raises(InputError) as error:
        PlanTable().plot()
    assert error.value.parameter == "plans"


@pytest.mark.parametrize("devices", [1, 7, 5040])
def test_labels_of_group_sizes_have_room(devices: int) -> None:
    figure = plan(devices=devices, compute_slots=50, deadline=1_000_000).plot()
    figure.draw_without_rendering()
    for axes in figure.axes:
        boxes = [label.get_window_extent() for label in axes.get_xticklabels() if label.get_text()]
        assert boxes
        assert not any(one.overlaps(other) for one in boxes for other in boxes if one is not other)


class Reader(HTMLParser):
    """Checks that tags are closed in order, and counts them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        self.tags.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("make", ALL)
def test_html_is_well_formed(make: Make) -> None:
    Reader(make()._repr_html_())


def test_a_timeline_is_a_picture_and_a_long_one_is_cut() -> None:
    text = timeline()._repr_html_()
    assert "svg" in Reader(text).tags
    assert "idfl, delay 1: 6 rounds in 20 slots" in text
    large = simulate(Scenario(devices=100, group_size=10, compute_slots=50), "idfl", rounds=200)
    assert "shown: slots 0–59 of 2,250, devices 1–20 of 100" in large._repr_html_()


def test_long_tables_omit_rows_and_short_ones_are_complete_and_escaped() -> None:
    text = history()._repr_html_()
    assert Reader(text).tags.count("tr") == 1 + 10 + 1
    assert "21 rows" in text
    text = Batch()._repr_html_()
    assert "&lt;a&gt;" in text
    assert "<td>–</td>" in text
    assert "rows" not in text
    assert "finished" in result()._repr_html_()


def test_every_metric_is_a_column() -> None:
    points = (Point(0, 0, 1.0, 0.5, 0, {"test_loss": 2.0}), Point(9, 3, 0.5, 0.6, 1, {"error": 3.0}))
    table = History(points, {}, 3).to_pandas()
    assert list(table) == ["slot", "round", "loss", "accuracy", "staleness", "test_loss", "error"]
    assert table["test_loss"].tolist()[0] == 2.0
    assert table["error"].isna().tolist() == [True, False]


def test_histories_share_a_figure_with_any_metric() -> None:
    history = History((Point(0, 0, 1.0, 0.5, 0), Point(9, 3, 0.5, 0.6, 1)), {}, 3)
    figure = plot_curves({"async": history, "idfl": history})
    (legend,) = filter(None, (axes.get_legend() for axes in figure.axes))  # in the free cell
    assert [text.get_text() for text in legend.get_texts()] == ["async", "idfl"]
    for wrong in ({}, {"async": "runs/async"}, history, [history]):
        with pytest.raises(InputError) as error:
            plot_curves(wrong)
        assert error.value.parameter == "results"
    points = tuple(Point(9 * n, 3 * n, 1.0, 0.5, 0, {"count": 7.0 - n}) for n in range(3))
    results = {"own": History(points, {}, 6), "without": History((Point(0, 0, 1.0, 0.5, 0),), {}, 0)}
    axes = plot_curves(results, metric="count").axes[1]
    assert axes.get_ylabel() == "count"
    assert axes.get_lines()[0].get_ydata().tolist() == [7.0, 6.0, 5.0]
    assert plot_curves(results).axes[1].get_ylabel() == "test accuracy (%)"
    with pytest.raises(InputError, match="accuracy, count") as error:
        plot_curves(results, metric="test_loss")
    assert error.value.parameter == "metric"
