"""Workers: what computes local trainings and evaluations: threads, processes, or actors on a Ray cluster."""

from slotwise.learning.workers.processes import Processes, plan_of
from slotwise.learning.workers.ray_actors import RayActors
from slotwise.learning.workers.threads import Threads, Trained, TrainingJob, WorkerPlan, Workers, train_all

__all__ = [
    "Processes",
    "RayActors",
    "Threads",
    "Trained",
    "TrainingJob",
    "WorkerPlan",
    "Workers",
    "plan_of",
    "train_all",
]
