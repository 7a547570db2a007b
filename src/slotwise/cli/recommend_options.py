"""What `slotwise recommend` is asked: the run, what to choose from, and what is best."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from slotwise.batch.compare_file import checked_seeds
from slotwise.cli.options import (
    CHANNEL,
    DataName,
    RunComputeSlots,
    RunDeadline,
    RunDevices,
    RunLinkSlots,
    TaskName,
)
from slotwise.errors import InputError
from slotwise.recommendation.metric import Metric, Target
from slotwise.recommendation.question import Case, Question, group_sizes_of
from slotwise.scenario import whole

SEARCH = "Search"
OF_THE_RUN = ("devices", "compute_slots", "link_slots", "deadline", "data", "task")


@dataclass(frozen=True)
class QuestionFlags:
    """What is said on the command line; what is not said of the run is None."""

    devices: RunDevices = None
    compute_slots: RunComputeSlots = None
    link_slots: RunLinkSlots = None
    deadline: RunDeadline = None
    group_sizes: Annotated[
        str | None,
        typer.Option(
            help="Group sizes to choose from, as in 1,5,10. Default: all divisors of N.",
            metavar="S,S,...",
            rich_help_panel=CHANNEL,
        ),
    ] = None
    data: DataName = None
    task: TaskName = None
    config: Annotated[
        Path | None,
        typer.Option(
            help="TOML file with any options of slotwise train (fleets included) and, for joules, a table "
            "of powers; flags win.",
            rich_help_panel=SEARCH,
        ),
    ] = None
    metric: Annotated[
        Literal["loss", "accuracy", "joules-to-target"],
        typer.Option(help="What is best at the deadline.", rich_help_panel=SEARCH),
    ] = "loss"
    target: Annotated[
        str | None,
        typer.Option(help="For joules-to-target.", metavar="accuracy=X|loss=X", rich_help_panel=SEARCH),
    ] = None
    seeds: Annotated[
        str,
        typer.Option(
            help="How many, from 0; or which, as in 4,5,6 (a single one: 4,).",
            metavar="COUNT|LIST",
            rich_help_panel=SEARCH,
        ),
    ] = "3"
    budget: Annotated[
        int | None,
        typer.Option(
            help="SGD steps of the search, at most. Default: less than a quarter of what training every "
            "schedule with every group size would take.",
            metavar="STEPS",
            rich_help_panel=SEARCH,
            show_default=False,
        ),
    ] = None

    def case(self) -> Case:
        """The run, as the file and the flags say it."""
        said = {name: getattr(self, name) for name in OF_THE_RUN}
        return Case.read(self.config, {name: value for name, value in said.items() if value is not None})

    def question(self, case: Case) -> Question:
        """What is asked about the run.

        Raises:
            InputError: something is out of range.
        """
        base = case.base()
        sizes = None if self.group_sizes is None else _numbers("group_sizes", self.group_sizes)
        return Question(
            base,
            group_sizes_of(base, sizes),
            _seeds(self.seeds),
            Metric(self.metric, None if self.target is None else Target.parse(self.target), case.powers),
            None if self.budget is None else whole("budget", self.budget),
        )


def _seeds(text: str) -> tuple[int, ...]:
    numbers = _numbers("seeds", text)
    if "," not in text:
        return tuple(range(whole("seeds", numbers[0])))
    return tuple(checked_seeds(numbers))


def _numbers(name: str, text: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        numbers = []
    if not numbers:
        raise InputError(name, text, "whole numbers separated by commas")
    return numbers
