"""Workers: what computes local trainings and evaluations: threads, processes, or actors on a Ray cluster."""

from slotwise.learning.workers.process_workers import Processes
from slotwise.learning.workers.ray_workers import RayActors
from slotwise.learning.workers.thread_workers import Threads, plan_of
from slotwise.learning.workers.worker_protocol import Job, Trained, WorkerPlan, Workers, train_all

__all__ = [
    "Job",
    "Processes",
    "RayActors",
    "Threads",
    "Trained",
    "WorkerPlan",
    "Workers",
    "plan_of",
    "train_all",
]
