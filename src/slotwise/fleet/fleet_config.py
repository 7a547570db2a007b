"""FleetConfig: the options that describe a fleet, before random numbers are drawn for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slotwise.errors import ConflictError, InputError
from slotwise.fleet.distributions import Quantity, distribution_from, draw_slots, random_absences
from slotwise.fleet.fleet import Absence, Fleet, Retransmission
from slotwise.fleet.fleet_file import read_fleet
from slotwise.option_types import check_fields
from slotwise.scenario import Scenario, whole


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
        loss: Probability that an uplink is lost.
        retransmission: When a lost uplink is sent again: when its turn comes next, or at once.
        absences: (device, leaves, returns) for each absence; returns is None for good.
        mean_present: Mean slots for which a device is present, if devices come and go at random.
        mean_away: Mean slots for which it is then absent.
    """

    compute_distribution: str | None = None
    link_distribution: str | None = None
    device_compute_slots: tuple[int, ...] = ()
    device_link_slots: tuple[int, ...] = ()
    uplink_slots: int | None = None
    jitter: float = 0.0
    loss: float = 0.0
    retransmission: Retransmission = "next-turn"
    absences: tuple[tuple[int, int, int | None], ...] = ()
    mean_present: float | None = None
    mean_away: float | None = None

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
                raise InputError(other, "missing", f"given together with {one}")

    def fleet(self, scenario: Scenario, seed: int = 0) -> Fleet | None:
        """Return the devices, or None if no option makes them unequal or faulty."""
        if self == FleetConfig(retransmission=self.retransmission):
            return None
        count = scenario.devices
        compute = self.device_compute_slots or (scenario.compute_slots,) * count
        link = self.device_link_slots or (self.uplink_slots or scenario.link_slots,) * count
        return Fleet(
            compute_slots=_slots("compute", self.compute_distribution, compute, count, seed),
            link_slots=_slots("link", self.link_distribution, link, count, seed),
            jitter=self.jitter,
            loss=self.loss,
            retransmission=self.retransmission,
            absences=self._absences(scenario, seed),
            seed=seed,
        )

    def _absences(self, scenario: Scenario, seed: int) -> tuple[Absence, ...]:
        if self.mean_present is None or self.mean_away is None:
            return tuple(Absence(*absence) for absence in self.absences)
        if scenario.deadline is None:
            raise InputError("mean_present", self.mean_present, "omitted if there is no deadline")
        return random_absences(
            scenario.devices,
            scenario.deadline,
            mean_present=self.mean_present,
            mean_away=self.mean_away,
            seed=seed,
        )


CONFLICTS = (
    ("compute_distribution", "device_compute_slots"),
    ("link_distribution", "device_link_slots"),
    ("mean_present", "absences"),
    ("link_distribution", "uplink_slots"),
    ("uplink_slots", "device_link_slots"),
)


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


def options_of_file(path: Path, *, link_slots: int, devices: int | None = None) -> dict[str, Any]:
    """Return the options that say what a CSV file says, so that nothing depends on the file any more.

    Args:
        path: the file, as `read_fleet` reads it.
        link_slots: slots of an uplink, if the file does not say.
        devices: the number of devices there must be; None accepts any.
    """
    fleet = read_fleet(path, link_slots=link_slots, devices=devices)
    return {
        "devices": fleet.devices,
        "device_compute_slots": fleet.compute_slots,
        "device_link_slots": () if set(fleet.link_slots) == {link_slots} else fleet.link_slots,
        "absences": tuple(tuple(absence) for absence in fleet.absences),
    }
