"""LocalTraining: how a device trains on its own samples; DeviceSamples: which samples each device has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slotwise.data import Dataset
from slotwise.errors import InputError
from slotwise.learning.randomness import LARGEST_SEED, draw_batches
from slotwise.learning.rate_schedule import RateDecay, RateUnit, rate_factor
from slotwise.learning.task import TrainingStart
from slotwise.machine import total_memory
from slotwise.scenario import LARGEST_NUMBER, check_fields, refuse_unused, whole
from slotwise.user_code import describe_value, is_function_name

POSITION = 8  # bytes of a sample's position in a batch
LocalUpdate = Literal["sum", "mean"]
OptimizerName = Literal["sgd", "adam"]
# The smallest and largest value of each number; steps are computed in float32.
RANGES: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("learning_rate", "epsilon", "gradient_clip"), (1 / LARGEST_NUMBER, LARGEST_NUMBER)),
    **dict.fromkeys(("weight_decay", "proximal"), (0.0, LARGEST_NUMBER)),
}
USED_BY: dict[str, tuple[str, ...]] = {"sgd": ("momentum",), "adam": ("beta1", "beta2", "epsilon")}


@dataclass(frozen=True, kw_only=True)
class LocalTraining:
    """Local training of a device: H steps of an optimiser on its own samples.

    For H > 1 the paper's "local update" may be read as the sum of the gradients met on the way
    (w_start − w_end = eta · sum, the default), or as their mean.

    Attributes:
        local_steps: H, steps of one local training.
        batch_size: B, samples of one step.
        learning_rate: Step size.
        update: Local update: sum or mean of the gradients.
        optimizer: Optimiser of a local training, which starts afresh each time.
        momentum: Momentum of SGD.
        beta1: Decay of Adam's mean gradient.
        beta2: Decay of Adam's mean square gradient.
        epsilon: Term in the denominator of Adam.
        weight_decay: Weight of the L2 penalty.
        gradient_clip: Longest gradient of a step, as Euclidean norm; longer ones are shortened to it.
        proximal: FedProx's mu, the weight of the squared distance to the start.
        rate_decay: Decay of the step size over the run.
        rate_unit: Unit in which the decay counts: rounds, slots or trainings of the device.
        rate_period: Units in which the step size halves (step, exponential), falls to a half for the
            first time (inverse) or reaches 0 (cosine).
        local_step: Your own step of the optimiser: module:function.
        seed: Random seed of model, partition, batches, participation and fleet.
    """

    local_steps: int = 5
    batch_size: int = 64
    learning_rate: float = 0.01
    update: LocalUpdate = "sum"
    optimizer: OptimizerName = "sgd"
    momentum: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    gradient_clip: float | None = None
    proximal: float = 0.0
    rate_decay: RateDecay = "constant"
    rate_unit: RateUnit = "round"
    rate_period: int = 1000
    local_step: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("local_steps", "batch_size", "rate_period"):
            whole(name, getattr(self, name))
        whole("seed", self.seed, 0, LARGEST_SEED)
        for name, (lowest, highest) in RANGES.items():
            value = getattr(self, name)
            if value is not None and not lowest <= value <= highest:
                raise InputError(name, value, f"a number from {lowest:g} to {highest:g}")
        for name in ("momentum", "beta1", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(name, getattr(self, name), "a number from 0 to below 1")
        if self.local_step is not None and not is_function_name(self.local_step):
            raise InputError("local_step", self.local_step, "module:function, as in my_module:step")
        refuse_unused(self)

    def unused(self) -> dict[str, str]:
        """Return the options of other optimisers and of a decay that there is not, with the reason."""
        others = [name for kind, names in USED_BY.items() if kind != self.optimizer for name in names]
        found = dict.fromkeys(others, f"with optimizer {self.optimizer}")
        if self.rate_decay == "constant":
            found |= dict.fromkeys(("rate_unit", "rate_period"), "with rate_decay constant")
        if self.local_steps == 1:  # at the first step w is w_start, and the mean of one gradient is the sum
            found |= dict.fromkeys(("proximal", "update"), "with local_steps 1")
        if self.local_step is not None:
            own = ("optimizer", *(name for names in USED_BY.values() for name in names))
            found |= dict.fromkeys((*own, "weight_decay", "gradient_clip", "proximal"), "with local_step")
        return found

    @property
    def divisor(self) -> int:
        """Divisor of w_start − w_end."""
        return self.local_steps if self.update == "mean" else 1

    @property
    def is_plain_sgd(self) -> bool:
        """True if a step is w ← w − eta·g: without momentum, penalties, clipping or a step of the user."""
        extras = (self.momentum, self.weight_decay, self.proximal)
        custom = self.gradient_clip is not None or self.local_step is not None
        return self.optimizer == "sgd" and not any(extras) and not custom

    def rate_at(self, start: TrainingStart) -> float:
        """Return the step size of a local training."""
        elapsed = getattr(start, self.rate_unit)
        return self.learning_rate * rate_factor(self.rate_decay, elapsed / self.rate_period)


class HasCounts(Protocol):
    """Numbers of samples by device."""

    def __len__(self) -> int:
        """Return the number of devices."""

    def count(self, device: int) -> int:
        """Return the number of samples of a device."""


class DeviceSamples:
    """Samples of each device, as indices into the arrays of one data set that all share."""

    def __init__(self, dataset: Dataset, rows: Sequence[NDArray[np.integer]] | NDArray[np.int32]) -> None:
        """Give device n the samples ``rows[n - 1]``; devices may have different numbers of samples."""
        if not isinstance(dataset, Dataset):
            raise InputError("dataset", describe_value(dataset), "a Dataset")
        if isinstance(rows, str) or not isinstance(rows, Sequence | np.ndarray):
            raise InputError("rows", describe_value(rows), "a list with the rows of each device")
        self.dataset = dataset
        held = [_checked_rows(dataset, number, own) for number, own in enumerate(rows, start=1)]
        if not held:
            raise InputError("rows", "none", "the samples of at least one device")
        self.all_rows = np.concatenate(held)
        """Samples of device 1, then those of device 2, …: device n has those from ``offsets[n - 1]`` on."""
        self.offsets = np.cumsum([0, *map(len, held)])
        self.rows = tuple(np.split(self.all_rows, self.offsets[1:-1]))
        self.union = np.unique(self.all_rows)
        """Samples of all devices, each once: the training loss is the mean over them."""

    def __len__(self) -> int:
        """Return the number of devices."""
        return len(self.rows)

    def count(self, device: int) -> int:
        """Return the number of samples of a device."""
        return len(self.rows[device - 1])

    def batches(self, training: LocalTraining, start: TrainingStart) -> NDArray[np.int32]:
        """Return the rows of the data set, [steps, batch], of one local training."""
        own, steps, size = self.rows[start.device - 1], training.local_steps, training.batch_size
        return own[draw_batches(training.seed, start.device, start.training, len(own), steps, size)]


def check_training(training: LocalTraining, samples: HasCounts) -> None:
    """Refuse what is no LocalTraining, and more steps than memory can hold the batches of."""
    if not isinstance(training, LocalTraining):
        raise InputError("training", describe_value(training), "a LocalTraining")
    batch = min(training.batch_size, max(samples.count(device) for device in range(1, len(samples) + 1)))
    needed, memory = training.local_steps * batch * POSITION, total_memory()
    if needed > memory:
        size = f"{needed / 1e9:,.0f} GB of {memory / 1e9:,.0f} GB of memory"
        raise InputError("local_steps", training.local_steps, f"smaller: the batches would take {size}")


def _checked_rows(dataset: Dataset, device: int, rows: ArrayLike) -> NDArray[np.int32]:
    """Return the rows of a device; refuse those that are not rows of the data set."""
    try:
        own, count = np.asarray(rows), len(dataset.train_targets)
    except ValueError:
        raise InputError("samples", f"a ragged list of device {device}", "rows in one dimension") from None
    if own.ndim != 1 or not own.size:
        raise InputError("samples", f"{list(own.shape)} of device {device}", "at least one sample")
    allowed = f"whole numbers from 0 to {count - 1}, rows of the training samples"
    if own.dtype.kind not in "iu":  # texts have no smallest one
        raise InputError("samples", f"{describe_value(own)} of device {device}", allowed)
    if own.min() < 0 or own.max() >= count:
        raise InputError("samples", f"{own.min()} to {own.max()} of device {device}", allowed)
    return own.astype(np.int32, copy=False)
