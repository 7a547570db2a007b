"""ResultsBrowser: the runs, batches and recommendations in a folder, as JSON values for the page."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from slotwise.base.errors import InputError, UserError
from slotwise.base.files import read_document
from slotwise.batch.batch_folder import BatchFolder, case_names
from slotwise.learning.task import metric_names
from slotwise.options import declared
from slotwise.runs import RunConfig, SavedRun
from slotwise.runs.config import without_seeds
from slotwise.runs.device_data import changed_data_text, changed_sources
from slotwise.runs.saved_run import MALFORMED
from slotwise.schedule import Timeline
from slotwise.schedule.costs import Powers
from slotwise.setting.slot_duration import known_slot_seconds
from slotwise.web.run_lines import (
    USUAL_COLUMNS,
    DrawnRun,
    curve_lines,
    line_key,
    number,
    seeds_of,
    varied_options,
)

MOST_RUNS, DEEPEST = 5_000, 8  # of a listing
MOST_CURVES = 400  # runs whose curves are read at once
AXES = ("slot", "seconds", "round", "updates", "joules")
RECOMMENDATION_FORMAT = 2
RECOMMENDATION_KEYS = ("answer", "decided", "choices", "cautions", "cost", "standings")
DAMAGED: Mapping[str, Any] = {
    **{
        "status": "damaged",
        "live": False,
        "options": {},
        "line": None,
        "seeds": "",
        "rounds": None,
        "slot": None,
    },
    **{"loss": None, "accuracy": None, "metrics": {}, "slot_seconds": None, "seconds": None},
}


class ResultsBrowser:
    """Reads a folder; files that have not changed since are not read again."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._kept_row = lru_cache(2 * MOST_RUNS)(lambda folder, stamp: read_row(folder))  # noqa: ARG005

    def listing(self) -> dict[str, Any]:
        """Return a row for each run, the options in which they differ, batches and recommendations."""
        runs: list[dict[str, Any]] = []
        recommendations: list[dict[str, Any]] = []
        batches, problems = [], []
        cases = _Cases(self.root)
        for folder, names in _folders(self.root):
            place = self._place(folder)
            if "run.json" in names and len(runs) < MOST_RUNS:
                row = self._row(folder)
                if row is DAMAGED:
                    problems.append(f"{place}: run.json is damaged")
                runs.append({"run": place, "case": cases.of(folder), **row})
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
            "varied": varied_options([row["options"] for row in runs], USUAL_COLUMNS),
            "batches": batches,
            "recommendations": recommendations,
            "problems": problems,
        }

    def _place(self, folder: Path) -> str:
        return folder.relative_to(self.root).as_posix()

    def _row(self, folder: Path) -> Mapping[str, Any]:
        """Return the row of a run."""
        try:
            # run.json is replaced when the status of a run changes, so its time shows whether a row is old.
            stamp = (folder / "run.json").stat().st_mtime_ns
        except OSError:
            return DAMAGED
        return self._kept_row(folder, stamp)

    def path(self, name: str) -> Path:
        """Return a folder below the root, or raise a UserError."""
        try:
            # Resolved before it is compared: neither links nor .. may lead out of the folder.
            path = (self.root / name).resolve()
            inside = path.is_relative_to(self.root.resolve())
        except (OSError, ValueError):
            inside = False
        if not inside:
            raise InputError("run", name, "a run folder in the folder that is shown")
        return path

    def run(self, name: str) -> SavedRun:
        """Return a run by the name that the listing has for it."""
        return SavedRun.read(self.path(name))

    def timeline(self, name: str) -> Timeline:
        """Return the schedule of a run; of a live run as it was measured."""
        run = self.run(name)
        if run.measured is None:
            _refuse_own_code(run.config)
            return run.planned
        if not run.measured.rounds:
            raise UserError(f"{name}: no round has ended yet; there is no timeline to draw")
        return run.measured

    def curves(self, names: Sequence[str], across: str, up: str, powers: Powers | None) -> dict[str, Any]:
        """Return the curves of some runs; runs that differ only in seeds are one line with a band.

        Runs that cannot be read, and data that have changed between runs, are among the ``notices``.

        Args:
            names: the runs.
            across: one of `AXES`; seconds are those of slots whose length the runs say.
            up: loss, accuracy, or a metric of the runs.
            powers: watts of a device, for joules.
        """
        if across not in AXES:
            raise InputError("across", across, f"one of {', '.join(AXES)}")
        if across == "joules" and powers is None:
            allowed = "another axis, or powers given in the explorer, under Energy"
            raise InputError("across", across, allowed)
        if len(names) > MOST_CURVES:
            raise InputError("run", f"{len(names)} runs", f"at most {MOST_CURVES}")
        runs, notices = self._read(dict.fromkeys(names), across, powers)
        metrics = metric_names(point.metrics for run in runs for point in run.points)
        unknown = [run.name for run in runs if run.slot_seconds is None]
        if across == "seconds" and unknown:
            raise InputError("across", across, f"another axis: {unknown[0]} does not say how long a slot is")
        if up not in ("loss", "accuracy", *metrics):
            raise InputError("up", up, f"one of {', '.join(('loss', 'accuracy', *metrics))}")
        changed = changed_sources(run.data for run in runs)
        notices += [changed_data_text(source, hashes) for source, hashes in changed.items()]
        has_accuracy = any(number(point.accuracy) is not None for run in runs for point in run.points)
        offered = [*(["accuracy"] if has_accuracy else []), *metrics]
        return {"lines": curve_lines(runs, across, up), "metrics": offered, "notices": notices}

    def _read(
        self, names: Iterable[str], across: str, powers: Powers | None
    ) -> tuple[list[DrawnRun], list[str]]:
        """Return the runs that have a point, and why others cannot be read; refuse if none can."""
        runs, problems, cases = [], [], _Cases(self.root.resolve())
        for name in names:
            path = self.path(name)
            try:
                run = SavedRun.read(path)
                points = _points(run, across, powers)
            except UserError as error:
                problems.append(str(error))
                continue
            if points:
                options = run.config.options()
                data, seconds = run.data._replace(run=name), known_slot_seconds(run.config, powers)
                kind = without_seeds(options), data, points, seconds, seeds_of(options)
                runs.append(DrawnRun(name, cases.of(path), *kind))
        if problems and not runs:
            raise UserError(problems[0])
        return runs, problems


def _points(run: SavedRun, across: str, powers: Powers | None) -> Sequence[Any]:
    if across in ("slot", "seconds", "round"):
        return run.points
    _refuse_own_code(run.config)
    return run.curve(powers)


def _refuse_own_code(config: RunConfig) -> None:
    """Refuse to import what a run.json names: a page must not start code that a folder chooses."""
    options = config.options()
    for name, option in declared(RunConfig).items():
        decides = (
            option.part in ("policy", "link", "access") and option.choice is not None and option.choice.own
        )
        if decides and ":" in str(options.get(name, "")):
            raise UserError(f"the {name} {options[name]} is code of your own; slotwise show draws this run")


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


class _Cases:
    """Names of the cases of runs, from the batches that they are in; each batch is read once."""

    def __init__(self, root: Path) -> None:
        self._root, self._known = root, dict[Path, dict[str, str]]()

    def of(self, run: Path) -> str:
        """Return the case of a run folder; empty if it has none, or is in no batch below the root."""
        batch = BatchFolder(run.parent.parent)
        if run.parent != batch.runs or not batch.path.is_relative_to(self._root):
            return ""
        if batch.path not in self._known:
            try:
                self._known[batch.path] = case_names(batch) if batch.is_batch else {}
            except UserError:
                self._known[batch.path] = {}
        return self._known[batch.path].get(run.name, "")


def _recommendation(path: Path) -> dict[str, Any] | None:
    try:
        document = read_document(path, RECOMMENDATION_FORMAT, *RECOMMENDATION_KEYS)
        json.dumps(document, allow_nan=False)  # as the answer to the page
    except (UserError, *MALFORMED):
        return None
    return {name: document[name] for name in RECOMMENDATION_KEYS} | {"train": document.get("train")}


def read_row(folder: Path) -> Mapping[str, Any]:
    """Return the row of a run; that of a damaged one if its run.json is not as slotwise writes it."""
    try:
        run = SavedRun.read(folder)
        options, final = run.config.options(), run.reported
        row = {
            "status": run.status,
            "live": run.is_live,
            "options": options,
            "line": line_key(options, run.data.sha256),
            "seeds": seeds_of(options),
            "rounds": run.description.get("rounds"),
            "slot": final.get("slot"),
            "loss": number(final.get("loss")),
            "accuracy": number(final.get("accuracy")),
            "metrics": {name: number(value) for name, value in dict(final.get("metrics") or {}).items()},
            "slot_seconds": known_slot_seconds(run.config),
            "seconds": run.description.get("seconds"),
        }
        json.dumps(row, allow_nan=False)  # as the answer to the page
    except (UserError, *MALFORMED):
        return DAMAGED
    return row
