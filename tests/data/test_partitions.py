import functools
import hashlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotwise.base.errors import InputError
from slotwise.data import DataError, Dataset, label_divisions, load_mnist, natural, skewed_sizes
from slotwise.learning.randomness import Purpose, generator

Partition = Callable[[np.ndarray, int, int, np.random.Generator], np.ndarray]


def stacked(partition: Callable[..., tuple[np.ndarray, ...]]) -> Callable[..., np.ndarray]:
    """The rows of devices that hold equally many samples, [devices, samples]."""

    @functools.wraps(partition)
    def call(*arguments: Any, **more: Any) -> np.ndarray:
        return np.stack(partition(*arguments, **more))

    return call


one_label, k_labels = stacked(label_divisions.one_label), stacked(label_divisions.k_labels)
dirichlet, iid = stacked(label_divisions.dirichlet), stacked(label_divisions.iid)


def two_labels(labels: np.ndarray, devices: int, samples: int, generator: np.random.Generator) -> np.ndarray:
    return k_labels(labels, devices, samples, generator, labels_per_device=2)


def mixed(labels: np.ndarray, devices: int, samples: int, generator: np.random.Generator) -> np.ndarray:
    return dirichlet(labels, devices, samples, generator, concentration=0.5)


ALL = [one_label, two_labels, mixed, iid]
every_partition = pytest.mark.parametrize("partition", ALL)
seeds = st.integers(0, 2**32 - 1)


def shuffled_labels(classes: int, per_class: int, seed: int = 0) -> np.ndarray:
    """Equally many of each class, in no order."""
    labels = np.repeat(np.arange(classes, dtype=np.uint8), per_class)
    return np.random.default_rng(seed).permutation(labels)


@every_partition
@given(devices=st.integers(1, 30), samples=st.integers(2, 12), seed=seeds)
def test_each_device_gets_exactly_what_was_asked(
    partition: Partition, devices: int, samples: int, seed: int
) -> None:
    labels = shuffled_labels(4, 12)
    rows = partition(labels, devices, samples, np.random.default_rng(seed))
    assert rows.shape == (devices, samples)
    assert rows.dtype == np.int32
    assert rows.min() >= 0
    assert rows.max() < len(labels)


@every_partition
@given(devices=st.integers(1, 30), samples=st.integers(2, 12), seed=seeds)
def test_no_device_holds_a_sample_twice(partition: Partition, devices: int, samples: int, seed: int) -> None:
    rows = partition(shuffled_labels(4, 12), devices, samples, np.random.default_rng(seed))
    assert all(len(set(row)) == samples for row in rows.tolist())


@every_partition
@given(devices=st.integers(1, 8), samples=st.integers(2, 6), seed=seeds)
def test_devices_share_nothing_while_the_data_lasts(
    partition: Partition, devices: int, samples: int, seed: int
) -> None:
    labels = shuffled_labels(4, devices * samples)
    rows = partition(labels, devices, samples, np.random.default_rng(seed))
    assert len(np.unique(rows)) == devices * samples


@every_partition
@given(devices=st.integers(1, 20), seed=seeds)
def test_the_same_generator_gives_the_same_rows(partition: Partition, devices: int, seed: int) -> None:
    labels = shuffled_labels(4, 12)
    first = partition(labels, devices, 6, np.random.default_rng(seed))
    np.testing.assert_array_equal(first, partition(labels, devices, 6, np.random.default_rng(seed)))


@every_partition
def test_another_generator_gives_other_rows(partition: Partition) -> None:
    labels = shuffled_labels(10, 100)
    first = partition(labels, 10, 20, np.random.default_rng(0))
    assert (first != partition(labels, 10, 20, np.random.default_rng(1))).any()


@every_partition
def test_labels_are_left_as_they_were(partition: Partition) -> None:
    labels = shuffled_labels(4, 12)
    labels.flags.writeable = False
    partition(labels, 5, 6, np.random.default_rng(0))


@given(devices=st.integers(1, 40), samples=st.integers(1, 12), seed=seeds)
def test_one_label_gives_each_device_one_label(devices: int, samples: int, seed: int) -> None:
    labels = shuffled_labels(4, 12)
    held = labels[one_label(labels, devices, samples, np.random.default_rng(seed))]
    assert (held == held[:, :1]).all()


@given(devices=st.integers(1, 60), samples=st.integers(1, 12), seed=seeds)
def test_a_sample_is_shared_only_as_often_as_its_label_ran_out(devices: int, samples: int, seed: int) -> None:
    labels = shuffled_labels(3, 12)
    rows = one_label(labels, devices, samples, np.random.default_rng(seed))
    for label in range(3):
        held = rows[labels[rows[:, 0]] == label]
        passes = -(-len(held) // (12 // samples))
        assert np.bincount(held.ravel(), minlength=1).max() <= passes


def test_one_label_chooses_equally_often_shuffles_anew_and_skips_what_is_not_there() -> None:
    rows = one_label(np.zeros(100, np.uint8), 2, 100, np.random.default_rng(0))
    assert sorted(rows[0]) == sorted(rows[1])
    assert rows[0].tolist() != rows[1].tolist()
    labels = shuffled_labels(10, 50)
    chosen = labels[one_label(labels, 10_000, 1, np.random.default_rng(0))[:, 0]]
    assert np.abs(np.bincount(chosen) - 1000).max() < 150
    labels = np.repeat(np.array([3, 200], np.uint8), 20)
    chosen = labels[one_label(labels, 50, 5, np.random.default_rng(0))]
    assert set(chosen.ravel().tolist()) == {3, 200}


@given(wanted=st.integers(1, 5), samples=st.integers(5, 12), devices=st.integers(1, 20), seed=seeds)
def test_k_labels_gives_each_device_that_many_labels_evenly(
    wanted: int, samples: int, devices: int, seed: int
) -> None:
    labels = shuffled_labels(5, 12)
    rows = k_labels(labels, devices, samples, np.random.default_rng(seed), labels_per_device=wanted)
    for held in labels[rows]:
        counts = np.bincount(held)
        counts = counts[counts > 0]
        assert len(counts) == wanted
        assert counts.max() - counts.min() <= 1


def test_concentrations_lead_from_one_label_to_the_whole_mixture() -> None:
    labels = shuffled_labels(10, 100)
    rows = dirichlet(labels, 100, 50, np.random.default_rng(0), concentration=1e-3)
    most = [np.bincount(held).max() for held in labels[rows]]
    assert np.mean(most) > 49
    labels = shuffled_labels(10, 1000)
    rows = dirichlet(labels, 10, 1000, np.random.default_rng(0), concentration=1e6)
    counts = np.array([np.bincount(held, minlength=10) for held in labels[rows]])
    assert np.abs(counts - 100).max() < 50
    counts = [
        np.bincount(held, minlength=10) for held in labels[iid(labels, 10, 1000, np.random.default_rng(0))]
    ]
    assert np.abs(np.array(counts) - 100).max() < 50


@given(concentration=st.floats(1e-300, 1e300), seed=seeds)
def test_every_concentration_that_is_allowed_works(concentration: float, seed: int) -> None:
    rows = dirichlet(shuffled_labels(4, 10), 5, 10, np.random.default_rng(seed), concentration=concentration)
    assert rows.shape == (5, 10)


def test_ten_thousand_devices_take_less_than_a_second() -> None:
    labels = shuffled_labels(10, 6000)
    for partition in ALL:
        start = time.process_time()
        partition(labels, 10_000, 250, np.random.default_rng(0))
        assert time.process_time() - start < 1


@every_partition
@pytest.mark.parametrize("labels", [np.zeros(0, np.uint8), np.zeros((3, 1), np.uint8)])
def test_labels_must_be_a_list_that_is_not_empty(partition: Partition, labels: np.ndarray) -> None:
    with pytest.raises(DataError, match="must have 1 dimension and not be empty"):
        partition(labels, 1, 2, np.random.default_rng(0))


@every_partition
@pytest.mark.parametrize("devices", [0, -1])
def test_there_must_be_a_device(partition: Partition, devices: int) -> None:
    with pytest.raises(DataError, match=f"devices is {devices}, must be at least 1"):
        partition(shuffled_labels(2, 5), devices, 2, np.random.default_rng(0))


@every_partition
@pytest.mark.parametrize("samples", [0, -5])
def test_there_must_be_a_sample(partition: Partition, samples: int) -> None:
    with pytest.raises(DataError, match=f"samples_per_device is {samples}, must be at least 1"):
        partition(shuffled_labels(2, 5), 1, samples, np.random.default_rng(0))


@pytest.mark.parametrize("partition", [one_label, two_labels, mixed])
def test_a_label_with_too_few_samples_is_named(partition: Partition) -> None:
    with pytest.raises(InputError, match=r"label \d has only 5 samples"):
        partition(shuffled_labels(2, 5), 20, 12, np.random.default_rng(0))


def test_iid_cannot_give_a_device_more_than_there_is() -> None:
    with pytest.raises(InputError, match=r"samples_per_device = 11: .* only 10 samples"):
        iid(shuffled_labels(2, 5), 1, 11, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("wanted", "samples", "allowed"),
    [(0, 5, "from 1 to 3"), (4, 5, "from 1 to 3"), (3, 2, "at most 2.*samples"), (-1, 1, "from 1 to 3")],
)
def test_labels_per_device_must_be_possible(wanted: int, samples: int, allowed: str) -> None:
    with pytest.raises(InputError, match=f"labels_per_device = {wanted}: must be {allowed}"):
        k_labels(shuffled_labels(3, 5), 1, samples, np.random.default_rng(0), labels_per_device=wanted)


@pytest.mark.parametrize("concentration", [0.0, -1.0, float("nan"), float("inf")])
def test_the_concentration_must_be_positive_and_finite(concentration: float) -> None:
    with pytest.raises(DataError, match=f"concentration is {concentration}, must be a finite number above 0"):
        dirichlet(shuffled_labels(3, 5), 1, 2, np.random.default_rng(0), concentration=concentration)


@pytest.mark.parametrize(
    ("partition", "seed", "devices", "samples", "expected"),
    [
        ("one-label", 0, 100, 250, "89a060eae559a287"),
        ("one-label", 7, 7, 33, "838e1f83c17d0bd1"),
        ("k-labels", 0, 100, 250, "59ede4c7bedbb85b"),
        ("k-labels", 7, 7, 33, "56df970f511c4dc1"),
        ("dirichlet", 0, 100, 250, "be29a44637632171"),
        ("dirichlet", 7, 7, 33, "51bd39dcf3033dc9"),
        ("iid", 0, 100, 250, "0b0f297f12f8b2e7"),
        ("iid", 7, 7, 33, "e38eb10030c7818f"),
    ],
)
def test_equal_devices_hold_what_they_held_in_published_runs(
    partition: str, seed: int, devices: int, samples: int, expected: str
) -> None:
    division: dict[str, Any] = {
        "one-label": one_label,
        "k-labels": two_labels,
        "dirichlet": mixed,
        "iid": iid,
    }
    rows = division[partition](
        load_mnist().train_targets, devices, samples, generator(seed, Purpose.PARTITION)
    )
    assert hashlib.sha256(rows.tobytes()).hexdigest().startswith(expected)


UNEQUAL: list[Callable[..., tuple[np.ndarray, ...]]] = [
    label_divisions.one_label,
    functools.partial(label_divisions.k_labels, labels_per_device=2),
    functools.partial(label_divisions.dirichlet, concentration=0.5),
    label_divisions.iid,
]


@pytest.mark.parametrize("partition", UNEQUAL, ids=["one_label", "k_labels", "dirichlet", "iid"])
@given(sizes=st.lists(st.integers(1, 12), min_size=1, max_size=20).filter(lambda s: max(s) > 1), seed=seeds)
def test_devices_may_hold_different_numbers_of_samples(
    partition: Callable[..., tuple[np.ndarray, ...]], sizes: list[int], seed: int
) -> None:
    rows = partition(shuffled_labels(4, 12), len(sizes), sizes, np.random.default_rng(seed))
    assert [len(own) for own in rows] == sizes
    assert all(own.dtype == np.int32 and len(set(own.tolist())) == len(own) for own in rows)


def test_numbers_one_by_one_may_be_equal_or_below_the_labels() -> None:
    labels = shuffled_labels(4, 12)
    for partition in UNEQUAL:
        one = partition(labels, 5, 6, np.random.default_rng(0))
        listed = partition(labels, 5, [6] * 5, np.random.default_rng(0))
        np.testing.assert_array_equal(np.stack(one), np.stack(listed))
    labels = shuffled_labels(5, 12)
    few, many = label_divisions.k_labels(labels, 2, [2, 9], np.random.default_rng(0), labels_per_device=3)
    assert len(set(labels[few].tolist())) == 2
    assert len(set(labels[many].tolist())) == 3


@pytest.mark.parametrize("samples", [[3], [3, 3, 3], [1.5, 2.5]])
def test_there_must_be_one_whole_number_of_samples_for_each_device(samples: list[float]) -> None:
    with pytest.raises(DataError, match="one number for each device"):
        label_divisions.iid(shuffled_labels(2, 5), 2, samples, np.random.default_rng(0))  # type: ignore[arg-type]


@given(
    devices=st.integers(1, 200),
    mean=st.integers(1, 500),
    concentration=st.floats(1e-3, 1e6),
    seed=seeds,
)
def test_skewed_sizes_have_the_exact_total_and_nobody_is_empty(
    devices: int, mean: int, concentration: float, seed: int
) -> None:
    sizes = skewed_sizes(devices, mean, np.random.default_rng(seed), concentration)
    assert sizes.shape == (devices,)
    assert sizes.sum() == devices * mean
    assert sizes.min() >= 1


def test_a_smaller_concentration_is_more_unequal() -> None:
    spread = [
        skewed_sizes(100, 250, np.random.default_rng(0), concentration).std()
        for concentration in (1e6, 10, 1, 0.1)
    ]
    assert spread == sorted(spread)
    assert spread[0] < 2


def owned(counts: list[int]) -> Dataset:
    """A data set whose owner k has ``counts[k]`` samples, in no order."""
    owners = np.random.default_rng(0).permutation(np.repeat(np.arange(len(counts)), counts))
    inputs, targets = np.zeros((len(owners), 2), np.float32), np.zeros(len(owners), np.int64)
    return Dataset("owned", inputs, targets, inputs, targets, classes=2, owners=owners)


def test_each_owner_is_a_device_or_the_seed_chooses() -> None:
    dataset = owned([3, 1, 5])
    assert dataset.owners is not None
    rows = natural(dataset, 3, np.random.default_rng(0))
    assert [len(own) for own in rows] == [3, 1, 5]
    for owner, own in enumerate(rows):
        assert (dataset.owners[own] == owner).all()
        assert own.dtype == np.int32
    dataset = owned([*range(1, 41)])
    first, again, other = (natural(dataset, 10, np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert [len(own) for own in first] == [len(own) for own in again]
    assert [len(own) for own in first] != [len(own) for own in other]
    assert len(np.unique(np.concatenate(first))) == sum(map(len, first))
    with pytest.raises(InputError, match="at most 3") as refused:
        natural(owned([3, 1, 5]), 4, np.random.default_rng(0))
    assert refused.value.parameter == "devices"
    with pytest.raises(DataError, match="owners"):
        natural(load_mnist(), 4, np.random.default_rng(0))
