"""Rules that remember the last update of every device, so that each round counts all devices.

With one label per device, a round of few devices pulls the model towards their labels. A server that keeps
y_n, the last update of device n, steps in a direction to which every device contributes. The memory is N
vectors as long as the model (float32), and their sum in double precision; both are part of checkpoints.

`DelayCompensated` needs no memory: it corrects an update for what the model has moved meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from slotwise.aggregation.rule import Contribution, RuleState, Vector
from slotwise.options import Range
from slotwise.options.checks import LARGEST, LARGEST_NUMBER, Value

Array = NDArray[np.float64]
UPDATE = "device "  # the beginning of the name of a remembered update


class Memory:
    """The last update of every device, their sum, and the round of the model that each started from."""

    def __init__(self, state: RuleState, size: int) -> None:
        self._updates = {name: array for name, array in state.items() if name.startswith(UPDATE)}
        self.total: Array = state["total"].copy() if "total" in state else np.zeros(size)
        self._started = dict(state["started"].tolist()) if "started" in state else {}

    def __len__(self) -> int:
        return len(self._updates)

    def recall(self, device: int) -> Vector | float:
        """Return the last update of a device; 0 if there is none."""
        return self._updates.get(f"{UPDATE}{device}", 0.0)

    def keep(self, contributions: Iterable[Contribution]) -> None:
        """Replace the updates of devices by their new ones."""
        for sent in contributions:
            self.total += sent.update
            self.total -= self.recall(sent.device)
            self._updates[f"{UPDATE}{sent.device}"] = sent.update
            self._started[sent.device] = sent.round - sent.staleness

    def forget_before(self, first: int) -> None:
        """Drop updates that started from a model of an earlier round."""
        for device in [device for device, started in self._started.items() if started < first]:
            self.total -= self._updates.pop(f"{UPDATE}{device}")
            del self._started[device]

    def state(self) -> RuleState:
        """Return the memory as arrays for the next round."""
        started = np.array(sorted(self._started.items()), dtype=np.int64).reshape(-1, 2)
        return {**self._updates, "total": self.total, "started": started}


@dataclass(frozen=True)
class _Remembering(Value):
    """Keep the last update of every device.

    Attributes:
        server_rate: Server step size.
    """

    keeps_updates: ClassVar[bool] = True  # N vectors as long as the model

    server_rate: Annotated[float, Range(above=0, most=LARGEST_NUMBER)] = 1.0


@dataclass(frozen=True)
class Mifa(_Remembering):
    """w_{k+1} = w_k − eta_g·(1/n) Σ y_i, the mean of the last updates of the n devices heard so far.

    Gu, Huang, Zhang and Huang, "Fast Federated Learning in the Presence of Arbitrary Device Unavailability",
    NeurIPS 2021, arXiv:2106.04159. The paper begins with a round of all devices, from which on n = N.
    """

    def __call__(
        self, model: Vector, contributions: Sequence[Contribution], state: RuleState
    ) -> tuple[Vector, RuleState]:
        """Return the next model and the memory."""
        memory = Memory(state, model.size)
        memory.forget_before(self.oldest(contributions[0].round))
        memory.keep(contributions)
        return _stepped(model, self.server_rate * (memory.total / len(memory))), memory.state()

    def oldest(self, round_number: int) -> int:  # noqa: ARG002
        """Return the round of the oldest model whose updates count in a round: the first."""
        return 0


@dataclass(frozen=True)
class Ace(Mifa):
    """w_{k+1} = w_k − eta_g·(1/n) Σ y_i over the n devices whose last update is at most a rounds old.

    Chang, Yao, Krishnamurthy, Shelton, Chakraborty, Swami, Oymak and Roy-Chowdhury, "Mitigating Participation
    Imbalance Bias in Asynchronous Federated Learning", 2025, arXiv:2511.19066. Without ``memory_age`` it is
    ACE, whose step is that of MIFA at every arrival (S = 1); with it ACED. An update that arrives always
    counts. The age is counted from the model that the device started from.

    Attributes:
        memory_age: Rounds after which a remembered update is dropped. Default: never.
    """

    memory_age: Annotated[int, Range(least=0, most=LARGEST)] | None = None

    def oldest(self, round_number: int) -> int:
        """Return the round of the oldest model whose updates count in a round."""
        return 0 if self.memory_age is None else round_number - self.memory_age


@dataclass(frozen=True)
class FedVarp(_Remembering):
    """w_{k+1} = w_k − eta_g·[(1/S) Σ (u_i − y_i) + (1/N) Σ_n y_n], with y = 0 before a device has sent.

    Jhunjhunwala, Sharma, Nagarkatti and Joshi, "FedVARP: Tackling the Variance Due to Partial Client
    Participation in Federated Learning", UAI 2022, arXiv:2207.14130. The memories y are those before the
    round. In expectation over the devices of a round the step is the mean of all devices' updates.
    """

    def __call__(
        self, model: Vector, contributions: Sequence[Contribution], state: RuleState
    ) -> tuple[Vector, RuleState]:
        """Return the next model and the memory."""
        memory = Memory(state, model.size)
        step = np.zeros(model.shape, dtype=np.float64)
        for sent in contributions:
            step += sent.update
            step -= memory.recall(sent.device)
        step = step / len(contributions) + memory.total / contributions[0].devices
        memory.keep(contributions)
        return _stepped(model, self.server_rate * step), memory.state()


@dataclass(frozen=True)
class Ca2fl(FedVarp):
    """FedVARP's step on a buffer of updates that may be outdated: a round of S updates here.

    Wang, Cao, Wu, Chen and Chen, "Tackling the Data Heterogeneity in Asynchronous Federated Learning with
    Cached Update Calibration", ICLR 2024, Algorithm 2. On the same timeline it is `FedVarp` to the bit.
    """


@dataclass(frozen=True)
class DelayCompensated(Value):
    """w_{k+1} = w_k − (1/S) Σ [u_i + c·u_i ⊙ u_i ⊙ (w_k − w_start)]: outdated updates, corrected.

    Zheng, Meng, Wang, Chen, Yu, Ma and Liu, "Asynchronous Stochastic Gradient Descent with Delay
    Compensation", ICML 2017, arXiv:1609.08326, eq. 10: g ⊙ g stands for the Hessian in a first-order
    expansion of the gradient at w_k. With one local step u = eta·g, and c is the paper's lambda / eta. Fresh
    updates are applied as by `mean`, to the bit.

    Attributes:
        compensation: c, how strongly updates are corrected for their age.
    """

    compensation: Annotated[float, Range(least=0, most=LARGEST_NUMBER)] = 1.0

    def __call__(self, model: Vector, contributions: Sequence[Contribution]) -> Vector:
        """Return the next model."""
        total = np.zeros(model.shape, dtype=np.float64)
        for sent in contributions:
            update = sent.update.astype(np.float64)
            total += update
            if sent.staleness:
                total += self.compensation * update * update * (model.astype(np.float64) - sent.start)
        return _stepped(model, total / len(contributions))


def _stepped(model: Vector, step: Array) -> Vector:
    return (model - step).astype(np.float32)
