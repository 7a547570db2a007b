from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from slotwise.data import FACTS, DataName, DatasetConfig, FetchedName, load_mnist
from slotwise.data.facts import PartitionName
from slotwise.errors import InputError
from slotwise.learning.randomness import Purpose, generator
from slotwise.runs import RunConfig


def divided(config: DatasetConfig, devices: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    return config.divide(load_mnist(), devices, generator(seed, Purpose.PARTITION))


@pytest.mark.parametrize("partition", ["one-label", "k-labels", "dirichlet", "iid"])
def test_sample_skew_combines_with_every_partition_by_label(partition: str) -> None:
    config = DatasetConfig(partition=partition, sample_skew=1.0, samples_per_device=40)  # type: ignore[arg-type]
    rows = divided(config, 20)
    sizes = [len(own) for own in rows]
    assert sum(sizes) == 20 * 40 == config.total_samples(20)
    assert len(set(sizes)) > 5
    assert min(sizes) >= 1
    if partition == "one-label":
        labels = load_mnist().train_targets
        assert all(len(np.unique(labels[own])) == 1 for own in rows)


def test_the_sizes_follow_from_the_seed() -> None:
    config = DatasetConfig(sample_skew=0.5)
    first, again, other = ([len(own) for own in divided(config, 30, seed)] for seed in (0, 0, 1))
    assert first == again != other


def test_given_numbers_of_samples_are_held() -> None:
    config = DatasetConfig(device_samples=(5, 1, 300))
    assert [len(own) for own in divided(config, 3)] == [5, 1, 300]
    assert config.total_samples(3) == 306


@pytest.mark.parametrize(
    ("options", "parameter"),
    [
        ({"partition": "natural"}, "partition"),
        ({"data": "femnist", "partition": "natural", "samples_per_device": 10}, "samples_per_device"),
        ({"data": "femnist", "partition": "natural", "sample_skew": 1.0}, "sample_skew"),
        ({"data": "femnist", "partition": "natural", "device_samples": (1, 2)}, "device_samples"),
        ({"device_samples": (1, 2), "samples_per_device": 10}, "samples_per_device"),
        ({"device_samples": (1, 2), "sample_skew": 1.0}, "sample_skew"),
        ({"device_samples": (1, 0)}, "device_samples"),
        ({"device_samples": (1, 1.5)}, "device_samples"),
        ({"device_samples": 3}, "device_samples"),
        ({"sample_skew": 0.0}, "sample_skew"),
        ({"sample_skew": float("inf")}, "sample_skew"),
        ({"sample_skew": "much"}, "sample_skew"),
        ({"folder_shape": (1, 2, 3)}, "folder_shape"),
        ({"data": "imagenet"}, "data"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_a_wrong_option_is_named(options: dict[str, object], parameter: str) -> None:
    with pytest.raises(InputError) as refused:
        DatasetConfig(**options)  # type: ignore[arg-type]
    assert refused.value.parameter == parameter


def test_there_must_be_a_number_of_samples_for_each_device() -> None:
    with pytest.raises(InputError) as refused:
        RunConfig.from_options({"devices": 3, "group_size": 1, "device_samples": [1, 2]})
    assert refused.value.parameter == "device_samples"


@pytest.mark.parametrize("partition", ["one-label", "k-labels", "dirichlet", "iid"])
@pytest.mark.parametrize(
    ("options", "parameter", "named"),
    [
        ({"device_samples": (1, 200_000)}, "device_samples", "200000 of device 2:"),
        (
            {"sample_skew": 0.01, "samples_per_device": 50_000},
            "sample_skew",
            r"device [12] .*samples",
        ),
        ({"samples_per_device": 200_000}, "samples_per_device", "200000:"),
    ],
    ids=["device_samples", "sample_skew", "samples_per_device"],
)
def test_the_option_that_asks_for_too_many_samples_is_named(
    partition: PartitionName, options: dict[str, Any], parameter: str, named: str
) -> None:
    with pytest.raises(InputError, match=named) as refused:
        divided(DatasetConfig(partition=partition, **options), 2)
    assert refused.value.parameter == parameter


@pytest.mark.parametrize(("data", "classes"), [("mnist", 10), ("fashion-mnist", 10), ("femnist", 62)])
def test_the_network_has_the_classes_of_the_data_set(data: str, classes: int) -> None:
    network = RunConfig.from_options({"data": data}).network()
    assert network.classes == classes
    assert network.input_shape == FACTS[data].input_shape


def test_shakespeare_needs_a_task() -> None:
    with pytest.raises(
        InputError, match=r"task of your own.*mnist, fashion-mnist, cifar10, femnist"
    ) as refused:
        RunConfig.from_options({"data": "shakespeare"}).network()
    assert refused.value.parameter == "data"


def test_a_task_may_use_a_built_in_data_set() -> None:
    config = RunConfig.from_options({"data": "shakespeare", "task": "my_module:make", "partition": "natural"})
    assert config.dataset.data == "shakespeare"


def test_data_that_is_not_on_this_machine_is_missing(cache: Path) -> None:
    assert DatasetConfig().missing is None
    missing = DatasetConfig(data="femnist").missing
    assert missing is not None
    assert "slotwise data fetch femnist" in missing


def test_every_data_set_has_facts_and_all_but_mnist_are_fetched() -> None:
    assert get_args(DataName) == ("mnist", *get_args(FetchedName)) == tuple(FACTS)
