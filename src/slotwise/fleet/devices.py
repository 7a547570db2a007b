"""Devices: how devices differ, before random numbers are drawn: speeds, uplinks, losses, absences, batteries.

Each part is one of several alternatives, told apart by the options that are given: speeds, for example, are
all alike, drawn from a distribution, or listed device by device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from slotwise.base.errors import ConflictError, InputError, NoEffectError
from slotwise.fleet.absences import Absence
from slotwise.fleet.battery_options import BatteryOptions, NoBatteries
from slotwise.fleet.distributions import Quantity, distribution_from, draw_slots, random_absences
from slotwise.fleet.fleet import Fleet, Retransmission
from slotwise.fleet.reach_options import NoWindows, ReachOptions
from slotwise.options import Either, NoFlag, Range, declared, flat
from slotwise.options.checks import LARGEST, LARGEST_SEED, Value
from slotwise.scenario import Scenario

MOST_DEVICES = 1_000_000
Slots = Annotated[int, Range(least=1, most=LARGEST)]
ListedSlots = Annotated[tuple[int, ...], Range(least=1, most=LARGEST), NoFlag()]
Probability = Annotated[float, Range(least=0, below=1)]


def _absence(value: Any) -> tuple[int, int, int | None]:
    try:
        device, leaves, returns = Absence(*value)
    except TypeError:
        raise InputError("absences", value, "lists of device, leaves and (unless for good) returns") from None
    return device, leaves, returns


@dataclass(frozen=True, kw_only=True)
class EqualSpeeds(Value):
    """All devices have the compute slots of the scenario."""

    is_drawn: ClassVar[bool] = False

    def slots(self, scenario: Scenario, seed: int) -> tuple[int, ...]:  # noqa: ARG002
        """Return the compute slots of every device."""
        return (scenario.compute_slots,) * scenario.devices


@dataclass(frozen=True, kw_only=True)
class DrawnSpeeds(Value):
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
class ListedSpeeds(Value):
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
class EqualUplinks(Value):
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
class DrawnUplinks(Value):
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
class ListedUplinks(Value):
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
class EqualLosses(Value):
    """The uplinks of all devices are lost with the same probability.

    Attributes:
        uplink_loss: Probability that an uplink is lost.
    """

    device_uplink_loss: ClassVar[tuple[float, ...]] = ()
    uplink_loss: Probability = 0.0


@dataclass(frozen=True, kw_only=True)
class ListedLosses(Value):
    """The uplinks of each device are lost with a probability of its own.

    Attributes:
        device_uplink_loss: Probability that an uplink is lost, of devices 1 to N, one by one.
    """

    uplink_loss: ClassVar[float] = 0.0
    device_uplink_loss: Annotated[tuple[float, ...], Range(least=0, below=1), NoFlag()]


@dataclass(frozen=True, kw_only=True)
class ListedAbsences(Value):
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
class RandomAbsences(Value):
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


@flat
@dataclass(frozen=True, kw_only=True)
class Devices(Value):
    """Differences between devices; by default all are equal and without faults.

    Attributes:
        compute_changes: (slot, compute slots) of later trainings, those whose model is complete in that slot
            or later; compute slots of all devices, or of devices 1 to N one by one.
        jitter: A training takes up to this share longer or shorter, drawn anew for each.
        retransmission: When a lost uplink is sent again: when its turn comes next, at once, or never
            (erasure: the round goes on without the update).
        fleet_seed: Random seed of everything drawn for the fleet. Default: that of the run.
    """

    speeds: Speeds = EqualSpeeds()
    uplinks: Uplinks = EqualUplinks()
    compute_changes: Annotated[tuple[tuple[int, int | tuple[int, ...]], ...], NoFlag()] = ()
    jitter: Probability = 0.0
    losses: Losses = EqualLosses()
    retransmission: Retransmission = "next-turn"
    presence: Presence = ListedAbsences()
    reach: ReachOptions = NoWindows()  # noqa: RUF009
    batteries: BatteryOptions = NoBatteries()  # noqa: RUF009
    fleet_seed: Annotated[int, Range(least=0, most=LARGEST_SEED)] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "compute_changes", _as_tuples(self.compute_changes))
        if not isinstance(self.reach, NoWindows) and not isinstance(self.batteries, NoBatteries):
            # The option that has the capacity is the last one; the others have defaults.
            battery, window = [*declared(type(self.batteries))][-1], next(iter(declared(type(self.reach))))
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
