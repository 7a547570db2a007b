"""Torch modules that the compiled kernels train: which they are, and that results are torch's."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import slotwise as sw
from slotwise.data import Dataset
from slotwise.learning.local_training import DeviceSamples, LocalTraining
from slotwise.learning.task import TrainingStart
from slotwise.torch.compiled import NotCompiled, find_architecture
from slotwise.torch.task import TorchTask

STEPS, CLASSES = 50, 4


def images(shape: tuple[int, int, int], seed: int = 0, count: int = 96) -> DeviceSamples:
    """Return two devices with random images, whose labels a network can learn."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, CLASSES, count)
    pixels = draw.integers(0, 160, (count, *shape)) + 20 * labels[:, None, None, None]
    inputs, targets = pixels.astype(np.uint8), labels.astype(np.uint8)
    half = count // 2
    data = Dataset(
        name="random",
        classes=CLASSES,
        train_inputs=inputs,
        train_targets=targets,
        test_inputs=inputs[:half],
        test_targets=targets[:half],
        offset=(0.4,) * shape[0],
        scale=(0.3,) * shape[0],
    )
    return DeviceSamples(data, np.arange(count, dtype=np.int32).reshape(2, half))


class Chain(nn.Module):
    """The same network in a forward with functions, ReLU before or after the pool."""

    def __init__(self, convolutions: list[nn.Conv2d], dense: list[nn.Linear], pool_first: bool, ends: bool):
        super().__init__()
        self.convolutions, self.dense = nn.ModuleList(convolutions), nn.ModuleList(dense)
        self.pool_first, self.ends = pool_first, ends

    def forward(self, values):
        for layer in self.convolutions:
            values = layer(values)
            if self.pool_first:
                values = functional.relu(functional.max_pool2d(values, 2))
            else:
                values = functional.max_pool2d(torch.relu(values), kernel_size=2, stride=2)
        values = values.view(values.size(0), -1) if self.pool_first else torch.flatten(values, 1)
        for layer in self.dense[:-1]:
            values = layer(values).relu()
        values = self.dense[-1](values)
        return functional.log_softmax(values, dim=1) if self.ends else values


def random_module(seed: int) -> tuple[nn.Module, DeviceSamples, object]:
    """Return a module, images of its size and a loss that goes with it."""
    draw = np.random.default_rng(seed)
    channels, side = int(draw.integers(1, 4)), int(draw.integers(9, 25))
    torch.manual_seed(seed)
    filters, inputs, size = [], channels, side
    for _ in range(int(draw.integers(0, 3))):
        kernel, outputs = int(draw.choice([1, 3, 5])), int(draw.integers(2, 12))
        if size - kernel + 1 >= 2:
            filters.append(nn.Conv2d(inputs, outputs, kernel))
            inputs, size = outputs, (size - kernel + 1) // 2
    units = [inputs * size * size, *draw.integers(3, 30, int(draw.integers(0, 3))).tolist(), CLASSES]
    dense = [nn.Linear(before, after) for before, after in pairwise(units)]
    ends = bool(draw.integers(2))
    loss = functional.nll_loss if ends and draw.integers(2) else functional.cross_entropy
    if draw.integers(2):
        return Chain(filters, dense, bool(draw.integers(2)), ends), images((channels, side, side), seed), loss
    layers: list[nn.Module] = []
    for layer in filters:
        layers += [layer, nn.ReLU(), nn.MaxPool2d(2)]
    layers.append(nn.Flatten())
    for linear in dense:
        layers += [linear, nn.ReLU()]
    layers[-1] = nn.LogSoftmax(dim=1) if ends else nn.Identity()
    return nn.Sequential(*layers), images((channels, side, side), seed), loss


@pytest.mark.parametrize("seed", range(32))
def test_fifty_steps_agree_with_torch(seed: int) -> None:
    module, samples, loss = random_module(seed)
    training = LocalTraining(local_steps=STEPS, batch_size=16, learning_rate=0.02)
    fast, slow = (TorchTask(module, samples, training, loss=loss, compile=how) for how in ("auto", False))
    assert fast.trains_together
    assert not slow.trains_together
    model, start = slow.initial_model(), TrainingStart(2, 3)
    assert np.array_equal(fast.initial_model(), model)
    expected, found = slow.local_update(model, start), fast.local_update(model, start)
    assert np.linalg.norm(found - expected) <= 2e-4 * np.linalg.norm(expected)
    end = model - expected
    one, other = fast.evaluate(end), slow.evaluate(end)
    assert one.loss == pytest.approx(other.loss, rel=1e-5)
    assert one.metrics == pytest.approx(other.metrics, rel=1e-5)
    assert one.accuracy == pytest.approx(other.accuracy)


def test_metrics_of_ones_own_are_computed_by_torch_of_a_compiled_module() -> None:
    module, samples, _ = random_module(1)
    metrics = {"sure": lambda scores, labels: scores.max(1).values}
    training = LocalTraining(local_steps=2, batch_size=8)
    fast, slow = (
        TorchTask(module, samples, training, metrics=metrics, compile=how) for how in ("auto", False)
    )
    assert fast.evaluate(fast.initial_model()) == slow.evaluate(slow.initial_model())


def conv(**options) -> nn.Sequential:
    side = (12 + 2 * options.get("padding", 0) - 3) // options.get("stride", 1) + 1
    features = 4 * (side // 2) ** 2
    own = nn.Conv2d(1, 4, 3, **options)
    return nn.Sequential(own, nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(features, CLASSES))


def dropout(first: float, second: float) -> nn.Sequential:
    front = [nn.Conv2d(1, 4, 3), nn.Dropout2d(first), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten()]
    return nn.Sequential(*front, nn.Dropout(second), nn.Linear(100, CLASSES))


class Skipping(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(144, CLASSES), nn.Linear(144, CLASSES)

    def forward(self, values):
        values = values.flatten(1)
        return self.one(values) + self.two(values)


class Branching(Skipping):
    def forward(self, values):
        return self.one(values.flatten(1)) if values.sum() > 0 else self.two(values.flatten(1))


class Reversed(nn.Module):
    """Its second layer is declared first."""

    def __init__(self):
        super().__init__()
        self.last, self.first = nn.Linear(8, CLASSES), nn.Linear(144, 8)

    def forward(self, values):
        return self.last(self.first(values.flatten(1)).relu())


class Transposed(nn.Module):
    """A flatten in another order: its layers alone do not say so."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(144, CLASSES)

    def forward(self, values):
        return self.linear(values.flip(3).flatten(1))


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (conv(padding=1), "padding"),
        (conv(stride=2), "stride 1"),
        (conv(bias=False), "bias"),
        (dropout(0.5, 0.25), "dropout"),
        (nn.Sequential(nn.Flatten(), nn.Linear(144, CLASSES), nn.ReLU()), "ReLU"),
        (nn.Sequential(nn.Flatten(), nn.Linear(144, 8), nn.Tanh(), nn.Linear(8, CLASSES)), "Tanh"),
        (Skipping(), "two"),
        (Branching(), "torch.fx"),
        (Reversed(), "order"),
        (Transposed(), "flip"),
    ],
)
def test_other_modules_run_in_torch_and_say_why(module: nn.Module, reason: str) -> None:
    task = TorchTask(module, images((1, 12, 12)), LocalTraining(local_steps=1, batch_size=4))
    assert not task.trains_together
    assert reason in task.not_compiled
    assert task.not_compiled in repr(task)


def test_what_its_layers_do_not_say_is_seen_in_the_gradient() -> None:
    module = conv()
    module[0].register_forward_hook(lambda layer, inputs, outputs: 2 * outputs)
    task = TorchTask(module, images((1, 12, 12)), LocalTraining(local_steps=1, batch_size=4))
    assert not task.trains_together
    assert "gradient" in task.not_compiled


def test_dropout_where_the_kernels_have_it_is_compiled_and_the_same_in_every_call() -> None:
    task = TorchTask(dropout(0.5, 0.5), images((1, 12, 12)), LocalTraining(local_steps=5, batch_size=8))
    assert task.trains_together
    model, starts = task.initial_model(), [TrainingStart(1, 0), TrainingStart(2, 0)]
    together = task.local_updates(model, starts)
    for start, update in zip(starts, together, strict=True):
        assert np.array_equal(task.local_update(model, start), update)
    architecture, _ = find_architecture(dropout(0.5, 0.5), (1, 12, 12))
    assert architecture.dropout == 0.5


def test_images_of_another_size_are_not_compiled() -> None:
    with pytest.raises(NotCompiled, match="fit"):
        find_architecture(conv(), (1, 20, 20))


def test_a_subclass_may_train_in_another_way() -> None:
    class Own(TorchTask):
        pass

    task = Own(conv(), images((1, 12, 12)), LocalTraining(local_steps=1, batch_size=4))
    assert not task.trains_together


def test_weights_of_the_loss_keep_it_in_torch() -> None:
    loss = nn.CrossEntropyLoss(weight=torch.ones(CLASSES))
    task = TorchTask(conv(), images((1, 12, 12)), LocalTraining(local_steps=1, batch_size=4), loss=loss)
    assert not task.trains_together


def test_other_words_are_refused() -> None:
    with pytest.raises(sw.InputError, match="auto or False"):
        TorchTask(conv(), images((1, 12, 12)), LocalTraining(), compile="always")  # type: ignore[arg-type]
