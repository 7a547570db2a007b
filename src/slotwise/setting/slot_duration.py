"""The duration of a slot, which CPU, radio and powers may each say: they must agree, and one is enough."""

from __future__ import annotations

from slotwise.radio import RadioOptions
from slotwise.schedule.costs import Powers
from slotwise.setting import Setting


def known_slot_seconds(config: Setting, powers: Powers | None = None) -> float | None:
    """Return the seconds of a slot that a radio link, a CPU or powers say; None if none of them does."""
    if isinstance(config.link, RadioOptions) and config.link.needs_slot:
        return config.link.slot_ms / 1000
    if config.slot_ms is not None:
        return config.slot_ms / 1000
    return None if powers is None else powers.slot_seconds


def powers_of_run(powers: Powers, config: Setting, *, check: bool = True) -> Powers:
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
