import pickle
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from slotwise.aggregation import Vector
from slotwise.fastcnn.architecture import Architecture
from slotwise.fastcnn.kernels import FastCnn

SHAPE = (2, 14, 13)
OFFSET, SCALE = (0.1, 0.2), (0.3, 0.4)
CNN = Architecture(SHAPE, ((5, 3), (4, 3)), (9,), 4)
MLP = Architecture(SHAPE, (), (70, 9), 4)
LOGISTIC = Architecture(SHAPE, (), (), 4)
GENERATOR = np.random.default_rng(0)
IMAGES = GENERATOR.integers(0, 256, (50, *SHAPE), np.uint8)
LABELS = GENERATOR.integers(0, 4, 50).astype(np.uint8)
BATCHES = GENERATOR.integers(0, 50, (6, 11))


@pytest.fixture(params=[CNN, MLP, LOGISTIC], ids=["cnn", "mlp", "logistic"], scope="module")
def network(request: pytest.FixtureRequest) -> FastCnn:
    return FastCnn(request.param, offset=OFFSET, scale=SCALE)


def train(
    network: FastCnn,
    model: Vector,
    images: NDArray[Any],
    labels: Any,
    batches: NDArray[Any],
    rate: float,
) -> Vector:
    return network.train_each(model, images, labels, batches[np.newaxis], [rate])[0]


@pytest.fixture
def start(network: FastCnn) -> Vector:
    return network.architecture.initial_parameters(np.random.default_rng(0))


@pytest.mark.parametrize("size", [1, 11, 64, 130])
def test_training_is_gradient_descent_batch_by_batch(network: FastCnn, start: Vector, size: int) -> None:
    model, batches = start, np.random.default_rng(0).integers(0, 50, (6, size))
    for batch in batches:
        model = model - np.float32(0.1) * network.gradient(model, IMAGES[batch], LABELS[batch])[1]
    assert train(network, start, IMAGES, LABELS, batches, 0.1) == pytest.approx(model, rel=1e-5, abs=1e-6)


def test_training_lowers_the_loss_in_any_portions_and_leaves_its_arguments_alone(
    network: FastCnn, start: Vector
) -> None:
    half = train(network, start, IMAGES, LABELS, BATCHES[:3], 0.1)
    whole = train(network, start, IMAGES, LABELS, BATCHES, 0.1)
    assert np.array_equal(train(network, half, IMAGES, LABELS, BATCHES[3:], 0.1), whole)
    batches = np.tile(np.arange(50), (400, 1))
    trained = train(network, start, IMAGES, LABELS, batches, 0.1)
    assert network.evaluate(trained, IMAGES, LABELS)[0] < 0.8 * network.evaluate(start, IMAGES, LABELS)[0]
    batches = np.zeros((0, 5), np.int64)
    assert np.array_equal(train(network, start, IMAGES, LABELS, batches, 0.1), start)
    given = [start.copy(), IMAGES.copy(), LABELS.copy(), BATCHES.copy()]
    for array in given:
        array.flags.writeable = False
    train(network, *given, 0.1)
    assert np.array_equal(given[0], start)
    transposed = np.ascontiguousarray(IMAGES.transpose(3, 2, 1, 0)).transpose(3, 2, 1, 0)
    expected = train(network, start, IMAGES, LABELS, BATCHES, 0.1)
    assert np.array_equal(train(network, start, transposed, LABELS, BATCHES, 0.1), expected)


def test_evaluation_sums_losses_and_counts_the_highest_scores(network: FastCnn, start: Vector) -> None:
    losses = [network.gradient(start, IMAGES[i : i + 1], LABELS[i : i + 1])[0] for i in range(len(IMAGES))]
    assert network.evaluate(start, IMAGES, LABELS)[0] == pytest.approx(sum(losses), rel=1e-6)
    losses = [
        [network.gradient(start, IMAGES[i : i + 1], [label])[0] for label in range(4)]
        for i in range(len(IMAGES))
    ]
    correct = int(np.sum(np.argmin(losses, 1) == LABELS))
    assert network.evaluate(start, IMAGES, LABELS)[1] == correct
    assert network.evaluate(start, IMAGES[:0], LABELS[:0]) == (0.0, 0)


def test_results_are_the_same_to_the_bit_with_many_threads_and_after_other_calls(
    network: FastCnn, start: Vector
) -> None:
    rates = np.linspace(0.01, 0.2, 40)
    alone = [train(network, start, IMAGES, LABELS, BATCHES, rate) for rate in rates]
    with ThreadPoolExecutor(8) as threads:
        together = list(threads.map(lambda rate: train(network, start, IMAGES, LABELS, BATCHES, rate), rates))
    assert all(np.array_equal(one, other) for one, other in zip(alone, together, strict=True))
    fresh = FastCnn(network.architecture, offset=OFFSET, scale=SCALE)
    expected = fresh.gradient(start, IMAGES[:3], LABELS[:3])[1]
    train(network, np.full_like(start, np.nan), IMAGES, LABELS, BATCHES, 0.1)
    network.evaluate(start, 255 - IMAGES, LABELS)
    assert np.array_equal(network.gradient(start, IMAGES[:3], LABELS[:3])[1], expected)
    network.evaluate(start, IMAGES, LABELS)
    copy = pickle.loads(pickle.dumps(network))
    assert copy.evaluate(start, IMAGES, LABELS) == network.evaluate(start, IMAGES, LABELS)


def test_other_threads_run_during_training(network: FastCnn, start: Vector) -> None:
    batches = np.tile(np.arange(50), (10_000, 1))
    with ThreadPoolExecutor(1) as threads:
        training = threads.submit(train, network, start, IMAGES, LABELS, batches, 0.01)
        turns = 0
        while not training.done():
            time.sleep(0.001)
            turns += 1
    assert turns > 10


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30])
def test_a_diverged_model_gives_a_diverged_result_and_nothing_worse(
    network: FastCnn, start: Vector, value: float
) -> None:
    model = start.copy()
    model[3] = value
    trained = train(network, model, IMAGES, LABELS, BATCHES, 0.1)
    loss, correct = network.evaluate(model, IMAGES, LABELS)
    assert not np.isfinite(trained).all() or abs(trained).max() > 1e20
    assert not np.isfinite(loss) or loss > 1e20
    assert 0 <= correct <= len(IMAGES)


def test_room_to_compute_in_is_small() -> None:
    mnist = Architecture((1, 28, 28), ((10, 5), (20, 5)), (50,), 10)
    state = FastCnn(mnist, offset=[0.0], scale=[1.0])
    with state._workspace() as work:
        assert sum(array.nbytes for array in work) < 2_000_000


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"model": np.zeros(7, np.float32)}, "model"),
        ({"images": IMAGES.astype(np.float32)}, "uint8"),
        ({"images": IMAGES[:, :, 1:]}, "images"),
        ({"labels": LABELS[1:]}, "labels"),
        ({"labels": np.full(50, 4)}, "labels"),
        ({"labels": np.full(50, -1)}, "labels"),
        ({"batches": np.zeros((2, 0), np.int64)}, "batches"),
        ({"batches": np.zeros(3, np.int64)}, "batches"),
        ({"batches": np.array([[0, 50]])}, "batches"),
        ({"batches": np.array([[0, -1]])}, "batches"),
    ],
)
def test_what_cannot_be_trained_is_refused_with_a_reason(
    network: FastCnn, start: Vector, changed: dict[str, object], message: str
) -> None:
    given = {"model": start, "images": IMAGES, "labels": LABELS, "batches": BATCHES} | changed
    with pytest.raises(ValueError, match=message):
        train(network, **given, rate=0.1)


@pytest.mark.parametrize(("offset", "scale"), [([0.1], [0.1]), ([0.1, 0.2], [0.1, 0.0])])
def test_offset_and_scale_must_fit_the_images(offset: list[float], scale: list[float]) -> None:
    with pytest.raises(ValueError, match="scale"):
        FastCnn(CNN, offset=offset, scale=scale)


def test_a_gradient_of_no_images_is_refused(network: FastCnn, start: Vector) -> None:
    with pytest.raises(ValueError, match="at least one"):
        network.gradient(start, IMAGES[:0], LABELS[:0])


def test_the_next_process_starts_without_compiling() -> None:
    for architecture in (CNN, MLP):
        model = architecture.initial_parameters(GENERATOR)
        train(FastCnn(architecture, offset=OFFSET, scale=SCALE), model, IMAGES, LABELS, BATCHES, 0.1)
    program = """
import numpy as np
from numba.core import event
from slotwise.fastcnn.architecture import Architecture
from slotwise.fastcnn.kernels import FastCnn

class Listener(event.Listener):
    def on_start(self, seen):
        raise AssertionError(f"compiles {seen.data['dispatcher']}")
    def on_end(self, seen):
        pass

event.register("numba:compile", Listener())
for convolutions in (), ((2, 3),):
    architecture = Architecture((1, 6, 6), convolutions, (), 2)
    network = FastCnn(architecture, offset=[0.0], scale=[1.0])
    model = np.zeros(architecture.parameters, np.float32)
    network.train_each(model, np.zeros((1, 1, 6, 6), np.uint8), [0], [[[0]]], [0.1])
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_what_dropout_keeps_must_fit_the_batch_and_needs_dropout() -> None:
    dropped = Architecture(SHAPE, ((5, 3), (4, 3)), (9,), 4, dropout=0.5)
    kept = np.ones((11, 4 + 9), np.bool_)
    start = dropped.initial_parameters(np.random.default_rng(0))
    network = FastCnn(dropped, offset=OFFSET, scale=SCALE)
    assert network.gradient(start, IMAGES[:11], LABELS[:11], kept)[0] > 0
    with pytest.raises(ValueError, match="kept"):
        network.gradient(start, IMAGES[:11], LABELS[:11], kept[:10])
    with pytest.raises(ValueError, match="kept"):
        network.train_each(start, IMAGES, LABELS, BATCHES[np.newaxis], [0.1], kept)
    plain = FastCnn(CNN, offset=OFFSET, scale=SCALE)
    with pytest.raises(ValueError, match="kept"):
        plain.gradient(start, IMAGES[:11], LABELS[:11], kept[:, :0])
