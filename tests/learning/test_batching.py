"""Batches of local trainings: steps and epochs, the same for compiled networks, torch and live devices."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from memory_run import serve_in_memory

from live import simulated_models
from slotwise.base.errors import ConflictError, InputError, NoEffectError, UserError
from slotwise.data import Dataset
from slotwise.fastcnn.architecture import Architecture
from slotwise.fastcnn.kernels import FastCnn
from slotwise.learning import TrainingStart, train
from slotwise.learning.batching import Epochs, FixedSteps
from slotwise.learning.cnn_task import CnnTask
from slotwise.learning.local_training import DeviceSamples, LocalTraining
from slotwise.learning.randomness import Purpose
from slotwise.learning.reference import asynchronous
from slotwise.runs import RunConfig
from slotwise.runs.execution import build_task
from slotwise.scenario import Scenario
from slotwise.schedule import simulate

COUNTS = (3, 8, 10, 21)
NETWORKS = {
    "logistic": Architecture((1, 8, 8), (), (), 3),
    "dense": Architecture((1, 8, 8), (), (6,), 3),
    "convolutions": Architecture((1, 8, 8), ((3, 3),), (5,), 3),
    "dropout": Architecture((1, 8, 8), ((3, 3),), (5,), 3, dropout=0.5),
}


def samples(counts: Sequence[int] = COUNTS) -> DeviceSamples:
    """Devices with different numbers of random images."""
    draw, total = np.random.default_rng(0), sum(counts)
    inputs = draw.integers(0, 256, (total, 1, 8, 8), dtype=np.uint8)
    dataset = Dataset("noise", inputs, np.arange(total) % 3, inputs, np.arange(total) % 3, 3, (0.5,), (0.5,))
    order = draw.permutation(total)
    return DeviceSamples(dataset, np.split(order, np.cumsum(counts)[:-1]))


def naive_epochs(seed: int, start: TrainingStart, held: int, size: int, epochs: int, drop: bool) -> list[Any]:
    """Return batches as a loop of PyTorch does: shuffle, then take one batch after another."""
    batches = []
    for epoch in range(epochs):
        key, counter = [seed, Purpose.BATCHES], [0, epoch, start.device, start.training]
        draw = np.random.Generator(np.random.Philox(key=np.array(key, np.uint64), counter=counter))
        order = draw.permuted(np.arange(held)).tolist()
        while order:
            batch, order = order[:size], order[size:]
            if len(batch) == size or not drop:
                batches.append(batch)
    return batches


@pytest.mark.parametrize("size", [1, 4, 8, 64])
@pytest.mark.parametrize("held", [8, 21])
@pytest.mark.parametrize("drop", [False, True])
def test_epochs_are_those_of_a_naive_loop(size: int, held: int, drop: bool) -> None:
    if drop and size > held:
        return
    batching = Epochs(local_epochs=3, last_batch="dropped" if drop else "short")
    start = TrainingStart(2, 7)
    batches = [rows.tolist() for rows in batching.batches(5, start, held, size)]
    assert batches == naive_epochs(5, start, held, size, 3, drop)
    assert [len(rows) for rows in batches] == batching.lengths(held, size).tolist()
    assert len(batches) == batching.steps(held, size)
    assert sum(map(len, batches)) == batching.processed(held, size)


@pytest.mark.parametrize("steps", [1, 3, 6, 7])
def test_steps_without_replacement_are_the_first_batches_of_epochs(steps: int) -> None:
    start, fixed = TrainingStart(1, 0), FixedSteps(local_steps=steps, batch_sampling="without-replacement")
    expected = naive_epochs(0, start, 10, 4, 3, drop=False)[:steps]
    assert [rows.tolist() for rows in fixed.batches(0, start, 10, 4)] == expected
    assert fixed.processed(10, 4) == sum(map(len, expected))


def test_independent_steps_process_h_times_b_samples() -> None:
    assert FixedSteps(local_steps=5).processed(250, 64) == 320
    assert FixedSteps(local_steps=5).processed(10, 64) == 50  # all samples in every step


def assert_each_once(used: Counter[tuple[int, int, int]], held: DeviceSamples, epochs: int) -> None:
    """Check that every training has used each sample of its device once an epoch: (device, training, row)."""
    trainings = {key[:2] for key in used}
    assert trainings
    expected = {(n, number, row): epochs for n, number in trainings for row in held.rows[n - 1].tolist()}
    assert used == expected


class Recording(CnnTask):
    """Counts the samples that the kernels read, by device and training."""

    def local_update(self, model: Any, start: TrainingStart) -> Any:
        self.start = start
        return super().local_update(model, start)

    def count_in(self, used: Counter[tuple[int, int, int]]) -> "Recording":
        network = self._network
        train_each, gradient, rows_of = network.train_each, network.gradient, self._rows_of()

        def trained(model: Any, images: Any, labels: Any, batches: Any, *more: Any) -> Any:
            for rows, length in zip(batches[0], more[-1], strict=True):
                used.update((*self.start[:2], int(row)) for row in rows[:length])
            return train_each(model, images, labels, batches, *more)

        def differentiated(model: Any, images: Any, *more: Any) -> Any:
            used.update((*self.start[:2], rows_of[image.tobytes()]) for image in images)
            return gradient(model, images, *more)

        network.train_each, network.gradient = trained, differentiated  # type: ignore[method-assign]
        return self

    def _rows_of(self) -> dict[bytes, int]:
        return {image.tobytes(): row for row, image in enumerate(self.samples.dataset.train_inputs)}


@pytest.mark.parametrize("momentum", [0.0, 0.5])
@pytest.mark.parametrize("network", NETWORKS)
def test_a_compiled_network_uses_every_sample_once_in_each_epoch(network: str, momentum: float) -> None:
    held, used = samples(), Counter[tuple[int, int, int]]()
    training = LocalTraining(local_epochs=2, batch_size=4, momentum=momentum)  # type: ignore[call-arg]
    task = Recording(held, NETWORKS[network], training).count_in(used)
    for device in range(1, 5):
        task.local_update(task.initial_model(), TrainingStart(device, 3))
    assert_each_once(used, held, epochs=2)


@pytest.mark.parametrize("size", [4, 70])  # more than 64 are several blocks of the dense kernels
@pytest.mark.parametrize("network", NETWORKS)
def test_kernels_with_short_batches_take_the_steps_of_single_gradients(network: str, size: int) -> None:
    held = samples((6, size + 3, 2 * size + 3))
    training = LocalTraining(local_epochs=2, batch_size=size, learning_rate=0.05, update="mean")  # type: ignore[call-arg]
    task = CnnTask(held, NETWORKS[network], training)
    model, images, labels = task.initial_model(), held.dataset.train_inputs, held.dataset.train_targets
    alone = FastCnn(NETWORKS[network], offset=(0.5,), scale=(0.5,))
    for device in (1, 2, 3):
        start = TrainingStart(device, 1)
        end, batches = model.copy(), held.batches(training, start)
        kept = task._kept([start], np.array([len(rows) for rows in batches]))
        for step, rows in enumerate(batches):
            own = None if kept is None else kept[0, step, : len(rows)]
            end -= np.float32(0.05) * alone.gradient(end, images[rows], labels[rows], own)[1]
        expected = (model - end) / np.float32(len(batches))
        np.testing.assert_allclose(task.local_update(model, start), expected, rtol=2e-4, atol=2e-7)


@pytest.mark.parametrize("network", ["dense", "convolutions"])
def test_numbers_behind_a_short_batch_are_not_read(network: str) -> None:
    held, kernels = samples(), FastCnn(NETWORKS[network], offset=(0.5,), scale=(0.5,))
    model = NETWORKS[network].initial_parameters(np.random.default_rng(1))
    dataset, lengths = held.dataset, np.array([4, 2])

    def trained(filler: int) -> bytes:
        batches = np.array([[[5, 6, 7, 8], [9, 10, filler, filler]]])
        given = model, dataset.train_inputs, dataset.train_targets, batches, [0.1], None, lengths
        return kernels.train_each(*given)[0].tobytes()

    assert trained(0) == trained(20)
    for wrong in ([4], [0, 4], [4, 5]):
        with pytest.raises(ValueError, match="lengths must be 2 numbers from 1 to 4"):
            kernels.train_each(
                model, dataset.train_inputs, dataset.train_targets, np.zeros((1, 2, 4)), [0.1], None, wrong
            )


@pytest.mark.parametrize("batching", [Epochs(local_epochs=2), Epochs(local_epochs=2, last_batch="dropped")])
def test_engine_reference_and_any_number_of_workers_agree_to_the_bit(batching: Epochs) -> None:
    task = CnnTask(
        samples((5, 8, 8, 21)), NETWORKS["convolutions"], LocalTraining(batching=batching, batch_size=4)
    )
    scenario = Scenario(devices=4, group_size=2, compute_slots=2)
    timeline = simulate(scenario, "idfl", delay=0, rounds=6)
    models = [train(timeline, task, workers=workers).model for workers in (1, 2, 3)]
    *_, expected = asynchronous(scenario, task, 6, 0)
    assert [model.tobytes() for model in models] == [expected.tobytes()] * 3


def test_several_trainings_in_one_call_are_those_one_by_one() -> None:
    task = CnnTask(samples(), NETWORKS["dense"], LocalTraining(local_epochs=1, batch_size=4))  # type: ignore[call-arg]
    model, starts = task.initial_model(), [TrainingStart(n, k) for n, k in ((1, 0), (2, 0), (2, 4), (4, 1))]
    together = task.local_updates(model, starts), task.local_updates(model, starts[1:3])
    alone = [task.local_update(model, start).tobytes() for start in starts]
    assert [update.tobytes() for update in together[0]] == alone
    assert [update.tobytes() for update in together[1]] == alone[1:3]


def test_a_live_device_uses_every_sample_once_in_each_epoch_as_the_simulator_does(tmp_path) -> None:
    held, used = samples(), Counter[tuple[int, int, int]]()
    options = {"devices": 4, "group_size": 2, "compute_slots": 4, "deadline": 60, "task": "tasks:make"}
    config = RunConfig.from_options({**options, "local_epochs": 2, "batch_size": 4})
    task = Recording(held, NETWORKS["logistic"], config.training)
    plan = config.simulate()
    models = simulated_models(plan, task)
    outcome = serve_in_memory(tmp_path / "run", config=config, task=task.count_in(used), clip_norm="off")
    assert_each_once(used, held, epochs=2)
    assert outcome.state.models[plan.rounds].tobytes() == models[plan.rounds].tobytes()
    own = {"devices": 3, "group_size": 1, "device_samples": [10, 70, 300], "deadline": 60}
    work = {"batch_size": "4@0, 16@30", "local_steps": 2, "samples_per_slot": 4, "network": "logistic"}
    config = RunConfig.from_options({**own, **work, "schedule": "async"})
    task, plan = build_task(config), config.simulate()
    models = simulated_models(plan, task)
    outcome = serve_in_memory(tmp_path / "changing", config=config, task=task, clip_norm="off")
    assert outcome.state.models[plan.rounds].tobytes() == models[plan.rounds].tobytes()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"local_epochs": 0}, InputError),
        ({"local_epochs": 1.5}, InputError),
        ({"local_epochs": 2, "local_steps": 3}, ConflictError),
        ({"local_epochs": 2, "batch_sampling": "independent"}, ConflictError),
        ({"last_batch": "dropped"}, NoEffectError),
        ({"local_epochs": 2, "last_batch": "long"}, InputError),
        ({"batch_sampling": "twice"}, InputError),
    ],
)
def test_a_wrong_number_of_batches_is_refused(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        RunConfig.from_options(options)
    with pytest.raises(error):
        LocalTraining(**options)


def test_batches_that_a_task_or_device_cannot_have_are_refused() -> None:
    training = LocalTraining(local_epochs=1, last_batch="dropped", batch_size=4)  # type: ignore[call-arg]
    with pytest.raises(InputError, match="last_batch = dropped: must be short: device 1 holds 3 samples"):
        CnnTask(samples(), NETWORKS["dense"], training)
    with pytest.raises(UserError, match="local_epochs"):
        LocalTraining(local_epochs=1).local_steps  # type: ignore[call-arg]  # noqa: B018
