"""The page on rules with memory is made from the curves that are kept."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_its_table_is_current_and_every_kept_curve_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import memory_rules

    points, curves = memory_rules.BatchSpec.read(memory_rules.SETTINGS).points, memory_rules.kept()
    assert curves.keys() <= {memory_rules.key_of(point) for point in points}
    text = memory_rules.PAGE.read_text(encoding="utf-8")
    assert memory_rules.page(text, points, curves) == text
    for curve in curves.values():
        assert (curve.last_slot == 50_000) == (curve.status == "finished")


def test_trainings_that_have_not_ended_have_rows_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import memory_rules

    points = memory_rules.BatchSpec.read(memory_rules.SETTINGS).points
    own = [point for point in points if memory_rules.key_of(point)[:2] == ("async-S5", "mifa")]
    ends = {0: ("finished", 50_000), 1: ("unfinished", 1_000), 2: ("diverged", 500)}
    curves = {}
    for point in own:
        status, last = ends[point.seed]
        evaluations = [memory_rules.Point(slot, 1, 1.0, 0.5, 0) for slot in (0, last)]
        curves[memory_rules.key_of(point)] = memory_rules.Curve(status, evaluations)
    ended, rest = memory_rules.table(points, curves).splitlines()[-2:]
    assert ended == "| async, S=5 | 0.01 | mifa | 0, 2 | 1 | 50.0% | 1 of 2 |"
    assert rest == "| async, S=5 | 0.01 | mifa | 1 | 1 | 50.0% | not finished: slot 1,000 |"
