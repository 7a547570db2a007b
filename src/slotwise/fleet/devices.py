"""Devices: how devices differ, before random numbers are drawn: speeds, uplinks, losses, absences, batteries.

Each part is one of several alternatives, told apart by the options that are given: speeds, for example, are
all alike, drawn from a distribution, or listed device by device.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar

from slotwise.base.errors import ConflictError, InputError, NoEffectError
from slotwise.fleet.absences import Absence
from slotwise.fleet.battery import MOST_HARVEST, MOST_JOULES, Batteries
from slotwise.fleet.distributions import Quantity, distribution_from, draw_slots, random_absences
from slotwise.fleet.fleet import Fleet, Retransmission
from slotwise.fleet.slotframe import MOST_FRAME_SLOTS, OwnedSlot, Slotframe
from slotwise.fleet.windows import Window, Windows
from slotwise.options import Either, NoFlag, Range, declared, flat
from slotwise.options.checks import LARGEST, LARGEST_SEED, Value
from slotwise.scenario import Scenario

MOST_DEVICES = 1_000_000
Slots = Annotated[int, Range(least=1, most=LARGEST)]
ListedSlots = Annotated[tuple[int, ...], Range(least=1, most=LARGEST), NoFlag()]
Probability = Annotated[float, Range(least=0, below=1)]
Joules = Annotated[float, Range(least=0, most=MOST_JOULES)]
ListedJoules = Annotated[tuple[float, ...], Range(least=0, most=MOST_JOULES), NoFlag()]
Harvested = Range(least=0, most=MOST_HARVEST)


def _absence(value: Any) -> tuple[int, int, int | None]:
    try:
        device, leaves, returns = Absence(*value)
    except TypeError:
        raise InputError("absences", value, "lists of device, leaves and (unless for good) returns") from None
    return device, leaves, returns


@dataclass(frozen=True, kw_only=True)
class _Part(Value):
    """A part of `Devices`: its fields are options, which are checked."""


class EqualSpeeds(_Part):
    """All devices have the compute slots of the scenario."""

    is_drawn: ClassVar[bool] = False

    def slots(self, scenario: Scenario, seed: int) -> tuple[int, ...]:  # noqa: ARG002
        """Return the compute slots of every device."""
        return (scenario.compute_slots,) * scenario.devices


@dataclass(frozen=True, kw_only=True)
class DrawnSpeeds(_Part):
    """The compute slots of a device are drawn from a distribution.

    Attributes:
        compute_distribution: Compute slots drawn for each device: constant:SLOTS, uniform:LOW:HIGH,
            lognormal:MEDIAN:SIGMA or two-classes:FAST:SLOW:SLOW_SHARE. Default: all alike.
    """

    instead_of: ClassVar[tuple[str, ...]] = ("compute_slots",)
    compute_distribution: str

    @property
    def is_drawn(self) -> bool:
        """True if another seed gives other speeds."""
        return _varies(self.compute_distribution)

    def slots(self, scenario: Scenario, seed: int) -> tuple[int, ...]:
        """Return the compute slots of every device."""
        return _draw("compute", self.compute_distribution, scenario, seed)


@dataclass(frozen=True, kw_only=True)
class ListedSpeeds(_Part):
    """The compute slots are given device by device.

    Attributes:
        device_compute_slots: Compute slots of devices 1 to N, one by one.
    """

    instead_of: ClassVar[tuple[str, ...]] = ("compute_slots",)
    is_drawn: ClassVar[bool] = False
    device_compute_slots: ListedSlots

    def slots(self, scenario: Scenario, seed: int) -> tuple[int, ...]:  # noqa: ARG002
        """Return the compute slots of every device."""
        return _one_each("device_compute_slots", self.device_compute_slots, scenario)


@dataclass(frozen=True, kw_only=True)
class EqualUplinks(_Part):
    """The uplinks of all devices take equally many slots.

    Attributes:
        uplink_slots: Slots of one uplink, if not those of a broadcast (--link-slots).
    """

    is_drawn: ClassVar[bool] = False
    uplink_slots: Slots | None = None

    def slots(self, scenario: Scenario, seed: int) -> tuple[int, ...]:  # noqa: ARG002
        """Return the slots of an uplink of every device."""
        return (self.uplink_slots or scenario.link_slots,) * scenario.devices


@dataclass(frozen=True, kw_only=True)
class DrawnUplinks(_Part):
    """The slots of a device's uplinks are drawn from a distribution.

    Attributes:
        link_distribution: Uplink slots drawn for each device, as compute_distribution draws compute slots.
    """

    uplink_slots: ClassVar[None] = None
    link_distribution: str

    @property
    def is_drawn(self) -> bool:
        """True if another seed gives other uplinks."""
        return _varies(self.link_distribution)

    def slots(self, scenario: Scenario, seed: int) -> tuple[int, ...]:
        """Return the slots of an uplink of every device."""
        return _draw("link", self.link_distribution, scenario, seed)


@dataclass(frozen=True, kw_only=True)
class ListedUplinks(_Part):
    """The slots of an uplink are given device by device.

    Attributes:
        device_link_slots: Uplink slots of devices 1 to N, one by one.
    """

    uplink_slots: ClassVar[None] = None
    is_drawn: ClassVar[bool] = False
    device_link_slots: ListedSlots

    def slots(self, scenario: Scenario, seed: int) -> tuple[int, ...]:  # noqa: ARG002
        """Return the slots of an uplink of every device."""
        return _one_each("device_link_slots", self.device_link_slots, scenario)


@dataclass(frozen=True, kw_only=True)
class EqualLosses(_Part):
    """The uplinks of all devices are lost with the same probability.

    Attributes:
        uplink_loss: Probability that an uplink is lost.
    """

    device_uplink_loss: ClassVar[tuple[float, ...]] = ()
    uplink_loss: Probability = 0.0


@dataclass(frozen=True, kw_only=True)
class ListedLosses(_Part):
    """The uplinks of each device are lost with a probability of its own.

    Attributes:
        device_uplink_loss: Probability that an uplink is lost, of devices 1 to N, one by one.
    """

    uplink_loss: ClassVar[float] = 0.0
    device_uplink_loss: Annotated[tuple[float, ...], Range(least=0, below=1), NoFlag()]


@dataclass(frozen=True, kw_only=True)
class ListedAbsences(_Part):
    """Absences that are known beforehand.

    Attributes:
        absences: (device, leaves, returns) for each absence; without returns the device stays away.
    """

    is_drawn: ClassVar[bool] = False
    absences: Annotated[tuple[tuple[int, int, int | None], ...], NoFlag()] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "absences", tuple(map(_absence, self.absences)))

    def absences_in(self, scenario: Scenario, seed: int) -> Sequence[Absence]:  # noqa: ARG002
        """Return the absences as they are listed."""
        return tuple(Absence(*absence) for absence in self.absences)


@dataclass(frozen=True, kw_only=True)
class RandomAbsences(_Part):
    """Devices come and go at random, which needs a deadline.

    Attributes:
        mean_present: Mean slots for which a device is present, if devices come and go at random.
        mean_away: Mean slots for which it is then absent.
    """

    is_drawn: ClassVar[bool] = True
    mean_present: Annotated[float, Range(least=1)]
    mean_away: Annotated[float, Range(least=1)]

    def absences_in(self, scenario: Scenario, seed: int) -> Sequence[Absence]:
        """Return all absences until the deadline."""
        if scenario.deadline is None:
            raise InputError("mean_present", self.mean_present, "omitted if there is no deadline")
        means = {"mean_present": self.mean_present, "mean_away": self.mean_away}
        return random_absences(scenario.devices, scenario.deadline, **means, seed=seed)


class NoWindows(_Part):
    """Devices can always send and receive."""

    def reach_of(self, scenario: Scenario) -> None:
        """Return None: there are no windows."""


@dataclass(frozen=True, kw_only=True)
class PeriodicWindows(_Part):
    """Each device can send and receive in one window of every period, and computes at any time.

    Attributes:
        window_period: Slots from one window of a device to its next one, if devices can send and receive only
            in windows.
        window_length: Slots of a window.
        window_stagger: Slots from the opening of a device's window to that of the next device. The first one
            opens in slot 0.
        window_offsets: Slots in which the first windows of devices 1 to N open, one by one.
    """

    window_period: Annotated[int, Range(least=2, most=LARGEST)]
    window_length: Slots
    window_stagger: Annotated[int, Range(least=0, most=LARGEST)] = 0
    window_offsets: Annotated[tuple[int, ...], Range(least=0, most=LARGEST), NoFlag()] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window_length >= self.window_period:
            allowed = f"below window_period, {self.window_period}"
            raise InputError("window_length", self.window_length, allowed)
        if self.window_offsets and self.window_stagger:
            raise ConflictError("window_stagger", "window_offsets")

    def reach_of(self, scenario: Scenario) -> Windows:
        """Return the windows of all devices."""
        devices = scenario.devices
        offsets = self.window_offsets or tuple(n * self.window_stagger % LARGEST for n in range(devices))
        if len(offsets) != devices:
            raise InputError("window_offsets", f"{len(offsets)} numbers", f"{devices}, one for each device")
        return Windows.periodic(self.window_period, self.window_length, offsets)


@dataclass(frozen=True, kw_only=True)
class ListedWindows(_Part):
    """Devices can send and receive in the windows that are listed; one without any always can.

    Attributes:
        windows: (device, opens, closes) of each window.
    """

    windows: Annotated[tuple[tuple[int, int, int], ...], NoFlag()]

    def __post_init__(self) -> None:
        super().__post_init__()
        checked = Windows(tuple(self.windows))  # type: ignore[arg-type]  # rows are checked there
        object.__setattr__(self, "windows", tuple(tuple(window) for window in checked.windows))

    def reach_of(self, scenario: Scenario) -> Windows:  # noqa: ARG002
        """Return the windows as they are listed."""
        return Windows(tuple(Window(*window) for window in self.windows))


@dataclass(frozen=True, kw_only=True)
class OwnedSlots(_Part):
    """Each device sends only in slots of a repeated frame that it owns; it receives and computes at any time.

    Attributes:
        frame_slots: Slots of a frame, if devices send only in slots of it that they own.
        frame_offset: Slots at the beginning of a frame without an owner. Devices 1 to N own the others, one
            after another and again from device 1 on.
        owned_slots: (slot, device) for each slot of the frame that a device owns, slots from 0 on.
    """

    frame_slots: Annotated[int, Range(least=1, most=MOST_FRAME_SLOTS)]
    frame_offset: Annotated[int, Range(least=0, most=LARGEST)] = 0
    owned_slots: Annotated[tuple[tuple[int, int], ...], NoFlag()] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.owned_slots and self.frame_offset:
            raise ConflictError("frame_offset", "owned_slots")
        if self.frame_offset >= self.frame_slots:
            raise InputError("frame_offset", self.frame_offset, f"below frame_slots, {self.frame_slots}")
        if self.owned_slots:
            checked = Slotframe(self.frame_slots, tuple(self.owned_slots))  # type: ignore[arg-type]
            object.__setattr__(self, "owned_slots", tuple(tuple(owned) for owned in checked.owned_slots))

    def reach_of(self, scenario: Scenario) -> Slotframe:
        """Return the frame of all devices."""
        if self.owned_slots:
            frame = Slotframe(self.frame_slots, tuple(OwnedSlot(*owned) for owned in self.owned_slots))
        else:
            frame = Slotframe.in_turn(self.frame_slots, scenario.devices, self.frame_offset)
        frame.check(scenario.devices, scenario.sub_channels)
        return frame


@dataclass(frozen=True, kw_only=True)
class EqualHarvest(_Part):
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
class ListedHarvest(_Part):
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
class RecordedHarvest(_Part):
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


class NoBatteries(_Part):
    """Energy does not limit the devices."""

    harvest: ClassVar[EqualHarvest] = EqualHarvest()

    def batteries(self, devices: int, seed: int) -> None:
        """Return None: there are no batteries."""


@dataclass(frozen=True, kw_only=True)
class _Charged(_Part, ABC):
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


Speeds = Annotated[EqualSpeeds | DrawnSpeeds | ListedSpeeds, Either((EqualSpeeds, DrawnSpeeds, ListedSpeeds))]
EVERY_SPEED = (  # options of speeds
    *(*DrawnSpeeds.instead_of, *declared(DrawnSpeeds), *declared(ListedSpeeds)),
    "compute_changes",
)
Uplinks = Annotated[
    EqualUplinks | DrawnUplinks | ListedUplinks, Either((EqualUplinks, DrawnUplinks, ListedUplinks))
]
Losses = Annotated[EqualLosses | ListedLosses, Either((EqualLosses, ListedLosses))]
Presence = Annotated[ListedAbsences | RandomAbsences, Either((ListedAbsences, RandomAbsences))]
Reach = Annotated[
    NoWindows | PeriodicWindows | ListedWindows | OwnedSlots,
    Either((NoWindows, PeriodicWindows, ListedWindows, OwnedSlots)),
]
BatteryOptions = Annotated[
    NoBatteries | EqualBatteries | ListedBatteries, Either((NoBatteries, EqualBatteries, ListedBatteries))
]


@flat
@dataclass(frozen=True, kw_only=True)
class Devices(_Part):
    """Differences between devices; by default all are equal and without faults.

    Attributes:
        compute_changes: (slot, compute slots) of later trainings, those whose model is complete in that slot
            or later; compute slots of all devices, or of devices 1 to N one by one.
        jitter: A training takes up to this share longer or shorter, drawn anew for each.
        retransmission: When a lost uplink is sent again: when its turn comes next, at once, or never
            (erasure: the round goes on without the update).
        fleet_seed: Random seed of everything drawn for the fleet. Default: that of the run.
    """

    speeds: Speeds = EqualSpeeds()  # noqa: RUF009
    uplinks: Uplinks = EqualUplinks()
    compute_changes: Annotated[tuple[tuple[int, int | tuple[int, ...]], ...], NoFlag()] = ()
    jitter: Probability = 0.0
    losses: Losses = EqualLosses()
    retransmission: Retransmission = "next-turn"
    presence: Presence = ListedAbsences()
    reach: Reach = NoWindows()  # noqa: RUF009
    batteries: BatteryOptions = NoBatteries()  # noqa: RUF009
    fleet_seed: Annotated[int, Range(least=0, most=LARGEST_SEED)] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "compute_changes", _as_tuples(self.compute_changes))
        if not isinstance(self.reach, NoWindows) and not isinstance(self.batteries, NoBatteries):
            battery, window = (next(iter(declared(type(part)))) for part in (self.batteries, self.reach))
            raise ConflictError(battery, window, "energy and windows are not simulated together")
        if self.fleet_seed is not None and not self.depends_on_seed:
            raise NoEffectError("fleet_seed", self.fleet_seed, "if nothing is drawn for the fleet")

    @property
    def depends_on_seed(self) -> bool:
        """True if another seed gives other devices."""
        drawn = self.speeds.is_drawn or self.uplinks.is_drawn or self.presence.is_drawn
        return drawn or bool(self.jitter) or self.has_losses or self.batteries.harvest.harvest_probability < 1

    @property
    def has_losses(self) -> bool:
        """True if uplinks are lost with a given probability."""
        return any((self.losses.uplink_loss, *self.losses.device_uplink_loss))

    @property
    def pays_for_sending(self) -> bool:
        """True if devices have batteries that pay for uplinks."""
        return not isinstance(self.batteries, NoBatteries) and any(self.batteries.sending)

    def fleet(self, scenario: Scenario, seed: int = 0) -> Fleet:
        """Return the devices; ``seed`` is that of the run, and a ``fleet_seed`` replaces it."""
        if self == Devices():
            return Fleet.equal(scenario)
        refuse_too_many_devices(scenario)
        seed = seed if self.fleet_seed is None else self.fleet_seed
        return Fleet(
            compute_slots=self.speeds.slots(scenario, seed),
            link_slots=self.uplinks.slots(scenario, seed),
            jitter=self.jitter,
            uplink_loss=self.losses.uplink_loss,
            retransmission=self.retransmission,
            absences=self.presence.absences_in(scenario, seed),
            seed=seed,
            device_uplink_loss=self.losses.device_uplink_loss,
            batteries=self.batteries.batteries(scenario.devices, seed),
            windows=self.reach.reach_of(scenario),
            compute_changes=self.compute_changes,  # type: ignore[arg-type]  # one number is listed there
        )


def refuse_too_many_devices(scenario: Scenario) -> None:
    """Raise an InputError if there are too many devices to have numbers of their own, or to be simulated."""
    if scenario.devices > MOST_DEVICES:
        raise InputError("devices", scenario.devices, f"at most {MOST_DEVICES:,}, if they are simulated")


def _as_tuples(value: Any) -> Any:
    """Return lists in lists, as JSON has them, as tuples."""
    return tuple(map(_as_tuples, value)) if isinstance(value, list | tuple) else value


def _varies(distribution: str) -> bool:
    """Return whether a distribution gives devices different numbers."""
    return not distribution.startswith("constant:")


def _draw(of: Quantity, distribution: str, scenario: Scenario, seed: int) -> tuple[int, ...]:
    drawn = distribution_from(f"{of}_distribution", distribution)
    return draw_slots(drawn, scenario.devices, seed=seed, of=of)


def _one_each(name: str, numbers: Sequence[int], scenario: Scenario) -> tuple[int, ...]:
    """Return a list of one number for each device, or refuse it."""
    if len(numbers) != scenario.devices:
        raise InputError(name, f"{len(numbers)} numbers", f"{scenario.devices}, one for each device")
    return tuple(numbers)
