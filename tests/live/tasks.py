"""Tasks for live runs: cheap, and different to the bit for every device, training and model."""

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from slotwise.aggregation import Vector, mean
from slotwise.learning import Evaluation, TrainingStart
from slotwise.schedule import IntentionalDelay
from slotwise.schedule.link import Transmission

SIZE = 500
LARGE = 60_000


class Arithmetic:
    """Updates that tell device, training and model apart, and are of about the same length."""

    def __init__(self, seconds: float = 0.0, size: int = SIZE) -> None:
        self._seconds, self._numbers = seconds, size

    def initial_model(self) -> Vector:
        return np.linspace(1, 2, self._numbers, dtype=np.float32)

    def local_update(self, model: Vector, start: TrainingStart) -> Vector:
        time.sleep(self._seconds)
        offset = 1e-4 * start.training + 1e-5 * start.round + 1e-6 * start.slot
        step = np.float32(0.001 * (10 + start.device)) * model + np.float32(offset)
        return step.astype(np.float32)

    def evaluate(self, model: Vector) -> Evaluation:
        return Evaluation(float(model.sum()), 0.5)

    def named_arrays(self, model: Vector) -> Mapping[str, Vector]:
        return {"w": model}


def make(parameters):
    return Arithmetic()


def make_large(parameters):
    """A model that does not fit into one packet of 64 KiB."""
    return Arithmetic(size=LARGE)


def make_policy(seed):
    return IntentionalDelay(delay=1)


def latest_first(waiting, round_number, last_sender):
    return max(waiting)


class SlowEvenDevices:
    """A link on which uplinks of even devices take two slots; with ``lost``, each first one is lost."""

    planned_broadcast_slots = 1

    def __init__(self, devices: int, *, lost: bool) -> None:
        self.planned_slots, self._lost = [1 + (n % 2 == 0) for n in range(1, devices + 1)], lost

    def uplink(self, device: int, slot: int, attempt: int) -> Transmission:
        return Transmission(self.planned_slots[device - 1], self._lost and attempt == 0)

    def broadcast(self, receivers: Sequence[int], slot: int) -> int:
        return 1

    def snr_db(self, slot: int) -> Vector:
        return 3.0 * np.arange(len(self.planned_slots)) - slot % 5


def make_link(scenario, seed, lost: bool = False):
    return SlowEvenDevices(scenario.devices, lost=lost)


def half_step(model, contributions):
    return (model + mean(model, contributions)) / np.float32(2)


def shorter_and_shorter(model, contributions, state):
    """Divide the step of the mean by the number of the call."""
    calls = state.get("calls", np.zeros(1)) + 1
    step = (model - mean(model, contributions)) / calls
    return (model - step).astype(np.float32), {"calls": calls}


class Failing(Arithmetic):
    """Fails in its second training."""

    def local_update(self, model: Vector, start: TrainingStart) -> Vector:
        if start.training:
            raise RuntimeError("no more")
        return super().local_update(model, start)


def make_failing(parameters):
    return Failing()


class Broken(Arithmetic):
    """Its updates are of no use."""

    def local_update(self, model: Vector, start: TrainingStart) -> Vector:
        return np.full_like(model, np.nan)


def make_broken(parameters):
    return Broken()


class Gated(Arithmetic):
    """Training number ``first`` and those after it wait for a file to be there."""

    def __init__(self, seconds: float, first: int, gate: Path) -> None:
        super().__init__(seconds)
        self._first, self._gate = first, gate

    def local_update(self, model: Vector, start: TrainingStart) -> Vector:
        while start.training >= self._first and not self._gate.exists():
            time.sleep(0.02)
        return super().local_update(model, start)


def make_slow(parameters):
    """As slow as the environment says, and gated if it says so."""
    seconds = float(os.environ.get("SECONDS_OF_TRAINING", "0.3"))
    if "GATE" not in os.environ:
        return Arithmetic(seconds)
    return Gated(seconds, int(os.environ["GATED_FROM"]), Path(os.environ["GATE"]))
