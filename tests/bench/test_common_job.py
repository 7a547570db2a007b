import numpy as np
import pytest

from slotwise.bench.common_job import NETWORK, common_samples, common_timeline
from slotwise.data import Dataset, load_mnist


@pytest.fixture(scope="module")
def mnist() -> Dataset:
    return load_mnist()


def test_device_i_holds_250_samples_of_label_i_mod_10(mnist: Dataset) -> None:
    rows = common_samples(mnist).rows
    assert rows.shape == (100, 250)
    assert np.array_equal(mnist.train_labels[rows], np.tile((np.arange(100) % 10)[:, None], 250))


def test_a_hundred_devices_share_no_sample(mnist: Dataset) -> None:
    assert len(common_samples(mnist).union) == 100 * 250


def test_ten_thousand_devices_hold_indices_only(mnist: Dataset) -> None:
    samples = common_samples(mnist, 10_000)
    assert samples.rows.nbytes == 10_000 * 250 * 4
    assert samples.dataset is mnist


def test_devices_take_turns_ten_a_round() -> None:
    timeline = common_timeline(rounds=10)
    assert timeline.device.tolist() == list(range(1, 101))
    assert timeline.max_staleness() == 0


def test_the_network_is_the_papers() -> None:
    assert NETWORK.parameters == 21_840
