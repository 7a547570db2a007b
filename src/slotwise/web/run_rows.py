"""Rows of the table of runs: what the results browser says of a run folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any

from slotwise.errors import UserError
from slotwise.runs import SavedRun

SEEDS = ("seed", "data_seed", "model_seed", "fleet_seed")
# What reading a file may raise that is not as slotwise writes it.
UNREADABLE = (
    UserError,
    OSError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
)
DAMAGED: Mapping[str, Any] = {
    **{"status": "damaged", "live": False, "options": {}, "line": None, "rounds": None, "slot": None},
    **{"loss": None, "accuracy": None, "seconds": None},
}


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
    except UNREADABLE:
        return DAMAGED
    return row


def without_seeds(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that runs of one line share."""
    return {name: value for name, value in options.items() if name not in SEEDS}


def line_key(options: Mapping[str, Any], data_sha256: str | None) -> str:
    """Return the same text for runs that differ in seeds only, and so are seeds of one line."""
    shared = repr((sorted(without_seeds(options).items()), data_sha256))
    return hashlib.sha256(shared.encode(errors="surrogatepass")).hexdigest()[:16]


def number(value: Any) -> float | None:
    """Return a finite number, and None for NaN and infinities, which JSON does not have, and all else."""
    return value if isinstance(value, int | float) and isfinite(value) else None
