"""What `slotwise bound` bounds: a setting and its constants, given or estimated on a run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from slotwise.errors import InputError
from slotwise.learning.constants import Measurement, SgdTask, measure, one_step, spread_rounds
from slotwise.runs import RunConfig, RunFolder
from slotwise.runs.build import build_task
from slotwise.runs.config import BEYOND_THE_PAPER
from slotwise.scenario import whole
from slotwise.schedule import simulate
from slotwise.theory.bound import Bound, Constants, Setting, corrected, published, round_robin

# Gradients of so many samples are computed, for training and for measuring: about a minute on two cores.
TRAINING_SAMPLES, MEASURING_SAMPLES = 700_000, 750_000
FEWEST_POINTS, MOST_POINTS = 5, 40
NAMES = {
    "smoothness": "L, smoothness of f",
    "device_smoothness": "L of every device's loss",
    "gradient_noise": "σ², gradient noise",
    "noise_growth": "M, noise growth",
    "heterogeneity": "Γ², heterogeneity",
    "initial_gap": "f(w0) − f*",
    "initial_gradient2": "‖∇f(w0)‖²",
}


@dataclass(frozen=True)
class BoundCase:
    """What is bounded, and what was measured of it."""

    setting: Setting
    constants: Constants
    measurement: Measurement | None = None
    estimated: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()

    @property
    def bounds(self) -> dict[str, Bound]:
        """The three theorems by name."""
        theorems = {"published": published, "corrected": corrected, "round_robin": round_robin}
        return {name: theorem(self.constants, self.setting) for name, theorem in theorems.items()}

    def as_dict(self) -> dict[str, Any]:
        """Everything by name, as JSON shows it."""
        setting = {**asdict(self.setting), "staleness": self.setting.staleness}
        measured = self.measurement and {
            "rounds": self.measurement.rounds,
            "gradient2": self.measurement.gradient2,
            "mean": float(self.measurement.running_mean()[-1]),
        }
        return {
            "setting": {**setting.pop("scenario"), **setting},
            "constants": asdict(self.constants),
            "estimated": sorted(self.estimated),
            **{name: bound.as_dict() for name, bound in self.bounds.items()},
            "measured": measured,
        }


def measured_case(
    folder: RunFolder, known: dict[str, float], rounds: int | None, rate: float | None, *, quiet: bool
) -> BoundCase:
    """Train the run's task anew, with one gradient per update, and measure on the way."""
    parameters = folder.parameters()
    if parameters.policy.schedule == "sync" and parameters.policy.participation == "random":
        raise InputError("estimate", folder.path, "a run whose groups take turns: no --participation random")
    if set(parameters.changed_options()) & set(BEYOND_THE_PAPER):
        raise InputError(
            "estimate", folder.path, "a run of equal, faultless devices, --bits 32, the mean and no --task"
        )
    setting = _setting_of(parameters, rounds, rate)
    task = one_step(
        cast(SgdTask, build_task(parameters)),
        batch_size=setting.batch_size,
        learning_rate=setting.learning_rate,
    )
    points = _points(parameters, setting.rounds)
    saved, _ = folder.checkpoints.load()
    ends = [] if saved is None else [saved.model]
    with _progress(
        setting.rounds, len(spread_rounds(setting.rounds, points)), 2 + len(ends), quiet
    ) as advance:
        measurement = measure(
            task,
            simulate(
                replace(setting.scenario, deadline=None),
                parameters.policy.schedule,
                delay=setting.delay if parameters.policy.schedule == "idfl" else "auto",
                rounds=setting.rounds,
            ),
            points=points,
            others=ends,
            workers=len(os.sched_getaffinity(0)),
            advance=advance,
        )
    measurement = replace(measurement, constants=replace(measurement.constants, **known))
    found = frozenset(NAMES) - set(known)
    return BoundCase(setting, measurement.constants, measurement, found, _notes(parameters, setting))


def _setting_of(parameters: RunConfig, rounds: int | None, rate: float | None) -> Setting:
    """The run as the theorem sees it, cut to what can be trained in a minute."""
    scenario = parameters.channel
    timeline = parameters.simulate()
    batch = min(parameters.training.batch_size, parameters.dataset.samples_per_device)
    affordable = max(2 * scenario.groups + 1, TRAINING_SAMPLES // (scenario.group_size * batch))
    wanted = affordable if rounds is None else whole("rounds", rounds)
    return Setting(
        scenario=scenario,
        rounds=min(wanted, timeline.rounds),
        batch_size=batch,
        learning_rate=parameters.training.learning_rate if rate is None else rate,
        delay=scenario.groups - 1 if parameters.policy.schedule == "sync" else timeline.delay or 0,
    )


def _points(parameters: RunConfig, rounds: int) -> int:
    held = parameters.channel.devices * parameters.dataset.samples_per_device
    return min(rounds, MOST_POINTS, max(FEWEST_POINTS, MEASURING_SAMPLES // held))


def _notes(parameters: RunConfig, setting: Setting) -> tuple[str, ...]:
    notes = ["Estimates are the largest values met, so the true constants are at least as large."]
    if parameters.training.local_steps > 1:
        notes.append(
            f"The run takes H = {parameters.training.local_steps} steps per update, the theorem one: "
            "measured is the same schedule, step size and batch size with H = 1."
        )
    all_rounds = parameters.simulate().rounds
    if setting.rounds < all_rounds:
        notes.append(
            f"Trained for {setting.rounds:,} of the run's {all_rounds:,} rounds (more with --rounds)."
        )
    return tuple(notes)


@contextmanager
def _progress(rounds: int, points: int, ends: int, quiet: bool) -> Iterator[Callable[[str], None]]:
    """One bar for each part of the work."""
    columns = (TextColumn("{task.description:>9}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), disable=quiet) as bars:
        totals = {"training": rounds, "gradients": points, "curvature": ends}
        rows = {name: bars.add_task(name, total=total) for name, total in totals.items()}
        yield lambda name: bars.advance(rows[name])
