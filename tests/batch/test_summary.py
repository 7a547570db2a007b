"""Tables of a batch for papers: every number against one line of numpy, and TeX that compiles."""

import csv
import io
import re
import shutil
import subprocess
from math import nan
from pathlib import Path

import numpy as np
import pytest

from slotwise.base.errors import InputError, UserError
from slotwise.batch.axes import Axis
from slotwise.batch.results import BatchResults, PointResult, PointStatistics, RunOutcome
from slotwise.report.paper_table import PaperTable
from slotwise.runs.saved_run import MeasuredPoint

LOSSES = {("async", 0.1): (0.31, 0.35, 0.33), ("async", 0.01): (0.5, 0.4, 0.6)}
LOSSES |= {("idfl", 0.1): (0.9, 0.1, 0.2), ("idfl", 0.01): (0.21, 0.25, 0.2)}
SLOTS = (0, 100, 200, 300)


def outcome(loss: float, *, status: str = "finished") -> RunOutcome:
    """Return a run whose accuracy is 1 − loss at the end, after a third and two thirds of it."""
    curve = tuple(
        MeasuredPoint(slot, slot // 10, slot // 5, 2.0 * slot, 2.0, (1 - loss) * slot / 300) for slot in SLOTS
    )
    if status != "finished":
        return RunOutcome(status, curve)
    statistics = PointStatistics(loss, 1 - loss, loss, 1 - loss, 30, 60, 0, 60, 1.5, 300, 600.0, 2.0)
    return RunOutcome(status, curve, statistics, {"f1": loss / 2})


def results(
    losses: dict[tuple[str, float], tuple[float, ...]] = LOSSES, *, joules: bool = False, diverged: str = ""
) -> BatchResults:
    rows = [
        PointResult("", key, seed, f"{key[0]},{key[1]},{seed}", outcome(loss))
        for key, every in losses.items()
        for seed, loss in enumerate(every)
    ]
    rows = [
        row._replace(outcome=outcome(1.0, status="diverged")) if row.run == diverged else row for row in rows
    ]
    axes = (Axis("schedule", ("async", "idfl")), Axis("learning_rate", (0.1, 0.01)))
    return BatchResults(axes, tuple(rows), has_joules=joules)


def csv_rows(table: PaperTable) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(table.csv())))


def test_means_deviations_intervals_and_ranges_are_those_of_numpy() -> None:
    for row, losses in zip(csv_rows(results().table()), LOSSES.values(), strict=True):
        assert float(row["final_loss"]) == pytest.approx(np.mean(losses))
        assert float(row["final_loss_std"]) == pytest.approx(np.std(losses, ddof=1))
        assert float(row["final_accuracy"]) == pytest.approx(np.mean([1 - loss for loss in losses]))
        assert row["seeds"] == "3"
    losses = LOSSES["async", 0.1]
    row = csv_rows(results().table(band="95%"))[0]
    assert float(row["final_loss_ci95"]) == pytest.approx(4.302653 * np.std(losses, ddof=1) / np.sqrt(3))
    row = csv_rows(results().table(band="min-max"))[0]
    assert (float(row["final_loss_min"]), float(row["final_loss_max"])) == (0.31, 0.35)


def test_columns_are_statistics_or_metrics_of_the_task() -> None:
    row = csv_rows(results().table("mean_staleness", "final_f1"))[0]
    assert (float(row["mean_staleness"]), float(row["final_f1"])) == (1.5, pytest.approx(0.165))
    with pytest.raises(InputError, match="final_loss") as error:
        results().table("final_auc")
    assert error.value.parameter == "columns"


def test_time_and_joules_to_a_target_count_the_seeds_that_miss_it() -> None:
    """No seed with a loss above 0.4 reaches an accuracy of 0.6."""
    table = results(joules=True).table(target="accuracy=0.6", slot_seconds=0.5)
    reached = [row["reached"] for row in csv_rows(table)]
    assert reached == ["3", "1", "2", "3"]
    row = csv_rows(table)[2]
    costs = [row[f"{cost}_to_target"] for cost in ("slots", "seconds", "joules")]
    assert costs == ["250", "125", "500"]  # slots 200 and 300, of two seeds
    none = results(joules=True).table(target="accuracy=0.95")
    assert {row["slots_to_target"] for row in csv_rows(none)} == {""}
    assert "not reached" in none.text()
    assert "(1 of 3)" in table.text()


def test_slots_to_a_target_are_averaged_over_the_seeds_that_reach_it() -> None:
    losses = {("idfl", 0.1): (0.01, 0.02, 0.34)}  # accuracies of 0.99, 0.98 and 0.66 at slot 300
    row = csv_rows(results(losses).table(target="accuracy=0.65"))[0]
    slots = [200, 200, 300]
    assert float(row["slots_to_target"]) == pytest.approx(np.mean(slots))
    assert float(row["slots_to_target_std"]) == pytest.approx(np.std(slots, ddof=1))


def test_the_best_value_of_each_case_by_loss_accuracy_or_time_to_a_target() -> None:
    table = results().table(best="learning_rate")
    rows = csv_rows(table)
    assert [(row["schedule"], row["learning-rate"]) for row in rows] == [("async", "0.1"), ("idfl", "0.01")]
    assert "best learning-rate" in table.text()
    by_accuracy = csv_rows(results().table(best="learning-rate", by="accuracy"))
    assert [row["learning-rate"] for row in by_accuracy] == ["0.1", "0.01"]
    rows = csv_rows(results().table(best="learning_rate", by="target", target="accuracy=0.75"))
    assert [row["learning-rate"] for row in rows] == ["0.1", "0.01"]
    with pytest.raises(UserError, match="target"):
        results().table(best="learning_rate", by="target")


def test_a_value_with_a_diverged_seed_is_not_the_best() -> None:
    table = results(diverged="async,0.1,0").table(best="learning_rate")
    assert csv_rows(table)[0]["learning-rate"] == "0.01"
    assert [row["seeds"] for row in csv_rows(results(diverged="async,0.1,0").table())] == ["2", "3", "3", "3"]


def test_what_has_no_effect_or_does_not_exist_is_refused() -> None:
    for options, blamed in (
        ({"best": "group_size"}, "best"),
        ({"by": "accuracy"}, "by"),
        ({"target": "accuracy=2"}, "target"),
        ({"band": "sem"}, "band"),
        ({"slot_seconds": 0.1}, "slot_seconds"),
    ):
        with pytest.raises(InputError) as error:
            results().table(**options)
        assert error.value.parameter == blamed


def test_text_and_markdown_show_the_mean_with_two_digits_of_the_deviation() -> None:
    table = results({("async", 0.1): (0.31, 0.35, 0.33)}).table()
    assert "0.330 ± 0.020" in table.text()
    assert "67.0 ± 2.0" in table.text()  # the accuracy in per cent
    assert "| async | 0.1 | 0.330 ± 0.020 | 67.0 ± 2.0 |" in table.markdown()
    assert "over 3 seeds" in table.markdown()
    widths = {len(line) for line in table.text().splitlines()[:3]}
    assert len(widths) == 1
    table = results({("async", 0.1): (0.31,)}).table()
    assert "0.3100" in table.text()
    assert "±" not in table.text()
    assert csv_rows(table)[0]["final_loss_std"] == ""


def test_a_regression_has_no_accuracy() -> None:
    row = results({("async", 0.1): (0.31,)}).rows[0]
    statistics = row.outcome.statistics._replace(final_accuracy=nan)
    own = row._replace(outcome=row.outcome._replace(statistics=statistics))
    table = BatchResults(results().axes, (own,)).table()
    assert "final_accuracy" not in csv_rows(table)[0]


def test_tex_has_the_rules_of_booktabs_and_escapes_names() -> None:
    tex = results({("a_b&50%", 0.1): (0.31, 0.35, 0.33)}).table(target="accuracy=0.6").tex()
    assert re.findall(r"\\(?:top|mid|bottom)rule", tex) == [r"\toprule", r"\midrule", r"\bottomrule"]
    assert r"a\_b\&50\%" in tex
    assert r"\begin{tabular}{lrrrrr}" in tex  # numbers on the right, also those of an axis
    assert r"$0.330 \pm 0.020$" in tex
    assert r"accuracy (\%)" in tex
    assert r"\multicolumn{2}{c}{to 60 \% accuracy}" in tex


def test_seeds_have_a_column_where_rows_differ_in_them() -> None:
    table = results(diverged="async,0.1,0").table(target="accuracy=0.6")
    assert "| async | 0.1 | 2 of 3 |" in table.markdown()
    assert "300 ± 0 (2 of 3)" in table.markdown()


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_tex_compiles(tmp_path: Path) -> None:
    tables = [
        results(joules=True).table(target="accuracy=0.6", band=band).tex()
        for band in ("std", "95%", "min-max")
    ]
    text = "\\documentclass{IEEEtran}\\usepackage{booktabs}\\begin{document}%s\\end{document}"
    text = text.replace("IEEEtran", "article") % "\n\n".join(tables)
    (tmp_path / "table.tex").write_text(text, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "table.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
