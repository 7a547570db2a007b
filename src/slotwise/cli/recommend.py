"""slotwise recommend."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from slotwise.cli.jobs import INTERRUPTED
from slotwise.cli.option_groups import with_option_groups
from slotwise.cli.options import OUTPUT, Json, Quiet, Workers
from slotwise.cli.recommend_display import SearchDisplay
from slotwise.cli.recommend_options import QuestionFlags
from slotwise.cli.recommend_report import print_answer
from slotwise.files import write_atomically
from slotwise.recommendation.answer import Answer, toml_of
from slotwise.recommendation.folder import RecommendFolder
from slotwise.recommendation.pilots import Interrupted, PilotTasks
from slotwise.recommendation.question import Question
from slotwise.recommendation.search import Search
from slotwise.report.progress import stop_on_signals
from slotwise.scenario import whole


@with_option_groups
def recommend(
    *,
    asked: QuestionFlags,
    out: Annotated[
        Path,
        typer.Option(help="Folder of pilots and answer; made, or gone on with.", rich_help_panel=OUTPUT),
    ] = Path("recommendation"),
    workers: Workers = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Which schedule, group size and delay is best for a deadline?

    The plan rules out what it holds to be worse. Of the rest, short trainings choose:
    all are begun, the better half goes on, and so forth, until two are left.
    They are the beginnings of the real runs: slotwise train --resume finishes
    the best one.

    Ctrl-C ends cleanly; the same command goes on later.
    """
    threads = len(os.sched_getaffinity(0)) if workers is None else whole("workers", workers)
    case = asked.case()
    with case.naming_file():
        answer = _find(asked.question(case), RecommendFolder(out), threads, quiet)
    print_answer(answer, as_json=as_json)


def _find(question: Question, folder: RecommendFolder, workers: int, quiet: bool) -> Answer:
    """Search and write down the answer, every mistake told before a folder is made."""
    tasks = PilotTasks()
    with stop_on_signals() as stopping, SearchDisplay(stopping, quiet=quiet) as display:
        search = Search(question, folder, tasks=tasks, workers=workers, watcher=display)
        tasks.of(search.first_parameters)
        try:
            with folder.locked():
                folder.begin(question.pilot_base)
                answer = Answer(search.run(), folder.path)
                _write(answer)
        except Interrupted:
            typer.echo("interrupted; the same command goes on from here", err=True)
            raise typer.Exit(INTERRUPTED) from None
    return answer


def _write(answer: Answer) -> None:
    """The answer last: when it is there, the rest is."""
    if answer.finding.rungs:
        from slotwise.recommendation.picture import draw_picture  # noqa: PLC0415  (plotting is slow to import)

        for kind in ("png", "pdf"):
            write_atomically(answer.path / f"recommendation.{kind}", draw_picture(answer, kind))
    write_atomically(answer.toml_path, toml_of(answer.parameters()))
    write_atomically(answer.path / "recommendation.json", answer.to_json())
