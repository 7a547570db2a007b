"""Spending: what a schedule asks of its devices, in slots and in joules, in all and of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.energy import Powers, joules
from slotwise.schedule import Timeline, TotalUsage, Usage, usage


class Spread(NamedTuple):
    """Of something that every device has: the least, the mean and the most."""

    least: float
    mean: float
    most: float

    @classmethod
    def of(cls, numbers: NDArray[Any]) -> Spread:
        """Whole numbers stay whole."""
        return cls(numbers.min().item(), float(numbers.mean()), numbers.max().item())


@dataclass(frozen=True)
class Spending:
    """What the devices have spent when the last round ends.

    Attributes:
        slots: until then.
        usage: slots of each device.
        powers: what a slot costs; None if that is not known.
    """

    slots: int
    usage: Usage
    powers: Powers | None = None

    @classmethod
    def of(cls, timeline: Timeline, powers: Powers | None = None) -> Spending:
        """Of a whole timeline."""
        return cls(timeline.last_slot, usage(timeline), powers)

    @property
    def total(self) -> TotalUsage:
        """Slots of all devices together."""
        return self.usage.total

    @property
    def shares(self) -> dict[str, float]:
        """What part of their slots the devices spend on each; absences are no slots of theirs."""
        total = self.total
        return {name: slots / max(1, sum(total)) for name, slots in total._asdict().items()}

    @property
    def air_slots(self) -> Spread:
        """Air time of a device: the slots in which it sends, in vain or not."""
        return Spread.of(self.usage.sending)

    @property
    def joules(self) -> float | None:
        """Of all devices together; None if powers are not known."""
        return None if self.powers is None else joules(self.total, self.powers)

    @property
    def joules_of_a_device(self) -> Spread | None:
        """What a device spends; None if powers are not known."""
        return None if self.powers is None else Spread.of(joules(self.usage, self.powers))

    def as_dict(self) -> dict[str, Any]:
        """The totals by name; joules only where there are any."""
        figures: dict[str, Any] = {
            "slots": self.slots,
            **self.total._asdict(),
            "air_slots_of_a_device": self.air_slots._asdict(),
        }
        if self.joules_of_a_device is not None:
            figures |= {"joules": self.joules, "joules_of_a_device": self.joules_of_a_device._asdict()}
        return figures

    def columns(self) -> dict[str, NDArray[Any]]:
        """A number for each device, by name; ``away`` are the slots in which it is not there."""
        columns: dict[str, NDArray[Any]] = {
            "device": np.arange(1, len(self.usage.idle) + 1),
            **self.usage._asdict(),
            "away": self.slots - np.sum(self.usage, axis=0),
        }
        return columns if self.powers is None else columns | {"joules": joules(self.usage, self.powers)}

    def devices(self) -> Iterator[dict[str, Any]]:
        """Each device's numbers by name."""
        columns = self.columns()
        for row in zip(*(column.tolist() for column in columns.values()), strict=True):
            yield dict(zip(columns, row, strict=True))
