"""Global random generators seeded for one call of a user's function, and restored after it."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from slotwise.learning.randomness import Purpose, generator


def seed_of(seed: int, purpose: Purpose, device: int, training: int = 0) -> int:
    """Return the seed of the global generators for one call: a function of its arguments."""
    return int(generator(seed, purpose, device, training).integers(2**32))


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the generators of `random`, numpy and torch; restore them at the end, with torch's threads.

    Torch computes with one thread meanwhile: sums over several threads have other last bits.
    """
    torch: Any = sys.modules.get("torch")
    # numpy's global generator is what the user's function may use.
    before: Any = np.random.get_state()
    python = random.getstate()
    random.seed(seed)
    np.random.seed(seed)
    if torch is None:
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(before)
        return
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    torch.set_num_threads(1)
    # Not torch.manual_seed: it also notes the seed for GPUs, with a stack trace, which takes long.
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(before)
        torch.set_rng_state(state)
        torch.set_num_threads(threads)
