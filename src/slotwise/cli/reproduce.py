"""The command `slotwise reproduce`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from slotwise.cli.app import INTERRUPTED, SOME_FAILED
from slotwise.cli.flags import WORKERS, Flag, Quiet, command, output, panel, power_flags, take_powers
from slotwise.errors import InputError, UserError
from slotwise.report.progress import BatchProgress, stop_on_signals

TRAINED = panel("Experiments")
SETTINGS = (
    Flag("seeds", int, "Number of seeds, from 0; several give a mean and a band.", TRAINED, 1),
    Flag("deadline", int, "T, slots. Default: the paper's, and 20000 for variants of CIFAR-10.", TRAINED),
    WORKERS,
)
NAMES = Parameter(
    help="all, a study (mnist, mnist-model-average, cifar10, cifar10-iid, readings, remedies, …) or single "
    "experiments (async-mnist, tradeoff, …). Default: all."
)
QUICK = Parameter(help="A first look in minutes: MNIST, four group sizes, 3000 slots.", group=TRAINED)
OUT = output("Folder of runs/, figures/ and report.html; created, or resumed.", show_default=True)


@command(*SETTINGS, *power_flags())
def reproduce(
    options: dict[str, Any],
    *names: Annotated[str, NAMES],
    quick: Annotated[bool, QUICK] = False,
    out: Annotated[Path, OUT] = Path("reproduction"),
    quiet: Quiet = False,
) -> int:
    """Make the paper's figures, tables and verdicts on its claims, in one page.

    Missing runs are trained, finished ones kept and interrupted ones resumed.

    Ctrl-C ends early with a checkpoint; the same command resumes.
    """
    # Imported here: other commands, and --help, do without.
    from slotwise.batch.jobs import FETCH_CIFAR10  # noqa: PLC0415
    from slotwise.paper.reproduction import reproduce as make  # noqa: PLC0415

    powers = take_powers(options)
    try:
        with stop_on_signals() as stop, BatchProgress(lambda: stop.requested, quiet=quiet) as progress:
            made = make(out, names or ("all",), quick=quick, powers=powers, observer=progress, **options)
    except InputError as error:
        if error.parameter == "experiments":  # a positional argument, not an option
            raise UserError(f"there is no experiment {error.value}; choose {error.allowed}") from None
        raise
    if made.skipped:
        print(f"skipped {len(made.skipped)} runs. {FETCH_CIFAR10}", file=sys.stderr)
    for failure in made.failures:
        print(f"{failure.run.name}: {failure.reason}", file=sys.stderr)
    print(f"report: {made.report}")
    if made.stopped:
        print("interrupted; the same command resumes", file=sys.stderr)
        return INTERRUPTED
    return SOME_FAILED if made.failures else 0
