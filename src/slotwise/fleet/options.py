"""FleetOptions: a fleet as a person describes it, in text and numbers, before it is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from slotwise.errors import InputError
from slotwise.fleet.distributions import Quantity, distribution_from, draw_slots, random_absences
from slotwise.fleet.fleet import Absence, Fleet, Retransmission
from slotwise.fleet.table import read_fleet
from slotwise.scenario import Scenario, whole


@dataclass(frozen=True, kw_only=True)
class FleetOptions:
    """What is not said is as in the scenario: all alike, and without fault.

    Attributes:
        compute_distribution: slots of a training, drawn for each device, as in ``lognormal:50:0.5``.
        link_distribution: slots of an uplink, likewise.
        device_compute_slots: slots of a training, device by device.
        device_link_slots: slots of an uplink, device by device.
        uplink_slots: slots of an uplink of any device, if not those of a broadcast.
        jitter: a training takes up to this share longer or shorter.
        loss: the probability that an uplink is lost.
        retransmission: when it is sent again.
        absences: (device, leaves, returns) for each; returns is None for good.
        mean_present: mean slots for which a device is there, if devices come and go at random.
        mean_away: mean slots for which it is then away.
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
        if self.uplink_slots is not None:
            whole("uplink_slots", self.uplink_slots)
        self._refuse_both("compute_distribution", "device_compute_slots")
        self._refuse_both("link_distribution", "device_link_slots")
        self._refuse_both("mean_present", "absences")
        self._refuse_both("link_distribution", "uplink_slots")
        self._refuse_both("uplink_slots", "device_link_slots")
        for one, other in (("mean_present", "mean_away"), ("mean_away", "mean_present")):
            if getattr(self, one) is not None and getattr(self, other) is None:
                raise InputError(other, "missing", f"given where {one} is")

    def fleet(self, scenario: Scenario, seed: int = 0) -> Fleet | None:
        """The devices, or None if nothing is said about them.

        Raises:
            InputError: an option is out of its range, or a list has not a number for each device.
        """
        if self == FleetOptions(retransmission=self.retransmission):
            return None
        return Fleet(
            compute_slots=_slots(
                "compute",
                self.compute_distribution,
                self.device_compute_slots or (scenario.compute_slots,) * scenario.devices,
                scenario.devices,
                seed,
            ),
            link_slots=_slots(
                "link",
                self.link_distribution,
                self.device_link_slots or (self.uplink_slots or scenario.link_slots,) * scenario.devices,
                scenario.devices,
                seed,
            ),
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
            raise InputError("mean_present", self.mean_present, "left out where there is no deadline")
        return random_absences(
            scenario.devices,
            scenario.deadline,
            mean_present=self.mean_present,
            mean_away=self.mean_away,
            seed=seed,
        )

    def _refuse_both(self, one: str, other: str) -> None:
        value = getattr(self, one)
        if value is not None and getattr(self, other):
            raise InputError(one, value, f"left out where {other} is given")


def _slots(
    of: Quantity, distribution: str | None, each: Sequence[int], devices: int, seed: int
) -> tuple[int, ...]:
    """Drawn, or as ``each`` says, one for each device."""
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


FLEET_OPTIONS = tuple(field.name for field in fields(FleetOptions))


def options_of_file(path: Path, *, link_slots: int, devices: int | None = None) -> dict[str, Any]:
    """The options that say what a CSV file says, so that nothing depends on the file any more.

    Args:
        path: the file, as `read_fleet` reads it.
        link_slots: of an uplink, if the file does not say.
        devices: how many there must be; None takes as many as there are.
    """
    fleet = read_fleet(path, link_slots=link_slots, devices=devices)
    return {
        "devices": fleet.devices,
        "device_compute_slots": fleet.compute_slots,
        "device_link_slots": () if _all(fleet.link_slots, link_slots) else fleet.link_slots,
        "absences": tuple(tuple(absence) for absence in fleet.absences),
    }


def _all(numbers: Sequence[int], number: int) -> bool:
    return set(numbers) == {number}
