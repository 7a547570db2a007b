"""Synthetic curves for the rules to judge."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slotwise.paper.evidence import Evidence
from slotwise.runs import RunConfig

sys.path.insert(0, str(Path(__file__).parent))
from synthetic_curves import SyntheticResults


@pytest.fixture
def synthetic() -> Callable[..., SyntheticResults]:
    def make(data: str = "mnist", **options: Any) -> SyntheticResults:
        return SyntheticResults(RunConfig.from_options({"data": data, **options}))

    return make


@pytest.fixture
def evidence_of() -> Callable[..., Evidence]:
    def make(
        results: SyntheticResults,
        sizes: tuple[int, ...] = (1, 5, 10, 25, 50, 100),
        seeds: int = 1,
        slow_links: tuple[tuple[int, int], ...] = ((50, 5), (10, 5)),
    ) -> Evidence:
        return Evidence(results.base, sizes, slow_links, range(seeds), results)

    return make
