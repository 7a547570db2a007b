"""Scenario: the parameters of a slotted channel and its devices; and the checks of all classes of options.

Values of options come from Python, TOML, JSON or flags, so they are checked against type hints.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, fields, replace
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from slotwise.errors import InputError, NoEffectError
from slotwise.options.declarations import Declaration, Range, declarations, mark_of
from slotwise.options.tables import resolved
from slotwise.user_code import describe_value

LARGEST = 10**9  # the product of two such numbers still fits the 64-bit columns of a timeline
LARGEST_SEED = 2**64 - 1
LARGEST_NUMBER = 1e30  # of factors and rates: fits a float32, and products of a few of them fit a float64
_HINTS: dict[Any, dict[str, Any]] = {}  # type hints by class: slow to get, and asked for thousands of times


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """N equal devices that share one TDMA channel; all times are whole slots.

    Attributes:
        devices: N, the number of devices.
        group_size: S, the uplinks of one training round; ``50@0, 10@10000`` changes it at the first round
            whose model is broadcast in slot 10000 or later.
        compute_slots: tau_comp, the slots of one local training.
        link_slots: r, the slots of one uplink and of one broadcast.
        deadline: T, the slots available for training.
        group_size_changes: (slot, S) of each later group size, which a text as group_size gives too.
        sub_channels: C, the devices that may send at once; a broadcast takes all sub-channels.
    """

    devices: int
    group_size: int
    compute_slots: int
    link_slots: int = 1
    deadline: int | None = None
    group_size_changes: tuple[tuple[int, int], ...] = ()
    sub_channels: int = 1

    def __post_init__(self) -> None:
        if isinstance(self.group_size, str):
            (_, first), *changes = parse_group_sizes(self.group_size)
            object.__setattr__(self, "group_size", first)
            object.__setattr__(self, "group_size_changes", changes)
        for name in ("devices", "group_size", "compute_slots", "link_slots", "sub_channels"):
            object.__setattr__(self, name, whole(name, getattr(self, name)))
        object.__setattr__(self, "group_size_changes", _checked_changes(self.group_size_changes))
        for size in self.group_sizes:
            if size > self.devices:
                allowed = f"from 1 to {self.devices}, the number of devices"
                raise InputError("group_size", size, allowed)
        if self.deadline is not None:
            object.__setattr__(self, "deadline", whole("deadline", self.deadline))

    @property
    def group_sizes(self) -> tuple[int, ...]:
        """All group sizes, in the order in which they apply."""
        return (self.group_size, *(size for _, size in self.group_size_changes))

    @property
    def group_size_text(self) -> str:
        """The group size as options write it: ``10``, or ``50@0, 10@10000`` if it changes."""
        if not self.group_size_changes:
            return str(self.group_size)
        return ", ".join(f"{size}@{slot}" for slot, size in ((0, self.group_size), *self.group_size_changes))

    def with_group_size(self, size: int) -> Scenario:
        """Return the scenario with one group size from the first round on."""
        return replace(self, group_size=size, group_size_changes=())

    def refuse_changes(self) -> None:
        """Raise an InputError if the group size changes: for closed forms, which assume one size."""
        if self.group_size_changes:
            allowed = "one number for closed forms; simulate() is exact for a size that changes"
            raise InputError("group_size", self.group_size_text, allowed)

    @property
    def groups(self) -> int:
        """G = ceil(N/S), the number of TDMA groups."""
        return -(-self.devices // self.group_size)

    @property
    def divides(self) -> bool:
        """True if S divides N, as the paper's closed forms assume."""
        return self.devices % self.group_size == 0

    @property
    def communication_slots(self) -> int:
        """tau_comm = r(S+1): S uplinks and one broadcast (eq. 6); r(ceil(S/C)+1) with C sub-channels."""
        return self.link_slots * (-(-self.group_size // self.sub_channels) + 1)

    @property
    def largest_delay(self) -> int:
        """The largest intentional delay with which S devices are always left to send.

        A delay of ``a`` rounds keeps a·S devices waiting, so N − a·S must be at least S. That is G−1 if S
        divides N, and one less otherwise. If the group size changes, the largest counts.
        """
        return self.devices // max(self.group_sizes) - 1

    def checked_delay(self, delay: object) -> int:
        """Return ``delay`` as an int, or raise an InputError if it does not leave S devices to send."""
        number = _integer(delay)
        if number is None or not 0 <= number <= self.largest_delay:
            raise InputError("delay", delay, f"a whole number from 0 to {self.largest_delay}")
        return number

    def check_horizon(self, rounds: int | None) -> None:
        """Refuse to play without an end: a number of rounds, or a deadline."""
        if rounds is not None:
            whole("rounds", rounds)
        elif self.deadline is None:
            raise InputError("rounds", None, "given, unless the scenario has a deadline")

    def as_dict(self) -> dict[str, Any]:
        """Return the parameters by name, as JSON and tables show them; those beyond the paper only if set."""
        table, beyond = asdict(self), {"group_size_changes": (), "sub_channels": 1}
        return {name: value for name, value in table.items() if value != beyond.get(name, NoneType)}


def compute_slots(local_steps: int, batch_size: int, samples_per_slot: float | Decimal | Fraction) -> int:
    """Return tau_comp = ceil(H·B/q) (eq. 4), exactly: 7 samples at 0.7 a slot are 10 slots, not 11.

    A float is read as the decimal number a person wrote, not as its nearest binary fraction.
    """
    steps, batch = whole("local_steps", local_steps), whole("batch_size", batch_size)
    is_number = isinstance(samples_per_slot, Real | Decimal) and not isinstance(samples_per_slot, bool)
    # As a Fraction, 1e99999999 would have a hundred million digits, which take for ever.
    if not is_number or not 1e-300 < samples_per_slot < 1e300:
        raise InputError("samples_per_slot", samples_per_slot, "a number above 0")
    return -(-steps * batch // Fraction(str(samples_per_slot)))


def parse_group_sizes(text: str) -> list[tuple[int, int]]:
    """Return (slot, size) for each part of a text such as ``50@0, 10@10000``; the first slot is 0."""
    parts = [re.fullmatch(r"\s*([0-9]{1,10})\s*@\s*([0-9]{1,10})\s*", part) for part in text.split(",")]
    sizes = [(int(part[2]), int(part[1])) for part in parts if part is not None]
    if len(sizes) != len(parts):
        raise InputError("group_size", repr(text), "a whole number, or sizes by slot such as 50@0, 10@10000")
    if sizes[0][0] != 0:
        raise InputError("group_size", repr(text), "sizes by slot from slot 0 on, such as 50@0, 10@10000")
    return sizes


def _checked_changes(changes: Any) -> tuple[tuple[int, int], ...]:
    """Return (slot, size) of each change as integers; slots must ascend."""
    before, found = 0, []
    if not isinstance(changes, list | tuple):
        raise InputError("group_size_changes", changes, "pairs of a slot and a group size")
    for change in changes:
        if not isinstance(change, list | tuple) or len(change) != 2:
            raise InputError("group_size_changes", change, "pairs of a slot and a group size")
        slot, size = whole("group_size", change[0], before + 1), whole("group_size", change[1])
        found.append((slot, size))
        before = slot
    return tuple(found)


def whole(name: str, value: object, smallest: int = 1, largest: int = LARGEST) -> int:
    """Return ``value`` as an int, or raise an InputError if it is no whole number in this range."""
    number, quoted = _integer(value), _quoted(value)
    if largest != LARGEST and (number is None or not smallest <= number <= largest):
        raise InputError(name, quoted, f"a whole number from {smallest} to {largest}")
    if number is None or number < smallest:
        raise InputError(name, quoted, f"a whole number of at least {smallest}")
    if number > largest:
        raise InputError(name, value, f"a whole number of at most {largest:,}")
    return number


def _integer(value: object) -> int | None:
    """Return ``value`` if it is a whole number, also numpy's; True and 2.0 are not."""
    return int(value) if isinstance(value, Integral) and not isinstance(value, bool) else None


def _quoted(value: object) -> object:
    """Return a value for a message, text in quotes: "3" should not look like the number 3."""
    return repr(value) if isinstance(value, str) else value


def field_types(owner: Any) -> dict[str, Any]:
    """Return the type hint of every field of a dataclass."""
    if owner not in _HINTS:
        _HINTS[owner] = get_type_hints(owner)
    return _HINTS[owner]


def option_names(owner: Any) -> tuple[str, ...]:
    """Return the names of the fields of a dataclass."""
    return tuple(field.name for field in fields(owner))


def check_fields(instance: Any) -> None:
    """Convert every field of a frozen dataclass to its declared type, or raise an InputError."""
    for declaration in declarations(type(instance)):
        name, value = declaration.name, getattr(instance, declaration.name)
        if declaration.choice is not None:
            value = resolved(declaration.choice, value)
        elif declaration.part is not None or declaration.either is not None:
            kinds = declaration.either.classes if declaration.either else (declaration.hint,)
            if not isinstance(value, kinds):
                allowed = " or ".join(f"a {kind.__name__}" for kind in kinds)
                raise InputError(name, describe_value(value), allowed)
        else:
            _check_range(name, value, declaration)
            value = checked(name, value, declaration.hint)
        object.__setattr__(instance, name, value)


def _check_range(name: str, value: Any, declaration: Declaration) -> None:
    """Refuse a number outside its range, written as it was given; other mistakes are found by its type."""
    allowed = mark_of(declaration.marks, Range)
    if value is None or allowed is None:
        return
    whole_numbers = int in (declaration.hint, *get_args(declaration.hint))
    for number in value if isinstance(value, list | tuple) else (value,):
        is_number = isinstance(number, int | float) and not isinstance(number, bool)
        if is_number and not allowed.allows(number) and not (whole_numbers and isinstance(number, float)):
            raise InputError(name, number, allowed.describe(whole=whole_numbers))


def refuse_unused(config: Any) -> None:
    """Raise a NoEffectError for an option without effect that differs from its default.

    ``config.unused()`` returns the names of the options that have no effect on the others' choice, each with
    the reason. Their default values pass, because run.json lists all options.
    """
    usual = {field.name: field.default for field in fields(config)}
    for name, reason in config.unused().items():
        if getattr(config, name) != usual[name]:
            raise NoEffectError(name, getattr(config, name), reason)


def checked(name: str, value: Any, hint: Any) -> Any:
    """Return ``value`` converted to the type ``hint``, or raise an InputError that says what is allowed."""
    if NoneType in get_args(hint):
        if value is None:
            return None
        hint = next(kind for kind in get_args(hint) if kind is not NoneType)
    origin, number, quoted = get_origin(hint), _integer(value), _quoted(value)
    if origin is Literal:
        if value not in get_args(hint):
            *others, last = get_args(hint)
            raise InputError(name, value, f"{', '.join(others)} or {last}")
    elif origin in (Union, UnionType):  # int | Literal[...]
        names = tuple(text for kind in get_args(hint) for text in get_args(kind))
        if number is None and value not in names:
            raise InputError(name, value, f"{', '.join(names)} or a whole number")
        return value if number is None else number
    elif origin is tuple:
        return _checked_list(name, value, get_args(hint)[0])
    elif hint is float:
        return _float(name, value, quoted)
    elif hint is int:
        if number is None:
            raise InputError(name, quoted, "a whole number")
        return number
    elif hint is str and not isinstance(value, str):
        raise InputError(name, value, "text")
    return value


def _checked_list(name: str, value: Any, item_type: Any) -> tuple[Any, ...]:
    """Return a list as a tuple; its items are checked if they are whole numbers, and else by their class."""
    numbers = {float: "numbers", int: "whole numbers"}.get(item_type, "pairs of numbers")
    if not isinstance(value, list | tuple):
        raise InputError(name, _quoted(value), f"a list of {numbers}")
    for item in value if item_type is int else ():
        if _integer(item) is None:
            raise InputError(name, _quoted(item), f"a list of {numbers}")
    return tuple(int(item) if _integer(item) is not None else item for item in value)


def _float(name: str, value: Any, quoted: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(name, quoted, "a number")
    try:
        return float(value)
    except OverflowError:
        raise InputError(name, value, "a number of moderate size") from None
