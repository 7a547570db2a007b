"""The data of a run: numbers of samples, partitions of the user's own, and data sets for networks."""

import sys
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import slotwise as sw
from slotwise.base.errors import InputError, UserError
from slotwise.data import (
    FACTS,
    PARTITIONS,
    DataName,
    EqualSizes,
    FetchedName,
    KLabels,
    ListedSizes,
    PartitionedData,
    SkewedSizes,
    load_mnist,
)
from slotwise.learning.randomness import Purpose, generator
from slotwise.options import build
from slotwise.runs import RunConfig
from slotwise.runs.device_data import device_samples

BY_LABEL = ["one-label", "k-labels", "dirichlet", "iid"]


def divided(seed: int = 0, devices: int = 2, **options: Any) -> tuple[np.ndarray, ...]:
    data = build(PartitionedData, options)
    return tuple(data.divide(load_mnist(), devices, generator(seed, Purpose.PARTITION)))


@pytest.mark.parametrize("partition", BY_LABEL)
def test_sample_skew_combines_with_every_partition_by_label(partition: str) -> None:
    rows = divided(devices=20, partition=partition, sample_skew=1.0, samples_per_device=40)
    sizes = [len(own) for own in rows]
    assert sum(sizes) == 20 * 40
    assert len(set(sizes)) > 5
    assert min(sizes) >= 1
    if partition == "one-label":
        labels = load_mnist().train_targets
        assert all(len(np.unique(labels[own])) == 1 for own in rows)


def test_numbers_of_samples_are_values_given_or_drawn_from_the_seed() -> None:
    first, again, other = ([len(own) for own in divided(seed, 30, sample_skew=0.5)] for seed in (0, 0, 1))
    assert first == again != other
    assert [len(own) for own in divided(devices=3, device_samples=(5, 1, 300))] == [5, 1, 300]
    three = KLabels(labels_per_device=3, sizes=SkewedSizes(samples_per_device=9, sample_skew=2.0))
    options = {"partition": "k-labels", "labels_per_device": 3, "samples_per_device": 9, "sample_skew": 2.0}
    assert RunConfig.from_options(options).dataset == sw.data.PartitionedData(partition=three)
    assert EqualSizes(samples_per_device=9).total(3) == 27
    assert ListedSizes(device_samples=(3, 5)).total(2) == 8
    assert PartitionedData(data="femnist", partition="natural").sizes.held(5) == 203


@pytest.mark.parametrize(
    ("options", "parameter"),
    [
        ({"partition": "natural"}, "partition"),
        ({"data": "femnist", "partition": "natural", "samples_per_device": 10}, "samples_per_device"),
        ({"data": "femnist", "partition": "natural", "sample_skew": 1.0}, "sample_skew"),
        ({"data": "femnist", "partition": "natural", "device_samples": (1, 2)}, "device_samples"),
        ({"device_samples": (1, 2), "samples_per_device": 10}, "samples_per_device"),
        ({"device_samples": (1, 2), "sample_skew": 1.0}, "sample_skew"),
        ({"device_samples": [1, 2], "devices": 3, "group_size": 1}, "device_samples"),
        ({"folder_shape": (1, 2, 3)}, "folder_shape"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_a_wrong_option_is_named(options: dict[str, object], parameter: str) -> None:
    with pytest.raises(InputError) as refused:
        RunConfig.from_options(options)
    assert refused.value.parameter == parameter


@pytest.mark.parametrize("partition", BY_LABEL)
@pytest.mark.parametrize(
    ("options", "parameter", "named"),
    [
        ({"device_samples": (1, 200_000)}, "device_samples", "200000 of device 2:"),
        ({"sample_skew": 0.01, "samples_per_device": 50_000}, "sample_skew", r"device [12] .*samples"),
        ({"samples_per_device": 200_000}, "samples_per_device", "200000:"),
    ],
    ids=["device_samples", "sample_skew", "samples_per_device"],
)
def test_the_option_that_asks_for_too_many_samples_is_named(
    partition: str, options: dict[str, Any], parameter: str, named: str
) -> None:
    with pytest.raises(InputError, match=named) as refused:
        divided(partition=partition, **options)
    assert refused.value.parameter == parameter


OWN = """
import numpy as np

def first(dataset, devices, generator, *, count: int = 5):
    return [np.arange(count) + count * device for device in range(devices)]

def random(dataset, devices, generator):
    return np.split(generator.permutation(len(dataset.train_targets))[: 3 * devices], devices)

def no_rows(dataset, devices, generator):
    return 0

def too_few(dataset, devices, generator):
    return [[1, 2]]

def unknown_rows(dataset, devices, generator):
    return [[10**9]] * devices

def failing(dataset, devices, generator):
    raise RuntimeError("no idea")

def of_labels(labels):
    return []
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"own_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(OWN)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    return name


def test_a_partition_of_your_own_has_parameters_and_the_seed_of_the_data(own: str) -> None:
    options = {"devices": 3, "group_size": 1, "partition": f"{own}:first", "partition_options": {"count": 4}}
    config = RunConfig.from_options(options)
    assert [rows.tolist() for rows in device_samples(config).rows[:2]] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert RunConfig.from_saved(config.options()) == config
    assert config.with_options(data_seed=3).options()["partition_options"] == {"count": 4}
    options = {"devices": 3, "group_size": 1, "partition": f"{own}:random"}
    drawn = [device_samples(RunConfig.from_options({**options, "data_seed": seed})) for seed in (1, 1, 2)]
    first, again, other = (samples.all_rows.tolist() for samples in drawn)
    assert first == again != other
    data = PartitionedData(partition=lambda dataset, devices, generator: [[0]] * devices)
    assert data.divide(load_mnist(), 2, np.random.default_rng(0)) == ([0], [0])


@pytest.mark.parametrize(
    ("function", "options", "says"),
    [
        ("first", {"counts": 3}, r"first\(dataset, devices, generator, \*, count: int = 5\)"),
        ("first", {"count": "many"}, r"first\(dataset"),
        ("of_labels", {}, "3 arguments .*dataset, devices, generator"),
        ("too_few", {}, "rows of 1 devices, must be those of 3"),
        ("unknown_rows", {}, "1000000000"),
        ("no_rows", {}, ":no_rows must return one list of row numbers for each device; it returned 0"),
        ("failing", {}, "RuntimeError: no idea"),
        ("missing", {}, "has no missing"),
    ],
)
def test_a_partition_that_does_not_work_is_refused(own: str, function: str, options: Any, says: str) -> None:
    given = {"partition": f"{own}:{function}", "partition_options": options}
    with pytest.raises(UserError, match=says) as refused:
        device_samples(RunConfig.from_options({"devices": 3, "group_size": 1, **given}))
    assert "partition" in str(refused.value)


@pytest.mark.parametrize(("data", "classes"), [("mnist", 10), ("fashion-mnist", 10), ("femnist", 62)])
def test_the_network_has_the_classes_of_the_data_set(data: str, classes: int) -> None:
    network = RunConfig.from_options({"data": data}).network()
    assert network.classes == classes
    assert network.input_shape == FACTS[data].input_shape


def test_shakespeare_needs_a_task() -> None:
    with pytest.raises(
        InputError, match=r"task of your own.*mnist, fashion-mnist, cifar10, cifar100, emnist, femnist"
    ) as refused:
        RunConfig.from_options({"data": "shakespeare"}).network()
    assert refused.value.parameter == "data"
    config = RunConfig.from_options({"data": "shakespeare", "task": "my_module:make", "partition": "natural"})
    assert config.dataset.data == "shakespeare"


def test_data_that_is_not_on_this_machine_is_missing(cache: Path) -> None:
    assert PartitionedData().missing is None
    assert "slotwise data fetch femnist" in str(PartitionedData(data="femnist").missing)


def test_every_data_set_has_facts_and_partitions_are_public() -> None:
    assert get_args(DataName) == ("mnist", *get_args(FetchedName)) == tuple(FACTS)
    assert {kind.__name__ for kind in PARTITIONS.values()} <= set(dir(sw.data)) | set(sw.data.__all__)
