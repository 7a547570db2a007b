"""The commands sweep and reproduce: many runs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.box import SIMPLE_HEAD
from rich.table import Table

from slotwise.base.errors import InputError, NoEffectError, UserError
from slotwise.base.observer import stop_on_signals
from slotwise.cli.app import INTERRUPTED, SOME_FAILED
from slotwise.cli.flags import (
    RAY_ADDRESS,
    WORKERS,
    Flag,
    Quiet,
    command,
    number,
    output,
    panel,
    power_flags,
    take_powers,
    whole_number,
)
from slotwise.report.number_text import amount_text, loss_text, percent
from slotwise.report.progress import BatchProgress
from slotwise.report.tables import table_console

if TYPE_CHECKING:
    from slotwise.batch import BatchResults, Failure

FILE = Parameter(help="TOML file: options of slotwise train, lists as axes, [[case]] tables, seeds.")
SWEEP_OUT = output("Folder of runs, tables and figure; created, or resumed.")
SWEEP_WORKERS = Parameter(help=WORKERS.help, converter=whole_number)
RAY = Parameter(help=f"Train on this Ray cluster: {RAY_ADDRESS}")
CHECKPOINT_EVERY = Parameter(
    help="Seconds between checkpoints, the most work a crash can lose. Default: 10, on Ray 30.",
    converter=number,
)
CAPTION = (
    "means over the finished seeds; loss and acc: over the last tenth of the slots; "
    "stale: mean staleness of the updates, in rounds"
)
TOOK = "; took: time of a training on this machine"


def sweep(
    file: Annotated[Path, FILE],
    /,
    *,
    out: Annotated[Path, SWEEP_OUT],
    workers: Annotated[int | None, SWEEP_WORKERS] = None,
    ray: Annotated[str | None, RAY] = None,
    checkpoint_every: Annotated[float | None, CHECKPOINT_EVERY] = None,
    quiet: Quiet = False,
) -> int:
    """Train every case and every combination of a grid with every seed, on all cores or on a Ray cluster.

    An option of the file that is a list is an axis of the grid: group-size = [1, 5, 10]. For options that are
    lists themselves an axis is a list of lists: channels = [[10, 20], [4]].

    Trains what is missing, keeps what is finished, resumes what was interrupted. Ctrl-C ends cleanly; the
    same command resumes later. slotwise show draws the result.
    """
    # Imported here: other commands, and --help, do without.
    from slotwise.batch.executors import make_executor  # noqa: PLC0415
    from slotwise.batch.jobs import run_batch  # noqa: PLC0415
    from slotwise.batch.specification import BatchSpec  # noqa: PLC0415

    spec = BatchSpec.read(file)
    if spec.skipped:
        skipped, reason = spec.skipped.points, spec.skipped.reason
        print(f"{file}: skipped {skipped} impossible points; the first: {reason}", file=sys.stderr)
    # Connected before signals are handled: Ray replaces whatever handler there is by its own.
    executor = make_executor("processes" if ray is None else f"ray:{ray}", workers)
    with stop_on_signals() as stopping, BatchProgress(lambda: stopping.requested, quiet=quiet) as progress:
        results = run_batch(
            spec, out, executor=executor, checkpoint_every=checkpoint_every, observer=progress
        )
    for name, problem in results.problems(stopped=stopping.requested).items():
        print(f"{name}: {problem}", file=sys.stderr)
    table_console().print(results_table(results))
    print("wrote " + ", ".join(map(str, results.files)))
    if stopping.requested:
        print("interrupted; the same command resumes from here", file=sys.stderr)
        return INTERRUPTED
    return 0 if results.is_finished else SOME_FAILED


def results_table(results: BatchResults) -> Table:
    """Return a row for each combination: means over its finished seeds."""
    from slotwise.batch.results import mean_statistics  # noqa: PLC0415

    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.caption = CAPTION if results.has_joules else CAPTION + TOOK
    table.caption_justify = "left"
    has_cases = any(row.case for row in results.rows)
    if has_cases:
        table.add_column("case", overflow="fold", min_width=8)
    for axis in results.axes:
        table.add_column(axis.title, justify="right" if axis.is_numeric else "left", overflow="fold")
    headings = ("seeds", "loss", "acc", "rounds", "updates", "lost", "stale")
    for heading in (*headings, "joules" if results.has_joules else "took"):
        table.add_column(heading, justify="right", no_wrap=True)
    for labels, rows in results.by_combination().items():
        finished = sum(row.outcome.statistics is not None for row in rows)
        cells, mean = ["–"] * 7, mean_statistics(rows)
        if mean:
            cells = [loss_text(mean.final_loss), percent(mean.final_accuracy)]
            cells += [f"{count:,.0f}" for count in (mean.rounds, mean.updates, mean.lost)]
            cells += [f"{mean.mean_staleness:.2f}"]
            cells += [amount_text(mean.joules) if results.has_joules else f"{mean.seconds:,.0f} s"]
        table.add_row(*labels[not has_cases :], f"{finished}/{len(rows)}", *cells)
    return table


TUNED = "tuned"  # the study of `paper.tuned`
TRAINED = panel("Experiments")
SETTINGS = (
    Flag(
        "seeds", int, "Number of seeds; several give a mean and a band. At most 3 with --quick.", TRAINED, 1
    ),
    Flag(
        "deadline",
        int,
        "T, slots. Default: the paper's, 20000 for variants of CIFAR-10, 5000 with --quick.",
        TRAINED,
    ),
    WORKERS,
)
TUNED_STUDY = panel("Tuned study")
TUNED_SETTINGS = (
    Flag(
        "group_sizes",
        tuple[int, ...],
        "Group sizes to train, in this order. Default: 5, 10, 1, 50, 25, 100. (tuned)",
        TUNED_STUDY,
    ),
    Flag(
        "parts",
        tuple[str, ...],
        "Parts to train: schedules (sync, idfl, async), delays (in between), remedies (other rules of the "
        "server), iid (IID data), fast-devices (2 compute slots). Default: schedules,delays. (tuned)",
        TUNED_STUDY,
    ),
)
NAMES = Parameter(
    help="all, a study (mnist, mnist-model-average, cifar10, cifar10-iid, readings, remedies, …) or single "
    "experiments (async-mnist, tradeoff, …); or tuned, alone: every method with its best step. Default: all."
)
QUICK = Parameter(
    help="In about a minute: train the first slots of six published runs again and compare; the page shows "
    "all published runs.",
    group=TRAINED,
)
REPORT_OUT = output("Folder of runs/, figures/ and report.html; created, or resumed.", show_default=True)


@command(*SETTINGS, *TUNED_SETTINGS, *power_flags())
def reproduce(
    options: dict[str, Any],
    *names: Annotated[str, NAMES],
    quick: Annotated[bool, QUICK] = False,
    out: Annotated[Path, REPORT_OUT] = Path("reproduction"),
    quiet: Quiet = False,
) -> int:
    """Make the paper's figures, tables and verdicts on its claims, in one page.

    Missing runs are trained, finished ones kept and interrupted ones resumed.

    Ctrl-C ends early with a checkpoint; the same command resumes.
    """
    # Imported here: other commands, and --help, do without.
    from slotwise.batch.jobs import FETCH_CIFAR10  # noqa: PLC0415
    from slotwise.paper.reproduction import reproduce as make  # noqa: PLC0415

    if TUNED in names:
        return _tuned(names, {"quick": quick, **options}, out, quiet=quiet)
    for flag in TUNED_SETTINGS:
        if (value := options.pop(flag.name, None)) is not None:
            raise NoEffectError(flag.name, ",".join(map(str, value)), f"for all but {TUNED}")
    powers = take_powers(options)
    try:
        with stop_on_signals() as stop, BatchProgress(lambda: stop.requested, quiet=quiet) as progress:
            made = make(out, names or ("all",), quick=quick, powers=powers, observer=progress, **options)
    except InputError as error:
        if error.parameter == "experiments":  # a positional argument, not an option
            raise UserError(f"{error.value}: must be {error.allowed}") from None
        raise
    if made.skipped:
        print(f"skipped {len(made.skipped)} runs. {FETCH_CIFAR10}", file=sys.stderr)
    return _ended(made.failures, f"report: {made.report}", stopped=made.stopped)


def _tuned(names: Sequence[str], options: Mapping[str, Any], out: Path, *, quiet: bool) -> int:
    """Train what is missing of the tuned study and write its page; its seeds and slots are fixed."""
    from slotwise.paper.tuned_cases import chosen_methods  # noqa: PLC0415
    from slotwise.paper.tuned_page import write_page  # noqa: PLC0415
    from slotwise.paper.tuned_runs import tune  # noqa: PLC0415

    if len(names) > 1:
        raise UserError(f"{TUNED} is a study of its own; give its name alone")
    own = {WORKERS.name, *(flag.name for flag in TUNED_SETTINGS)}
    for name, value in options.items():
        if name not in own and value is not False:
            raise NoEffectError(name, value, f"for {TUNED}, whose seeds and slots are fixed")
    methods = chosen_methods(*(options.get(name) for name in ("parts", "group_sizes")))
    with stop_on_signals() as stop, BatchProgress(lambda: stop.requested, quiet=quiet) as progress:
        done = tune(out, methods, workers=options.get(WORKERS.name), observer=progress)
    page = write_page(done.path, done.histories)
    return _ended(done.failures, f"page: {page}", stopped=stop.requested)


def _ended(failures: Sequence[Failure], made: str, *, stopped: bool) -> int:
    """Print the runs that failed and what was made; return the exit code."""
    for failure in failures:
        print(f"{failure.run.name}: {failure.reason}", file=sys.stderr)
    print(made)
    if stopped:
        print("interrupted; the same command resumes", file=sys.stderr)
        return INTERRUPTED
    return SOME_FAILED if failures else 0
