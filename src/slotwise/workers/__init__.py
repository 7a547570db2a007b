"""Workers outside of this process: processes of this machine and actors on a Ray cluster, alone or in a pool.

Local trainings, jobs of a batch and answers of the explorer are computed in them. This package knows none of
these: a worker holds an object, and its methods are called from here.
"""

from slotwise.workers.pool import (
    ATTEMPTS,
    ClusterLost,
    Pool,
    Work,
    Worker,
    WorkerLost,
    WorkersGone,
    trace_note,
)
from slotwise.workers.process import Background, ProcessWorker, Terms
from slotwise.workers.shared_object import SharedObject, load_shared

__all__ = [
    "ATTEMPTS",
    "Background",
    "ClusterLost",
    "Pool",
    "ProcessWorker",
    "SharedObject",
    "Terms",
    "Work",
    "Worker",
    "WorkerLost",
    "WorkersGone",
    "load_shared",
    "trace_note",
]
