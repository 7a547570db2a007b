"""OwnerIds: numbers for the natural owners of samples, such as writers, whose ids are text."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray


class OwnerIds:
    """Collects the owner of one sample after the other."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self._parts: list[NDArray[np.int64]] = []

    def add(self, ids: Iterable[str]) -> None:
        """Append the owners of some samples."""
        known = self._known
        self._parts.append(np.array([known.setdefault(str(owner), len(known)) for owner in ids], np.int64))

    def numbers(self) -> NDArray[np.int32]:
        """Return the number of each sample's owner, from 0 in the alphabetical order of the ids."""
        rank = np.empty(len(self._known), np.int32)
        rank[[self._known[owner] for owner in sorted(self._known)]] = np.arange(len(self._known))
        return rank[np.concatenate(self._parts)]


def position_and_count(owners: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return for each sample its position among the samples of its owner, and how many there are."""
    order = np.argsort(owners, kind="stable")
    counts = np.bincount(owners)
    position = np.empty(len(owners), np.int64)
    position[order] = np.arange(len(owners)) - np.repeat(counts.cumsum() - counts, counts)
    return position, counts[owners]
