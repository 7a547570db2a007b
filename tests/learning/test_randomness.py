import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotwise.learning.randomness import LARGEST_SEED, Purpose, draw_batches, generator

seeds = st.integers(0, LARGEST_SEED)
devices = st.integers(1, 2**31)
trainings = st.integers(0, 2**31)


def numbers(seed: int, purpose: Purpose, device: int = 0, training: int = 0) -> list[int]:
    drawn: list[int] = generator(seed, purpose, device, training).integers(0, 2**62, 4).tolist()
    return drawn


@given(seeds, devices, trainings)
def test_batches_depend_on_seed_device_and_training_alone(seed: int, device: int, training: int) -> None:
    first = draw_batches(seed, device, training, 50, 3, 8)
    draw_batches(seed, device, training + 1, 50, 3, 8)  # nothing is taken from a shared stream
    assert np.array_equal(first, draw_batches(seed, device, training, 50, 3, 8))


@given(seeds, st.integers(1, 40), st.integers(1, 4), st.integers(1, 60))
def test_a_batch_holds_no_sample_twice(seed: int, samples: int, steps: int, batch_size: int) -> None:
    batches = draw_batches(seed, 1, 0, samples, steps, batch_size)
    assert batches.shape == (steps, min(batch_size, samples))
    for batch in batches.tolist():
        assert len(set(batch)) == len(batch)
        assert set(batch) <= set(range(samples))


def test_every_sample_is_drawn_about_equally_often_and_few_in_every_step() -> None:
    batches = draw_batches(0, 1, 0, samples=5, steps=3, batch_size=64)
    assert [sorted(batch) for batch in batches.tolist()] == [[0, 1, 2, 3, 4]] * 3
    drawn = np.concatenate([draw_batches(0, 1, k, 20, 5, 4).ravel() for k in range(400)])
    counts = np.bincount(drawn, minlength=20)  # 400 each on average, deviation about 18
    assert counts.min() > 310
    assert counts.max() < 490


@given(seeds, devices, trainings)
def test_another_device_training_or_seed_draws_other_numbers(seed: int, device: int, training: int) -> None:
    drawn = [
        numbers(seed, Purpose.BATCHES, device, training),
        numbers(seed, Purpose.BATCHES, device + 1, training),
        numbers(seed, Purpose.BATCHES, device, training + 1),
        numbers(seed ^ 1, Purpose.BATCHES, device, training),
    ]
    assert len({tuple(row) for row in drawn}) == 4


@given(seeds)
def test_purposes_never_share_numbers(seed: int) -> None:
    assert len({tuple(numbers(seed, purpose)) for purpose in Purpose}) == len(Purpose)


@pytest.mark.parametrize("seed", [2**63, 2**63 + 1, LARGEST_SEED - 1, LARGEST_SEED])
def test_large_seeds_keep_their_low_bits(seed: int) -> None:
    others = {0, 2**63, 2**63 + 1, LARGEST_SEED - 1, LARGEST_SEED} - {seed}
    assert all(numbers(seed, Purpose.MODEL) != numbers(other, Purpose.MODEL) for other in others)


def test_the_numbers_are_the_ones_of_earlier_versions() -> None:
    # A change here changes every result ever published with a seed.
    assert draw_batches(0, 1, 0, 10, 2, 3).tolist() == [[0, 4, 8], [5, 0, 4]]
