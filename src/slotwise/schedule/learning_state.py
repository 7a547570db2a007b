"""Learning: what a server knows of the learning when it decides, and the agents that decide by it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from slotwise.schedule.decisions import Answer, Checked, Decision

MOST_ROUNDS = 1_000  # whose losses are remembered


class Report(NamedTuple):
    """What the server learns from one update that has arrived."""

    device: int
    norm: float  # Euclidean, of the update
    loss: float


@dataclass(frozen=True, eq=False)
class Learning:
    """What is known of the learning at a decision; arrays have device n in entry n−1.

    At the end of a round its updates count, while w_{k+1} does not exist yet.

    Attributes:
        losses: Training loss of each device on its samples, of the model that its last update started from;
            NaN for devices that have sent none.
        norms: Euclidean norm of each device's last update; NaN likewise.
        samples: Samples that each device holds.
        round_losses: Mean loss that the devices of each round reported, the last thousand rounds at most;
            NaN for a round without updates.
    """

    losses: NDArray[np.float64]
    norms: NDArray[np.float64]
    samples: NDArray[np.int64]
    round_losses: NDArray[np.float64]

    def __post_init__(self) -> None:
        """Keep agents from writing: what they change would be lost when a run is resumed."""
        for array in (self.losses, self.norms, self.samples, self.round_losses):
            array.flags.writeable = False

    @classmethod
    def first(cls, samples: Sequence[int]) -> Learning:
        """Return what is known before the first update."""
        nothing = np.full(len(samples), np.nan)
        return cls(nothing, nothing, np.array(samples, dtype=np.int64), np.empty(0))

    def after(self, reports: Sequence[Report]) -> Learning:
        """Return what is known after the updates of another round."""
        losses, norms = self.losses.copy(), self.norms.copy()
        for device, norm, loss in reports:
            losses[device - 1], norms[device - 1] = loss, norm
        mean = np.mean([report.loss for report in reports]) if reports else np.nan
        return replace(
            self, losses=losses, norms=norms, round_losses=np.append(self.round_losses, mean)[-MOST_ROUNDS:]
        )

    def as_arrays(self) -> Mapping[str, NDArray[Any]]:
        """Return what a checkpoint keeps."""
        return {"losses": self.losses, "norms": self.norms, "round_losses": self.round_losses}

    def restored(self, arrays: Mapping[str, NDArray[Any]]) -> Learning:
        """Return what `as_arrays` returned, with the samples of this one."""
        return replace(self, **{name: arrays[name] for name in self.as_arrays() if name in arrays})


class Agent(Protocol):
    """Takes decisions: from what the decision shows of the channel, and what is known of the learning.

    It must depend on nothing else: then a run that is resumed decides the same.
    """

    def __call__(self, decision: Decision, learning: Learning, /) -> Answer: ...  # noqa: D102


ANSWERS, LENGTHS = "answers", "answer_lengths"


def arrays_of_answers(answers: Sequence[Checked]) -> dict[str, NDArray[Any]]:
    """Return answers as two arrays: all numbers, and how many each answer has; 0 is a single number.

    With parts of powers all are floats, in which whole numbers of answers are exact.
    """
    lengths = [len(one) if isinstance(one, tuple) else 0 for one in answers]
    numbers = [n for one in answers for n in (one if isinstance(one, tuple) else (one,))]
    kind = np.float64 if any(isinstance(n, float) for n in numbers) else np.int64
    return {ANSWERS: np.array(numbers, dtype=kind), LENGTHS: np.array(lengths, dtype=np.int64)}


def answers_in(arrays: Mapping[str, NDArray[Any]]) -> Iterator[Checked]:
    """Yield the answers of `arrays_of_answers`; none if there are no such arrays."""
    stored = arrays[ANSWERS].tolist() if ANSWERS in arrays else ()
    numbers = iter([int(n) if n == int(n) else n for n in stored])  # a part of 1 may be an integer, too
    for length in arrays[LENGTHS].tolist() if LENGTHS in arrays else ():
        yield tuple(islice(numbers, length)) if length else next(numbers)
