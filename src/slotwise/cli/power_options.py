"""What a slot costs a device: the options of every command that counts joules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from slotwise.costs import Powers
from slotwise.errors import InputError

ENERGY = "Energy"
REQUIRED = ("power_computing", "power_sending", "power_receiving")


def _of_energy(text: str, metavar: str = "WATTS", default: str | None = None) -> Any:
    return typer.Option(help=text, metavar=metavar, rich_help_panel=ENERGY, show_default=default or False)


@dataclass(frozen=True)
class PowerOptions:
    """All of the three that are needed, or none: without them there are slots and no joules."""

    power_computing: Annotated[float | None, _of_energy("Of a device while it trains.")] = None
    power_sending: Annotated[float | None, _of_energy("While it sends, in vain or not.")] = None
    power_receiving: Annotated[float | None, _of_energy("While it receives a model.")] = None
    power_idle: Annotated[float | None, _of_energy("While it waits.", default="0")] = None
    slot_seconds: Annotated[float | None, _of_energy("Of one slot.", "SECONDS", "1")] = None

    def powers(self) -> Powers | None:
        """What they say, or None if they say nothing.

        Raises:
            InputError: one is missing or out of its range.
        """
        given = {name: value for name, value in vars(self).items() if value is not None}
        if not given:
            return None
        for name in REQUIRED:
            if name not in given:
                other = next(iter(given)).replace("_", "-")
                raise InputError(name, "missing", f"given, in watts, where --{other} is")
        try:
            return Powers(**{name.removeprefix("power_"): value for name, value in given.items()})
        except InputError as error:
            name = error.parameter if error.parameter in given else f"power_{error.parameter}"
            raise InputError(name, error.value, error.allowed) from None
