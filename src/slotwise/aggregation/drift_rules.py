"""Rules that correct client drift: each device adds a correction to every gradient of its local training.

On unequal data local steps lead away from the common optimum. The correction comes from a vector that each
device keeps, as long as the model: the gradient of its own data as it knows it. Such a rule has two halves,
one on the server and one on the devices, which is part of their local training (`learning/drift_task.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from slotwise.aggregation.rule import Contribution, RuleState, Vector
from slotwise.base.errors import UserError
from slotwise.options import Range
from slotwise.options.checks import LARGEST_NUMBER, Value

Array = Any  # a numpy array, or a torch tensor on a GPU


class Correction:
    """Term that a local training adds to each of its gradients: vector + pull·(w − w_start).

    Attributes:
        steps: Gradients that were corrected.
    """

    def __init__(self, vector: Vector, start_weights: Vector, pull: float = 0.0) -> None:
        self._vector: Array = vector
        self._start: Array = start_weights
        self._sum: Array = np.zeros_like(vector)
        self._pull, self.steps = pull, 0

    def apply(self, gradient: Array, weights: Array) -> Array:
        """Return the gradient of a step with the correction; call it once for every step.

        Raises:
            UserError: a part of the model has no gradient.
        """
        if len(gradient) != len(self._vector):
            missing = f"{len(gradient)} of {len(self._vector)} numbers of the model have a gradient"
            raise UserError(f"correction of client drift: {missing}; buffers of a module must not travel")
        if not self.steps and not isinstance(gradient, np.ndarray):
            kept = (self._vector, self._start, self._sum)
            self._vector, self._start, self._sum = (gradient.new_tensor(array) for array in kept)
        with np.errstate(over="ignore", invalid="ignore"):  # Diverged says it better than a numpy warning
            self._sum += gradient
            self.steps += 1
            corrected = gradient + self._vector
            return corrected + self._pull * (weights - self._start) if self._pull else corrected

    @property
    def mean_gradient(self) -> Vector:
        """The mean of the gradients before their correction."""
        total = self._sum if isinstance(self._sum, np.ndarray) else self._sum.cpu().numpy()
        return (total / self.steps).astype(np.float32)


class DriftRule(Value, ABC):
    """Base class of the rules. A message is one vector of equal parts, the first of which is w or its update.

    Attributes:
        keeps_updates: True: N vectors as long as the model are kept.
        message_parts: Parts of every message, up and down.
    """

    keeps_updates: ClassVar[bool] = True
    message_parts: ClassVar[int] = 1

    @abstractmethod
    def correction(self, kept: Vector, message: Vector) -> Correction:
        """Return a device's correction, from what it keeps and the parts of the server's message."""

    @abstractmethod
    def trained(
        self, kept: Vector, message: Vector, update: Vector, correction: Correction
    ) -> tuple[Vector, list[Vector]]:
        """Return what the device keeps after its training, and the parts of its message."""


@dataclass(frozen=True)
class Scaffold(DriftRule):
    """w_{k+1} = w_k − (eta_g/S) Σ u_i and c ← c + (1/N) Σ (c_i⁺ − c_i); devices add c − c_i to each gradient.

    Karimireddy, Kale, Mohri, Reddi, Stich and Suresh, "SCAFFOLD: Stochastic Controlled Averaging for
    Federated Learning", ICML 2020, arXiv:1910.06378, Algorithm 1. c_i⁺ is the mean of the gradients that the
    device met, which under plain SGD is its option II: c_i − c + (w_start − w_end)/(H·eta). The control
    variates travel both ways: a message has twice the numbers of a model.

    Attributes:
        server_rate: Server step size.
    """

    message_parts: ClassVar[int] = 2

    server_rate: Annotated[float, Range(above=0, most=LARGEST_NUMBER)] = 1.0

    def correction(self, kept: Vector, message: Vector) -> Correction:
        """Return c − c_i."""
        return Correction(message[1] - kept, message[0])

    def trained(
        self,
        kept: Vector,
        message: Vector,  # noqa: ARG002
        update: Vector,
        correction: Correction,
    ) -> tuple[Vector, list[Vector]]:
        """Return c_i⁺; the update, and c_i − c_i⁺, which the server subtracts as it does updates."""
        new = correction.mean_gradient
        return new, [update, kept - new]

    def __call__(self, model: Vector, contributions: Sequence[Contribution]) -> Vector:
        """Return the next model and c."""
        total = np.zeros((2, model.size // 2))
        for sent in contributions:
            total += sent.update.reshape(2, -1)
        total[0] *= self.server_rate / len(contributions)
        total[1] /= contributions[0].devices
        return (model - total.ravel()).astype(np.float32)


@dataclass(frozen=True)
class FedDyn(DriftRule):
    """w_{k+1} = (1/S) Σ w_i − h/alpha with h ← h + (alpha/N) Σ u_i, where w_i = w_start − u_i.

    Acar, Zhao, Matas Navarro, Mattina, Whatmough and Saligrama, "Federated Learning Based on Dynamic
    Regularization", ICLR 2021, arXiv:2111.04263, Algorithm 1. Devices add −g_i + alpha·(w − w_start) to each
    gradient, and g_i ← g_i + alpha·u_i. Messages are those of other rules.

    Attributes:
        dynamic_penalty: Alpha, the weight of the squared distance to the start in each local training.
    """

    dynamic_penalty: Annotated[float, Range(least=1 / LARGEST_NUMBER, most=LARGEST_NUMBER)] = 0.1

    def correction(self, kept: Vector, message: Vector) -> Correction:
        """Return −g_i + alpha·(w − w_start)."""
        return Correction(-kept, message[0], self.dynamic_penalty)

    def trained(
        self,
        kept: Vector,
        message: Vector,  # noqa: ARG002
        update: Vector,
        correction: Correction,  # noqa: ARG002
    ) -> tuple[Vector, list[Vector]]:
        """Return the next g_i, and the update."""
        return kept + np.float32(self.dynamic_penalty) * update, [update]

    def __call__(
        self, model: Vector, contributions: Sequence[Contribution], state: RuleState
    ) -> tuple[Vector, RuleState]:
        """Return the next model and h."""
        ends, updates = np.zeros(model.size), np.zeros(model.size)
        for sent in contributions:
            ends += sent.start
            updates += sent.update
        h = state.get("h", 0.0) + self.dynamic_penalty / contributions[0].devices * updates
        mean = (ends - updates) / len(contributions)
        return (mean - h / self.dynamic_penalty).astype(np.float32), {"h": h}


def device_half(rule: Any) -> DriftRule | None:
    """Return a rule if devices have a part in it; None for other rules."""
    return rule if isinstance(rule, DriftRule) else None


def message_parts(rule: Any) -> int:
    """Return how many vectors as long as the model a message has under a rule."""
    drift = device_half(rule)
    return 1 if drift is None else drift.message_parts
