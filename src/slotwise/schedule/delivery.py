"""Who receives which model: the only thing in which sync, async and intentional delay differ.

A delivery policy is asked twice. `initial` says who starts from w_0 and who is booked for a later model
before anything was sent; `after` says, at the end of a round, who is booked for which model next. Policies
hold no state: the Scheduler keeps the bookings.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from typing import Literal, Protocol

Booking = tuple[int, Sequence[int]]  # (model version, devices that receive it)
Participation = Literal["round-robin", "random"]


class Delivery(Protocol):
    """The policy the Scheduler asks."""

    @property
    def waits_for_all(self) -> bool:
        """Whether nobody may send while a participant of the round still computes (synchronous FL)."""

    def initial(self, absent: Set[int]) -> Iterable[Booking]:
        """Bookings made before the first slot; version 0 costs no broadcast."""

    def after(self, round_number: int, senders: Sequence[int], absent: Set[int]) -> Iterable[Booking]:
        """Bookings made once round ``round_number`` has been sent by ``senders``."""

    def joining(self, round_number: int) -> int | None:
        """The model a device receives that comes during a round, if it need not be chosen first."""

    @property
    def turns(self) -> Mapping[tuple[int, int], int]:
        """For (device, version), the slot planned for the uplink; without one, the first ready is first."""


@dataclass(frozen=True)
class Delayed:
    """Algorithms 1 and 2: the senders of round k receive w_{k+delay+1}; delay 0 is asynchronous FL.

    Devices 1..(G−delay)S start from w_0 and the next groups of S receive w_1, …, w_delay. Where S does not
    divide N the last group is the short one.
    """

    devices: int
    group_size: int
    delay: int = 0

    @property
    def waits_for_all(self) -> bool:
        """Whoever is ready first sends first."""
        return False

    def initial(self, absent: Set[int] = frozenset()) -> Iterable[Booking]:  # noqa: ARG002
        """Algorithm 2's initial sets: S_{−alpha−1}, then one group for each of w_1, …, w_alpha."""
        groups = -(-self.devices // self.group_size)
        last = min((groups - self.delay) * self.group_size, self.devices)
        yield 0, range(1, last + 1)
        for version in range(1, self.delay + 1):
            first, last = last + 1, min(last + self.group_size, self.devices)
            yield version, range(first, last + 1)

    def after(
        self,
        round_number: int,
        senders: Sequence[int],
        absent: Set[int] = frozenset(),  # noqa: ARG002
    ) -> Iterable[Booking]:
        """Line 13 of Algorithm 2: the server sends w_{k+1} to S_{k−alpha}."""
        yield round_number + self.delay + 1, senders

    def joining(self, round_number: int) -> int:
        """The model of the current round, as soon as it is complete."""
        return round_number + 1

    @property
    def turns(self) -> Mapping[tuple[int, int], int]:
        """Nothing is planned: who finished first sends first."""
        return {}


@dataclass(frozen=True)
class Synchronous:
    """Synchronous FL: the S participants of round k all train on w_k, and send when all have finished.

    S = N is the paper's synchronous FL. With S < N it is federated averaging with partial participation
    (McMahan et al., 2017): round-robin, or S devices drawn anew each round.
    """

    devices: int
    group_size: int
    participation: Participation = "round-robin"
    seed: int = 0

    @property
    def delay(self) -> int:
        """Nobody waits for a later model on purpose."""
        return 0

    @property
    def waits_for_all(self) -> bool:
        """The channel idles while the participants compute."""
        return True

    def initial(self, absent: Set[int] = frozenset()) -> Iterable[Booking]:
        """The participants of round 0 start from w_0."""
        yield 0, self.participants(0, absent)

    def after(
        self,
        round_number: int,
        senders: Sequence[int],  # noqa: ARG002
        absent: Set[int] = frozenset(),
    ) -> Iterable[Booking]:
        """The next participants receive the new model, whoever has sent."""
        yield round_number + 1, self.participants(round_number + 1, absent)

    def joining(self, round_number: int) -> None:
        """Whoever comes has to be chosen for a round first."""

    @property
    def turns(self) -> Mapping[tuple[int, int], int]:
        """Nothing is planned: who finished first sends first."""
        return {}

    def participants(self, round_number: int, absent: Set[int] = frozenset()) -> Sequence[int]:
        """The devices of a round, ascending: a function of the round and of who is there."""
        if self.participation == "random":
            draw = random.Random(f"participants {self.seed} {round_number}")
            everyone = range(1, self.devices + 1)
            present = [n for n in everyone if n not in absent] if absent else everyone
            return sorted(draw.sample(present, min(self.group_size, len(present))))
        first = round_number * self.group_size
        turns = ((first + i) % self.devices + 1 for i in range(self.devices))
        return sorted(islice((n for n in turns if n not in absent), self.group_size))
