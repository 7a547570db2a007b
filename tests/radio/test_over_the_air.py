"""Over-the-air sums against one line of numpy, and truncated inversion against the exponential's tail."""

from typing import Any

import numpy as np
import pytest

from slotwise.radio.channel import ModelConditions
from slotwise.radio.fading import Rayleigh
from slotwise.radio.over_the_air import Signal, amplitudes, noise_of, outage, superpose, symbols_of


def aligned(devices: int, numbers: int) -> Signal:
    return Signal(np.ones((devices, 1)), [-(-numbers // 2)], np.zeros(devices))


def updates_of(devices: int, numbers: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(devices, numbers)).astype(np.float32)


@pytest.mark.parametrize("numbers", [1, 2, 7, 1000])
@pytest.mark.parametrize("devices", [1, 3, 20])
def test_an_aligned_sum_is_the_mean_and_scaled_noise(devices: int, numbers: int) -> None:
    updates, target = updates_of(devices, numbers), 8.0
    noise = noise_of(np.random.default_rng(1), numbers)
    found = superpose(list(updates), aligned(devices, numbers), noise, target)
    exact = updates.astype(np.float64)
    scale = np.sqrt((exact**2).sum(axis=1).max() / -(-numbers // 2))
    expected = (exact.sum(axis=0) + noise.view(np.float64)[:numbers] * scale / np.sqrt(target)) / devices
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_amplitudes_and_phases_turn_each_signal_in_its_pieces() -> None:
    updates = updates_of(4, 10)
    levels = np.random.default_rng(2).uniform(0.2, 1, size=(4, 3))
    signal = Signal(levels, [1, 4, 5], np.array([0.0, 0.3, -1.0, 2.0]))
    found = superpose(list(updates), signal, np.zeros(5, dtype=np.complex128), 4.0)
    symbols = updates[:, ::2].astype(np.float64) + 1j * updates[:, 1::2]
    expected = (levels[:, [0, 1, 1, 1, 2]] * np.exp(1j * signal.phases)[:, None] * symbols).sum(axis=0) / 4
    assert found == pytest.approx(expected.view(np.float64), rel=1e-12)


def test_the_received_snr_of_the_largest_update_is_the_target() -> None:
    numbers, target = 200_000, 10.0
    update = updates_of(1, numbers)
    noise = noise_of(np.random.default_rng(3), numbers)
    found = superpose(list(update), aligned(1, numbers), noise, target)
    disturbed = found - update[0]
    assert np.mean(update[0] ** 2) / np.mean(disturbed**2) == pytest.approx(target, rel=0.02)


@pytest.mark.parametrize("target", [0.1, 1.0, 10.0])
def test_a_device_never_needs_more_than_its_power(target: float) -> None:
    snr = np.random.default_rng(4).exponential(5.0, size=10_000)
    level = amplitudes(snr, target)
    power = level**2 * target / snr  # share of the power that the level takes
    assert power.max() <= 1 + 1e-12
    assert (level[snr >= target] == 1).all()
    assert power[snr < target] == pytest.approx(np.ones((snr < target).sum()))


@pytest.mark.parametrize("target_db", [-5.0, 0.0, 5.0])
def test_as_many_devices_are_left_out_as_the_tail_of_the_exponential_says(target_db: float) -> None:
    mean_db = np.array([-3.0, 0.0, 4.0, 10.0])
    target, blocks = 10 ** (target_db / 10), 40_000
    snr = ModelConditions(mean_db, Rayleigh(), 7).snr(0, blocks)
    share = (snr < target).mean(axis=0)
    expected = outage(10 ** (mean_db / 10), target)
    spread = np.sqrt(expected * (1 - expected) / blocks)
    assert (np.abs(share - expected) < 5 * spread + 1e-12).all()


def test_an_update_takes_a_symbol_for_two_numbers() -> None:
    assert [symbols_of(32 * numbers) for numbers in (1, 2, 3, 21_840)] == [1, 1, 2, 10_920]
