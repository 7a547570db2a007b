"""Training along a timeline: the engine, tasks, and the built-in network."""

from slotwise.learning.engine import Training, train
from slotwise.learning.history import Diverged, History, Point
from slotwise.learning.task import Evaluation, Task

__all__ = ["Diverged", "Evaluation", "History", "Point", "Task", "Training", "train"]
