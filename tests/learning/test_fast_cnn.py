import pickle
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from slotwise.learning.cnn_task import FastCnn
from slotwise.learning.fastcnn.architecture import Architecture

ARCHITECTURE = Architecture((2, 14, 13), ((5, 3), (4, 3)), (9,), 4)
NETWORK = FastCnn(ARCHITECTURE, offset=(0.1, 0.2), scale=(0.3, 0.4))
GENERATOR = np.random.default_rng(0)
IMAGES = GENERATOR.integers(0, 256, (50, *ARCHITECTURE.input_shape), np.uint8)
LABELS = GENERATOR.integers(0, ARCHITECTURE.classes, 50).astype(np.uint8)
MODEL = ARCHITECTURE.initial_parameters(GENERATOR)
BATCHES = GENERATOR.integers(0, 50, (6, 11))


def test_training_is_gradient_descent_batch_by_batch() -> None:
    model = MODEL
    for batch in BATCHES:
        model = model - np.float32(0.1) * NETWORK.gradient(model, IMAGES[batch], LABELS[batch])[1]
    assert NETWORK.train(MODEL, IMAGES, LABELS, BATCHES, 0.1) == pytest.approx(model, rel=1e-5, abs=1e-6)


def test_training_in_two_halves_is_training_in_one_go_to_the_bit() -> None:
    half = NETWORK.train(MODEL, IMAGES, LABELS, BATCHES[:3], 0.1)
    whole = NETWORK.train(MODEL, IMAGES, LABELS, BATCHES, 0.1)
    assert np.array_equal(NETWORK.train(half, IMAGES, LABELS, BATCHES[3:], 0.1), whole)


def test_training_lowers_the_loss() -> None:
    batches = np.tile(np.arange(50), (400, 1))
    trained = NETWORK.train(MODEL, IMAGES, LABELS, batches, 0.1)
    assert NETWORK.evaluate(trained, IMAGES, LABELS)[0] < 0.8 * NETWORK.evaluate(MODEL, IMAGES, LABELS)[0]


def test_training_for_no_steps_changes_nothing() -> None:
    batches = np.zeros((0, 5), np.int64)
    assert np.array_equal(NETWORK.train(MODEL, IMAGES, LABELS, batches, 0.1), MODEL)


def test_training_leaves_its_arguments_alone() -> None:
    given = [MODEL.copy(), IMAGES.copy(), LABELS.copy(), BATCHES.copy()]
    for array in given:
        array.flags.writeable = False
    NETWORK.train(*given, 0.1)
    assert np.array_equal(given[0], MODEL)


def test_images_need_not_be_contiguous() -> None:
    transposed = np.ascontiguousarray(IMAGES.transpose(3, 2, 1, 0)).transpose(3, 2, 1, 0)
    expected = NETWORK.train(MODEL, IMAGES, LABELS, BATCHES, 0.1)
    assert np.array_equal(NETWORK.train(MODEL, transposed, LABELS, BATCHES, 0.1), expected)


def test_evaluation_sums_the_losses_of_single_images() -> None:
    losses = [NETWORK.gradient(MODEL, IMAGES[i : i + 1], LABELS[i : i + 1])[0] for i in range(len(IMAGES))]
    assert NETWORK.evaluate(MODEL, IMAGES, LABELS)[0] == pytest.approx(sum(losses), rel=1e-6)


def test_evaluation_counts_images_whose_label_has_the_highest_score() -> None:
    losses = [
        [NETWORK.gradient(MODEL, IMAGES[i : i + 1], [label])[0] for label in range(ARCHITECTURE.classes)]
        for i in range(len(IMAGES))
    ]
    correct = int(np.sum(np.argmin(losses, 1) == LABELS))
    assert NETWORK.evaluate(MODEL, IMAGES, LABELS)[1] == correct


def test_evaluating_nothing_is_zero() -> None:
    assert NETWORK.evaluate(MODEL, IMAGES[:0], LABELS[:0]) == (0.0, 0)


def test_results_are_the_same_to_the_bit_with_many_threads() -> None:
    rates = np.linspace(0.01, 0.2, 40)
    alone = [NETWORK.train(MODEL, IMAGES, LABELS, BATCHES, rate) for rate in rates]
    with ThreadPoolExecutor(8) as threads:
        together = list(threads.map(lambda rate: NETWORK.train(MODEL, IMAGES, LABELS, BATCHES, rate), rates))
    assert all(np.array_equal(one, other) for one, other in zip(alone, together, strict=True))


def test_a_call_does_not_remember_the_one_before() -> None:
    fresh = FastCnn(ARCHITECTURE, offset=(0.1, 0.2), scale=(0.3, 0.4))
    expected = fresh.gradient(MODEL, IMAGES[:3], LABELS[:3])[1]
    NETWORK.train(np.full_like(MODEL, np.nan), IMAGES, LABELS, BATCHES, 0.1)
    NETWORK.evaluate(MODEL, 255 - IMAGES, LABELS)
    assert np.array_equal(NETWORK.gradient(MODEL, IMAGES[:3], LABELS[:3])[1], expected)


def test_other_threads_run_during_training() -> None:
    batches = np.tile(np.arange(50), (2000, 1))
    with ThreadPoolExecutor(1) as threads:
        training = threads.submit(NETWORK.train, MODEL, IMAGES, LABELS, batches, 0.01)
        turns = 0
        while not training.done():
            time.sleep(0.001)
            turns += 1
    assert turns > 10


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30])
def test_a_diverged_model_gives_a_diverged_result_and_nothing_worse(value: float) -> None:
    model = MODEL.copy()
    model[3] = value
    trained = NETWORK.train(model, IMAGES, LABELS, BATCHES, 0.1)
    loss, correct = NETWORK.evaluate(model, IMAGES, LABELS)
    assert not np.isfinite(trained).all() or abs(trained).max() > 1e20
    assert not np.isfinite(loss) or loss > 1e20
    assert 0 <= correct <= len(IMAGES)


def test_pickling_keeps_the_network() -> None:
    NETWORK.evaluate(MODEL, IMAGES, LABELS)
    copy = pickle.loads(pickle.dumps(NETWORK))
    assert copy.evaluate(MODEL, IMAGES, LABELS) == NETWORK.evaluate(MODEL, IMAGES, LABELS)


def test_room_to_compute_in_is_small() -> None:
    mnist = Architecture((1, 28, 28), ((10, 5), (20, 5)), (50,), 10)
    state = FastCnn(mnist, offset=[0.0], scale=[1.0])
    with state._workspace() as work:
        assert sum(array.nbytes for array in work) < 2_000_000


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"model": MODEL[:-1]}, "model"),
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
def test_what_cannot_be_trained_is_refused_with_a_reason(changed: dict[str, object], message: str) -> None:
    given = {"model": MODEL, "images": IMAGES, "labels": LABELS, "batches": BATCHES} | changed
    with pytest.raises(ValueError, match=message):
        NETWORK.train(**given, learning_rate=0.1)


@pytest.mark.parametrize(("offset", "scale"), [([0.1], [0.1]), ([0.1, 0.2], [0.1, 0.0])])
def test_offset_and_scale_must_fit_the_images(offset: list[float], scale: list[float]) -> None:
    with pytest.raises(ValueError, match="scale"):
        FastCnn(ARCHITECTURE, offset=offset, scale=scale)


def test_a_gradient_of_no_images_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        NETWORK.gradient(MODEL, IMAGES[:0], LABELS[:0])


def test_the_next_process_starts_without_compiling() -> None:
    NETWORK.train(MODEL, IMAGES, LABELS, BATCHES, 0.1)
    program = """
import numpy as np
from numba.core import event
from slotwise.learning.fastcnn.architecture import Architecture
from slotwise.learning.cnn_task import FastCnn

class Listener(event.Listener):
    def on_start(self, seen):
        raise AssertionError(f"compiles {seen.data['dispatcher']}")
    def on_end(self, seen):
        pass

event.register("numba:compile", Listener())
architecture = Architecture((1, 6, 6), ((2, 3),), (), 2)
network = FastCnn(architecture, offset=[0.0], scale=[1.0])
model = np.zeros(architecture.parameters, np.float32)
network.train(model, np.zeros((1, 1, 6, 6), np.uint8), [0], [[0]], 0.1)
"""
    subprocess.run([sys.executable, "-c", program], check=True)
