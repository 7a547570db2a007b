"""What a person sees of a live run."""

from pathlib import Path

import pytest

from slotwise.cli.live import LiveDisplay
from slotwise.cli.progress import Stopping


@pytest.fixture
def display():
    with LiveDisplay(Stopping(), 10, quiet=True) as shown:
        yield shown


@pytest.mark.parametrize(
    ("round_number", "where"), [(0, "going on from the start (no checkpoint)"), (7, "going on from round 7")]
)
def test_damaged_checkpoints_are_named_with_what_they_cost(display, capsys, round_number, where):
    display.passed_over([Path("run/live/round-9.checkpoint")], round_number)
    assert capsys.readouterr().err.splitlines() == [
        "run/live/round-9.checkpoint: damaged, passed over",
        where,
    ]
