"""ResultsBrowser: the runs, batches and recommendations in a folder, as JSON values for the page."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from threading import Lock
from typing import Any, get_args

from slotwise.batch.batch_folder import BatchFolder
from slotwise.batch.job import schedule_timeline
from slotwise.batch.run_outcome import read_run
from slotwise.costs import Powers
from slotwise.errors import InputError, UserError
from slotwise.files import read_document
from slotwise.report.curves import BLUE, Across, Line
from slotwise.runs import RunConfig, RunFolder
from slotwise.schedule import Timeline

MOST_RUNS, DEEPEST = 5_000, 8  # of a listing
MOST_CURVES = 400  # runs whose curves are read at once
SEEDS = ("seed", "data_seed", "model_seed", "fleet_seed")
USUAL_COLUMNS = ("schedule", "group_size", "seed")
RECOMMENDATION_FORMAT = 2
RECOMMENDATION_KEYS = ("answer", "decided", "choices", "cautions", "cost", "standings")


class ResultsBrowser:
    """Reads a folder; files that have not changed since are not read again."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._known: dict[Path, tuple[int, dict[str, Any] | None]] = {}
        self._lock = Lock()

    def listing(self) -> dict[str, Any]:
        """Return a row for each run, the options in which they differ, batches and recommendations."""
        runs: list[dict[str, Any]] = []
        recommendations: list[dict[str, Any]] = []
        batches, problems = [], []
        for folder, names in _folders(self.root):
            place = self._place(folder)
            if "run.json" in names and len(runs) < MOST_RUNS:
                row = self._row(folder)
                if row is None:
                    problems.append(f"{place}: run.json cannot be read")
                else:
                    runs.append({"run": place, **row})
            if BatchFolder(folder).manifest_name in names:
                batches.append(place)
            if "recommendation.json" in names:
                found = _recommendation(folder / "recommendation.json")
                if found is None:
                    problems.append(f"{place}: recommendation.json cannot be read")
                else:
                    recommendations.append({"folder": place, **found})
        return {
            "root": str(self.root),
            "runs": runs,
            "varied": _varied([row["options"] for row in runs]),
            "batches": batches,
            "recommendations": recommendations,
            "problems": problems,
        }

    def _place(self, folder: Path) -> str:
        return folder.relative_to(self.root).as_posix()

    def _row(self, folder: Path) -> dict[str, Any] | None:
        """Return the row of a run; None if its run.json is damaged."""
        try:
            # run.json is replaced when the status of a run changes, so its time shows whether a row is old.
            stamp = (folder / "run.json").stat().st_mtime_ns
        except OSError:
            return None
        with self._lock:
            known = self._known.get(folder)
        if known is None or known[0] != stamp:
            known = (stamp, _read_row(folder))
            with self._lock:
                if len(self._known) > 2 * MOST_RUNS:
                    self._known.clear()
                self._known[folder] = known
        return known[1]

    def folder(self, name: str) -> RunFolder:
        """Return a run folder below the root, or raise a UserError."""
        try:
            # Resolved before it is compared: neither links nor .. may lead out of the folder.
            path = (self.root / name).resolve()
            inside = path.is_relative_to(self.root.resolve())
        except (OSError, ValueError):
            inside = False
        if not inside:
            raise InputError("run", name, "a run folder in the folder that is shown")
        return RunFolder.open(path)

    def timeline(self, name: str) -> Timeline:
        """Return the schedule of a run; of a live run as it was measured."""
        folder = self.folder(name)
        measured = folder.path / "timeline.json"
        if measured.is_file():
            return Timeline.from_json(measured.read_text(encoding="utf-8"))
        config = folder.parameters()
        _refuse_own_code(config)
        return schedule_timeline(config)

    def curves(self, names: Sequence[str], across: str, up: str, powers: Powers | None) -> dict[str, Any]:
        """Return the curves of some runs; runs that differ only in seeds are one line with a band.

        Args:
            names: the runs.
            across: slot, round, updates or joules.
            up: loss or accuracy.
            powers: watts of a device, for joules.
        """
        if across not in get_args(Across) or across == "value":
            raise InputError("across", across, "slot, round, updates or joules")
        if up not in ("loss", "accuracy"):
            raise InputError("up", up, "loss or accuracy")
        if across == "joules" and powers is None:
            raise InputError("across", across, "another axis unless powers are given")
        if len(names) > MOST_CURVES:
            raise InputError("run", f"{len(names)} runs", f"at most {MOST_CURVES}")
        groups: dict[str, list[tuple[str, dict[str, Any], Sequence[Any]]]] = {}
        for name in dict.fromkeys(names):
            folder = self.folder(name)
            config = folder.parameters()
            points = self._points(folder, config, across, powers)
            options = {key: value for key, value in config.options().items() if key not in SEEDS}
            if points:
                groups.setdefault(repr(sorted(options.items())), []).append((name, options, points))
        varied = _varied([rows[0][1] for rows in groups.values()])
        return {"lines": [_line(rows, varied, across, up) for rows in groups.values()]}

    def _points(
        self, folder: RunFolder, config: RunConfig, across: str, powers: Powers | None
    ) -> Sequence[Any]:
        if across in ("slot", "round"):
            return folder.points()
        _refuse_own_code(config)
        return read_run(folder, powers).curve


def _refuse_own_code(config: RunConfig) -> None:
    """Refuse to import what a run.json names: a page must not start code that a folder chooses."""
    for name in ("schedule", "selection"):
        if ":" in getattr(config.policy, name):
            value = getattr(config.policy, name)
            raise UserError(f"the {name} {value} is code of your own; slotwise show draws this run")


def _folders(root: Path) -> Iterator[tuple[Path, set[str]]]:
    """Yield all folders below ``root`` and the names of their files, sorted; hidden ones are skipped."""
    for place, folders, names in os.walk(root):
        path = Path(place)
        depth = len(path.relative_to(root).parts)
        is_run = "run.json" in names
        kept = sorted(name for name in folders if not name.startswith("."))
        # os.walk visits only the folders that are left in this list. There are no runs in a run.
        folders[:] = [] if is_run or depth >= DEEPEST else kept
        yield path, set(names)


def _read_row(folder: Path) -> dict[str, Any] | None:
    run = RunFolder(folder)
    try:
        description, options = run.description(), run.parameters().options()
    except (UserError, OSError, ValueError, KeyError, TypeError):
        return None
    final = description.get("final") or {}
    return {
        "status": description["status"],
        "live": "live_run" in description,
        "options": options,
        "rounds": description.get("rounds"),
        "slot": final.get("slot"),
        "loss": _number(final.get("loss")),
        "accuracy": _number(final.get("accuracy")),
        "seconds": _number(description.get("seconds")),
    }


def _recommendation(path: Path) -> dict[str, Any] | None:
    try:
        document = read_document(path, RECOMMENDATION_FORMAT, *RECOMMENDATION_KEYS)
    except UserError:
        return None
    return {name: document[name] for name in RECOMMENDATION_KEYS} | {"train": document.get("train")}


def _varied(tables: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the names of options that have not the same value in all tables, after those always shown."""
    values: dict[str, set[str]] = {}
    for table in tables:
        for name, value in table.items():
            values.setdefault(name, set()).add(repr(value))
    differing = [name for name, found in values.items() if len(found) > 1]
    return list(dict.fromkeys([*USUAL_COLUMNS, *differing]))


def _line(
    rows: Sequence[tuple[str, dict[str, Any], Sequence[Any]]], varied: Sequence[str], across: Any, up: Any
) -> dict[str, Any]:
    line = Line("", BLUE, False, tuple(points for _, _, points in rows))
    band = line.band(across, up)
    options = rows[0][1]
    shown = [name for name in varied if name not in SEEDS]
    label = ", ".join(_label(name, options[name]) for name in shown)
    columns = {name: [_number(value) for value in getattr(band, name).tolist()] for name in band._fields}
    return {"label": label, "runs": [name for name, _, _ in rows], **columns}


def _label(name: str, value: Any) -> str:
    if name == "schedule":
        return str(value)
    return f"S={value}" if name == "group_size" else f"{name.replace('_', ' ')} {value}"


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and isfinite(value) else None
