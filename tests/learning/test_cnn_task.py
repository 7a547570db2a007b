"""The real network on MNIST: small enough for a test, with everything else as in the paper's runs."""

from dataclasses import replace

import numpy as np
import pytest

from slotwise.aggregation import Vector
from slotwise.data import Dataset
from slotwise.fastcnn.architecture import Architecture
from slotwise.learning import Evaluation, History, TrainingStart, train
from slotwise.learning.cnn_task import CnnTask
from slotwise.learning.local_training import DeviceSamples, LocalTraining
from slotwise.learning.optimizer import StepContext
from slotwise.learning.reference import asynchronous, synchronous
from slotwise.scenario import Scenario
from slotwise.schedule import Participation, Schedule, simulate
from slotwise.schedule.policies import Participants

SMALL = Architecture(input_shape=(1, 28, 28), convolutions=((3, 5), (4, 5)), hidden=(8,), classes=10)
SGD = LocalTraining(local_steps=2, batch_size=16, learning_rate=0.05)


@pytest.fixture(scope="module")
def task(samples: DeviceSamples) -> CnnTask:
    return CnnTask(samples, SMALL, SGD)


def norm(vector: Vector) -> float:
    return float(np.linalg.norm(vector.astype(np.float64)))


@pytest.mark.parametrize("devices", [6, 5])  # groups of two: one divides, one does not
@pytest.mark.parametrize(("schedule", "delay"), [("async", 0), ("idfl", 0), ("idfl", 1)])
def test_engine_and_reference_agree_to_the_bit(
    schedule: Schedule, delay: int, devices: int, samples: DeviceSamples
) -> None:
    task = CnnTask(DeviceSamples(samples.dataset, samples.rows[:devices]), SMALL, SGD)
    scenario = Scenario(devices=devices, group_size=2, compute_slots=2)
    chosen = "auto" if schedule == "async" else delay
    history = train(simulate(scenario, schedule, delay=chosen, rounds=7), task, workers=2)
    *_, expected = asynchronous(scenario, task, 7, delay)
    assert np.array_equal(history.model, expected)


@pytest.mark.parametrize("devices", [6, 5])
@pytest.mark.parametrize("participation", ["round-robin", "random"])
def test_engine_and_reference_agree_on_synchronous_rounds(
    participation: Participation, devices: int, samples: DeviceSamples
) -> None:
    task = CnnTask(DeviceSamples(samples.dataset, samples.rows[:devices]), SMALL, SGD)
    scenario = Scenario(devices=devices, group_size=2, compute_slots=2)
    timeline = simulate(scenario, "sync", participation=participation, seed=3, rounds=7)
    turns = Participants(devices, 2, participation, 3)
    *_, expected = synchronous(task, 7, lambda k: list(turns.participants(k)))
    assert np.array_equal(train(timeline, task, workers=2).model, expected)


def test_one_two_and_four_workers_agree_to_the_bit(task: CnnTask) -> None:
    timeline = simulate(Scenario(devices=6, group_size=1, compute_slots=4), "idfl", rounds=12)
    one, two, four = (train(timeline, task, workers=n, evaluate_every=10) for n in (1, 2, 4))

    def result(history: History) -> tuple[object, bytes]:
        return history.points, history.model.tobytes()

    assert result(one) == result(two) == result(four)


def test_training_lowers_the_loss_from_the_logarithm_of_ten(task: CnnTask) -> None:
    timeline = simulate(Scenario(devices=6, group_size=6, compute_slots=2), "sync", rounds=40)
    first, *_, last = train(timeline, task, workers=2).points
    assert last.loss < 0.8 * first.loss
    nothing: Evaluation = task.evaluate(np.zeros_like(task.initial_model()))
    assert nothing.loss == pytest.approx(np.log(10), rel=1e-6)
    # A network whose last bias decides everything says 7 to every image.
    model = np.zeros_like(task.initial_model())
    model[-3] = 1.0
    sevens = int((task.samples.dataset.test_targets == 7).sum())
    assert task.evaluate(model).accuracy == sevens / 10_000


def test_an_update_is_one_of_its_device_and_training_and_leaves_its_model(task: CnnTask) -> None:
    model = task.initial_model()
    updates = [task.local_update(model, TrainingStart(*which)) for which in ((1, 0), (1, 0), (2, 0), (1, 1))]
    assert np.array_equal(updates[0], updates[1])
    assert not np.array_equal(updates[0], updates[2])
    assert not np.array_equal(updates[0], updates[3])
    before = model.copy()
    task.local_update(model, TrainingStart(1, 0))
    assert np.array_equal(model, before)


def test_updates_are_sums_or_means_of_gradients_at_the_step_size(
    samples: DeviceSamples, task: CnnTask
) -> None:
    mean = CnnTask(
        samples, SMALL, LocalTraining(local_steps=2, batch_size=16, learning_rate=0.05, update="mean")
    )
    model = task.initial_model()
    assert np.array_equal(
        mean.local_update(model, TrainingStart(3, 0)),
        task.local_update(model, TrainingStart(3, 0)) / np.float32(2),
    )
    # The gradient by central differences along the update itself: −f'(u/|u|) · eta = |u|.
    training = LocalTraining(local_steps=1, batch_size=40, learning_rate=0.01)
    task = CnnTask(samples, SMALL, training)
    model = task.initial_model()
    update = task.local_update(model, TrainingStart(1, 0))
    alone = CnnTask(DeviceSamples(samples.dataset, samples.rows[:1]), SMALL, training)
    step = np.float32(1e-2 / norm(update)) * update
    slope = (alone.evaluate(model + step).loss - alone.evaluate(model - step).loss) / (2 * norm(step))
    assert norm(update) == pytest.approx(training.learning_rate * slope, rel=2e-2)
    unit = CnnTask(samples, SMALL, SGD, offset=(0.0,), scale=(1.0,))
    assert np.array_equal(model, unit.initial_model())
    assert task.evaluate(model).loss != unit.evaluate(model).loss
    few = DeviceSamples(samples.dataset, [own[:3] for own in samples.rows])
    update = CnnTask(few, SMALL, LocalTraining(local_steps=2, batch_size=64)).local_update(
        CnnTask(few, SMALL, SGD).initial_model(), TrainingStart(1, 0)
    )
    assert norm(update) > 0


def test_the_named_arrays_are_the_vector_in_its_order(task: CnnTask) -> None:
    model = task.initial_model()
    arrays = task.named_arrays(model)
    assert {name: array.shape for name, array in arrays.items()} == {
        "0.weight": (3, 1, 5, 5),
        "0.bias": (3,),
        "3.weight": (4, 3, 5, 5),
        "3.bias": (4,),
        "7.weight": (8, 64),
        "7.bias": (8,),
        "9.weight": (10, 8),
        "9.bias": (10,),
    }
    assert np.array_equal(np.concatenate([array.ravel() for array in arrays.values()]), model)


def test_updates_computed_together_are_those_computed_one_by_one(mnist: Dataset) -> None:
    rows = [np.arange(40), np.arange(40, 45), np.arange(50, 90), np.arange(90, 130)]
    for network in (Architecture((1, 28, 28), (), (8,), 10), SMALL):
        task = CnnTask(DeviceSamples(mnist, rows), network, LocalTraining(batch_size=16, update="mean"))
        model, starts = task.initial_model(), [TrainingStart(n, 3 - n % 2) for n in (1, 3, 4, 2)]
        for count in (3, 4):  # the fourth device has fewer samples than a batch
            together = task.local_updates(model, starts[:count])
            for start, found in zip(starts, together, strict=False):
                np.testing.assert_array_equal(found, task.local_update(model, start))


def test_a_lambda_may_take_the_steps(samples: DeviceSamples) -> None:
    def descend(weights: Vector, gradient: Vector, context: StepContext) -> None:
        weights -= context.learning_rate * gradient

    start, steps = TrainingStart(1, 0), (descend, lambda *given: descend(*given[:3]))
    named, unnamed = (CnnTask(samples, SMALL, SGD, local_step=step) for step in steps)
    model = named.initial_model()
    assert np.array_equal(named.local_update(model, start), unnamed.local_update(model, start))


DROPOUT = replace(SMALL, dropout=0.5)


def test_dropout_is_drawn_for_each_training_and_leaves_evaluations_alone(
    samples: DeviceSamples, task: CnnTask
) -> None:
    whole = DeviceSamples(samples.dataset, samples.rows)
    dropped = CnnTask(whole, DROPOUT, LocalTraining(local_steps=1, batch_size=40))  # one batch: all samples
    model, starts = dropped.initial_model(), [TrainingStart(1, 0), TrainingStart(1, 0), TrainingStart(1, 1)]
    first, again, other = (dropped.local_update(model, start) for start in starts)
    assert np.array_equal(first, again)
    assert norm(first - other) > 0.01 * norm(first)  # not only another order of the same samples
    assert dropped.evaluate(model) == task.evaluate(model)


def test_dropout_means_the_same_in_one_call_one_by_one_and_with_another_optimiser(
    samples: DeviceSamples,
) -> None:
    plain = CnnTask(samples, DROPOUT, SGD)
    by_gradients = CnnTask(samples, DROPOUT, replace(SGD, gradient_clip=1e6))  # never reached
    model, starts = plain.initial_model(), [TrainingStart(1, 0), TrainingStart(2, 3)]
    together = plain.local_updates(model, starts)
    for start, update in zip(starts, together, strict=True):
        assert np.array_equal(plain.local_update(model, start), update)
        assert norm(by_gradients.local_update(model, start) - update) < 1e-5 * norm(update)


def test_updates_with_dropout_are_on_average_near_those_of_the_linear_part(samples: DeviceSamples) -> None:
    """The gradient of the last bias is linear in the scores' errors; half of the inputs are kept, doubled."""
    one = LocalTraining(local_steps=1, batch_size=40, learning_rate=1.0)
    plain, dropped = CnnTask(samples, SMALL, one), CnnTask(samples, DROPOUT, one)
    model = plain.initial_model()
    updates = dropped.local_updates(model, [TrainingStart(1, number) for number in range(200)])
    expected = plain.local_update(model, TrainingStart(1, 0))
    assert np.mean(updates, axis=0)[-10:] == pytest.approx(expected[-10:], abs=0.02)


@pytest.mark.parametrize(("convolutions", "hidden"), [(SMALL.convolutions, (8,)), ((), (8,)), ((), ())])
def test_arrays_with_dropout_are_named_as_in_the_state_dict(
    samples: DeviceSamples, convolutions: tuple[tuple[int, int], ...], hidden: tuple[int, ...]
) -> None:
    sequential = pytest.importorskip("slotwise.torch.networks").sequential
    network = replace(DROPOUT, convolutions=convolutions, hidden=hidden)
    task = CnnTask(samples, network, SGD)
    found = {name: array.shape for name, array in task.named_arrays(task.initial_model()).items()}
    expected = sequential(network).state_dict()
    assert found == {name: tuple(array.shape) for name, array in expected.items()}
