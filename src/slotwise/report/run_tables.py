"""Runs as they stand: their last evaluation, their best, and the costs of their devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from slotwise.costs import Costs, Powers
from slotwise.errors import UserError
from slotwise.learning import Point
from slotwise.report.cost_tables import (
    CostRow,
    add_columns,
    cost_table,
    costs_as_dict,
    device_table,
    plain_table,
    summary_table,
)
from slotwise.report.curves.run_curves import sparkline
from slotwise.runs import RunConfig, RunFolder
from slotwise.schedule import Timeline


@dataclass(frozen=True)
class RunSummary:
    """One run as it stands.

    Attributes:
        folder: the run folder.
        config: its options.
        points: its evaluations so far.
        costs: costs up to the last evaluation; None before the first round, and if a live run did not keep
            to its schedule.
    """

    folder: RunFolder
    config: RunConfig
    points: list[Point]
    costs: Costs | None

    @classmethod
    def read(cls, path: Path, powers: Powers | None = None) -> RunSummary:
        """Read a run folder; with powers, the costs include joules."""
        folder = RunFolder.open(path)
        config, points = folder.parameters(), folder.points()
        done = _completed(folder, config, points[-1].round) if points and points[-1].round else None
        return cls(folder, config, points, None if done is None else Costs.of(done, powers))

    @property
    def name(self) -> str:
        """Name of the folder."""
        return self.folder.path.resolve().name

    def as_dict(self, per_device: bool = False) -> dict[str, Any]:
        """Return the summary for JSON, with or without the costs of every single device."""
        return {
            "run": str(self.folder.path),
            "status": self.folder.status,
            "schedule": self.config.policy.schedule,
            "group_size": self.config.channel.group_size,
            "seed": self.config.seed,
            "final": self.points[-1]._asdict() if self.points else None,
            "best": min(self.points, key=lambda p: p.loss)._asdict() if self.points else None,
            "usage": None if self.costs is None else costs_as_dict(self.costs, per_device),
        }


def run_tables(runs: Sequence[RunSummary], *, per_device: bool = False) -> Iterator[Table]:
    """Yield a table of the runs, and tables of their costs."""
    yield _table(runs)
    if len(runs) > 1:
        yield cost_table(("run",), [CostRow((run.name,), run.costs) for run in runs], "Costs of the devices")
    for run in runs:
        if run.costs is not None and (per_device or len(runs) == 1):
            title = f"{run.name}: costs of the devices in {run.costs.slots:,} slots"
            yield (device_table if per_device else summary_table)(run.costs, title)


def _completed(folder: RunFolder, config: RunConfig, rounds: int) -> Timeline | None:
    """Return the schedule up to a round; None if a live run did not keep to it, as its costs are unknown."""
    timeline = config.simulate()
    if rounds > timeline.rounds:
        raise UserError(f"{folder.path}: its history.csv and its run.json are not of the same run")
    planned, measured = timeline.first(rounds), folder.path / "timeline.json"
    if measured.is_file():
        happened = Timeline.from_json(measured.read_text(encoding="utf-8"))
        return planned if happened.first(rounds) == planned else None
    return planned


def _table(runs: Sequence[RunSummary]) -> Table:
    table = plain_table()
    table.add_column("run", overflow="fold", min_width=14)
    add_columns(table, ("status", "schedule"), "left", wrap=False)
    add_columns(table, ("S", "round", "slot", "loss", "acc"), wrap=False)
    add_columns(table, ("loss curve",), "left", wrap=False)
    for run in runs:
        figures = ["–"] * 4
        if run.points:
            last = run.points[-1]
            figures = [f"{last.round}", f"{last.slot}", f"{last.loss:.4f}", f"{last.accuracy:.1%}"]
        policy, size = run.config.policy.schedule, str(run.config.channel.group_size)
        curve = sparkline([point.loss for point in run.points], width=12)
        table.add_row(run.name, run.folder.status, policy, size, *figures, curve)
    return table
