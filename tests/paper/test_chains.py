"""Losses of the chains of averaged models."""

import pytest

from slotwise.batch.job import Run
from slotwise.learning import Point
from slotwise.paper.chains import chain_losses, chains_text
from slotwise.paper.evidence import Curve
from slotwise.runs import RunConfig


def test_every_chain_counts_once_however_often_it_was_evaluated() -> None:
    points = [
        Point(slot, slot // 10, 9.0 if slot <= 900 else 1.0 + slot // 10 % 3, 0.9, 0)
        for slot in range(0, 1001, 10)
    ]
    assert chain_losses(points, 1000, 3) == {0: 1.0, 1: 2.0, 2: 3.0}
    assert chain_losses(points[:-5:2] + points[-5:], 1000, 3).keys() == {0, 1, 2}
    assert chain_losses(points[::3], 1000, 3) == {0: 1.0}


@pytest.mark.parametrize(("every", "text"), [(1, "2.5 (0 to 5), 6 of 6"), (2, "2 (0 to 4), 3 of 6")])
def test_the_text_says_how_many_chains_were_evaluated(every: int, text: str) -> None:
    config = RunConfig.from_options({"schedule": "idfl", "group_size": 10, "aggregation": "model-average"})
    points = [Point(50_000 - k, 4540 - k, float((4540 - k) % 6), 0.9, 0) for k in range(0, 60, every)]
    assert chains_text([Curve(Run.of(config), "finished", points)]) == text
