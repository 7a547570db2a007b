"""Training along a timeline: the engine, tasks, and the built-in network."""

from slotwise.learning.engine import Training, train
from slotwise.learning.history import Diverged, History, Interrupted, Point
from slotwise.learning.optimizer import (
    Adam,
    CosineDecay,
    ExponentialDecay,
    InverseDecay,
    OwnStep,
    Sgd,
    StepContext,
    StepDecay,
)
from slotwise.learning.task import Evaluation, Task, TaskWrapper, TrainingResult, TrainingStart

__all__ = [
    "Adam", "CosineDecay", "Diverged", "Evaluation", "ExponentialDecay", "History", "Interrupted",
    "InverseDecay", "OwnStep", "Point", "Sgd", "StepContext", "StepDecay", "Task",
    "TaskWrapper", "Training",
    "TrainingResult", "TrainingStart", "train",
]  # fmt: skip
