"""Trainings against the formulas of their papers, written out here a second time."""

from collections.abc import Mapping, Sequence
from math import sqrt

import numpy as np
import pytest
from numpy.typing import NDArray

from slotwise.aggregation import FedAdam, FedYogi, ServerMomentum, Vector, fedavg, mean
from slotwise.data import Dataset
from slotwise.fastcnn.architecture import Architecture
from slotwise.learning import Evaluation, Training, TrainingStart, train
from slotwise.learning.cnn_task import CnnTask
from slotwise.learning.local_training import DeviceSamples, LocalTraining
from slotwise.learning.optimizer import Optimizer
from slotwise.scenario import Scenario
from slotwise.schedule import simulate

CENTRES, COUNTS, START = [4.0, -2.0, 1.0], [1, 2, 5], 8.0


class Quadratic:
    """Device n minimises (w − c_n)²/2, and holds so many samples; its gradient is w − c_n."""

    def __init__(self, training: LocalTraining, centres: Sequence[float] = CENTRES) -> None:
        self.training, self.centres = training, centres

    def initial_model(self) -> Vector:
        return np.array([START], dtype=np.float32)

    def sample_count(self, device: int) -> int:
        return COUNTS[device - 1]

    def local_update(self, model: Vector, start: TrainingStart) -> Vector:
        optimizer, weights = Optimizer(self.training), model.copy()
        context = optimizer.begin(start, model)
        for _ in range(self.training.local_steps):
            optimizer.step(weights, weights - np.float32(self.centres[start.device - 1]), context)
        return model - weights

    def evaluate(self, model: Vector) -> Evaluation:
        return Evaluation(float(model[0]), 0.0)


def models(task: Quadratic, rule: object, rounds: int) -> list[float]:
    """w_1, w_2, … of synchronous rounds with all devices."""
    devices = len(task.centres)
    timeline = simulate(Scenario(devices=devices, group_size=devices, compute_slots=1), "sync", rounds=rounds)
    with Training(timeline, task, aggregation=rule) as training:  # type: ignore[arg-type]
        return [float(training.model[0]) for _ in training]


def local_end(options: LocalTraining, centre: float = 4.0) -> float:
    """Return the weights of one device after its first local training."""
    return models(Quadratic(options, [centre]), mean, 1)[0]


# One local training


def test_fedprox_approaches_the_minimum_of_its_objective_or_stays_at_its_start() -> None:
    # The minimum of (w − c)²/2 + mu/2·(w − w_0)² is (c + mu·w_0)/(1 + mu).
    rate, mu, steps, centre = 0.1, 0.5, 7, 4.0
    minimum = (centre + mu * START) / (1 + mu)
    expected = minimum + (1 - rate * (1 + mu)) ** steps * (START - minimum)
    options = LocalTraining(local_steps=steps, learning_rate=rate, proximal=mu)
    assert local_end(options, centre) == pytest.approx(expected, rel=1e-6)
    options = LocalTraining(local_steps=200, learning_rate=0.001, proximal=999.0)
    assert local_end(options) == pytest.approx((4 + 999 * START) / 1000, rel=1e-5)


def test_local_momentum_and_weight_decay_by_hand() -> None:
    # w = 8, c = 4, eta = 0.25 and momentum 0.5.
    v1 = 8.0 - 4.0
    w1 = 8.0 - 0.25 * v1
    v2 = 0.5 * v1 + (w1 - 4.0)
    w2 = w1 - 0.25 * v2
    v3 = 0.5 * v2 + (w2 - 4.0)
    w3 = w2 - 0.25 * v3
    assert (v1, w1, v2, w2, v3, w3) == (4.0, 7.0, 5.0, 5.75, 4.25, 4.6875)
    assert local_end(LocalTraining(local_steps=3, learning_rate=0.25, momentum=0.5)) == 4.6875
    options = LocalTraining(local_steps=1, learning_rate=0.25, momentum=0.5)
    assert models(Quadratic(options, [4.0]), mean, 3) == [7.0, 6.25, 5.6875]
    rate, decay, steps, centre = 0.1, 0.25, 6, 4.0
    minimum = centre / (1 + decay)
    expected = minimum + (1 - rate * (1 + decay)) ** steps * (START - minimum)
    options = LocalTraining(local_steps=steps, learning_rate=rate, weight_decay=decay)
    assert local_end(options, centre) == pytest.approx(expected, rel=1e-6)


def test_adam_follows_its_algorithm() -> None:
    rate, beta1, beta2, epsilon, steps = 0.3, 0.8, 0.9, 1e-3, 9
    w, m, v = START, 0.0, 0.0
    for t in range(1, steps + 1):
        g = w - 4.0
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
        w -= rate * (m / (1 - beta1**t)) / (sqrt(v / (1 - beta2**t)) + epsilon)
    options = LocalTraining(
        local_steps=steps, learning_rate=rate, optimizer="adam", beta1=beta1, beta2=beta2, epsilon=epsilon
    )
    assert local_end(options) == pytest.approx(w, rel=1e-5)


# Rounds with a server optimiser


def fedavg_step(w: float, rate: float, steps: int) -> float:
    """Return Σ n_i (w − w_i) / Σ n_i: gradient descent on a quadratic shrinks the distance by 1 − eta."""
    ends = [centre + (1 - rate) ** steps * (w - centre) for centre in CENTRES]
    return sum(n * (w - end) for n, end in zip(COUNTS, ends, strict=True)) / sum(COUNTS)


LOCAL = LocalTraining(local_steps=3, learning_rate=0.1)


def test_fedavg_converges_to_the_weighted_mean_of_the_minima_as_computed() -> None:
    expected, w = [], START
    for _ in range(8):
        w -= fedavg_step(w, 0.1, 3)
        expected.append(w)
    assert models(Quadratic(LOCAL), fedavg, 8) == pytest.approx(expected, rel=1e-5)
    assert models(Quadratic(LOCAL), fedavg, 60)[-1] == pytest.approx((4 - 4 + 5) / 8, rel=1e-4)


def test_server_momentum_follows_its_formula() -> None:
    expected, w, v = [], START, 0.0
    for _ in range(8):
        v = 0.7 * v + fedavg_step(w, 0.1, 3)
        w -= 0.5 * v
        expected.append(w)
    assert models(Quadratic(LOCAL), ServerMomentum(0.7, 0.5), 8) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("kind", [FedAdam, FedYogi])
def test_fedadam_and_fedyogi_follow_their_formulas(kind: type[FedAdam]) -> None:
    rate, beta1, beta2, tau = 0.2, 0.8, 0.9, 0.05
    expected, w, m, v = [], START, 0.0, tau**2
    for _ in range(12):
        u = fedavg_step(w, 0.1, 3)
        m = beta1 * m + (1 - beta1) * u
        if kind is FedAdam:
            v = beta2 * v + (1 - beta2) * u**2
        else:
            v -= (1 - beta2) * u**2 * float(np.sign(v - u**2))
        w -= rate * m / (sqrt(v) + tau)
        expected.append(w)
    found = models(Quadratic(LOCAL), kind(rate, beta1, beta2, tau), 12)
    assert found == pytest.approx(expected, rel=1e-5)


# The built-in network


def torch_fedavg(state: Mapping[str, object], dataset: Dataset, rows: Sequence[NDArray[np.int32]]) -> Vector:
    """Return the model after one round of FedAvg with all devices, full batches, 3 steps of 0.1."""
    import torch

    total = sum(len(own) for own in rows)
    average: dict[str, torch.Tensor] = {}
    for own in rows:
        network = torch.nn.Sequential(
            *(torch.nn.Conv2d(1, 2, 5), torch.nn.MaxPool2d(2), torch.nn.ReLU(), torch.nn.Flatten()),
            *(torch.nn.Linear(288, 8), torch.nn.ReLU(), torch.nn.Linear(8, 10)),
        )
        network.load_state_dict({name: torch.tensor(value) for name, value in state.items()})
        pixels = torch.tensor(dataset.train_inputs[own]) / 255
        inputs = (pixels - dataset.offset[0]) / dataset.scale[0]
        labels = torch.tensor(dataset.train_targets[own]).long()
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(network(inputs), labels).backward()
            optimizer.step()
        for name, value in network.state_dict().items():
            average[name] = average.get(name, torch.zeros(())) + len(own) / total * value
    return torch.cat([value.flatten() for value in average.values()]).numpy()


def test_a_synchronous_round_on_unequal_data_is_fedavg_in_torch(mnist: Dataset) -> None:
    counts = [5, 10, 40, 80]
    rows = np.split(np.arange(sum(counts), dtype=np.int32), np.cumsum(counts)[:-1])
    network = Architecture(input_shape=(1, 28, 28), convolutions=((2, 5),), hidden=(8,), classes=10)
    options = LocalTraining(local_steps=3, batch_size=100, learning_rate=0.1)  # whole data sets
    task = CnnTask(DeviceSamples(mnist, rows), network, options)
    start = task.initial_model()
    expected = torch_fedavg(task.named_arrays(start), mnist, rows)
    timeline = simulate(Scenario(devices=4, group_size=4, compute_slots=1), "sync", rounds=1)
    found = train(timeline, task, aggregation=fedavg).model
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5)
    assert np.abs(expected - start).max() > 0.01
    plain = train(timeline, task, aggregation=mean).model  # equal weights are something else
    assert np.abs(plain - expected).max() > 1e-3
