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
        assert curve.status == "diverged" or curve.points[-1].slot == 50_000
