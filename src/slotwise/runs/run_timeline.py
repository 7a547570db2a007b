"""The timeline of a run's configuration, computed once for all runs that share it."""

from __future__ import annotations

from functools import lru_cache

from slotwise.learning.local_training import LocalTraining
from slotwise.radio import RadioOptions
from slotwise.runs.config import RunConfig
from slotwise.schedule import Timeline

CACHED_TIMELINES = 16


def schedule_timeline(config: RunConfig) -> Timeline:
    """Return the timeline of a configuration; the last few are cached."""
    return _timeline(schedule_only(config))


def schedule_only(config: RunConfig) -> RunConfig:
    """Return the configuration with defaults for all that the timeline does not depend on: a cache key."""
    training = LocalTraining(seed=config.seed if config.schedule_depends_on_seed else 0)
    kept = {name: getattr(config, name) for name in ("channel", "policy", "fleet", "link")}
    if isinstance(config.link, RadioOptions) and config.link.lacks_bits:  # they are those of the model
        kept |= {name: getattr(config, name) for name in ("model", "dataset", "bits")}
    return RunConfig(**kept, training=training)


@lru_cache(CACHED_TIMELINES)
def _timeline(config: RunConfig) -> Timeline:
    return config.simulate()
