"""What a person sees of a live run."""

from pathlib import Path

import pytest

from slotwise.cli.live import LiveDisplay
from slotwise.live.mailbox import READY_TWICE, Rejection
from slotwise.report.progress import Stop


@pytest.fixture
def display():
    with LiveDisplay(Stop(), 10, quiet=True) as shown:
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


@pytest.mark.parametrize(("quiet", "said"), [(False, ["rejected: a/b: bad"]), (True, [])])
def test_each_rejection_is_told_once_if_there_is_anybody_to_tell(capsys, quiet, said):
    with LiveDisplay(Stop(), 10, quiet=quiet) as shown:
        for reason in ("bad", READY_TWICE, "bad"):
            shown.rejected(Rejection("a/b", reason))
    assert capsys.readouterr().err.splitlines() == said
