"""Closed forms of a fading link: probability of outage, and mean rate.

The tests and benchmarks/radio_studies.py compare simulations with them.
"""

from __future__ import annotations

from math import exp, log

import numpy as np

from slotwise.fleet.chances import Floats

EULER = 0.5772156649015329


def rayleigh_outage(threshold: float, mean_snr: Floats) -> Floats:
    """Return P(SNR < γ) = 1 − exp(−γ / mean) under Rayleigh fading (Tse and Viswanath, 2005, eq. 5.54)."""
    return -np.expm1(-threshold / mean_snr)


def rayleigh_rate(mean_snr: float, gap: float = 1.0) -> float:
    """Return the mean of log2(1 + SNR/Γ) under Rayleigh fading: exp(1/m) E1(1/m) / ln 2 with m = mean/Γ.

    Lee, Estimate of channel capacity in Rayleigh fading environment, IEEE Trans. Veh. Technol. 39, 1990.
    """
    return scaled_exponential_integral(gap / mean_snr) / log(2)


def scaled_exponential_integral(x: float) -> float:
    """Return exp(x) E1(x) for x > 0.

    Up to 1 by the series of Abramowitz and Stegun, 5.1.11; above, by the continued fraction 5.1.22, evaluated
    from its end.
    """
    if x <= 1:
        total, term = -EULER - log(x), 1.0
        # Term n is at most 1/(n·n!): those left out are far below rounding errors.
        for n in range(1, 40):
            term *= -x / n
            total -= term / n
        return exp(x) * total
    fraction = 0.0
    for n in range(200, 0, -1):
        fraction = n / (1 + n / (x + fraction))
    return 1 / (x + fraction)
