"""Rounds of random updates for the tests of rules."""

import numpy as np
from hypothesis import strategies as st

from slotwise.aggregation import Contribution, Vector

SIZE = 3
MODEL = np.zeros(SIZE, dtype=np.float32)
vectors = st.lists(st.floats(-1e6, 1e6, width=32), min_size=SIZE, max_size=SIZE).map(
    lambda numbers: np.array(numbers, dtype=np.float32)
)
rounds = st.lists(vectors, min_size=1, max_size=9)


def arrived(updates: list[Vector], samples: list[int] | None = None) -> list[Contribution]:
    """Fresh updates of devices 1, 2, …"""
    counts = samples or [1] * len(updates)
    return [Contribution(u, 0, MODEL, n, 0, counts[n - 1]) for n, u in enumerate(updates, start=1)]
