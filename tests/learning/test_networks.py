"""MLP and logistic regression: the numba kernels against PyTorch, same start and same batches."""

import numpy as np
import pytest

from slotwise.fastcnn.architecture import Architecture
from slotwise.learning import TrainingStart, train
from slotwise.learning.cnn_task import CnnTask
from slotwise.learning.local_training import DeviceSamples, LocalTraining
from slotwise.learning.networks import NETWORKS
from slotwise.scenario import Scenario
from slotwise.schedule import simulate

torch_task = pytest.importorskip("slotwise.torch.task")
torch_networks = pytest.importorskip("slotwise.torch.networks")

TRAINING = LocalTraining(local_steps=5, batch_size=32, learning_rate=0.01)
NAMES: list[str] = ["mlp", "logistic"]


def architecture(name: str) -> Architecture:
    kind = NETWORKS[name]
    assert not kind.channels
    return Architecture((1, 28, 28), (), kind.hidden or (), 10)


def pair(samples: DeviceSamples, name: str, training: LocalTraining):
    module = torch_networks.sequential(architecture(name))
    theirs = torch_task.TorchTask(module, samples, training, initial="seed", device="cpu")
    return CnnTask(samples, architecture(name), training), theirs


@pytest.mark.parametrize("name", NAMES)
def test_numba_and_torch_agree_with_any_workers_and_name_arrays_alike(
    samples: DeviceSamples, name: str
) -> None:
    mine, theirs = pair(samples, name, TRAINING)
    model, start = mine.initial_model(), TrainingStart(6, 3)
    update, expected = mine.local_update(model, start), theirs.local_update(model, start)
    assert np.linalg.norm(update - expected) < 1e-4 * np.linalg.norm(expected)
    one, other = mine.evaluate(model), theirs.evaluate(model)
    assert one.loss == pytest.approx(other.loss, rel=1e-5)
    assert one.accuracy == pytest.approx(other.accuracy, abs=2e-4)
    task, _ = pair(samples, name, TRAINING)
    timeline = simulate(Scenario(devices=6, group_size=1, compute_slots=4), "async", rounds=12)
    one, three = (train(timeline, task, workers=workers) for workers in (1, 3))
    assert np.array_equal(one.model, three.model)
    state = torch_networks.sequential(architecture(name)).state_dict()
    arrays = task.named_arrays(task.initial_model())
    assert {key: array.shape for key, array in arrays.items()} == {
        key: tuple(tensor.shape) for key, tensor in state.items()
    }
