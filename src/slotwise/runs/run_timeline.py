"""The timeline of a run's configuration, simulated once for all runs that share it."""

from __future__ import annotations

from slotwise.learning.local_training import LocalTraining
from slotwise.radio import RadioOptions
from slotwise.runs.config import RunConfig
from slotwise.schedule import Timeline
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
    """Return the timeline of a configuration; it is simulated unless this process has it."""
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
    """Return the configuration with defaults for all that the timeline does not depend on: a cache key."""
    training = LocalTraining(seed=config.seed if config.schedule_depends_on_seed else 0)
    kept = {name: getattr(config, name) for name in ("channel", "policy", "fleet", "link")}
    if isinstance(config.link, RadioOptions) and config.link.lacks_bits:  # they are those of the model
        kept |= {name: getattr(config, name) for name in ("model", "dataset", "bits")}
    return RunConfig(**kept, training=training)
