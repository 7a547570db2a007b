"""Losses of an evaluation are those of all samples at once, although samples are read in parts."""

from functools import partial
from math import isnan

import numpy as np
import pytest
from torch_cases import CLASSES, FEATURES

from slotwise.data import Dataset
from slotwise.learning.local_training import DeviceSamples, LocalTraining

torch = pytest.importorskip("torch")
nn = torch.nn
TorchTask = pytest.importorskip("slotwise.torch.task").TorchTask
TRAINING = LocalTraining(local_steps=1, batch_size=8)
COUNT = 1200  # three parts
WEIGHT = torch.tensor([1.0, 5.0, 0.0])
DRAW = np.random.default_rng(0)
INPUTS = DRAW.normal(size=(COUNT, FEATURES))
LABELS = np.sort(DRAW.integers(0, CLASSES, COUNT))  # so that parts have different labels


def evaluate(module, labels, **options):
    """Return the evaluation of a task, training and test being the same samples."""
    samples = DeviceSamples(Dataset("many", INPUTS, labels, INPUTS, labels), [np.arange(COUNT)])
    task = TorchTask(module, samples, TRAINING, device="cpu", **options)
    return task.evaluate(task.initial_model())


def at_once(module, labels, loss) -> float:
    outputs = module(torch.tensor(INPUTS, dtype=torch.float32)).detach()
    return loss(outputs, torch.tensor(labels)).item()


def ignore(labels, rows, label=-100):
    changed = labels.copy()
    changed[rows] = label
    return changed


SOME = ignore(LABELS, slice(100, 350))
PART = ignore(LABELS, slice(400, 800))
LOSSES = {
    "some ignored": (nn.functional.cross_entropy, SOME),
    "a whole part ignored": (nn.functional.cross_entropy, PART),
    "module": (nn.CrossEntropyLoss(), PART),
    "class weights": (nn.CrossEntropyLoss(weight=WEIGHT), LABELS),
    "class weights and ignored": (nn.CrossEntropyLoss(weight=WEIGHT), SOME),
    "smoothed labels": (nn.CrossEntropyLoss(weight=WEIGHT, label_smoothing=0.1), SOME),
    "partial": (partial(nn.functional.cross_entropy, weight=WEIGHT), SOME),
    "another ignored label": (nn.CrossEntropyLoss(ignore_index=7), ignore(LABELS, slice(400, 800), 7)),
}


@pytest.mark.parametrize(("loss", "labels"), LOSSES.values(), ids=LOSSES)
def test_losses_are_those_of_all_samples_at_once(loss, labels) -> None:
    module = nn.Linear(FEATURES, CLASSES)
    found, expected = evaluate(module, labels, loss=loss), at_once(module, labels, loss)
    assert found.loss == pytest.approx(expected, rel=1e-5)
    assert found.metrics["test_loss"] == pytest.approx(expected, rel=1e-5)


def test_losses_are_weighted_averaged_and_ignore_labels() -> None:
    module = nn.Sequential(nn.Linear(FEATURES, CLASSES), nn.LogSoftmax(dim=1))
    loss = nn.NLLLoss(weight=WEIGHT)
    assert evaluate(module, SOME, loss=loss).loss == pytest.approx(at_once(module, SOME, loss), rel=1e-5)
    module, loss = nn.Linear(FEATURES, CLASSES), nn.CrossEntropyLoss(reduction="none")
    expected = at_once(module, SOME, lambda outputs, targets: loss(outputs, targets).mean())
    assert evaluate(module, SOME, loss=loss).loss == pytest.approx(expected, rel=1e-5)
    module, labels = nn.Linear(FEATURES, CLASSES), ignore(LABELS, slice(400, 800), 7)
    loss = nn.CrossEntropyLoss(ignore_index=7)
    assert evaluate(module, labels, loss=loss).accuracy == evaluate(module, PART).accuracy
    found = evaluate(nn.Linear(FEATURES, CLASSES), np.full(COUNT, -100))
    assert isnan(found.loss)
    assert isnan(found.metrics["test_loss"])
    assert isnan(found.accuracy)


def test_a_number_of_one_s_own_is_weighted_by_samples() -> None:
    def own(outputs, targets):
        return nn.functional.cross_entropy(outputs, targets)

    module = nn.Linear(FEATURES, CLASSES)
    assert evaluate(module, LABELS, loss=own).loss == pytest.approx(at_once(module, LABELS, own), rel=1e-5)
    assert isnan(evaluate(module, PART, loss=own).loss)
