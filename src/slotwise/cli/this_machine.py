"""The command bench: the speed of this machine."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

from cyclopts import Parameter
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from slotwise.base.errors import InputError
from slotwise.cli.flags import AsJson, number, whole_number
from slotwise.options.checks import whole
from slotwise.report.tables import table_console

REPEATS = Parameter(help="Turns to take the median of.", converter=whole_number, show_default=True)
SECONDS = Parameter(help="Seconds of one measurement.", converter=number, show_default=True)


def bench(
    *,
    repeats: Annotated[int, REPEATS] = 5,
    seconds: Annotated[float, SECONDS] = 2.0,
    as_json: AsJson = False,
) -> None:
    """Measure this machine: sgemm, a plain PyTorch loop, TorchTask and fastcnn on one job, in turns.

    The job: 100 devices with 250 MNIST samples each, 10 a round, 5 SGD steps of batch 64, no evaluation.
    PyTorch is measured where it is installed. If other programs used more than a tenth of the machine
    meanwhile, a warning says so: such figures mean nothing.
    """
    # Imported here: numba and torch are seconds that other commands do without.
    from slotwise.bench import BUSY, measure_suite, number_of_measurements, summary  # noqa: PLC0415

    turns = whole("repeats", repeats)
    if not 0.1 <= seconds < 3600:
        raise InputError("seconds", seconds, "a number from 0.1 to 3600")
    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("measuring", total=number_of_measurements(turns))
        figures = summary(measure_suite(turns, seconds, lambda: progress.advance(bar)))
    if (load := figures["other_load"]) is not None and load > BUSY:
        sys.stderr.write(
            f"slotwise: warning: other programs used {load:.0%} of this machine meanwhile; "
            "measure again when it is quiet\n"
        )
    if as_json:
        print(json.dumps(figures, indent=2))
        return
    console = table_console()
    console.print(f"{figures['machine']}; medians of {turns} turns", highlight=False)
    console.print(_table(figures["ways"]))
    for name, ratio in figures["ratios"].items():
        console.print(f"{ratio:6.2f}×  {name}", highlight=False)


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table(
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        caption="share of sgemm: 2·multiply-adds per second against a matrix product on all cores;\n"
        "needed: without the convolution gradients that max-pool makes zero",
        caption_justify="left",
    )
    table.add_column("way")
    for heading in ("SGD\nsteps/s", "PyTorch\nloop = 1", "share of\nsgemm", "…\nneeded"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        shares = []
        if "against_loop" in row:
            against = row["against_loop"]
            shares = ["–" if against is None else f"{against:.2f}×"]
            shares += [f"{row[f'sgemm_share_{kind}']:.0%}" for kind in ("dense", "needed")]
        table.add_row(row["way"], f"{row['rate']:.0f}", *shares)
    return table
