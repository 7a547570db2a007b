"""Random numbers as a function of purpose, device and training: counter-based generators.

Nothing is drawn from a shared stream, so results do not depend on the order of the draws, and a checkpoint
need not save any generator state.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slotwise.base.random_streams import Purpose
from slotwise.options.checks import LARGEST_SEED

__all__ = ["LARGEST_SEED", "Purpose", "draw_batches", "draw_order", "generator"]


def generator(
    seed: int, purpose: Purpose, device: int = 0, training: int = 0, epoch: int = 0
) -> np.random.Generator:
    """Return the generator of one purpose, device, training and epoch: Philox with the key (seed, purpose).

    Epoch, device and training are three of the four numbers of its counter; the first counts the draws.
    """
    key = np.array([seed, purpose], dtype=np.uint64)  # a list would become floats from 2**63 on
    return np.random.Generator(np.random.Philox(key=key, counter=[0, epoch, device, training]))


def draw_batches(
    seed: int, device: int, training: int, samples: int, steps: int, batch_size: int
) -> NDArray[np.int64]:
    """Return the mini-batches of one local training as positions [steps, batch], without replacement.

    A device with fewer samples than the batch size uses all of them in every step.
    """
    draw = generator(seed, Purpose.BATCHES, device, training)
    orders = draw.permuted(np.tile(np.arange(samples), (steps, 1)), axis=1)
    return orders[:, : min(batch_size, samples)]


def draw_order(seed: int, device: int, training: int, epoch: int, samples: int) -> NDArray[np.int64]:
    """Return the order in which a device uses its samples in one epoch of a local training."""
    return generator(seed, Purpose.BATCHES, device, training, epoch).permuted(np.arange(samples))
