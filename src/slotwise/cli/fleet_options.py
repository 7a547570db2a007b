"""What the devices are like: the options of every command that takes a fleet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from slotwise.errors import InputError
from slotwise.fleet.fleet_config import FleetConfig, options_of_file
from slotwise.scenario import whole

FLEET = "Fleet"
SLOTS_TEXT = "constant:SLOTS, uniform:LOW:HIGH, lognormal:MEDIAN:SIGMA or two-classes:FAST:SLOW:SLOW_SHARE"


def _of_fleet(text: str, metavar: str | None = None, default: str | None = None) -> Any:
    return typer.Option(help=text, metavar=metavar, rich_help_panel=FLEET, show_default=default or False)


@dataclass(frozen=True)
class FleetFlags:
    """What is said on the command line; what is not said is None, and as in the paper."""

    compute_distribution: Annotated[
        str | None,
        _of_fleet(f"Compute slots drawn for each device: {SLOTS_TEXT}. Default: all alike.", "DISTRIBUTION"),
    ] = None
    link_distribution: Annotated[
        str | None, _of_fleet("Uplink slots drawn for each device, likewise.", "DISTRIBUTION")
    ] = None
    fleet_file: Annotated[
        Path | None,
        _of_fleet(
            "CSV file with a row for each device: device, compute_slots and, if wanted, link_slots, leaves, "
            "returns.",
            "FILE",
        ),
    ] = None
    uplink_slots: Annotated[
        int | None, _of_fleet("Slots of one uplink, if not those of a broadcast (--link-slots).")
    ] = None
    jitter: Annotated[
        float | None, _of_fleet("A training takes up to this share longer or shorter.", default="0")
    ] = None
    loss: Annotated[float | None, _of_fleet("The probability that an uplink is lost.", default="0")] = None
    retransmission: Annotated[
        Literal["next-turn", "at-once"] | None,
        _of_fleet("When a lost uplink is sent again.", default="next-turn"),
    ] = None
    mean_present: Annotated[
        float | None,
        _of_fleet("Devices come and go at random: mean slots for which one is there.", "SLOTS"),
    ] = None
    mean_away: Annotated[float | None, _of_fleet("Mean slots for which it is then away.", "SLOTS")] = None

    def given(self) -> dict[str, Any]:
        """What was said, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def refuse_beside(self, compute_slots: int | None, samples_per_slot: float | None) -> None:
        """One number for all devices and one for each do not go together.

        Raises:
            InputError: both were said.
        """
        own = "compute_distribution" if self.compute_distribution is not None else "fleet_file"
        for name, value in {"compute_slots": compute_slots, "samples_per_slot": samples_per_slot}.items():
            if value is not None and getattr(self, own) is not None:
                raise InputError(name, value, f"left out where --{own.replace('_', '-')} is given")

    def options(self, devices: int | None, usual: int, link_slots: int) -> tuple[int, FleetConfig]:
        """The number of devices and what is said about them.

        ``usual`` is how many there are if nobody says; with a file, as many as it has rows.
        """
        flags = self.given()
        path = flags.pop("fleet_file", None)
        if path is None:
            return usual if devices is None else devices, FleetConfig(**flags)
        for name in ("compute_distribution", "link_distribution", "mean_present"):
            if name in flags:
                raise InputError(name, flags[name], "left out where --fleet-file is given")
        known = {"link_slots": link_slots, **flags}
        name = "uplink_slots" if "uplink_slots" in flags else "link_slots"
        rows = options_of_file(path, link_slots=whole(name, known[name]), devices=devices)
        return rows.pop("devices"), FleetConfig(**{**flags, **rows})
