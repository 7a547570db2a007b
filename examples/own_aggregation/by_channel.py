"""By channel: weigh each update by the rate that its channel would have carried."""

from collections.abc import Sequence

import numpy as np

from slotwise.aggregation import Contribution, Vector


def by_channel(model: Vector, contributions: Sequence[Contribution]) -> Vector:
    """Return w_{k+1} with weights log2(1 + SNR) of the slots in which the uplinks started."""
    rates = np.array([np.log2(1 + 10 ** (sent.uplink.snr_db / 10)) for sent in contributions])
    updates = np.array([sent.update for sent in contributions], dtype=np.float64)
    return (model - rates @ updates / rates.sum()).astype(np.float32)
