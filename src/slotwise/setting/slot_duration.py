"""The duration of a slot, which CPU, radio and powers may each say: they must agree, and one is enough."""

from __future__ import annotations

from typing import NamedTuple

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
    length = _slot_length(config)
    return powers.in_slots_of(length.slot_ms, length.option, stated=check and length.stated)


def slot_seconds_of_run(config: Setting, given: float | None = None) -> float | None:
    """Return the seconds of a slot of a run, or those ``given``; None if neither says them.

    Raises:
        InputError: the run says another duration than is given.
    """
    length, powers = _slot_length(config), Powers(computing=0, sending=0, receiving=0, slot_seconds=given)
    if length.slot_ms is None:
        return given
    return powers.in_slots_of(length.slot_ms, length.option, stated=length.stated).slot_seconds


class _SlotLength(NamedTuple):
    """The option that says how long a slot is, its milliseconds, and whether anything but joules needs it."""

    option: str
    slot_ms: float | None
    stated: bool


def _slot_length(config: Setting) -> _SlotLength:
    link = config.link
    # Where only joules depend on radio_slot_ms, its default is no statement of the user.
    has_slot = isinstance(link, RadioOptions) and link.needs_slot
    stated = has_slot or config.slot_ms is not None
    if isinstance(link, RadioOptions) and (has_slot or config.slot_ms is None):
        return _SlotLength("radio_slot_ms", link.slot_ms, stated)
    return _SlotLength("cpu_slot_ms", config.slot_ms, stated)
