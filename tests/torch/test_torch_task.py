"""PyTorch as the second opinion: the same start, the same batches, the same update up to rounding."""

import threading

import numpy as np
import pytest
from torch_cases import CLASSES, FEATURES, linear_samples

from slotwise.aggregation import Vector
from slotwise.base.errors import UserError
from slotwise.fastcnn.architecture import Architecture
from slotwise.learning import TrainingStart, train
from slotwise.learning.cnn_task import CnnTask
from slotwise.learning.local_training import DeviceSamples, LocalTraining
from slotwise.learning.workers import Processes, Threads, WorkerPlan
from slotwise.scenario import Scenario
from slotwise.schedule import Schedule, simulate

torch = pytest.importorskip("torch")
torch_task = pytest.importorskip("slotwise.torch.task")
torch_networks = pytest.importorskip("slotwise.torch.networks")

PAPER = Architecture(input_shape=(1, 28, 28), convolutions=((10, 5), (20, 5)), hidden=(50,), classes=10)
SMALL = Architecture(input_shape=(1, 28, 28), convolutions=((3, 5), (4, 5)), hidden=(8,), classes=10)
SGD = LocalTraining(local_steps=5, batch_size=32, learning_rate=0.01)


def pair(
    samples: DeviceSamples, network: Architecture, training: LocalTraining, **options: tuple[float, ...]
):
    mine = CnnTask(samples, network, training, **options)
    module = torch_networks.sequential(network)
    theirs = torch_task.TorchTask(module, samples, training, initial="seed", device="cpu", **options)
    return mine, theirs


def distance(one: Vector, other: Vector) -> float:
    """Relative to the length of the second."""
    difference = one.astype(np.float64) - other.astype(np.float64)
    return float(np.linalg.norm(difference) / np.linalg.norm(other.astype(np.float64)))


@pytest.mark.parametrize("network", [PAPER, SMALL])
def test_both_start_from_the_same_model(samples: DeviceSamples, network: Architecture) -> None:
    mine, theirs = pair(samples, network, SGD)
    assert np.array_equal(mine.initial_model(), theirs.initial_model())


@pytest.mark.parametrize("how", ["auto", False])
def test_losses_of_devices_add_up_to_that_of_an_evaluation(samples: DeviceSamples, how: object) -> None:
    module = torch_networks.sequential(SMALL)
    theirs = torch_task.TorchTask(module, samples, SGD, initial="seed", device="cpu", compile=how)
    for task in (CnnTask(samples, SMALL, SGD), theirs):
        model = task.initial_model()
        losses = [task.device_loss(model, n) * samples.count(n) for n in range(1, len(samples) + 1)]
        assert len({round(loss, 6) for loss in losses}) > 1
        assert sum(losses) / len(samples.all_rows) == pytest.approx(task.evaluate(model).loss, rel=1e-5)


@pytest.mark.parametrize(
    ("training", "options"),
    [
        (SGD, {}),
        (LocalTraining(local_steps=5, batch_size=32, learning_rate=0.01, update="mean"), {}),
        (SGD, {"offset": (0.0,), "scale": (1.0,)}),
        (LocalTraining(local_steps=2, batch_size=64, learning_rate=0.1, seed=2**64 - 1), {}),
    ],
    ids=["default", "mean update", "unit inputs", "all 40 samples in a batch"],
)
def test_both_make_the_same_update(
    samples: DeviceSamples, training: LocalTraining, options: dict[str, tuple[float, ...]]
) -> None:
    mine, theirs = pair(samples, PAPER, training, **options)
    model = mine.initial_model()
    for device, number in ((1, 0), (6, 3)):
        update = theirs.local_update(model, TrainingStart(device, number))
        assert distance(mine.local_update(model, TrainingStart(device, number)), update) < 1e-4


@pytest.mark.parametrize("network", [PAPER, SMALL])
def test_both_evaluate_alike(samples: DeviceSamples, network: Architecture) -> None:
    mine, theirs = pair(samples, network, SGD)
    model = mine.initial_model()
    one, other = mine.evaluate(model), theirs.evaluate(model)
    assert one.loss == pytest.approx(other.loss, rel=1e-5)
    assert one.accuracy == pytest.approx(other.accuracy, abs=2e-4)


def test_both_name_the_arrays_as_the_state_dict_does(samples: DeviceSamples) -> None:
    mine, theirs = pair(samples, PAPER, SGD)
    model = mine.initial_model()
    arrays, others = mine.named_arrays(model), theirs.named_arrays(model)
    state = torch_networks.sequential(PAPER).state_dict()
    assert list(arrays) == list(others) == list(state)
    for name, tensor in state.items():
        assert arrays[name].shape == tuple(tensor.shape)
        assert np.array_equal(arrays[name], others[name])


@pytest.mark.parametrize(("schedule", "size"), [("async", 1), ("idfl", 2), ("sync", 3)])
def test_both_stay_together_for_fifty_rounds(samples: DeviceSamples, schedule: Schedule, size: int) -> None:
    mine, theirs = pair(samples, SMALL, LocalTraining(local_steps=2, batch_size=16, learning_rate=0.02))
    timeline = simulate(Scenario(devices=6, group_size=size, compute_slots=4), schedule, rounds=50)
    one, other = train(timeline, mine, workers=2), train(timeline, theirs, workers=2)
    start = mine.initial_model()
    assert distance(one.model - start, other.model - start) < 1e-3
    assert one.points[-1].loss == pytest.approx(other.points[-1].loss, rel=1e-3)


def test_the_number_of_workers_does_not_change_the_model(samples: DeviceSamples) -> None:
    _, task = pair(samples, SMALL, LocalTraining(local_steps=2, batch_size=16))
    timeline = simulate(Scenario(devices=6, group_size=1, compute_slots=4), "async", rounds=12)
    one, three = (train(timeline, task, workers=n) for n in (1, 3))
    assert np.array_equal(one.model, three.model)


def test_each_worker_thread_has_a_module_of_its_own(samples: DeviceSamples) -> None:
    class Spy(torch.nn.Module):
        seen: set[tuple[int, int]] = set()  # noqa: RUF012

        def __init__(self) -> None:
            super().__init__()
            self.layers = torch_networks.sequential(SMALL)

        def forward(self, images):
            self.seen.add((threading.get_ident(), id(self)))
            return self.layers(images)

    module = Spy()
    task = torch_task.TorchTask(module, samples, SGD, device="cpu", compile=False)
    Spy.seen.clear()  # the constructor has tried the module
    model, both = task.initial_model(), threading.Barrier(2)

    def work() -> None:
        both.wait()
        task.local_update(model, TrainingStart(1, 0))
        task.local_update(model, TrainingStart(2, 0))
        both.wait()  # so that no thread's number is given to the other

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Spy.seen) == 2
    assert len({identity for _, identity in Spy.seen}) == 2
    assert id(module) not in {identity for _, identity in Spy.seen}


def test_the_caller_s_module_is_left_alone_and_may_have_no_buffers(samples: DeviceSamples) -> None:
    module = torch_networks.sequential(SMALL)
    before = [parameter.clone() for parameter in module.parameters()]
    task = torch_task.TorchTask(module, samples, SGD, device="cpu")
    task.local_update(task.initial_model(), TrainingStart(1, 0))
    assert all(map(torch.equal, before, module.parameters()))
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.BatchNorm1d(784), torch.nn.Linear(784, 10))
    with pytest.raises(UserError, match="buffers"):
        torch_task.TorchTask(module, samples, SGD, buffers="refuse")


def test_a_module_and_a_loss_of_one_s_own_are_trained(samples: DeviceSamples) -> None:
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10))
    training = LocalTraining(local_steps=1, batch_size=40, learning_rate=0.5)

    def half(outputs, answers):
        return 0.5 * torch.nn.functional.cross_entropy(outputs, answers)

    whole, halved = (
        torch_task.TorchTask(module, samples, training, device="cpu", **options)
        for options in ({}, {"loss": half})
    )
    model = whole.initial_model()
    assert (
        distance(
            2 * halved.local_update(model, TrainingStart(1, 0)),
            whole.local_update(model, TrainingStart(1, 0)),
        )
        < 1e-6
    )


@pytest.mark.parametrize("plan", [Threads(2), Processes(2)])
def test_worker_processes_train_and_evaluate_to_the_same_bits(plan: WorkerPlan) -> None:
    # A function of this file as the loss, and one without a name as a metric.
    metrics = {"largest": lambda outputs, _: outputs.max(dim=1).values}
    nn = torch.nn
    module = nn.Sequential(nn.Linear(FEATURES, 6), nn.Dropout(0.5), nn.Linear(6, CLASSES))
    task = torch_task.TorchTask(
        module, linear_samples(), LocalTraining(local_steps=2, batch_size=6), metrics=metrics
    )
    timeline = simulate(Scenario(devices=len(task.samples), group_size=1, compute_slots=2), "async", rounds=8)
    here, found = train(timeline, task), train(timeline, task, workers=plan)
    assert found.model.tobytes() == here.model.tobytes()
    assert found.points == here.points
