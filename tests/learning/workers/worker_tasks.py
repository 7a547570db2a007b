"""Tasks for workers in other processes, which import this module."""

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from slotwise.aggregation import Vector
from slotwise.learning import Evaluation, TrainingResult, TrainingStart


class Counting:
    """Devices keep a count, updates depend on device, training and model; the data is large."""

    def __init__(self, size: int = 1000) -> None:
        self.data = np.linspace(0, 1, size, dtype=np.float32)
        self.main = os.getpid()

    def initial_model(self) -> Vector:
        return self.data.copy()

    def local_update(self, model: Vector, start: TrainingStart) -> TrainingResult:
        count = int(start.state.get("count", np.array(0)))
        update = (model - self.data * start.device) * np.float32(0.1 / (1 + count)) + start.training
        metrics = {"elsewhere": float(os.getpid() != self.main)}
        return TrainingResult(update, start.device, metrics, {"count": np.array(count + 1)})

    def evaluate(self, model: Vector) -> Evaluation:
        return Evaluation(float(np.square(model).mean()), 0.5, {"main": float(os.getpid() == self.main)})

    def named_arrays(self, model: Vector) -> Mapping[str, NDArray[np.float32]]:
        return {"weights": model}


class Killing(Counting):
    """Ends its process in the training of one device, the first time or every time."""

    def __init__(self, mark: Path, *, always: bool = False) -> None:
        super().__init__()
        self._mark, self._always = mark, always

    def local_update(self, model: Vector, start: TrainingStart) -> TrainingResult:
        if start.device == 3 and (self._always or not self._mark.exists()):
            self._mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().local_update(model, start)


class Hanging(Counting):
    """Computes for ever in a training after the first round, and says so through a named pipe."""

    def __init__(self, pipe: Path) -> None:
        super().__init__()
        self._pipe = pipe

    def local_update(self, model: Vector, start: TrainingStart) -> TrainingResult:
        if start.round == 1:
            self._pipe.write_text("now")
            while True:
                pass
        return super().local_update(model, start)


class Raising(Counting):
    """Raises in its third training."""

    def local_update(self, model: Vector, start: TrainingStart) -> TrainingResult:
        if start.training == 3:
            raise ZeroDivisionError("no samples")
        return super().local_update(model, start)


class Locked(Counting):
    """Cannot be pickled."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = Lock()


class NotThere(Counting):
    """Cannot be loaded in another process."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self._error = error

    def __reduce__(self) -> tuple[object, ...]:
        return (_refuse, (os.getpid(), self._error))


def _refuse(main: int, error: BaseException) -> NotThere:
    if os.getpid() != main:
        raise error
    return NotThere(error)
