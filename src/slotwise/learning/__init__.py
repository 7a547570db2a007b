"""Training along a timeline."""

from slotwise.learning.engine import Observer, train
from slotwise.learning.history import Diverged, History, Point
from slotwise.learning.task import Evaluation, Task

__all__ = ["Diverged", "Evaluation", "History", "Observer", "Point", "Task", "train"]
