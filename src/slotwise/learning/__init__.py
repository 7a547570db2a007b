"""Training along a timeline: the engine, tasks, and the built-in network."""

from slotwise.learning.engine import Diverged, History, Interrupted, Point, Training, train
from slotwise.learning.task import Evaluation, Task, TrainingResult, TrainingStart

__all__ = [
    "Diverged",
    "Evaluation",
    "History",
    "Interrupted",
    "Point",
    "Task",
    "Training",
    "TrainingResult",
    "TrainingStart",
    "train",
]
