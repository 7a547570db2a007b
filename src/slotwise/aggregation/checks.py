"""Checks of the numbers that several rules have."""

from __future__ import annotations

from math import inf

from slotwise.errors import InputError


def check_positive(name: str, value: float) -> None:
    """Refuse a number that is not finite and above 0."""
    if not 0 < value < inf:
        raise InputError(name, value, "a finite number above 0")


def check_decay(name: str, value: float) -> None:
    """Refuse a decay that is not from 0 to below 1."""
    if not 0 <= value < 1:
        raise InputError(name, value, "a number from 0 to below 1")
