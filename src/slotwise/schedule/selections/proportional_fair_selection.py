"""Proportional fair: the highest rate relative to what a device has sent (Viswanath, Tse and Laroia, 2002).

The rate is Shannon's, log2(1 + SNR). All updates have the same number of bits, so the average throughput of a
device is proportional to the number of its updates that have arrived: the window of the average is the whole
run.
"""

from collections.abc import Sequence
from math import log2

import numpy as np

from slotwise.schedule.link import Floats
from slotwise.schedule.selection import Waiting

BITS_PER_DECIBEL = log2(10) / 10  # 10^(x/10) = 2^(x·this), which is computed ten times as fast


def proportional_fair(waiting: Sequence[Waiting], round_number: int, last_sender: int) -> Waiting:  # noqa: ARG001
    """Choose the largest log2(1 + SNR) / (1 + updates arrived); ties go to the lower index."""
    rates = spectral_efficiency(np.array([update.snr_db for update in waiting])).tolist()
    # A product with the reciprocal, as in `fading_kernel.choose`: a quotient may round differently.
    shares = [-rate * (1 / (1 + update.arrived)) for rate, update in zip(rates, waiting, strict=True)]
    return min(zip(shares, waiting, strict=True), key=lambda pair: (pair[0], pair[1].device))[1]


def spectral_efficiency(snr_db: Floats) -> Floats:
    """Return log2(1 + SNR) of SNRs in dB."""
    efficiency: Floats = np.log2(1.0 + np.exp2(snr_db * BITS_PER_DECIBEL))
    return efficiency
