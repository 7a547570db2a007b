"""Chance as a function: the same numbers for the same question, in whatever order it is asked."""

from __future__ import annotations

_MASK = 2**64 - 1


def chance(*key: int) -> float:
    """A number in [0, 1) for ``key``, by the finaliser of SplitMix64 (Steele, Lea and Flood, 2014)."""
    state = 0
    for part in key:
        state = (state + part + 0x9E3779B97F4A7C15) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        state ^= state >> 31
    return (state >> 11) * 2.0**-53
