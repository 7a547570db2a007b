"""Checks of the numbers that several rules have."""

from __future__ import annotations

from slotwise.errors import InputError
from slotwise.scenario import LARGEST_NUMBER


def check_positive(name: str, value: float) -> None:
    """Refuse a number that is not above 0, or so large that its square may overflow."""
    if not 0 < value <= LARGEST_NUMBER:
        raise InputError(name, value, f"a number above 0 and at most {LARGEST_NUMBER:g}")


def check_decay(name: str, value: float) -> None:
    """Refuse a decay that is not from 0 to below 1."""
    if not 0 <= value < 1:
        raise InputError(name, value, "a number from 0 to below 1")
