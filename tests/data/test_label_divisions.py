"""Divisions of all samples by label: shards, k labels of which each is with somebody, Dirichlet per class."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotwise.base.errors import InputError
from slotwise.data import dirichlet_per_class, pathological, shards

Rows = tuple[np.ndarray, ...]
seeds = st.integers(0, 2**32 - 1)


def draw(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def labels_of(*counts: int) -> np.ndarray:
    """So many of label 0, 1, …, in no order."""
    labels = np.repeat(np.arange(len(counts), dtype=np.uint8), counts)
    return draw(1).permutation(labels)


def histogram(labels: np.ndarray, rows: Rows) -> np.ndarray:
    return np.stack([np.bincount(labels[own], minlength=labels.max() + 1) for own in rows])


def is_divided(rows: Rows, used: int) -> bool:
    """Whether nobody shares a sample, and so many are used."""
    everything = np.concatenate(rows)
    return len(np.unique(everything)) == len(everything) == used


@given(devices=st.integers(1, 20), each=st.integers(1, 4), seed=seeds)
def test_shards_are_equal_pieces_of_the_samples_sorted_by_label(devices: int, each: int, seed: int) -> None:
    labels = labels_of(50, 30, 40, 41)
    rows = shards(labels, devices, draw(seed), each)
    size = len(labels) // (devices * each)
    assert [len(own) for own in rows] == [each * size] * devices
    assert is_divided(rows, devices * each * size)
    order = np.argsort(labels, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    for own in rows:
        starts = place[own].reshape(each, size)
        assert (starts[:, :1] % size == 0).all()
        assert (np.diff(starts, axis=1) == 1).all()


def test_two_shards_for_each_of_100_devices_are_those_of_mcmahan() -> None:
    labels = labels_of(*[6000] * 10)
    rows = shards(labels, 100, draw())
    assert {len(own) for own in rows} == {600}
    counts = histogram(labels, rows)
    assert set(np.unique(counts)) <= {0, 300, 600}
    assert is_divided(rows, 60_000)


@given(devices=st.integers(1, 30), each=st.integers(1, 5), seed=seeds)
def test_every_label_is_with_somebody(devices: int, each: int, seed: int) -> None:
    labels = labels_of(31, 40, 50, 33, 60)
    if devices * each < 5:
        with pytest.raises(InputError, match="labels_per_device"):
            pathological(labels, devices, draw(seed), each)
        return
    rows = pathological(labels, devices, draw(seed), each)
    counts = histogram(labels, rows)
    assert ((counts > 0).sum(axis=1) == each).all()
    assert (counts.sum(axis=0) == np.bincount(labels)).all()
    assert is_divided(rows, len(labels))
    held = [column[column > 0] for column in counts.T]
    assert all(column.max() - column.min() <= 1 for column in held)
    if devices >= 5:
        assert (counts[np.arange(devices), np.arange(devices) % 5] > 0).all()


@given(devices=st.integers(1, 10), balance=st.booleans(), seed=seeds)
def test_dirichlet_per_class_uses_all_samples(devices: int, balance: bool, seed: int) -> None:
    labels = labels_of(100, 200, 150)
    rows = dirichlet_per_class(labels, devices, draw(seed), 0.5, 3, self_balancing=balance)
    assert is_divided(rows, len(labels))
    assert min(map(len, rows)) >= 3


def test_self_balancing_makes_sizes_less_unequal() -> None:
    labels = labels_of(*[500] * 10)
    spread = {}
    for balance in (False, True):
        sizes = [
            [len(own) for own in dirichlet_per_class(labels, 10, draw(seed), 0.1, 1, self_balancing=balance)]
            for seed in range(20)
        ]
        spread[balance] = np.std(sizes, axis=1).mean()
    assert spread[True] < 0.8 * spread[False]


def test_proportions_of_a_label_follow_the_dirichlet_distribution() -> None:
    labels, devices, concentration = labels_of(1000, 1000), 5, 0.8
    rows = [dirichlet_per_class(labels, devices, draw(seed), concentration, 1) for seed in range(400)]
    shares = np.stack([histogram(labels, own) for own in rows]) / 1000
    variance = (1 / devices) * (1 - 1 / devices) / (devices * concentration + 1)
    assert np.allclose(shares.mean(axis=0), 1 / devices, atol=0.03)
    assert np.allclose(shares.var(axis=0), variance, rtol=0.25)


per_class = functools.partial(dirichlet_per_class, min_samples=2)
REFUSED: dict[str, tuple[Callable[..., Rows], dict[str, Any], str]] = {
    "shards_per_device": (shards, {"devices": 4, "shards_per_device": 6}, "at most 5"),
    "devices": (shards, {"devices": 21}, "at most 20, the number of samples"),
    "labels_per_device": (pathological, {"devices": 3, "labels_per_device": 3}, "from 1 to 2"),
    "few labels": (pathological, {"devices": 1, "labels_per_device": 1}, "at least 2, so that 1 devices"),
    "few samples": (pathological, {"devices": 15}, "15 of them would share the 10 samples of label 0"),
    "min_samples": (dirichlet_per_class, {"devices": 5, "concentration": 1.0, "min_samples": 5}, "at most 4"),
    "concentration": (per_class, {"devices": 10, "concentration": 0.01}, "larger, or min_samples"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_the_data_is_refused(case: str) -> None:
    divide, options, allowed = REFUSED[case]
    with pytest.raises(InputError, match=allowed):
        divide(labels_of(10, 10), generator=draw(), **options)
