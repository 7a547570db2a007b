"""The page that compares with other people's numbers is made from the accuracies that are kept."""

from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def validation(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import validation

    return validation


def test_its_tables_are_current(validation: ModuleType) -> None:
    text = validation.PAGE.read_text(encoding="utf-8")
    assert validation.page(text) == text


def test_every_case_has_three_seeds_and_every_round_that_was_published(validation: ModuleType) -> None:
    for name, numbers in validation.PUBLISHED.items():
        accuracies = validation.read(name)
        for number in numbers:
            seeds = accuracies[number.case]
            assert sorted(seeds) == [0, 1, 2]
            assert all(number.round in rounds for rounds in seeds.values())
