"""Decision: what a Scheduler leaves to its driver, with what is known at that instant."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Literal, get_args

from slotwise.base.errors import InputError
from slotwise.options.checks import in_quotes, whole_number
from slotwise.schedule.selections import Waiting

DecisionKind = Literal["sender", "participants", "group_size", "delay"]
KINDS: tuple[DecisionKind, ...] = get_args(DecisionKind)
OF_ROUNDS: tuple[DecisionKind, ...] = ("group_size", "delay", "participants")  # in the order of asking
Answer = int | Sequence[int]


@dataclass(frozen=True, eq=False)
class Decision:
    """One decision to take.

    Attributes:
        kind: "sender": the device that sends next; "participants": the devices of the next round of sync;
            "group_size": that of the next round; "delay": rounds that the senders of the last round wait.
        slot: The present slot.
        round: The round that is decided about.
        allowed: Devices, group sizes or delays to choose from: those that wait for the channel in the order
            in which they got ready, or could take part, ascending.
        count: How many may be chosen: more than one are only participants.
        last_sender: The device that sent last; 0 at first.
        group_size: The present group size.
    """

    kind: DecisionKind
    slot: int
    round: int
    allowed: Sequence[int]
    count: int = 1
    last_sender: int = 0
    group_size: int = 0
    _seen: Callable[[], list[Waiting]] = field(default=list, repr=False)

    @cached_property
    def waiting(self) -> Sequence[Waiting]:
        """What a selection sees of the allowed devices; empty for numbers. Read it before answering."""
        return self._seen()

    def checked(self, answer: object) -> int | tuple[int, ...]:
        """Return an answer as a number, or as a tuple of participants, ascending.

        Raises:
            InputError: it is not allowed.
        """
        if self.kind != "participants":
            number = whole_number(answer)
            if number is None or number not in self.allowed:
                raise InputError(
                    self.kind, in_quotes(answer), f"one of {self._choices()} in slot {self.slot}"
                )
            return number
        first = islice(answer, self.count + 1) if isinstance(answer, Collection) else ()
        devices = [whole_number(one) for one in first]
        allowed = set(self.allowed)
        chosen = {one for one in devices if one in allowed}
        if not 1 <= len(devices) <= self.count or len(chosen) < len(devices):
            several = {1: "1", 2: "1 or 2"}.get(self.count, f"1 to {self.count}")
            allowed_devices = f"{several} of the devices {self._choices()}, without repetition"
            raise InputError(self.kind, in_quotes(answer), f"{allowed_devices}, in slot {self.slot}")
        return tuple(sorted(one for one in chosen if one is not None))

    def _choices(self) -> str:
        least, most = min(self.allowed), max(self.allowed)
        if 2 < len(self.allowed) == most - least + 1:
            return f"{least} to {most}"
        return ", ".join(map(str, self.allowed)) if len(self.allowed) <= 12 else "in decision.allowed"


def with_group_size(
    changes: Sequence[tuple[int, int]], slot: int, size: int, first: int
) -> Sequence[tuple[int, int]]:
    """Return the changes of a group size, ``first`` at first, after a round with a broadcast in ``slot``."""
    if size == (changes[-1][1] if changes else first):
        return changes
    slot = max(1, slot)  # where changes begin; a round without updates may end before
    return [*(change for change in changes if change[0] != slot), (slot, size)]
