"""Decision: what a Scheduler leaves to its driver, with what is known at that instant."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from slotwise.base.errors import InputError
from slotwise.options.checks import in_quotes, whole_number
from slotwise.schedule.selections import Waiting

DecisionKind = Literal["sender", "participants", "group_size", "delay", "blocks", "power"]
KINDS: tuple[DecisionKind, ...] = get_args(DecisionKind)
# In the order of asking: at the end of a round, and when the uplinks of a group begin.
OF_ROUNDS: tuple[DecisionKind, ...] = ("group_size", "delay", "participants")
OF_GROUPS: tuple[DecisionKind, ...] = ("blocks", "power")
Answer = int | Sequence[int] | Sequence[float]
Checked = int | tuple[int, ...] | tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Decision:
    """One decision to take.

    Attributes:
        kind: "sender": the device that sends next; "participants": the devices of the next round of sync;
            "group_size": that of the next round; "delay": rounds that the senders of the last round wait;
            "blocks": resource blocks of each device of the group that begins; "power": the part of its power
            that each of them sends with.
        slot: The present slot.
        round: The round that is decided about.
        allowed: Devices, group sizes or delays to choose from: those that wait for the channel in the order
            in which they got ready, or could take part, ascending. Of blocks and power the devices of the
            group in the order in which they were chosen: the answer has a number for each.
        count: How many may be chosen: more than one are only participants. Of blocks, how many there are.
        last_sender: The device that sent last; 0 at first.
        group_size: The present group size.
        group: Of blocks and power, what an allocation sees (`slotwise.radio.Group`).
        blocks: Of power, the resource blocks of each device of the group; with noma all have the whole band,
            which is one block.
    """

    kind: DecisionKind
    slot: int
    round: int
    allowed: Sequence[int]
    count: int = 1
    last_sender: int = 0
    group_size: int = 0
    group: Any = None
    blocks: Sequence[int] = ()
    _seen: Callable[[], list[Waiting]] = field(default=list, repr=False)

    @cached_property
    def waiting(self) -> Sequence[Waiting]:
        """What a selection sees of the allowed devices; empty for numbers. Read it before answering."""
        return self._seen()

    def checked(self, answer: object) -> Checked:
        """Return an answer as a number, as a tuple of participants, ascending, or of numbers of a group.

        Raises:
            InputError: it is not allowed.
        """
        form = _FORMS.get(self.kind, _ONE)
        checked = form.checked(self, answer)
        if checked is None:
            raise InputError(self.kind, in_quotes(answer), f"{form.allowed(self)} in slot {self.slot}")
        return checked


class _Form(NamedTuple):
    """What the answers of a kind are like."""

    checked: Callable[[Decision, object], Checked | None]  # None if an answer is not allowed
    allowed: Callable[[Decision], str]


def _one(decision: Decision, answer: object) -> int | None:
    number = whole_number(answer)
    return number if number in decision.allowed else None


def _participants(decision: Decision, answer: object) -> tuple[int, ...] | None:
    devices = [whole_number(one) for one in _first(answer, decision.count, Collection)]
    allowed = set(decision.allowed)
    chosen = [one for one in devices if one in allowed]
    if not 1 <= len(devices) <= decision.count or len(set(chosen)) < len(devices):
        return None
    return tuple(sorted(one for one in chosen if one is not None))


def _blocks(decision: Decision, answer: object) -> tuple[int, ...] | None:
    size = len(decision.allowed)
    blocks = [whole_number(one) or 0 for one in _first(answer, size, Sequence)]
    fits = len(blocks) == size and min(blocks) >= 1 and sum(blocks) <= decision.count
    return tuple(blocks) if fits else None


def _parts(decision: Decision, answer: object) -> tuple[float, ...] | None:
    size = len(decision.allowed)
    given = _first(answer, size, Sequence)
    numbers = [one for one in given if isinstance(one, float | int | np.floating) and one is not True]
    parts = [float(number) for number in numbers if 0 < number <= 1]
    return tuple(parts) if len(given) == len(parts) == size else None


def _first(answer: object, most: int, kind: type) -> list[object]:
    """Return what is in an answer, one more than there may be at most; nothing if it cannot have several."""
    several = answer.ndim > 0 if isinstance(answer, np.ndarray) else isinstance(answer, kind)
    return list(islice(answer, most + 1)) if several else []  # type: ignore[call-overload]


def _choices(decision: Decision) -> str:
    allowed = decision.allowed
    least, most = min(allowed), max(allowed)
    if 2 < len(allowed) == most - least + 1:
        return f"{least} to {most}"
    return ", ".join(map(str, allowed)) if len(allowed) <= 12 else "in decision.allowed"


def _several(decision: Decision) -> str:
    count = {1: "1", 2: "1 or 2"}.get(decision.count, f"1 to {decision.count}")
    return f"{count} of the devices {_choices(decision)}, without repetition,"


def _for_each(decision: Decision) -> str:
    count = len(decision.allowed)
    return (
        "a list of 1 number" if count == 1 else f"a list of {count} numbers, one for each of decision.allowed"
    )


_ONE = _Form(_one, lambda decision: f"one of {_choices(decision)}")
_FORMS: Mapping[DecisionKind, _Form] = {
    "participants": _Form(_participants, _several),
    "blocks": _Form(
        _blocks, lambda one: f"{_for_each(one)}, whole, at least 1 and together at most {one.count},"
    ),
    "power": _Form(_parts, lambda one: f"{_for_each(one)}, above 0 and at most 1,"),
}


def with_group_size(
    changes: Sequence[tuple[int, int]], slot: int, size: int, first: int
) -> Sequence[tuple[int, int]]:
    """Return the changes of a group size, ``first`` at first, after a round with a broadcast in ``slot``."""
    if size == (changes[-1][1] if changes else first):
        return changes
    slot = max(1, slot)  # where changes begin; a round without updates may end before
    return [*(change for change in changes if change[0] != slot), (slot, size)]
