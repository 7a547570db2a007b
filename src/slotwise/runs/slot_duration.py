"""The duration of a slot, which CPU, radio and powers may each say: they must agree, and one is enough."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from slotwise.costs import Powers
from slotwise.errors import InputError
from slotwise.radio import LINKS, RadioOptions
from slotwise.radio.rates import USUAL_SLOT_MS

if TYPE_CHECKING:
    from slotwise.runs.config import RunConfig


def shared_slot_ms(options: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``cpu_slot_ms`` and ``radio_slot_ms`` if a run has both a CPU and a radio link.

    ``options`` are those that were given, ``chosen`` has defaults as well.

    Raises:
        InputError: both are given, and they differ.
    """
    has_slot = link_has_slot(chosen)
    if options.get("cycles_per_sample") is None or not has_slot:
        return {}
    cpu, radio = options.get("cpu_slot_ms"), options.get("radio_slot_ms")
    refuse_other_slot_ms(cpu, radio)
    if cpu is None:
        cpu = chosen.get("radio_slot_ms", USUAL_SLOT_MS)
    return {"cpu_slot_ms": cpu, "radio_slot_ms": cpu}


def link_has_slot(options: Mapping[str, Any]) -> bool:
    """Return whether uplinks of the link in a table of options depend on the duration of a slot."""
    link = options.get("radio_link")
    return link is not None and link in LINKS and options.get("radio_threshold_db") is None


def refuse_other_slot_ms(cpu: float | None, radio: float | None) -> None:
    """Raise an InputError if the slots of a CPU and of a radio are both known, and differ."""
    if cpu is not None and radio is not None and cpu != radio:
        raise InputError("cpu_slot_ms", cpu, f"{radio}, like radio_slot_ms, or omitted")


def powers_of_run(powers: Powers, config: RunConfig, *, check: bool = True) -> Powers:
    """Return powers with the duration of a slot of a run: that of its radio link, or else of its CPU.

    Without ``check``, powers that say another duration keep it, as in folders of earlier versions.

    Raises:
        InputError: the powers say another duration than the run.
    """
    link, name, slot_ms = config.link, "cpu_slot_ms", config.slot_ms
    has_slot = isinstance(link, RadioOptions) and link.needs_slot
    if isinstance(link, RadioOptions) and (has_slot or slot_ms is None):
        name, slot_ms = "radio_slot_ms", link.slot_ms
    # Where only joules depend on radio_slot_ms, its default is no statement of the user.
    stated = check and (has_slot or config.slot_ms is not None)
    return powers.in_slots_of(slot_ms, name, stated=stated)
