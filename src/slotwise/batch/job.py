"""Run and Job: one training of a batch, its name, its schedule in numbers, and how much work it is.

Configurations that give the same timeline and the same learning are one run: intentional delay that comes out
as 0 is the asynchronous schedule, so it is trained once and shown twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import NamedTuple

from slotwise.base.observer import BaseObserver
from slotwise.runs import RunConfig
from slotwise.runs.run_timeline import schedule_only, schedule_timeline
from slotwise.schedule import IntentionalDelay, Simulator, Totals, automatic_delay

CACHED_RUNS, CACHED_SUMMARIES = 4096, 4096
TEST_IMAGES = 10_000
# An evaluation is a forward pass: about a third of the arithmetic of a training step on the same image.
FORWARD_PART = 1 / 3


@dataclass(frozen=True)
class Run:
    """A training: the name of its folder, and its configuration."""

    name: str
    config: RunConfig

    @staticmethod
    @lru_cache(CACHED_RUNS)
    def of(config: RunConfig) -> Run:
        """Return the run that trains ``config``, named after the slots and words that are not the paper's."""
        trained = as_trained(config)
        own = trained.options()
        data = str(own.get("data") or trained.dataset.data)
        paper = RunConfig.from_options({"data": data}).options()
        size = trained.channel.group_size_text.replace(", ", "-")
        parts = [data.replace(":", ".").replace("/", "-"), own["schedule"], f"S{size}"]
        changed = {name: value for name, value in own.items() if value != paper.get(name)}
        for name, value in changed.items():
            if name.endswith("_slots"):
                parts.append(f"{name.removesuffix('_slots')}{value}")
            elif isinstance(value, str) and name not in {"schedule", "network"}:  # which have their places
                parts.append(value.replace(":", "."))
        has_own_layers = "channels" in changed or "hidden" in changed
        network = [own["network"]] if "network" in changed else []
        network += [*own["channels"], *own["hidden"]] if has_own_layers else []
        parts += ["x".join(map(str, network))] if network else []
        return Run("-".join([*parts, f"T{trained.deadline}", f"seed{trained.seed}"]), trained)


@dataclass(frozen=True)
class Job:
    """A run to train or to resume."""

    run: Run
    work: float = 0.0  # amount of computation of the whole run, in a unit that all jobs share
    until: int | None = None  # stop after this number of rounds; None trains to the end


class JobProgress(NamedTuple):
    """Progress of a job: rounds done, and the last evaluation if there was one."""

    done: int
    rounds: int
    loss: float | None = None
    accuracy: float | None = None


class BatchObserver(BaseObserver):
    """Callbacks of a batch; subclasses override the ones they need."""

    def batch_started(self, jobs: Sequence[Job], finished: int) -> None:
        """A batch begins to train ``jobs``; ``finished`` other runs were finished before."""

    def job_started(self, job: Job) -> None:
        """A worker begins or resumes a job."""

    def job_progress(self, job: Job, progress: JobProgress) -> None:
        """A job has made progress; reported a few times a second."""

    def job_retried(self, job: Job, reason: str) -> None:
        """A job has lost its worker, for ``reason``; another one resumes it from its last checkpoint."""

    def job_ended(self, job: Job, reason: str | None) -> None:
        """A job is finished or was stopped; ``reason`` says why if it failed."""

    def batch_stopping(self) -> None:
        """A batch stops early, for an observer or Ctrl-C; its jobs in training save what there is and end."""

    def batch_ended(self) -> None:
        """A batch has ended, also if it was stopped or an error ended it."""


@dataclass(frozen=True)
class Failure:
    """A run that failed or diverged, and the reason."""

    run: Run
    reason: str


free_delay = cache(automatic_delay)  # the same few scenarios are asked for often


def as_trained(config: RunConfig) -> RunConfig:
    """Return the simplest configuration that gives the same training.

    Unequal devices are left as they are: each has an intentional delay of its own.
    """
    if config.slot_ms is not None:  # a duration for joules, which the batch keeps with its powers
        config = replace(config, slot_ms=None)
    policy = config.policy
    if config.decides_by_learning or not isinstance(policy, IntentionalDelay):
        return config
    if config.simulator is not Simulator.BATCHES:
        return config
    free = free_delay(config.channel)
    delay = free if policy.delay == "auto" else policy.delay
    # The normal form of a delay: none is async, and the free one is auto, however it was given.
    if delay == 0:
        return config.with_options(schedule="async")
    return config.with_options(delay="auto" if delay == free else delay)


def distinct(runs: Iterable[Run]) -> tuple[Run, ...]:
    """Return each run once, in the order of first appearance; a ValueError if two share a name."""
    found: dict[str, Run] = {}
    for run in runs:
        if found.setdefault(run.name, run) != run:
            raise ValueError(f"two runs are called {run.name}")
    return tuple(found.values())


def schedule_summary(config: RunConfig) -> Totals:
    """Return the totals of the timeline of a configuration; raise an InputError if there is none."""
    return _summary(schedule_only(config))


def run_work(config: RunConfig) -> float:
    """Return the multiply-adds of a whole run, evaluations included: what the time left is estimated from."""
    schedule = schedule_summary(config)
    trained = schedule.updates
    images = trained * config.samples_per_training
    evaluations = 1 + schedule.slots / config.slots_between_evaluations
    evaluated = config.dataset.sizes.total(config.channel.devices) + TEST_IMAGES
    # The cost of a user's own task is unknown: all its samples count alike.
    per_image = 1.0 if config.model.is_own else float(config.network().dense_multiply_adds)
    return (images + evaluations * evaluated * FORWARD_PART) * per_image


@lru_cache(CACHED_SUMMARIES)
def _summary(config: RunConfig) -> Totals:
    return schedule_timeline(config).totals()
