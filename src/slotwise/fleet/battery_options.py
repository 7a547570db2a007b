"""Batteries of devices and what they harvest, given for all or one by one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Annotated, ClassVar

from slotwise.base.errors import ConflictError, InputError, NoEffectError
from slotwise.fleet.battery import MOST_HARVEST, MOST_JOULES, Batteries
from slotwise.options import Either, NoFlag, Range
from slotwise.options.checks import Value

Joules = Annotated[float, Range(least=0, most=MOST_JOULES)]
ListedJoules = Annotated[tuple[float, ...], Range(least=0, most=MOST_JOULES), NoFlag()]
Harvested = Range(least=0, most=MOST_HARVEST)


@dataclass(frozen=True, kw_only=True)
class EqualHarvest(Value):
    """All devices harvest the same in a slot, always or with a probability.

    Attributes:
        harvest_joules: Joules that a device harvests in a slot.
        harvest_probability: Probability of harvesting them, drawn for each device and slot.
    """

    trace: ClassVar[tuple[float, ...]] = ()
    harvest_joules: Annotated[float, Harvested] = 0.0
    harvest_probability: Annotated[float, Range(above=0, most=1)] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.harvest_probability < 1 and not any(self.joules):
            raise NoEffectError("harvest_probability", self.harvest_probability, "without a harvest")

    @property
    def joules(self) -> tuple[float, ...]:
        """The harvest of a slot, of each device or of all."""
        return (self.harvest_joules,)


@dataclass(frozen=True, kw_only=True)
class ListedHarvest(Value):
    """Each device harvests joules of its own in a slot.

    Attributes:
        device_harvest_joules: Harvests of devices 1 to N in a slot, one by one.
        harvest_probability: Probability of harvesting them, drawn for each device and slot.
    """

    trace: ClassVar[tuple[float, ...]] = ()
    device_harvest_joules: Annotated[tuple[float, ...], Harvested, NoFlag()]
    harvest_probability: Annotated[float, Range(above=0, most=1)] = 1.0

    @property
    def joules(self) -> tuple[float, ...]:
        """The harvest of a slot, of each device."""
        return self.device_harvest_joules


@dataclass(frozen=True, kw_only=True)
class RecordedHarvest(Value):
    """All devices harvest what a recording says.

    Attributes:
        harvest_trace: Joules that every device harvests in slots 0, 1, and so on; nothing afterwards.
    """

    joules: ClassVar[tuple[float, ...]] = (0.0,)
    harvest_probability: ClassVar[float] = 1.0
    harvest_trace: Annotated[tuple[float, ...], Harvested, NoFlag()]

    @property
    def trace(self) -> tuple[float, ...]:
        """The harvest of each slot."""
        return self.harvest_trace


@dataclass(frozen=True, kw_only=True)
class NoBatteries(Value):
    """Energy does not limit the devices."""

    harvest: ClassVar[EqualHarvest] = EqualHarvest()

    def batteries(self, devices: int, seed: int) -> None:
        """Return None: there are no batteries."""


@dataclass(frozen=True, kw_only=True)
class _Charged(Value, ABC):
    """Devices with batteries of any capacity.

    Attributes:
        battery_initial: Share of the capacity that batteries hold at first.
        computing_joules: Joules that a battery pays for one slot of computing.
        sending_joules: Joules that it pays for one slot of sending.
        device_computing_joules: Joules of a slot of computing of devices 1 to N, one by one.
        device_sending_joules: Joules of a slot of sending of devices 1 to N, one by one.
    """

    battery_initial: Annotated[float, Range(least=0, most=1)] = 1.0
    computing_joules: Joules = 0.0
    sending_joules: Joules = 0.0
    device_computing_joules: ListedJoules = ()
    device_sending_joules: ListedJoules = ()
    harvest: Annotated[
        EqualHarvest | ListedHarvest | RecordedHarvest, Either((EqualHarvest, ListedHarvest, RecordedHarvest))
    ] = EqualHarvest()

    def __post_init__(self) -> None:
        super().__post_init__()
        for listed in (field.name for field in fields(self) if field.name.startswith("device_")):
            if getattr(self, listed) and getattr(self, usual := listed.removeprefix("device_"), 0):
                raise ConflictError(usual, listed)
        if not any((*self.computing, *self.sending)):
            raise InputError("computing_joules", 0, "above 0, or sending_joules: batteries pay for nothing")

    @property
    def computing(self) -> tuple[float, ...]:
        """Joules of a slot of computing, of each device or of all."""
        return self.device_computing_joules or (self.computing_joules,)

    @property
    def sending(self) -> tuple[float, ...]:
        """Joules of a slot of sending, of each device or of all."""
        return self.device_sending_joules or (self.sending_joules,)

    @property
    @abstractmethod
    def capacity(self) -> tuple[float, ...]:
        """Joules that a battery holds, of each device or of all."""

    def batteries(self, devices: int, seed: int) -> Batteries:
        """Return the batteries of the devices."""
        listed = {field.name: getattr(self, field.name) for field in fields(self)}
        listed |= {field.name: getattr(self.harvest, field.name) for field in fields(self.harvest)}
        for name, numbers in listed.items():
            if name.startswith("device_") and numbers and len(numbers) != devices:
                raise InputError(name, f"{len(numbers)} numbers", f"{devices}, one a device")
        return Batteries(
            capacity=self.capacity,
            initial=tuple(self.battery_initial * joules for joules in self.capacity),
            computing=self.computing,
            sending=self.sending,
            harvest=self.harvest.joules,
            probability=self.harvest.harvest_probability,
            trace=self.harvest.trace,
            seed=seed,
        )


@dataclass(frozen=True, kw_only=True)
class EqualBatteries(_Charged):
    """Devices with batteries of the same capacity.

    Attributes:
        battery_joules: Capacity of each device's battery in joules. Default: no batteries.
    """

    battery_joules: Joules

    @property
    def capacity(self) -> tuple[float, ...]:
        """Joules that a battery holds."""
        return (self.battery_joules,)


@dataclass(frozen=True, kw_only=True)
class ListedBatteries(_Charged):
    """Devices with batteries of their own capacities.

    Attributes:
        device_battery_joules: Capacities of devices 1 to N, one by one.
    """

    device_battery_joules: ListedJoules

    @property
    def capacity(self) -> tuple[float, ...]:
        """Joules that the battery of each device holds."""
        return self.device_battery_joules


BatteryOptions = Annotated[
    NoBatteries | EqualBatteries | ListedBatteries, Either((NoBatteries, EqualBatteries, ListedBatteries))
]
