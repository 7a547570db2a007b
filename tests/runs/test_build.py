import numpy as np
import pytest

from slotwise.data import Dataset, load_mnist
from slotwise.errors import InputError
from slotwise.learning.cnn_task import CnnTask
from slotwise.learning.randomness import Purpose, generator
from slotwise.runs import RunConfig
from slotwise.runs.build import build_task


def partition(config, dataset):
    draw = generator(config.seed, Purpose.PARTITION)
    return config.dataset.divide(dataset, config.channel.devices, draw)


@pytest.fixture(scope="module")
def mnist() -> Dataset:
    return load_mnist()


def test_the_default_network_has_the_parameters_the_paper_s_case_needs() -> None:
    assert RunConfig().network().parameters == 21_840


def test_the_default_devices_hold_250_images_of_one_label(mnist: Dataset) -> None:
    rows = partition(RunConfig(), mnist)
    assert rows.shape == (100, 250)
    assert all(len(np.unique(mnist.train_labels[own])) == 1 for own in rows)


@pytest.mark.parametrize(
    ("options", "fewest", "most"),
    [
        ({"partition": "k-labels", "labels_per_device": 3}, 3, 3),
        ({"partition": "dirichlet", "concentration": 0.01}, 1, 5),
        ({"partition": "iid"}, 9, 10),
    ],
)
def test_other_partitions_mix_labels(
    options: dict[str, object], fewest: int, most: int, mnist: Dataset
) -> None:
    rows = partition(RunConfig().with_options(devices=20, **options), mnist)  # type: ignore[arg-type]
    labels = [len(np.unique(mnist.train_labels[own])) for own in rows]
    assert fewest <= min(labels)
    assert max(labels) <= most


def test_another_seed_divides_the_data_otherwise(mnist: Dataset) -> None:
    one, other = (partition(RunConfig().with_options(seed=seed), mnist) for seed in (0, 1))
    assert not np.array_equal(one, other)


def test_too_many_layers_for_the_image_are_told_as_channels() -> None:
    with pytest.raises(InputError, match="channels") as caught:
        build_task(RunConfig().with_options(channels=(1, 1, 1)))
    assert "\n" not in str(caught.value)


def test_unit_inputs_reach_the_task() -> None:
    options = {"devices": 2, "group_size": 1, "samples_per_device": 8, "channels": (2,), "hidden": ()}
    standard, unit = (
        build_task(RunConfig().with_options(**options, input_scale=scale))  # type: ignore[arg-type]
        for scale in ("standard", "unit")
    )
    assert isinstance(standard, CnnTask)
    model = standard.initial_model()
    assert standard.evaluate(model).loss != unit.evaluate(model).loss
