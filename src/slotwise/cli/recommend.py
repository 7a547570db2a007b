"""The command `slotwise recommend`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.box import SIMPLE_HEAD
from rich.table import Table

from slotwise.base.errors import InputError, UserError
from slotwise.base.files import load_toml
from slotwise.base.observer import stop_on_signals
from slotwise.cli.app import INTERRUPTED
from slotwise.cli.flags import WORKERS, AsJson, Flag, Quiet, command, output, panel, run_flags
from slotwise.options import declared, names_of
from slotwise.recommendation.metric import MetricName
from slotwise.report.progress import BatchProgress
from slotwise.report.tables import table_console
from slotwise.runs import RunConfig
from slotwise.runs.toml_options import blaming_file, toml_options
from slotwise.schedule import Asynchronous, Synchronous

if TYPE_CHECKING:
    from slotwise.recommendation.answer import Recommendation

SEARCH = panel("Search")
RUN_FLAGS = run_flags(only=("devices", "compute_slots", "link_slots", "deadline", "data", "task"))
SEARCH_FLAGS = (
    Flag("group_sizes", tuple[int, ...], "Group sizes to choose from. Default: all divisors of N.", SEARCH),
    Flag(
        "learning_rates",
        tuple[float, ...],
        "Learning rates to choose from for each of them. Default: that of the run alone.",
        SEARCH,
    ),
    Flag("metric", MetricName, "What is best at the deadline.", SEARCH, "loss"),
    Flag("target", str, "For joules-to-target: accuracy=X or loss=X.", SEARCH),
    Flag("seeds", int | tuple[int, ...], "Number of seeds, or the seeds: 4,5,6 (one: 4,).", SEARCH, 3),
    Flag("budget", int, "Most SGD steps. Default: what it takes to find the best.", SEARCH),
    WORKERS,
)
CONFIG = Parameter(
    help="TOML file with any options of slotwise train (fleets included) and, for joules, a table of powers; "
    "flags override the file.",
    group=SEARCH,
)
OUT = output("Folder of pilots and answer; created, or resumed.", show_default=True)


@command(*RUN_FLAGS, *SEARCH_FLAGS)
def recommend(
    options: dict[str, Any],
    *,
    config: Annotated[Path | None, CONFIG] = None,
    out: Annotated[Path, OUT] = Path("recommendation"),
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> int:
    """Recommend a schedule, group size and delay for a deadline, and a learning rate if several are given.

    Every schedule with every group size and learning rate is trained in parts with the first seed.
    Those that cannot become the best, even by an optimistic extrapolation, are dropped. Finalists are also
    trained with the other seeds. What cannot be told apart is named as a set.

    Ctrl-C ends early with a checkpoint; the same command resumes.
    """
    # Imported here: other commands, and --help, do without.
    from slotwise.recommendation.candidates import Stopped, searched_options  # noqa: PLC0415
    from slotwise.recommendation.search import recommend as search  # noqa: PLC0415

    asked = {flag.name: options.pop(flag.name) for flag in SEARCH_FLAGS if flag.name in options}
    in_file, powers = _read(config)
    try:
        with blaming_file(config, {*options, *asked}):
            given = {**in_file, **options}
            for name in searched_options(asked.get("learning_rates", ())):
                if name in given:
                    raise InputError(name, given[name], "omitted, because it is searched")
            base = _base(given)
            with stop_on_signals() as stop, BatchProgress(lambda: stop.requested, quiet=quiet) as progress:
                answer = search(base, **asked, powers=powers, out=out, observer=progress)
    except Stopped:
        print("interrupted; the same command resumes", file=sys.stderr)
        return INTERRUPTED
    if as_json:
        print(answer.to_json(), end="")
    else:
        _print(answer)
    return 0


def _base(given: dict[str, Any]) -> RunConfig:
    """Return the options of the search with a group size that the aggregation rule allows."""
    # Some candidates use these and others do not, so that they are not checked for an effect.
    sync_alone = [name for name in declared(Synchronous) if name not in declared(Asynchronous)]
    own = {name: given[name] for name in (*sync_alone, "radio_quantile") if name in given}
    others = {name: value for name, value in given.items() if name not in own}
    smallest = {**others, "group_size": 1, "schedule": "sync"}
    try:
        return RunConfig.from_options(smallest).with_options(**own)
    except InputError as error:
        if error.parameter != "group_size":
            raise
    rule = names_of(RunConfig, "rule")
    plain = RunConfig.from_options({name: value for name, value in smallest.items() if name not in rule})
    return RunConfig.from_options({**smallest, "group_size": plain.channel.devices}).with_options(**own)


def _read(path: Path | None) -> tuple[dict[str, Any], Any]:
    """Return the options and the powers of a TOML file; the options are checked together with the flags."""
    from slotwise.batch.specification import read_powers  # noqa: PLC0415

    if path is None:
        return {}, None
    document = load_toml(path, "config")
    try:
        powers = read_powers(document.pop("powers", None))
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    return toml_options(path, document, ("powers",)), powers


def _print(answer: Recommendation) -> None:
    from slotwise.recommendation import answer_text  # noqa: PLC0415

    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), caption_justify="left")
    table.caption = answer_text.caption(answer)
    for number, heading in enumerate(answer_text.headings(answer)):
        table.add_column(heading, justify="right" if 0 < number < 8 else "left", no_wrap=True)
    for standing in answer.standings:
        table.add_row(*answer_text.row(answer, standing), style="bold" if standing is answer.best else None)
    table_console().print(table)
    print(answer)
