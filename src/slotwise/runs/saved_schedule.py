"""Numbers of a timeline that the outcome of a run needs, saved in its folder: it is not simulated again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from slotwise.base.files import write_atomically
from slotwise.learning import Point
from slotwise.schedule import Timeline, Totals
from slotwise.schedule.costs import Usage, usage_until

SCHEDULE = "schedule.json"  # in the folder of a run


class SavedSchedule(NamedTuple):
    """Totals of a timeline, and at each evaluation the updates applied and the usage of all devices."""

    totals: Totals
    updates: list[int]
    usage: Usage

    @classmethod
    def of(cls, timeline: Timeline, points: Sequence[Point]) -> SavedSchedule:
        """Return the numbers of a timeline at some evaluations."""
        updates = timeline.round_offsets[[point.round for point in points]].tolist()
        usage = usage_until(timeline, [point.slot for point in points])
        return cls(timeline.totals(), updates, usage)

    @classmethod
    def read(
        cls, path: Path, description: Mapping[str, Any], points: Sequence[Point]
    ) -> SavedSchedule | None:
        """Return what a run folder has; None if it has nothing of this run and these evaluations."""
        with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
            document = json.loads((path / SCHEDULE).read_text(encoding="utf-8"))
            if document["run"] == _identity(description, points):
                usage = Usage(*(np.array(slots, dtype=np.int64) for slots in document["usage"]))
                return cls(Totals(**document["totals"]), document["updates"], usage)
        return None

    def save(self, path: Path, description: Mapping[str, Any], points: Sequence[Point]) -> None:
        """Write the numbers into a run folder."""
        usage = [slots.tolist() for slots in self.usage]
        document = {"run": _identity(description, points), "totals": self.totals._asdict()}
        write_atomically(
            path / SCHEDULE, json.dumps({**document, "updates": self.updates, "usage": usage}) + "\n"
        )


def _identity(description: Mapping[str, Any], points: Sequence[Point]) -> str:
    """Return a sha256 of the options of a run and the places of its evaluations."""
    places = [(point.slot, point.round) for point in points]
    content = json.dumps([description["parameters"], places], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()
