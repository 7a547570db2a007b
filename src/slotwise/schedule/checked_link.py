"""CheckedLink: a user's link whose answers are checked and copied where it is asked."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from numbers import Integral
from typing import Any, cast

import numpy as np

from slotwise.base.errors import UserError
from slotwise.base.user_code import describe_error, describe_value, user_errors
from slotwise.options import Choice, loaded
from slotwise.options.checks import LARGEST
from slotwise.scenario import Scenario
from slotwise.schedule.link import (
    BlockLink,
    FadingDraws,
    Floats,
    GroupLink,
    Integers,
    Link,
    Transmission,
    has_blocks,
    has_groups,
)
from slotwise.schedule.pairings import Pairing, as_selected


def own_link(choice: Choice, function: Any, scenario: Scenario, seed: int) -> Link:
    """Call a user's function with a scenario and a seed, and return its link with checks.

    ``function`` is what ``choice`` holds: a function, or a `UserFunction`.

    Raises:
        UserError: the function fails, or does not return a `Link`.
    """
    make_link, name = loaded(function), choice.name_of(function)
    with user_errors(f"{choice.option} {name}"):
        link = make_link(scenario, seed)
    return checked_link(link, scenario.devices, f"{choice.option} {name}")


def checked_link(link: Any, devices: int, origin: str = "link") -> Link:
    """Return a link with checks; one of slotwise's own, whose class says so, is returned as it is.

    ``origin`` says in messages where it comes from.

    Raises:
        UserError: the object lacks what a link has.
    """
    uplink = ("uplinks", "most_senders") if has_groups(link) else ("uplink",)
    for name in (*uplink, "broadcast", "snr_db", "planned_slots", "planned_broadcast_slots"):
        # The class first: to ask the object would compute its planned slots, which takes long.
        if not hasattr(type(link), name) and not hasattr(link, name):
            raise UserError(f"{origin}: {describe_value(link)} has no {name}")
    if vars(type(link)).get("returns_valid_slots"):
        return cast("Link", link)
    if has_groups(link):
        checked: CheckedLink = CheckedGroupLink(link, devices)
    else:
        checked = CheckedBlockLink(link, devices) if has_blocks(link) else CheckedLink(link, devices)
    # Checked here: not every schedule uses them.
    _ = checked.planned_slots, checked.planned_broadcast_slots
    return checked


class CheckedLink:
    """A link whose answers are checked: a mistake in it becomes one clear line, not an impossible timeline.

    Raises:
        UserError: a method returns something else than `Link` says.
    """

    returns_valid_slots = True

    def __init__(self, link: Link, devices: int) -> None:
        self._link, self._devices = link, devices

    @cached_property
    def planned_slots(self) -> Sequence[int]:
        """The link's planned slots, as integers."""
        found: Any = self._ask("planned_slots")
        if not isinstance(found, Sequence | np.ndarray) or len(found) != self._devices:
            raise self._wrong("planned_slots", f"{self._devices} numbers, one for each device", found)
        return tuple(self._whole("planned_slots", slots) for slots in found)

    @cached_property
    def planned_broadcast_slots(self) -> int:
        """The link's planned slots of a broadcast."""
        return self._whole("planned_broadcast_slots", self._ask("planned_broadcast_slots"))

    def uplink(self, device: int, slot: int, attempt: int) -> Transmission:
        """Return the slots of an uplink, and whether it is lost; a pair is accepted."""
        try:
            found: Any = self._link.uplink(device, slot, attempt)
        except Exception as error:  # not by `_ask`: this is called most often
            raise self._failed("uplink", error) from error
        return self._transmission("uplink", found)

    def _transmission(self, name: str, found: Any) -> Transmission:
        is_flag = isinstance(found, tuple) and len(found) > 1 and isinstance(found[1], bool | np.bool_)
        if not is_flag or len(found) not in (2, len(Transmission._fields)):
            raise self._wrong(name, "a Transmission: slots, and whether it is lost", found)
        power = found[2] if len(found) > 2 else 1.0
        if not isinstance(power, int | float) or not 0 < power <= 1:
            raise self._wrong(name, "a Transmission with a power above 0 and at most 1", found)
        return Transmission(self._whole(name, found[0]), bool(found[1]), float(power))

    def broadcast(self, receivers: Sequence[int], slot: int) -> int:
        """Return the slots of a broadcast; the link gets the receivers as a tuple, which it cannot change."""
        return self._whole("broadcast", self._ask("broadcast", tuple(receivers), slot))

    def snr_db(self, slot: int) -> Floats:
        """Return a copy of the SNRs of all devices."""
        return self._decibels("snr_db", self._ask("snr_db", slot), (self._devices,))

    def _ask(self, name: str, *arguments: Any) -> Any:
        """Return an attribute of the link, or what a method of that name returns."""
        try:
            found = getattr(self._link, name)
            return found(*arguments) if arguments else found
        except Exception as error:
            raise self._failed(name, error) from error

    def _failed(self, name: str, error: Exception) -> UserError:
        if isinstance(error, UserError):
            return error
        return UserError(f"link {type(self._link).__name__}: {name}: {describe_error(error)}")

    def _decibels(self, method: str, found: Any, shape: tuple[int, ...]) -> Floats:
        numbers = isinstance(found, np.ndarray) and found.dtype.kind in "iuf"
        if not numbers or found.shape != shape or np.isnan(found).any():
            raise self._wrong(
                method, f"an array of numbers of the shape {list(shape)}, none of them NaN", found
            )
        return np.array(found, dtype=np.float64)

    def _whole(self, name: str, value: object, smallest: int = 1) -> int:
        # Most are plain integers, and `isinstance` of an abstract class takes time.
        number = type(value) is int or (isinstance(value, Integral) and not isinstance(value, bool))
        if not number or not smallest <= int(value) <= LARGEST:  # type: ignore[call-overload]
            raise self._wrong(name, f"a whole number from {smallest} to {LARGEST:,}", value)
        return int(value)  # type: ignore[call-overload, no-any-return]

    def _wrong(self, name: str, wanted: str, found: object) -> UserError:
        shown = found if isinstance(found, int | float) else describe_value(found)
        return UserError(f"link {type(self._link).__name__}: {name} must be {wanted}; it is {shown}")


class CheckedGroupLink(CheckedLink):
    """The same for a `GroupLink`."""

    returns_valid_slots = True
    _link: GroupLink

    @cached_property
    def most_senders(self) -> int:
        """Devices of a group at most."""
        return self._whole("most_senders", self._ask("most_senders"))

    @property
    def pairing(self) -> Pairing:
        """Who sends together; the selection decides if the link has none."""
        return getattr(self._link, "pairing", as_selected)

    def uplinks(self, devices: Sequence[int], slot: int, attempts: Sequence[int]) -> list[Transmission]:
        """Return what becomes of the uplinks of a group; the link gets tuples, which it cannot change."""
        found: Any = self._ask("uplinks", tuple(devices), slot, tuple(attempts))
        if not isinstance(found, Sequence) or len(found) != len(devices):
            raise self._wrong("uplinks", f"{len(devices)} Transmissions, one for each device", found)
        return [self._transmission("uplinks", one) for one in found]


class CheckedBlockLink(CheckedLink):
    """The same for a `BlockLink`, which may have `FadingDraws`."""

    returns_valid_slots = True
    _link: BlockLink

    @cached_property
    def coherence_slots(self) -> int:
        """Slots of a block."""
        return self._whole("coherence_slots", self._ask("coherence_slots"))

    @cached_property
    def fixed_slots(self) -> int:
        """Slots of every uplink; 0 if the rate adapts."""
        return self._whole("fixed_slots", self._ask("fixed_slots"), 0)

    @cached_property
    def update_bits(self) -> int:
        """Bits of one update."""
        return self._whole("update_bits", self._ask("update_bits"), 0 if self.fixed_slots else 1)

    @cached_property
    def give_up_slots(self) -> int:
        """Slots after which an uplink is given up."""
        return self._whole("give_up_slots", self._ask("give_up_slots"), 0 if self.fixed_slots else 1)

    @property
    def draws(self) -> FadingDraws | None:
        """The numbers that the tables are drawn from, if the link has them."""
        return getattr(self._link, "draws", None)

    def tables(self, first_block: int, blocks: int) -> tuple[Floats, Integers]:
        """Return copies of the tables."""
        found: Any = self._ask("tables", first_block, blocks)
        if not isinstance(found, tuple) or len(found) != 2:
            raise self._wrong("tables", "two arrays: SNRs and bits", found)
        snr_db, bits = found
        shape = blocks, self._devices
        whole = isinstance(bits, np.ndarray) and bits.dtype.kind in "iu"
        if not whole or bits.shape != shape or bits.min(initial=0) < 0:
            raise self._wrong("tables", f"bits of the shape {list(shape)}, each at least 0", bits)
        return self._decibels("tables", snr_db, shape), np.array(bits, dtype=np.int64)
