"""The timeline of a run: simulated once for all runs that share it; its numbers, saved in the run folder."""

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
from slotwise.learning.local_training import LocalTraining
from slotwise.radio import RadioOptions
from slotwise.runs.config import RunConfig
from slotwise.schedule import Timeline, Totals
from slotwise.schedule.costs import Usage, spared_until, usage_until
from slotwise.schedule.timeline import COLUMNS

MOST_BYTES = 256 << 20  # of timelines that a process keeps


class Timelines:
    """Timelines that were simulated in this process or sent to it, as many as fit into some memory."""

    def __init__(self) -> None:
        self._kept: dict[RunConfig, Timeline] = {}
        self._bytes = 0

    def get(self, schedule: RunConfig) -> Timeline | None:
        """Return the timeline of a schedule, if it is kept."""
        return self._kept.get(schedule)

    def keep(self, schedule: RunConfig, timeline: Timeline) -> None:
        """Keep a timeline, and drop the oldest ones if there are too many."""
        if schedule in self._kept:
            return
        self._kept[schedule] = timeline
        self._bytes += _size(timeline)
        while self._bytes > MOST_BYTES and len(self._kept) > 1:
            self._bytes -= _size(self._kept.pop(next(iter(self._kept))))


def _size(timeline: Timeline) -> int:
    return sum(getattr(timeline, name).nbytes for name in COLUMNS)


_TIMELINES = Timelines()


def schedule_timeline(config: RunConfig) -> Timeline:
    """Return the timeline of a configuration; it is simulated unless this process has it.

    If the schedule is decided by what is learned, it is only about as long as that.
    """
    schedule = schedule_only(config)
    if (timeline := _TIMELINES.get(schedule)) is None:
        timeline = schedule.simulate()
        _TIMELINES.keep(schedule, timeline)
    return timeline


def known_timeline(config: RunConfig) -> Timeline | None:
    """Return the timeline of a configuration if this process has it."""
    return _TIMELINES.get(schedule_only(config))


def keep_timeline(config: RunConfig, timeline: Timeline) -> None:
    """Keep the timeline of a configuration that another process has simulated."""
    _TIMELINES.keep(schedule_only(config), timeline)


def schedule_only(config: RunConfig) -> RunConfig:
    """Return the configuration with defaults for all that the timeline does not depend on: a cache key.

    Of a schedule that is decided by what is learned it is the one without that: an estimate of its length.
    """
    config = config.without_learning()
    training = LocalTraining(seed=config.seed if config.schedule_depends_on_seed else 0)
    kept = {name: getattr(config, name) for name in ("channel", "policy", "fleet", "link", "access")}
    if isinstance(config.link, RadioOptions) and config.link.lacks_bits:  # they are those of the model
        kept |= {name: getattr(config, name) for name in ("model", "dataset", "rule", "bits", "compressor")}
    return RunConfig(**kept, training=training)


SCHEDULE = "schedule.json"  # in the folder of a run
TIMELINE = "timeline.json"  # as a live run has measured it, or as it was decided while training


class SavedSchedule(NamedTuple):
    """Totals of a timeline, and at each evaluation the updates applied and the usage of all devices."""

    totals: Totals
    updates: list[int]
    usage: Usage
    spared: list[float]  # slots at the whole sending power, by all devices

    @classmethod
    def of(cls, timeline: Timeline, points: Sequence[Point]) -> SavedSchedule:
        """Return the numbers of a timeline at some evaluations."""
        updates = timeline.round_offsets[[point.round for point in points]].tolist()
        usage = usage_until(timeline, [point.slot for point in points])
        less = spared_until(timeline, [point.slot for point in points]).tolist()
        return cls(timeline.totals(), updates, usage, less)

    @classmethod
    def read(
        cls, path: Path, description: Mapping[str, Any], points: Sequence[Point]
    ) -> SavedSchedule | None:
        """Return what a run folder has; None if it has nothing of this run and these evaluations."""
        with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
            document = json.loads((path / SCHEDULE).read_text(encoding="utf-8"))
            if document["run"] == _identity(description, points):
                usage = Usage(*(np.array(slots, dtype=np.int64) for slots in document["usage"]))
                less = document.get("spared", [0.0] * len(points))  # older ones have none
                return cls(Totals(**document["totals"]), document["updates"], usage, less)
        return None

    def save(self, path: Path, description: Mapping[str, Any], points: Sequence[Point]) -> None:
        """Write the numbers into a run folder."""
        usage = [slots.tolist() for slots in self.usage]
        document: dict[str, Any] = {"run": _identity(description, points), "totals": self.totals._asdict()}
        document |= {"updates": self.updates, "usage": usage}
        document |= {"spared": self.spared} if any(self.spared) else {}
        write_atomically(path / SCHEDULE, json.dumps(document) + "\n")


def _identity(description: Mapping[str, Any], points: Sequence[Point]) -> str:
    """Return a sha256 of the options of a run and the places of its evaluations."""
    places = [(point.slot, point.round) for point in points]
    content = json.dumps([description["parameters"], places], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()
