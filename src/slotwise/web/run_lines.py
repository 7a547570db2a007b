"""Lines of the curves of runs: seeds of one configuration are one line, with a label of its own."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite, nan
from typing import Any, NamedTuple

from slotwise.report.colours import DASHES, Subject, line_looks
from slotwise.report.curves import Line
from slotwise.runs.config import is_seed, without_seeds
from slotwise.runs.device_data import DataUse

USUAL_COLUMNS = ("schedule", "group_size", "seed")
SHOWN_DIGITS = 8  # of a hash, in a label


class DrawnRun(NamedTuple):
    """A run whose curve is drawn: the case of its batch, its options, its data and its evaluations."""

    name: str
    case: str
    options: dict[str, Any]  # without seeds
    data: DataUse
    points: Sequence[Any]
    slot_seconds: float | None  # None if the run does not say how long a slot is
    seeds: str


def varied_options(tables: Iterable[Mapping[str, Any]], always: Sequence[str] = ()) -> list[str]:
    """Return the names of options that have not the same value in all tables, after those always shown."""
    values: dict[str, set[str]] = {}
    for table in tables:
        for name, value in table.items():
            values.setdefault(name, set()).add(repr(value))
    differing = [name for name, found in values.items() if len(found) > 1]
    return list(dict.fromkeys([*always, *differing]))


def curve_lines(runs: Sequence[DrawnRun], across: Any, up: Any) -> list[dict[str, Any]]:
    """Return a line for the runs that differ in seeds only, if any of them has the metric."""
    groups: dict[str, list[DrawnRun]] = {}
    for run in runs:
        groups.setdefault(line_key(run.options, run.data.sha256), []).append(run)
    labels = _labels([group[0] for group in groups.values()])
    # Looks do not depend on the metric, so that a line has one colour in all plots.
    looks = line_looks([_subject(group[0].options) for group in groups.values()])
    found = []
    for label, look, group in zip(labels, looks, groups.values(), strict=True):
        line = Line(label, *look, tuple(run.points for run in group))
        if line.has(up):
            band = line.band("slot" if across == "seconds" else across, up)
            if across == "seconds":
                band = band._replace(places=band.places * (group[0].slot_seconds or nan))
            columns = {name: [number(v) for v in getattr(band, name).tolist()] for name in band._fields}
            shown = {"colours": list(look.colour), "dash": DASHES.index(look.dash)}
            names = {"runs": [run.name for run in group], "seeds": len({run.seeds for run in group})}
            found.append({"label": label, **shown, **names, **columns})
    return found


def _subject(options: Mapping[str, Any]) -> Subject:
    size = options.get("group_size")
    return Subject(str(options.get("schedule", "")), size if isinstance(size, int) else 0)


def _labels(firsts: Sequence[DrawnRun]) -> list[str]:
    """Return the label of each line: the name of its case and the options that differ within the case."""
    firsts = [run._replace(options=_with_group_sizes(run.options)) for run in firsts]
    cases: dict[str, list[DrawnRun]] = {}
    for run in firsts:
        cases.setdefault(run.case, []).append(run)
    # A case has a name that says what it is, so the usual options are not repeated.
    shown = {
        case: varied_options([run.options for run in runs], () if case else USUAL_COLUMNS)
        for case, runs in cases.items()
    }
    labels = [
        ", ".join(
            [run.case] * bool(run.case)
            + [_label(n, run.options[n]) for n in shown[run.case] if n in run.options and not is_seed(n)]
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


def _with_group_sizes(options: dict[str, Any]) -> dict[str, Any]:
    """Return options with all group sizes in one, as 50@0, 10@10000, if they change."""
    changes = options.get("group_size_changes") or ()
    sizes = ", ".join(f"{size}@{slot}" for slot, size in [(0, options.get("group_size")), *changes])
    rest = {name: value for name, value in options.items() if name != "group_size_changes"}
    return rest | ({"group_size": sizes} if changes else {})


def _label(name: str, value: Any) -> str:
    parts = [str(part) for part in value] if isinstance(value, tuple | list) else [str(value)]
    text = "none" if value in (None, "") else ", ".join(parts) or "none"
    if name == "schedule":
        return text
    return f"S={text}" if name == "group_size" else f"{name.replace('_', ' ')} {text}"


def seeds_of(options: Mapping[str, Any]) -> str:
    """Return the same text for runs with the same seeds: of one line, they are the same training."""
    return repr(sorted((name, value) for name, value in options.items() if is_seed(name)))


def line_key(options: Mapping[str, Any], data_sha256: str | None) -> str:
    """Return the same text for runs that differ in seeds only, and so are seeds of one line."""
    shared = repr((sorted(without_seeds(options).items()), data_sha256))
    return hashlib.sha256(shared.encode(errors="surrogatepass")).hexdigest()[:16]


def number(value: Any) -> float | None:
    """Return a finite number, and None for NaN and infinities, which JSON does not have, and all else."""
    return value if isinstance(value, int | float) and isfinite(value) else None
