"""ResultsBrowser: the runs, batches and recommendations in a folder, as JSON values for the page."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple, get_args

from slotwise.base.errors import InputError, UserError
from slotwise.base.files import read_document
from slotwise.batch.batch_folder import BatchFolder, case_names
from slotwise.learning.task import metric_names
from slotwise.options import declared
from slotwise.report.colours import DASHES, Subject, line_looks
from slotwise.report.curves import Across, Line
from slotwise.runs import RunConfig, SavedRun
from slotwise.runs.data_identity import DataUse, changed_data_text, changed_sources
from slotwise.runs.saved_run import MALFORMED
from slotwise.schedule import Timeline
from slotwise.schedule.costs import Powers

MOST_RUNS, DEEPEST = 5_000, 8  # of a listing
MOST_CURVES = 400  # runs whose curves are read at once
USUAL_COLUMNS = ("schedule", "group_size", "seed")
SHOWN_DIGITS = 8  # of a hash, in a label
RECOMMENDATION_FORMAT = 2
RECOMMENDATION_KEYS = ("answer", "decided", "choices", "cautions", "cost", "standings")
DAMAGED: Mapping[str, Any] = {
    **{"status": "damaged", "live": False, "options": {}, "line": None, "rounds": None, "slot": None},
    **{"loss": None, "accuracy": None, "seconds": None},
}


class _DrawnRun(NamedTuple):
    """A run whose curve is drawn: the case of its batch, its options, its data and its evaluations."""

    name: str
    case: str
    options: dict[str, Any]  # without seeds
    data: DataUse
    points: Sequence[Any]


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
            "varied": _varied([row["options"] for row in runs], USUAL_COLUMNS),
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

    def timeline(self, name: str) -> Timeline:
        """Return the schedule of a run; of a live run as it was measured."""
        run = SavedRun.read(self.path(name))
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
            across: slot, round, updates or joules.
            up: loss, accuracy, or a metric of the runs.
            powers: watts of a device, for joules.
        """
        if across not in get_args(Across) or across == "value":
            raise InputError("across", across, "slot, round, updates or joules")
        if across == "joules" and powers is None:
            raise InputError("across", across, "another axis unless powers are given")
        if len(names) > MOST_CURVES:
            raise InputError("run", f"{len(names)} runs", f"at most {MOST_CURVES}")
        runs, notices = self._read(dict.fromkeys(names), across, powers)
        metrics = metric_names(point.metrics for run in runs for point in run.points)
        if up not in ("loss", "accuracy", *metrics):
            raise InputError("up", up, f"one of {', '.join(('loss', 'accuracy', *metrics))}")
        changed = changed_sources(run.data for run in runs)
        notices += [changed_data_text(source, hashes) for source, hashes in changed.items()]
        return {"lines": _lines(runs, across, up), "metrics": list(metrics), "notices": notices}

    def _read(
        self, names: Iterable[str], across: str, powers: Powers | None
    ) -> tuple[list[_DrawnRun], list[str]]:
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
                options = without_seeds(run.config.options())
                runs.append(_DrawnRun(name, cases.of(path), options, run.data._replace(run=name), points))
        if problems and not runs:
            raise UserError(problems[0])
        return runs, problems


def _points(run: SavedRun, across: str, powers: Powers | None) -> Sequence[Any]:
    if across in ("slot", "round"):
        return run.points
    _refuse_own_code(run.config)
    return run.curve(powers)


def _refuse_own_code(config: RunConfig) -> None:
    """Refuse to import what a run.json names: a page must not start code that a folder chooses."""
    options = config.options()
    for name, option in declared(RunConfig).items():
        decides = option.part in ("policy", "link") and option.choice is not None and option.choice.own
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


def _varied(tables: Iterable[Mapping[str, Any]], always: Sequence[str] = ()) -> list[str]:
    """Return the names of options that have not the same value in all tables, after those always shown."""
    values: dict[str, set[str]] = {}
    for table in tables:
        for name, value in table.items():
            values.setdefault(name, set()).add(repr(value))
    differing = [name for name, found in values.items() if len(found) > 1]
    return list(dict.fromkeys([*always, *differing]))


def _lines(runs: Sequence[_DrawnRun], across: Any, up: Any) -> list[dict[str, Any]]:
    """Return a line for the runs that differ in seeds only, if any of them has the metric."""
    groups: dict[str, list[_DrawnRun]] = {}
    for run in runs:
        groups.setdefault(line_key(run.options, run.data.sha256), []).append(run)
    labels = _labels([group[0] for group in groups.values()])
    # Looks do not depend on the metric, so that a line has one colour in all plots.
    looks = line_looks([_subject(group[0].options) for group in groups.values()])
    found = []
    for label, look, group in zip(labels, looks, groups.values(), strict=True):
        line = Line(label, *look, tuple(run.points for run in group))
        if line.has(up):
            band = line.band(across, up)
            columns = {name: [number(v) for v in getattr(band, name).tolist()] for name in band._fields}
            shown = {"colours": list(look.colour), "dash": DASHES.index(look.dash)}
            found.append({"label": label, **shown, "runs": [run.name for run in group], **columns})
    return found


def _subject(options: Mapping[str, Any]) -> Subject:
    size = options.get("group_size")
    return Subject(str(options.get("schedule", "")), size if isinstance(size, int) else 0)


def _labels(firsts: Sequence[_DrawnRun]) -> list[str]:
    """Return the label of each line: the name of its case and the options that differ within the case."""
    cases: dict[str, list[_DrawnRun]] = {}
    for run in firsts:
        cases.setdefault(run.case, []).append(run)
    # A case has a name that says what it is, so the usual options are not repeated.
    shown = {
        case: _varied([run.options for run in runs], () if case else USUAL_COLUMNS)
        for case, runs in cases.items()
    }
    labels = [
        ", ".join(
            [run.case] * bool(run.case)
            + [_label(n, run.options[n]) for n in shown[run.case] if not is_seed(n)]
        )
        for run in firsts
    ]
    # Lines with the same options differ in their data.
    counts = Counter(labels)
    hashes = [(run.data.sha256 or "unknown")[:SHOWN_DIGITS] for run in firsts]
    return [
        label if counts[label] == 1 else f"{label}, data {sha256}"
        for label, sha256 in zip(labels, hashes, strict=True)
    ]


def _label(name: str, value: Any) -> str:
    if name == "schedule":
        return str(value)
    return f"S={value}" if name == "group_size" else f"{name.replace('_', ' ')} {value}"


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
            "rounds": run.description.get("rounds"),
            "slot": final.get("slot"),
            "loss": number(final.get("loss")),
            "accuracy": number(final.get("accuracy")),
            "seconds": run.description.get("seconds"),
        }
        json.dumps(row, allow_nan=False)  # as the answer to the page
    except (UserError, ValueError):
        return DAMAGED
    return row


def without_seeds(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that runs of one line share."""
    return {name: value for name, value in options.items() if not is_seed(name)}


def is_seed(name: str) -> bool:
    """Return whether an option is a random seed, as seed and data_seed are."""
    return name.rpartition("_")[2] == "seed"


def line_key(options: Mapping[str, Any], data_sha256: str | None) -> str:
    """Return the same text for runs that differ in seeds only, and so are seeds of one line."""
    shared = repr((sorted(without_seeds(options).items()), data_sha256))
    return hashlib.sha256(shared.encode(errors="surrogatepass")).hexdigest()[:16]


def number(value: Any) -> float | None:
    """Return a finite number, and None for NaN and infinities, which JSON does not have, and all else."""
    return value if isinstance(value, int | float) and isfinite(value) else None
