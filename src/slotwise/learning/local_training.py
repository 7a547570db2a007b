"""LocalTraining: how a device trains on its own samples; DeviceSamples: which samples each device has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Annotated, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slotwise.base.errors import ConflictError, InputError, NoEffectError, UserError
from slotwise.base.machine import total_memory
from slotwise.base.user_code import describe_value
from slotwise.data import Dataset, LabelCounts
from slotwise.learning.batching import BatchingOptions, Count, FixedSteps, Positions
from slotwise.learning.optimizer import (
    OPTIMIZER,
    RATE_DECAY,
    BuiltInStep,
    Constant,
    Decay,
    OwnStep,
    Positive,
    Sgd,
    Step,
)
from slotwise.learning.task import TrainingStart
from slotwise.options import NoFlag, OrText, Range, flat
from slotwise.options.checks import LARGEST_SEED, Value
from slotwise.scenario import checked_changes, parse_sizes

PLAIN_SGD = Sgd()
POSITION = 8  # bytes of a sample's position in a batch
LocalUpdate = Literal["sum", "mean"]


@flat
@dataclass(frozen=True, kw_only=True)
class LocalTraining(Value):
    """Local training of a device: H steps of an optimiser on its own samples, or E passes over them.

    For more than one step the paper's "local update" may be read as the sum of the gradients met on the way
    (w_start − w_end = eta · sum, the default), or as their mean.

    Attributes:
        batching: How many batches a training has: a number of steps or of epochs.
        batch_size: B, samples of one step; ``16@0, 64@5000`` changes it for trainings whose model was
            complete in slot 5000 or later.
        batch_size_changes: (slot, B) of each later batch size, which a text as batch_size gives too.
        learning_rate: Step size.
        update: Local update: sum or mean of the gradients.
        optimizer: Optimiser of a local training, which starts afresh each time: sgd or adam.
        rate_decay: Decay of the step size over the run: constant, exponential, inverse or cosine.
        seed: Random seed of model, partition, batches, participation and fleet.
    """

    batching: BatchingOptions = FixedSteps()  # noqa: RUF009
    batch_size: Annotated[Count, OrText()] = 64
    batch_size_changes: Annotated[tuple[tuple[int, int], ...], NoFlag()] = ()
    learning_rate: Positive = 0.01
    update: LocalUpdate = "sum"
    optimizer: Annotated[BuiltInStep | OwnStep, OPTIMIZER] = Sgd()  # noqa: RUF009
    rate_decay: Annotated[Constant | Decay, RATE_DECAY] = Constant()  # noqa: RUF009
    seed: Annotated[int, Range(least=0, most=LARGEST_SEED)] = 0

    def __post_init__(self) -> None:
        if isinstance(self.batch_size, str):
            (_, first), *changes = parse_sizes("batch_size", self.batch_size)
            object.__setattr__(self, "batch_size", first)
            object.__setattr__(self, "batch_size_changes", changes)
        super().__post_init__()
        changes_over_time = checked_changes("batch_size", self.batch_size_changes)
        object.__setattr__(self, "batch_size_changes", changes_over_time)
        # At the first step w is w_start, and the mean of one gradient is the sum.
        if isinstance(self.batching, FixedSteps) and self.batching.local_steps == 1:
            usual = {
                "update": (self.update, "sum"),
                "proximal": (getattr(self.optimizer, "proximal", 0.0), 0.0),
            }
            for name, (value, without_effect) in usual.items():
                if value != without_effect:
                    raise NoEffectError(name, value, "with local_steps 1")

    @property
    def local_steps(self) -> int:
        """H, if the number of steps is given; a training of epochs has as many as the samples ask for."""
        if not isinstance(self.batching, FixedSteps):
            raise UserError("the task uses local_steps, and the run has local_epochs: use training.batches")
        return self.batching.local_steps

    def batches(self, start: TrainingStart, samples: int) -> Sequence[Positions]:
        """Return the positions of the samples of each step, for a device that holds so many samples."""
        return self.batching.batches(self.seed, start, samples, self.batch_size_at(start.slot))

    def batch_size_at(self, slot: int) -> int:
        """Return B of a training whose model was complete in a slot."""
        passed = [size for since, size in self.batch_size_changes if since <= slot]
        return passed[-1] if passed else self.batch_size

    @property
    def batch_sizes(self) -> tuple[int, ...]:
        """All batch sizes, in the order in which they apply."""
        return (self.batch_size, *(size for _, size in self.batch_size_changes))

    def divisor(self, steps: int) -> int:
        """Return the divisor of w_start − w_end after so many steps."""
        return steps if self.update == "mean" else 1

    @property
    def is_plain_sgd(self) -> bool:
        """True if a step is w ← w − eta·g: without momentum, penalties, clipping or a step of the user."""
        return bool(self.optimizer == PLAIN_SGD)

    @property
    def local_step(self) -> str | None:
        """The name of a step of the user's own; None if the step is a built-in one."""
        return self.optimizer.name if isinstance(self.optimizer, OwnStep) else None

    def rate_at(self, start: TrainingStart) -> float:
        """Return the step size of a local training."""
        return self.learning_rate * self.rate_decay.factor(start)


def with_own_step(training: LocalTraining, local_step: Step | None) -> LocalTraining:
    """Return a training whose steps a function takes; refuse options of a step that it replaces."""
    if local_step is None:
        return training
    if not training.is_plain_sgd:
        raise ConflictError("local_step", "training.optimizer")
    return replace(training, optimizer=OwnStep(local_step=local_step))


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

    def label_counts(self, title: str = "") -> LabelCounts:
        """Return how many samples of each label each device holds; its `plot` is the picture of papers."""
        return LabelCounts.of(self.dataset, self.rows, title)

    def batches(self, training: LocalTraining, start: TrainingStart) -> Sequence[NDArray[np.int32]]:
        """Return the rows of the data set in each step of one local training."""
        own = self.rows[start.device - 1]
        return [own[chosen] for chosen in training.batches(start, len(own))]


def check_training(training: LocalTraining, samples: HasCounts) -> None:
    """Refuse what is no LocalTraining, and more steps than memory can hold the batches of."""
    if not isinstance(training, LocalTraining):
        raise InputError("training", describe_value(training), "a LocalTraining")
    batching, most = training.batching, 0
    for device, size in product(range(1, len(samples) + 1), training.batch_sizes):
        batching.check(samples.count(device), size, device)
        most = max(most, batching.processed(samples.count(device), size))
    needed, memory = most * POSITION, total_memory()
    if needed > memory:
        taken = f"{needed / 1e9:,.0f} GB of {memory / 1e9:,.0f} GB of memory"
        raise InputError(batching.option, batching.amount, f"smaller: the batches would take {taken}")


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
