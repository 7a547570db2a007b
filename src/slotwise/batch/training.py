"""Temporary: former names of `slotwise.batch.jobs`, until paper and recommendation use it."""

from __future__ import annotations

from collections.abc import Iterable

from slotwise.batch.batch_folder import BatchFolder
from slotwise.batch.job import Failure, Job
from slotwise.batch.jobs import FETCH_CIFAR10, can_train, run_jobs, unfinished
from slotwise.batch.serial import MakeTask, SerialExecutor
from slotwise.observer import Observer

__all__ = ["FETCH_CIFAR10", "Failure", "Job", "can_train", "train_jobs", "unfinished"]


def train_jobs(
    folder: BatchFolder,
    jobs: Iterable[Job],
    *,
    workers: int = 1,
    watcher: Observer | None = None,
    make_task: MakeTask | None = None,
) -> tuple[Failure, ...]:
    """Train jobs in this process."""
    return run_jobs(folder, jobs, SerialExecutor(workers, make_task), watcher)
