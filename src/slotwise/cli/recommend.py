"""slotwise recommend."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from slotwise.cli.jobs import INTERRUPTED
from slotwise.cli.options import (
    CHANNEL,
    OUTPUT,
    DataName,
    Json,
    Quiet,
    RunComputeSlots,
    RunDeadline,
    RunDevices,
    RunLinkSlots,
    TaskName,
    Workers,
)
from slotwise.cli.progress import stop_on_signals
from slotwise.cli.recommend_display import SearchDisplay
from slotwise.cli.recommend_report import print_answer
from slotwise.errors import InputError
from slotwise.experiments.compare_file import checked_seeds
from slotwise.files import write_atomically
from slotwise.recommend.answer import Answer, toml_of
from slotwise.recommend.folder import RecommendFolder
from slotwise.recommend.metric import Metric, Target
from slotwise.recommend.pilots import Interrupted, Tasks
from slotwise.recommend.question import Question, base_of, group_sizes_of, read_options
from slotwise.recommend.search import Finding, Search
from slotwise.scenario import whole

SEARCH = "Search"


def recommend(
    devices: RunDevices = None,
    compute_slots: RunComputeSlots = None,
    link_slots: RunLinkSlots = None,
    deadline: RunDeadline = None,
    group_sizes: Annotated[
        str | None,
        typer.Option(
            help="Group sizes to choose from, as in 1,5,10. Default: all divisors of N.",
            metavar="S,S,...",
            rich_help_panel=CHANNEL,
        ),
    ] = None,
    data: DataName = None,
    task: TaskName = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="TOML file with any options of slotwise train (fleets included) and, for joules, a table "
            "of powers; flags win.",
            rich_help_panel=SEARCH,
        ),
    ] = None,
    metric: Annotated[
        Literal["loss", "accuracy", "joules-to-target"],
        typer.Option(help="What is best at the deadline.", rich_help_panel=SEARCH),
    ] = "loss",
    target: Annotated[
        str | None,
        typer.Option(help="For joules-to-target.", metavar="accuracy=X|loss=X", rich_help_panel=SEARCH),
    ] = None,
    seeds: Annotated[
        str,
        typer.Option(
            help="How many, from 0; or which, as in 4,5,6 (a single one: 4,).",
            metavar="COUNT|LIST",
            rich_help_panel=SEARCH,
        ),
    ] = "3",
    budget: Annotated[
        int | None,
        typer.Option(
            help="SGD steps of the search, at most. Default: less than a quarter of what training every "
            "schedule with every group size would take.",
            metavar="STEPS",
            rich_help_panel=SEARCH,
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(help="Folder of pilots and answer; made, or gone on with.", rich_help_panel=OUTPUT),
    ] = Path("recommendation"),
    workers: Workers = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Which schedule, group size and delay is best for a deadline?

    The plan rules out what cannot be best. Of the rest, short trainings choose:
    all are begun, the better half goes on, and so forth, until two are left.
    They are the beginnings of the real runs: slotwise train --resume finishes
    the best one.

    Ctrl-C ends cleanly; the same command goes on later.
    """
    known = ("devices", "compute_slots", "link_slots", "deadline", "data", "task")
    flags = {name: value for name, value in locals().items() if name in known and value is not None}
    threads = len(os.sched_getaffinity(0)) if workers is None else whole("workers", workers)
    options, powers = read_options(config) if config else ({}, None)
    base = base_of({**options, **flags})
    question = Question(
        base,
        group_sizes_of(base, None if group_sizes is None else _numbers("group_sizes", group_sizes)),
        _seeds(seeds),
        Metric(metric, None if target is None else Target.parse(target), powers),
        None if budget is None else whole("budget", budget),
    )
    finding = _find(question, RecommendFolder(out), threads, quiet)
    answer = Answer(finding, out)
    _write(answer)
    print_answer(answer, as_json=as_json)


def _find(question: Question, folder: RecommendFolder, workers: int, quiet: bool) -> Finding:
    """Search, every mistake told before a folder is made."""
    tasks = Tasks()
    with stop_on_signals() as stopping, SearchDisplay(stopping, quiet=quiet) as display:
        search = Search(question, folder, tasks=tasks, workers=workers, watcher=display)
        tasks.of(search.first_parameters)
        try:
            with folder.locked():
                folder.begin(question.pilot_base)
                return search.run()
        except Interrupted:
            typer.echo("interrupted; the same command goes on from here", err=True)
            raise typer.Exit(INTERRUPTED) from None


def _write(answer: Answer) -> None:
    """The answer last: when it is there, the rest is."""
    if answer.finding.rungs:
        from slotwise.recommend.picture import draw_picture  # noqa: PLC0415  (plotting is slow to import)

        for kind in ("png", "pdf"):
            write_atomically(answer.path / f"recommendation.{kind}", draw_picture(answer, kind))
    write_atomically(answer.toml_path, toml_of(answer.parameters()))
    write_atomically(answer.path / "recommendation.json", answer.to_json())


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
