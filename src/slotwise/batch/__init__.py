"""Batches: many runs from one specification, trained in this process, in local processes or on Ray."""

from slotwise.batch.batch_folder import BatchFolder
from slotwise.batch.executors import Executor, ProcessExecutor, SerialExecutor
from slotwise.batch.job import BatchObserver, Failure, Job, JobProgress, Run
from slotwise.batch.jobs import run_batch, run_jobs, unfinished
from slotwise.batch.results import BatchResults
from slotwise.batch.specification import BatchSpec

__all__ = [
    "BatchFolder",
    "BatchObserver",
    "BatchResults",
    "BatchSpec",
    "Executor",
    "Failure",
    "Job",
    "JobProgress",
    "ProcessExecutor",
    "Run",
    "SerialExecutor",
    "run_batch",
    "run_jobs",
    "unfinished",
]
