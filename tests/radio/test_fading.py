"""Fading: gains by number, and the distributions they have.

Statistical tests use fixed seeds and accept five standard errors of the estimate.
"""

from math import log10, sqrt

import numpy as np
import pytest

from slotwise.base.random_streams import SchedulePurpose, chance, device_states, mixed_all, units
from slotwise.radio import Nakagami, NoFading, Rayleigh, Rician

DRAWS = 400_000


def states(seed=1, devices=400, blocks=DRAWS // 400):
    numbers = np.arange(blocks, dtype=np.uint64)[:, None]
    return mixed_all(device_states(seed, SchedulePurpose.FADING, devices)[None, :], numbers)


def kolmogorov_distance(samples, distribution):
    ordered = np.sort(samples.ravel())
    expected = distribution(ordered)
    steps = np.arange(1, len(ordered) + 1) / len(ordered)
    return max(np.abs(steps - expected).max(), np.abs(steps - 1 / len(ordered) - expected).max())


def test_gains_are_those_of_chance_by_seed_and_block():
    drawn = units(states(7, 5, 4))
    for block in range(4):
        for device in range(1, 6):
            assert drawn[block, device - 1] == chance(7, SchedulePurpose.FADING, device, block)
    first, again, other = (Nakagami(m=2.5).gains(states(seed, 10, 10)) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.isclose(first, other).any()
    whole = Rician(k_db=3.0).gains(states(3, 6, 50))
    block = mixed_all(device_states(3, SchedulePurpose.FADING, 6), 49)
    assert np.array_equal(Rician(k_db=3.0).gains(block), whole[49])


@pytest.mark.parametrize(
    ("fading", "variance"),
    [
        (NoFading(), 0.0),
        (Rayleigh(), 1.0),
        (Rician(k_db=10 * log10(4)), (1 + 2 * 4) / 5**2),
        (Nakagami(m=0.5), 2.0),
        (Nakagami(m=1.0), 1.0),
        (Nakagami(m=3.0), 1 / 3),
    ],
    ids=["none", "rayleigh", "rician", "nakagami-half", "nakagami-1", "nakagami-3"],
)
def test_mean_gain_is_one_and_the_variance_is_the_textbooks(fading, variance):
    gains = fading.gains(states())
    error = gains.std() / sqrt(DRAWS)
    assert abs(gains.mean() - 1) <= 5 * error
    spread = ((gains - 1) ** 2).std() / sqrt(DRAWS)
    assert abs(gains.var() - variance) <= 5 * spread + 1e-12


@pytest.mark.parametrize(
    "fading", [Rayleigh(), Nakagami(m=1.0), Rician(k_db=-100)], ids=lambda f: type(f).__name__
)
def test_rayleigh_nakagami_1_and_rician_0_are_exponential(fading):
    # P(distance > 1.95/sqrt(n)) = 0.1 % for the right distribution (Kolmogorov).
    distance = kolmogorov_distance(fading.gains(states()), lambda gain: 1 - np.exp(-gain))
    assert distance < 1.95 / sqrt(DRAWS)


def test_nakagami_of_two_is_the_mean_of_two_exponentials():
    def erlang(gain):
        return 1 - np.exp(-2 * gain) * (1 + 2 * gain)

    assert kolmogorov_distance(Nakagami(m=2.0).gains(states()), erlang) < 1.95 / sqrt(DRAWS)


@pytest.mark.parametrize("mean_db", [-10, 0, 10, 30])
def test_mean_shannon_rate_equals_its_integral(mean_db):
    mean, gain = 10 ** (mean_db / 10), np.linspace(0, 50, 1_000_001)
    expected = np.trapezoid(np.log2(1 + mean * gain) * np.exp(-gain), gain)
    rates = np.log2(1 + mean * Rayleigh().gains(states()))
    assert abs(rates.mean() - expected) <= 5 * rates.std() / sqrt(DRAWS)
