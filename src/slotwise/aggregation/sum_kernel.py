"""Weighted sums of updates in compiled code, to the bits of numpy."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True, nogil=True)
def add_scaled(total: NDArray[np.float64], weight: float, vector: NDArray[np.floating]) -> None:
    """total += weight * vector, in double precision."""
    for number in range(total.size):
        total[number] += weight * np.float64(vector[number])


@njit(cache=True, nogil=True)
def subtract_mean(
    model: NDArray[np.float32], total: NDArray[np.float64], count: int, new: NDArray[np.float32]
) -> None:
    """new = model - total / count, rounded once."""
    for number in range(new.size):
        new[number] = np.float32(np.float64(model[number]) - total[number] / count)
