"""What `slotwise bound` prints."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.table import Table

from slotwise.cli.bound_case import NAMES
from slotwise.report.cost_tables import table_console
from slotwise.runs.bound_case import BoundCase
from slotwise.theory.bound import Setting


def print_case(case: BoundCase) -> None:
    """The constants, the three bounds side by side, and what they do not cover."""
    console = table_console()
    console.print(_title(case.setting), highlight=False)
    console.print(_constants_table(case))
    console.print(_bounds_table(case))
    for name, bound in case.bounds.items():
        for reason in bound.uncovered:
            console.print(f"{name.replace('_', ' ')} does not cover it: {reason}", highlight=False)
    for note in case.notes:
        console.print(note, highlight=False)


def _constants_table(case: BoundCase) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("constant", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for name, words in NAMES.items():
        value = getattr(case.constants, name)
        if value is not None:
            table.add_row(words, f"{value:.4g}", "estimated" if name in case.estimated else "")
    return table


def _title(setting: Setting) -> str:
    scenario = setting.scenario
    return (
        f"{scenario.devices:,} devices, {scenario.group_size:,} a round, {setting.rounds:,} rounds, "
        f"staleness {setting.staleness:,} (delay {setting.delay:,}),\n"
        f"step size {setting.learning_rate:g}, batches of {setting.batch_size:,}"
    )


def _bounds_table(case: BoundCase) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("mean of ‖∇f(w_k)‖²", no_wrap=True)
    bounds = case.bounds.values()
    for heading in ("published", "corrected", "round robin"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name in ("q1", "q2", "q3", "q4"):
        table.add_row(name.upper(), *(f"{getattr(b, name):.4g}" for b in bounds))
    table.add_row("bound (Q2+Q3+Q4)/Q1", *(f"{b.value:.4g}" for b in bounds), style="bold")
    if case.measurement is not None:
        mean = f"{case.measurement.running_mean()[-1]:.4g}"
        table.add_row(f"measured at {len(case.measurement.rounds)} rounds", *([mean] * 3))
    table.add_row("largest step covered", *(f"{b.largest_rate:.4g}" for b in bounds))
    table.add_row("covers this case", *("yes" if b.covered else "no" for b in bounds))
    return table
