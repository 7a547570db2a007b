"""Torch modules that the compiled kernels train: which they are, and that results are torch's."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import slotwise as sw
from slotwise.data import Dataset
from slotwise.fastcnn.kernels import FastCnn
from slotwise.learning.local_training import DeviceSamples, LocalTraining
from slotwise.learning.task import TrainingStart
from slotwise.runs import Observer, RunConfig, run
from slotwise.torch.compiled import NotCompiled, find_network
from slotwise.torch.networks import resnet8
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


def wide_module(seed: int) -> tuple[nn.Module, DeviceSamples, object]:
    """Return a module with layers of all kinds, and images of the shape of MNIST or CIFAR-10 or smaller."""
    draw = np.random.default_rng(seed)
    torch.manual_seed(seed)
    shape = [(1, 28, 28), (3, 32, 32), (2, 11, 13), (3, 10, 17)][seed % 4]
    layers: list[nn.Module] = []
    inputs, side = shape[0], min(shape[1:])
    for _ in range(int(draw.integers(1, 4))):
        kernel, outputs = int(draw.choice([1, 2, 3, 5])), int(draw.choice([3, 16, 20, 32, 48]))
        padding, stride = int(draw.integers(0, kernel)), int(draw.choice([1, 1, 2]))
        if side + 2 * padding < kernel + 3 * stride:
            break
        bias = bool(draw.integers(2))
        layers.append(nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=bias))
        inputs, side = outputs, (side + 2 * padding - kernel) // stride + 1
        layers += [nn.ReLU()] * int(draw.integers(2))
        pool = [None, nn.MaxPool2d(2), nn.AvgPool2d(2), nn.MaxPool2d(3, 2)][int(draw.integers(4))]
        if pool is not None and side >= 4:
            layers.append(pool)
            side = (side - 3) // 2 + 1 if pool.kernel_size == 3 else side // 2
    if draw.integers(2):
        layers.append(nn.AdaptiveAvgPool2d(1))
    layers += [nn.ReLU(), nn.Flatten()]
    features = nn.Sequential(*layers)(torch.zeros(1, *shape)).shape[1]
    hidden = int(draw.choice([10, 33, 64]))
    layers += [nn.Linear(features, hidden, bias=bool(draw.integers(2))), nn.ReLU()]
    return (
        nn.Sequential(*layers, nn.Linear(hidden, CLASSES)),
        images(shape, seed, 40),
        functional.cross_entropy,
    )


class Block(nn.Module):
    """A residual block: normalised before or after its convolutions, its shortcut declared first or last."""

    def __init__(self, draw: np.random.Generator, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.before, first, bias = bool(draw.integers(2)), bool(draw.integers(2)), bool(draw.integers(2))
        kernel = int(draw.choice([1, 3]))
        shortcut: nn.Module = nn.Identity()
        if stride > 1 or inputs != outputs:
            shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=bias)
        if first:
            self.shortcut = shortcut
        layers = {
            "norm1": norm(draw, inputs if self.before else outputs),
            "conv1": nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=bias),
            "norm2": norm(draw, outputs),
            "conv2": nn.Conv2d(outputs, outputs, 3, padding=1, bias=bias),
        }
        order = ("norm1", "conv1", "norm2", "conv2") if self.before else ("conv1", "norm1", "conv2", "norm2")
        for name in order:
            setattr(self, name, layers[name])
        if not first:
            self.shortcut = shortcut

    def forward(self, values):
        if self.before:
            inside = self.conv2(self.norm2(self.conv1(self.norm1(values).relu())).relu())
            return inside + self.shortcut(values)
        inside = self.norm2(self.conv2(functional.relu(self.norm1(self.conv1(values)))))
        inside += self.shortcut(values)
        return functional.relu(inside)


def norm(draw: np.random.Generator, channels: int) -> nn.Module:
    affine = bool(draw.integers(2))
    if not draw.integers(3):
        return nn.InstanceNorm2d(channels, affine=affine)
    return nn.GroupNorm(int(draw.choice([1, 2, channels])), channels, affine=affine)


class Residual(nn.Module):
    """Residual blocks, then one of the ways to take the mean over all positions."""

    def __init__(self, draw: np.random.Generator, channels: int, side: int):
        super().__init__()
        inputs, side = int(draw.choice([4, 16])), side // 2
        blocks = []
        self.first = nn.Conv2d(channels, inputs, 3, padding=1)
        for _ in range(int(draw.integers(1, 4))):
            outputs = int(draw.choice([inputs, 6, 32]))
            stride = int(draw.choice([1, 2]))
            blocks.append(Block(draw, inputs, outputs, stride))
            inputs, side = outputs, (side - 1) // stride + 1
        self.blocks = nn.Sequential(*blocks)
        self.way, self.side, self.pool = int(draw.integers(4)), side, nn.AdaptiveAvgPool2d(1)
        self.last = nn.Linear(inputs, CLASSES)

    def forward(self, values):
        values = self.blocks(functional.max_pool2d(self.first(values), 2))
        if self.way == 0:
            return self.last(values.mean((2, 3)))
        if self.way == 1:
            return self.last(torch.mean(values, dim=[-1, -2], keepdim=True).flatten(1))
        if self.way == 2:
            return self.last(functional.avg_pool2d(values, self.side).flatten(1))
        return self.last(torch.flatten(self.pool(values), 1))


def residual_module(seed: int) -> tuple[nn.Module, DeviceSamples, object]:
    """Return a residual network and its images."""
    draw = np.random.default_rng(seed)
    torch.manual_seed(seed)
    shape = [(1, 28, 28), (3, 32, 32), (2, 16, 16)][seed % 3]
    return Residual(draw, shape[0], shape[1]), images(shape, seed, 40), functional.cross_entropy


# Where a few values are normalised, the sign of one input of a ReLU changes the next gradient much.
@pytest.mark.parametrize(
    ("make", "rate"), [(random_module, 0.005), (wide_module, 0.005), (residual_module, 0.0002)]
)
@pytest.mark.parametrize("seed", range(32))
def test_fifty_steps_agree_with_torch(seed: int, make, rate: float) -> None:
    module, samples, loss = make(seed)
    training = LocalTraining(local_steps=STEPS, batch_size=16, learning_rate=rate)
    fast, slow = (TorchTask(module, samples, training, loss=loss, compile=how) for how in ("auto", False))
    assert fast.trains_together
    assert not slow.trains_together
    model = slow.initial_model()
    assert np.array_equal(fast.initial_model(), model)

    def distance(training: int) -> float:
        start = TrainingStart(2, training)
        expected, found = slow.local_update(model, start), fast.local_update(model, start)
        return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))

    # In one training of many the input of a ReLU is so close to zero that float32 cannot tell its sign.
    assert any(distance(training) <= 2e-4 for training in range(3))
    end = model - slow.local_update(model, TrainingStart(2, 3))
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
    front = nn.Sequential(nn.Conv2d(1, 4, 3, **options), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten())
    features = front(torch.zeros(1, 1, 12, 12)).shape[1]
    return nn.Sequential(*front, nn.Linear(features, CLASSES))


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


class Averaging(nn.Module):
    """A pool over the whole image, whatever its size."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(1, CLASSES)

    def forward(self, values):
        return self.linear(functional.avg_pool2d(values, values.shape[-1]).flatten(1))


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (Averaging(), "size of its input"),
        (nn.Sequential(nn.Conv2d(1, 1025, 12), nn.Conv2d(1025, 1024, 1), nn.Flatten()), "1,049,600 weights"),
        (conv(padding=3), "padding"),
        (conv(stride=(1, 2)), "stride"),
        (conv(dilation=2), "dilation"),
        (nn.Sequential(nn.Dropout(0.5), nn.Flatten(), nn.Linear(144, CLASSES)), "images themselves"),
        (nn.Sequential(nn.AvgPool2d(2, padding=1), nn.Flatten(), nn.Linear(49, CLASSES)), "AvgPool2d"),
        (nn.Sequential(nn.MaxPool2d(2, padding=1), nn.Flatten(), nn.Linear(49, CLASSES)), "MaxPool2d"),
        (nn.Sequential(nn.AdaptiveAvgPool2d(5), nn.Flatten(), nn.Linear(25, CLASSES)), "several sizes"),
        (nn.Sequential(nn.Linear(12, CLASSES), nn.Flatten(), nn.Linear(12 * CLASSES, CLASSES)), "Flatten"),
        (
            nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(288, CLASSES)),
            "BatchNorm2d",
        ),
        (nn.Sequential(nn.Flatten(), nn.Linear(144, 8), nn.Tanh(), nn.Linear(8, CLASSES)), "Tanh"),
        (Skipping(), "add adds values that are no longer images"),
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


@pytest.mark.parametrize(("how", "said"), [("auto", ["compiled"]), (False, [])])
def test_a_run_says_at_its_start_what_trains(tmp_path: Path, how, said: list[str]) -> None:
    class Notices(Observer):
        def notice(self, message: str) -> None:
            found.append(message)

    found: list[str] = []
    samples, training = images((1, 12, 12)), LocalTraining(local_steps=1, batch_size=4)
    task = TorchTask(conv(), samples, training, compile=how)
    config = RunConfig.from_options({"devices": 2, "group_size": 1, "compute_slots": 2, "deadline": 6})
    run(config, tmp_path / "run", task=task, observer=Notices())
    assert [message.rstrip(")").split(", ")[-1] for message in found] == said


def test_what_its_layers_do_not_say_is_seen_in_the_gradient() -> None:
    module = conv()
    module[0].register_forward_hook(lambda layer, inputs, outputs: 2 * outputs)
    task = TorchTask(module, images((1, 12, 12)), LocalTraining(local_steps=1, batch_size=4))
    assert not task.trains_together
    assert "gradient" in task.not_compiled


def padded_with_dropout() -> nn.Sequential:
    """Return a module with dropout in places that only the kernels of wide layers have."""
    front = [nn.Conv2d(1, 8, 3, padding=1), nn.Dropout(0.2), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout2d(0.3)]
    return nn.Sequential(*front, nn.Flatten(), nn.Linear(288, 20), nn.Dropout(0.4), nn.Linear(20, CLASSES))


@pytest.mark.parametrize("make", [lambda: dropout(0.5, 0.5), lambda: dropout(0.5, 0.25), padded_with_dropout])
def test_dropout_is_compiled_and_the_same_in_every_call(make) -> None:
    task = TorchTask(make(), images((1, 12, 12)), LocalTraining(local_steps=5, batch_size=8))
    assert task.trains_together
    model, starts = task.initial_model(), [TrainingStart(1, 0), TrainingStart(2, 0)]
    together = task.local_updates(model, starts)
    for start, update in zip(starts, together, strict=True):
        assert np.array_equal(task.local_update(model, start), update)


def test_every_dropout_has_its_rate() -> None:
    network, _ = find_network(padded_with_dropout(), (1, 12, 12))
    rates, counts = np.unique(network.dropout_rates, return_counts=True)
    assert dict(zip(rates.tolist(), counts.tolist(), strict=True)) == pytest.approx(
        {np.float32(0.2): 8 * 12 * 12, np.float32(0.3): 8, np.float32(0.4): 20}
    )


def test_dropout_keeps_the_mean_of_what_it_drops() -> None:
    """With all but one layer linear, the mean gradient over many draws is that without dropout."""
    front = [nn.Conv2d(1, 2, 3, padding=1), nn.Dropout2d(0.5), nn.AvgPool2d(2), nn.Flatten()]
    module = nn.Sequential(*front, nn.Linear(72, CLASSES))
    network, _ = find_network(module, (1, 12, 12))
    fast = FastCnn(network, offset=(0.4,), scale=(0.3,))
    draw = np.random.default_rng(0)
    pixels, labels = draw.integers(0, 256, (64, 1, 12, 12), np.uint8), draw.integers(0, CLASSES, 64)
    model = 0.01 * network.initial_parameters(draw)  # so small that scores hardly change the softmax
    kept = draw.random((400, 64, 2)) >= 0.5
    mean = np.mean([fast.gradient(model, pixels, labels, mask)[1] for mask in kept], axis=0)
    expected = fast.gradient(model, pixels, labels)[1]
    assert np.linalg.norm(mean - expected) <= 0.1 * np.linalg.norm(expected)


@pytest.mark.parametrize("make", [wide_module, residual_module])
def test_updates_in_several_threads_are_those_of_one(make) -> None:
    module, samples, _ = make(1)
    task = TorchTask(module, samples, LocalTraining(local_steps=3, batch_size=20))
    model, starts = task.initial_model(), [TrainingStart(1 + n % 2, n) for n in range(8)]
    alone = [task.local_update(model, start) for start in starts]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda start: task.local_update(model, start), starts))
    assert all(map(np.array_equal, alone, together))


def test_resnet8_with_group_normalisation_is_compiled() -> None:
    task = TorchTask(resnet8("group"), images((3, 32, 32)), LocalTraining(local_steps=1, batch_size=4))
    assert task.trains_together
    assert repr(task) == "TorchTask(Sequential, 78,042 parameters, compiled)"


def test_images_of_another_size_weights_of_the_loss_and_own_trainings_stay_in_torch() -> None:
    with pytest.raises(NotCompiled, match="fit"):
        find_network(conv(), (1, 20, 20))

    class Own(TorchTask):
        pass

    task = Own(conv(), images((1, 12, 12)), LocalTraining(local_steps=1, batch_size=4))
    assert not task.trains_together
    loss = nn.CrossEntropyLoss(weight=torch.ones(CLASSES))
    task = TorchTask(conv(), images((1, 12, 12)), LocalTraining(local_steps=1, batch_size=4), loss=loss)
    assert not task.trains_together
    with pytest.raises(sw.InputError, match="auto or False"):
        TorchTask(conv(), images((1, 12, 12)), LocalTraining(), compile="always")  # type: ignore[arg-type]
