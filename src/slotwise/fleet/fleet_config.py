"""FleetConfig: the options that describe a fleet, before random numbers are drawn for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from slotwise.errors import ConflictError, InputError, MissingError
from slotwise.fleet.battery import Batteries
from slotwise.fleet.distributions import Quantity, distribution_from, draw_slots, random_absences
from slotwise.fleet.fleet import Absence, Fleet, Retransmission
from slotwise.scenario import LARGEST_SEED, Scenario, check_fields, refuse_unused, whole


@dataclass(frozen=True, kw_only=True)
class FleetConfig:
    """Options for unequal devices; by default all are equal and without faults.

    Attributes:
        compute_distribution: Compute slots drawn for each device: constant:SLOTS, uniform:LOW:HIGH,
            lognormal:MEDIAN:SIGMA or two-classes:FAST:SLOW:SLOW_SHARE. Default: all alike.
        link_distribution: Uplink slots drawn for each device, likewise.
        device_compute_slots: Compute slots of devices 1 to N, one by one.
        device_link_slots: Uplink slots of devices 1 to N, one by one.
        uplink_slots: Slots of one uplink, if not those of a broadcast (--link-slots).
        jitter: A training takes up to this share longer or shorter, drawn anew for each.
        uplink_loss: Probability that an uplink is lost.
        device_uplink_loss: Probability that an uplink is lost, of devices 1 to N, one by one.
        retransmission: When a lost uplink is sent again: when its turn comes next, at once, or never
            (erasure: the round goes on without the update).
        absences: (device, leaves, returns) for each absence; without returns the device stays away.
        mean_present: Mean slots for which a device is present, if devices come and go at random.
        mean_away: Mean slots for which it is then absent.
        battery_joules: Capacity of each device's battery in joules. Default: no batteries.
        battery_initial: Share of the capacity that batteries hold at first.
        computing_joules: Joules that a battery pays for one slot of computing.
        sending_joules: Joules that it pays for one slot of sending.
        harvest_joules: Joules that a device harvests in a slot.
        harvest_probability: Probability of harvesting them, drawn for each device and slot.
        device_battery_joules: Capacities of devices 1 to N, one by one.
        device_computing_joules: Joules of a slot of computing of devices 1 to N, one by one.
        device_sending_joules: Joules of a slot of sending of devices 1 to N, one by one.
        device_harvest_joules: Harvests of devices 1 to N in a slot, one by one.
        harvest_trace: Joules that every device harvests in slots 0, 1, and so on; nothing afterwards.
        fleet_seed: Random seed of everything drawn for the fleet. Default: that of the run.
    """

    compute_distribution: str | None = None
    link_distribution: str | None = None
    device_compute_slots: tuple[int, ...] = ()
    device_link_slots: tuple[int, ...] = ()
    uplink_slots: int | None = None
    jitter: float = 0.0
    uplink_loss: float = 0.0
    device_uplink_loss: tuple[float, ...] = ()
    retransmission: Retransmission = "next-turn"
    absences: tuple[tuple[int, int, int | None], ...] = ()
    mean_present: float | None = None
    mean_away: float | None = None
    battery_joules: float | None = None
    battery_initial: float = 1.0
    computing_joules: float = 0.0
    sending_joules: float = 0.0
    harvest_joules: float = 0.0
    harvest_probability: float = 1.0
    device_battery_joules: tuple[float, ...] = ()
    device_computing_joules: tuple[float, ...] = ()
    device_sending_joules: tuple[float, ...] = ()
    device_harvest_joules: tuple[float, ...] = ()
    harvest_trace: tuple[float, ...] = ()
    fleet_seed: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        object.__setattr__(self, "absences", tuple(map(_absence, self.absences)))
        if self.uplink_slots is not None:
            whole("uplink_slots", self.uplink_slots)
        for one, other in CONFLICTS:
            if getattr(self, one) is not None and getattr(self, other):
                raise ConflictError(one, other)
        for one, other in (("mean_present", "mean_away"), ("mean_away", "mean_present")):
            if getattr(self, one) is not None and getattr(self, other) is None:
                raise MissingError(other, f"given together with {one}")
        if self.fleet_seed is not None:
            whole("fleet_seed", self.fleet_seed, 0, LARGEST_SEED)
        refuse_unused(self)

    @property
    def depends_on_seed(self) -> bool:
        """True if another seed gives another fleet."""
        drawn = (self.compute_distribution, self.link_distribution)
        if any(text is not None and not text.startswith("constant:") for text in drawn):
            return True
        random = self.jitter or any((self.uplink_loss, *self.device_uplink_loss))
        return bool(random) or self.mean_present is not None or self.harvest_probability < 1

    @property
    def has_losses(self) -> bool:
        """True if uplinks are lost with a given probability."""
        return any((self.uplink_loss, *self.device_uplink_loss))

    @property
    def has_batteries(self) -> bool:
        """True if devices have batteries."""
        return self.battery_joules is not None or bool(self.device_battery_joules)

    @property
    def has_own_speeds(self) -> bool:
        """True if each device has compute slots of its own, and the scenario's have no effect."""
        return self.compute_distribution is not None or bool(self.device_compute_slots)

    def unused(self) -> dict[str, str]:
        """Return the options without effect on this fleet, with the reason."""
        found: dict[str, str] = {}
        if not self.has_batteries:
            found |= dict.fromkeys(BATTERY_OPTIONS, "without batteries")
        elif not (self.harvest_joules or self.device_harvest_joules):
            found["harvest_probability"] = "without a harvest"
        return found if self.depends_on_seed else {**found, "fleet_seed": "if nothing is drawn for the fleet"}

    def fleet(self, scenario: Scenario, seed: int = 0) -> Fleet | None:
        """Return the devices, or None if no option makes them unequal or faulty.

        ``seed`` is that of the run; a ``fleet_seed`` replaces it.
        """
        if self == FleetConfig():
            return None
        seed = seed if self.fleet_seed is None else self.fleet_seed
        refuse_too_many_devices(scenario)
        count, absences = scenario.devices, tuple(Absence(*absence) for absence in self.absences)
        each = self.device_compute_slots or (scenario.compute_slots,) * count
        compute = _slots("compute", self.compute_distribution, each, count, seed)
        each = self.device_link_slots or (self.uplink_slots or scenario.link_slots,) * count
        link = _slots("link", self.link_distribution, each, count, seed)
        present, away = self.mean_present, self.mean_away
        if present is not None and away is not None:
            if scenario.deadline is None:
                raise InputError("mean_present", present, "omitted if there is no deadline")
            means = {"mean_present": present, "mean_away": away}
            absences = random_absences(count, scenario.deadline, **means, seed=seed)
        return Fleet(
            compute_slots=compute,
            link_slots=link,
            jitter=self.jitter,
            uplink_loss=self.uplink_loss,
            retransmission=self.retransmission,
            absences=absences,
            seed=seed,
            device_uplink_loss=self.device_uplink_loss,
            batteries=self._batteries(count, seed) if self.has_batteries else None,
        )

    def _batteries(self, devices: int, seed: int) -> Batteries:
        """Return the batteries; their errors name the options."""
        for name in PER_DEVICE_JOULES:
            usual = name.removeprefix("device_")
            if getattr(self, name) and getattr(self, usual):
                raise ConflictError(usual, name)
            if getattr(self, name) and len(getattr(self, name)) != devices:
                raise InputError(name, f"{len(getattr(self, name))} numbers", f"{devices}, one a device")
        if not 0 <= self.battery_initial <= 1:
            raise InputError("battery_initial", self.battery_initial, "a share from 0 to 1")
        computing = self.device_computing_joules or (self.computing_joules,)
        sending = self.device_sending_joules or (self.sending_joules,)
        if not any((*computing, *sending)):
            raise InputError("computing_joules", 0, "above 0, or sending_joules: batteries pay for nothing")
        capacity = self.device_battery_joules or (self.battery_joules or 0.0,)
        names = {"capacity": "battery_joules", "initial": "battery_initial", "trace": "harvest_trace"}
        try:
            return Batteries(
                capacity=capacity,
                initial=tuple(self.battery_initial * joules for joules in capacity),
                computing=computing,
                sending=sending,
                harvest=self.device_harvest_joules or (self.harvest_joules,),
                probability=self.harvest_probability,
                trace=self.harvest_trace,
                seed=seed,
            )
        except ConflictError:
            raise ConflictError("harvest_joules", "harvest_trace") from None
        except InputError as error:
            usual = f"harvest_{error.parameter}" if error.parameter == "probability" else ""
            name = names.get(error.parameter) or usual or f"{error.parameter}_joules"
            raise InputError(name, error.value, error.allowed) from None


BATTERY_OPTIONS = (
    *("battery_initial", "computing_joules", "sending_joules", "harvest_joules", "harvest_probability"),
    *("device_computing_joules", "device_sending_joules", "device_harvest_joules", "harvest_trace"),
)
PER_DEVICE_JOULES = (
    *("device_battery_joules", "device_computing_joules", "device_sending_joules", "device_harvest_joules"),
)
MOST_DEVICES = 1_000_000
CONFLICTS = (
    ("compute_distribution", "device_compute_slots"),
    ("link_distribution", "device_link_slots"),
    ("mean_present", "absences"),
    ("link_distribution", "uplink_slots"),
    ("uplink_slots", "device_link_slots"),
    ("battery_joules", "device_battery_joules"),
)


def refuse_too_many_devices(scenario: Scenario) -> None:
    """Raise an InputError if there are too many devices to have numbers of their own, or to be simulated."""
    if scenario.devices > MOST_DEVICES:
        raise InputError("devices", scenario.devices, f"at most {MOST_DEVICES:,}, if they are simulated")


def _slots(
    of: Quantity, distribution: str | None, each: Sequence[int], devices: int, seed: int
) -> tuple[int, ...]:
    """Return slots drawn from the distribution or, without one, ``each``."""
    if distribution is not None:
        return draw_slots(distribution_from(f"{of}_distribution", distribution), devices, seed=seed, of=of)
    name = f"device_{of}_slots"
    if len(each) != devices:
        raise InputError(name, f"{len(each)} numbers", f"{devices}, one for each device")
    for device, slots in enumerate(each, 1):
        try:
            whole(name, slots)
        except InputError as error:
            raise InputError(name, f"{slots} of device {device}", error.allowed) from None
    return tuple(each)


def _absence(value: Any) -> tuple[int, int, int | None]:
    try:
        device, leaves, returns = Absence(*value)
    except TypeError:
        raise InputError("absences", value, "lists of device, leaves and (unless for good) returns") from None
    return device, leaves, returns
