"""BoundCase: a setting of the convergence theorems with its constants, given or estimated on a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

from slotwise.base.errors import InputError
from slotwise.base.machine import available_cores
from slotwise.learning.estimation import Measurement, Progress, SgdTask, measure, one_step
from slotwise.learning.models import NetworkModel
from slotwise.learning.networks import Logistic
from slotwise.options.checks import whole
from slotwise.runs.config import RunConfig, beyond_the_paper
from slotwise.runs.execution import build_task
from slotwise.runs.run_folder import RunFolder
from slotwise.schedule import Policy, Timeline
from slotwise.theory.bound import Bound, Constants, Setting, corrected, published, round_robin

# Gradients of so many samples are computed, for training and for measuring: about a minute on two cores.
TRAINING_SAMPLES, MEASURING_SAMPLES = 700_000, 750_000
FEWEST_POINTS, MOST_POINTS = 5, 40


@dataclass(frozen=True)
class BoundCase:
    """A setting and its constants; which of them were estimated, and the measurement they come from.

    ``notes`` are sentences that a reader of the result should know.
    """

    setting: Setting
    constants: Constants
    measurement: Measurement | None = None
    estimated: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()

    @property
    def bounds(self) -> dict[str, Bound]:
        """The bounds of the three theorems by name."""
        theorems = {"published": published, "corrected": corrected, "round_robin": round_robin}
        return {name: theorem(self.constants, self.setting) for name, theorem in theorems.items()}

    def as_dict(self) -> dict[str, Any]:
        """Return everything by name, as JSON shows it."""
        setting, found = asdict(self.setting), self.measurement
        mean = float(found.running_mean()[-1]) if found else None
        measured = {"rounds": found.rounds, "gradient2": found.gradient2, "mean": mean} if found else None
        return {
            "setting": {**setting.pop("scenario"), **setting, "staleness": self.setting.staleness},
            "constants": asdict(self.constants),
            "estimated": sorted(self.estimated),
            **{name: bound.as_dict() for name, bound in self.bounds.items()},
            "measured": measured,
        }


def estimate_constants(
    folder: RunFolder,
    *,
    known: Mapping[str, float] | None = None,
    rounds: int | None = None,
    learning_rate: float | None = None,
    progress: Progress = lambda *_: None,
) -> BoundCase:
    """Estimate the constants of the analysis for a run: train its task again, with one gradient per update.

    Args:
        folder: A run of equal devices without faults, with the rule mean and 32 bits.
        known: Constants that are given and not estimated.
        rounds: Rounds to train; by default what takes about a minute.
        learning_rate: Step size; by default the run's.
        progress: Is told of the stages training, gradients and curvature.

    Raises:
        InputError: the theorems do not cover the run.
    """
    config = folder.parameters()
    if not isinstance(config.policy, Policy) or config.policy.depends_on_seed:
        raise InputError("estimate", folder.path, "a run of a built-in schedule without random participation")
    if not config.changed_options().keys().isdisjoint(beyond_the_paper()):
        allowed = "a run of equal devices without faults, with aggregation mean, bits 32 and no task"
        raise InputError("estimate", folder.path, allowed)
    timeline = config.simulate()
    task = cast(SgdTask, build_task(config))
    held = [task.samples.count(device) for device in range(1, len(task.samples) + 1)]
    setting = _setting(config, timeline, rounds, learning_rate, min(held))
    saved, _ = folder.checkpoints.load()
    measurement = measure(
        one_step(task, batch_size=setting.batch_size, learning_rate=setting.learning_rate),
        timeline.first(setting.rounds),
        points=min(setting.rounds, MOST_POINTS, max(FEWEST_POINTS, MEASURING_SAMPLES // sum(held))),
        others=[] if saved is None else [saved.model],
        workers=available_cores(),
        progress=progress,
    )
    known = dict(known or {})
    measurement = replace(measurement, constants=replace(measurement.constants, **known))
    estimated = frozenset(asdict(measurement.constants)) - known.keys()
    notes = _notes(config, setting, timeline)
    return BoundCase(setting, measurement.constants, measurement, estimated, notes)


def _setting(
    config: RunConfig, timeline: Timeline, rounds: int | None, rate: float | None, fewest_samples: int
) -> Setting:
    """Return the run as the theorems see it, cut to what can be trained in a minute."""
    scenario = config.channel
    # One batch size for all devices, so no more than the one with the fewest samples holds.
    batch = min(config.training.batch_size, fewest_samples)
    # Theorem 1 needs K ≥ 2G, which is 2G+1 rounds.
    affordable = max(2 * scenario.groups + 1, TRAINING_SAMPLES // (scenario.group_size * batch))
    wanted = affordable if rounds is None else whole("rounds", rounds)
    return Setting(
        scenario=scenario,
        rounds=min(wanted, timeline.rounds),
        batch_size=batch,
        learning_rate=config.training.learning_rate if rate is None else rate,
        delay=scenario.groups - 1 if config.schedule == "sync" else timeline.delay or 0,
    )


def _notes(config: RunConfig, setting: Setting, timeline: Timeline) -> tuple[str, ...]:
    notes = ["L and heterogeneity are the largest values found: the true constants are at least as large."]
    if not (
        isinstance(config.model, NetworkModel) and isinstance(config.model.network, Logistic)
    ):  # all others have relu, and so kinks
        notes.append("This network has no finite L: the estimate is the curvature met along the way.")
    if config.steps_per_training > 1:
        notes.append(
            f"The run takes H = {config.steps_per_training} steps per update, the theorem one: "
            "measured is the same schedule, step size and batch size with H = 1."
        )
    if setting.rounds < timeline.rounds:
        notes.append(f"Trained for {setting.rounds:,} of the run's {timeline.rounds:,} rounds.")
    return tuple(notes)
