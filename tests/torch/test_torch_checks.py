"""Mistakes in module, loss, metrics and data are found when a TorchTask is made."""

from functools import partial

import numpy as np
import pytest
from torch_cases import CLASSES, FEATURES, linear_samples

from slotwise.base.errors import InputError, UserError
from slotwise.learning import TrainingStart
from slotwise.learning.local_training import DeviceSamples, LocalTraining

torch = pytest.importorskip("torch")
nn = torch.nn
TorchTask = pytest.importorskip("slotwise.torch.task").TorchTask
TRAINING = LocalTraining(local_steps=2, batch_size=4)
LINEAR = nn.Linear(FEATURES, CLASSES)
REAL = np.linspace(0, 1, 42)


def test_a_module_that_fails_is_answered_with_the_line_of_the_user() -> None:
    class Wrong(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(FEATURES + 1, CLASSES)

        def forward(self, inputs):
            return self.layer(inputs)

    with pytest.raises(UserError, match=r"\(test_torch_checks.py, line \d+\)$"):
        TorchTask(Wrong(), linear_samples(), TRAINING)


def test_images_without_offset_and_scale_are_answered_with_a_hint() -> None:
    images = np.zeros((42, 1, 6, 6), np.uint8)
    with pytest.raises(UserError, match="offset and scale"):
        TorchTask(nn.Conv2d(1, CLASSES, 6), linear_samples(inputs=images), TRAINING)


class Detached(nn.Linear):
    def forward(self, inputs):
        return super().forward(inputs).detach()


class Scaled(nn.Module):
    """A loss with a parameter."""

    def __init__(self, requires_grad=True):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()), requires_grad=requires_grad)

    def forward(self, outputs, targets):
        return self.scale * nn.functional.cross_entropy(outputs, targets)


class Closure(nn.Module):
    """A layer that a lambda holds; copies of the module hold the same one."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(FEATURES, CLASSES)
        self.functions = [lambda inputs: 1.0 * self.layer(inputs)]

    def forward(self, inputs):
        return self.functions[0](inputs)


class Hook(nn.Module):
    """A second layer that only a hook of the first uses."""

    def __init__(self):
        super().__init__()
        self.first, second = nn.Linear(FEATURES, CLASSES), nn.Linear(CLASSES, CLASSES)
        self.second = second
        self.first.register_forward_hook(lambda layer, inputs, outputs: second(outputs))

    def forward(self, inputs):
        return self.first(inputs)


class Unregistered(nn.Module):
    """A trained tensor that is no parameter."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(FEATURES, CLASSES)
        self.shift = torch.zeros(CLASSES, requires_grad=True)

    def forward(self, inputs):
        return self.layer(inputs) + self.shift


class Unused(nn.Module):
    """A layer that the outputs do not depend on."""

    def __init__(self):
        super().__init__()
        self.layer, self.unused = nn.Linear(FEATURES, CLASSES), nn.Linear(3, 3)

    def forward(self, inputs):
        return self.layer(inputs)


SUM = partial(nn.functional.cross_entropy, reduction="sum")
WRONG = {
    "input shape": (nn.Linear(FEATURES + 1, CLASSES), {}, None, f"float32\\[4, {FEATURES}\\]"),
    "too few outputs": (nn.Linear(FEATURES, 2), {}, None, "label 2"),
    "output shape": (nn.Sequential(LINEAR, nn.Unflatten(1, (1, 1, 3))), {}, None, "the loss"),
    "outputs do not depend on parameters": (Detached(FEATURES, CLASSES), {}, None, "depend"),
    "loss of a matrix": (LINEAR, {"loss": lambda outputs, targets: outputs.T}, None, "one number"),
    "loss is no tensor": (LINEAR, {"loss": lambda outputs, targets: 1.0}, None, "float tensor"),
    "loss fails": (LINEAR, {"loss": lambda outputs, targets: 1 / 0}, None, "ZeroDivisionError"),
    "regression with labels' loss": (LINEAR, {}, REAL, "the loss"),
    "one number with labels' loss": (nn.Linear(FEATURES, 1), {}, REAL[:, np.newaxis], "mse_loss"),
    "one output for labels": (nn.Linear(FEATURES, 1), {}, np.arange(42) % 2, "one output"),
    "sum of a module": (LINEAR, {"loss": nn.CrossEntropyLoss(reduction="sum")}, None, "sum"),
    "sum of a function": (LINEAR, {"loss": SUM}, None, "sum"),
    "loss with parameters": (LINEAR, {"loss": Scaled()}, None, "scale"),
    "target size": (nn.Linear(FEATURES, 1), {"loss": nn.functional.mse_loss}, REAL, "target size"),
    "metric shape": (LINEAR, {"metrics": {"odd": lambda outputs, targets: outputs.T}}, None, "metric odd"),
    "metric of two dimensions": (
        LINEAR,
        {"metrics": {"odd": lambda outputs, _: outputs}},
        None,
        "metric odd",
    ),
    "metric fails": (LINEAR, {"metrics": {"odd": lambda outputs, targets: {}["x"]}}, None, "KeyError"),
    "metrics in a list": (LINEAR, {"metrics": [lambda outputs, targets: 1.0]}, None, "metrics = a list"),
    "metric is no function": (LINEAR, {"metrics": {"odd": 3}}, None, "metric odd"),
    "metric name": (LINEAR, {"metrics": {"loss": lambda outputs, targets: 1.0}}, None, "taken"),
}


@pytest.mark.parametrize(("module", "options", "targets", "message"), WRONG.values(), ids=WRONG)
def test_a_mistake_is_one_clear_line(module, options, targets, message) -> None:
    with pytest.raises(UserError, match=message) as error:
        TorchTask(module, linear_samples(targets), TRAINING, **options)
    assert "\n" not in str(error.value)


def test_a_loss_with_constant_parameters_is_accepted() -> None:
    tasks = [
        TorchTask(LINEAR, linear_samples(), TRAINING, **options)
        for options in ({}, {"loss": Scaled(requires_grad=False)})
    ]
    one, other = (task.local_update(task.initial_model(), TrainingStart(1, 0)) for task in tasks)
    assert np.array_equal(one, other)


def test_the_smallest_device_is_tried() -> None:
    """A batch normalisation cannot be trained on one sample."""
    module = nn.Sequential(nn.Linear(FEATURES, CLASSES), nn.BatchNorm1d(CLASSES))
    with pytest.raises(UserError, match=f"float32\\[1, {FEATURES}\\]"):
        TorchTask(module, linear_samples(), LocalTraining(batch_size=1))
    samples = linear_samples()
    samples = DeviceSamples(samples.dataset, [np.arange(9), np.arange(9, 10), np.arange(10, 32)])
    with pytest.raises(UserError, match="device 2, which has 1 sample:"):
        TorchTask(module, samples, TRAINING)


def broken():
    raise KeyError("layers")


@pytest.mark.parametrize(
    ("module", "message"),
    [(3, "module = 3"), (None, "module"), (nn.Linear, r"Linear\(\)"), (broken, "KeyError"), (dict, "a dict")],
    ids=["number", "none", "class with arguments", "function fails", "no module"],
)
def test_what_makes_no_module_is_refused(module, message) -> None:
    with pytest.raises(UserError, match=message) as error:
        TorchTask(module, linear_samples(), TRAINING)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("device", ["cuda:99", "foo", "", "meta", 1.5])
def test_a_device_that_cannot_be_used_is_refused(device) -> None:
    with pytest.raises(UserError, match="device ="):
        TorchTask(LINEAR, linear_samples(), TRAINING, device=device)


@pytest.mark.skipif(torch.cuda.is_available(), reason="the machine has CUDA")
def test_cuda_is_refused_on_a_machine_without_it() -> None:
    with pytest.raises(UserError, match="CUDA"):
        TorchTask(LINEAR, linear_samples(), TRAINING, device="cuda")


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, True])
def test_a_seed_out_of_range_is_refused(seed) -> None:
    with pytest.raises(InputError, match="model_seed"):
        TorchTask(LINEAR, linear_samples(), TRAINING, model_seed=seed)


def test_the_caller_s_threads_and_generator_are_left_alone() -> None:
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    torch.set_num_threads(2)
    try:
        task = TorchTask(nn.Sequential(LINEAR, nn.Dropout()), linear_samples(), TRAINING)
        task.local_update(task.initial_model(), TrainingStart(1, 0))
        task.evaluate(task.initial_model())
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("make", [Closure, Hook, Unregistered], ids=["lambda", "hook", "tensor"])
@pytest.mark.parametrize("is_made", [False, True], ids=["function", "module"])
def test_weights_that_copies_would_not_train_are_refused(make, is_made) -> None:
    module = make() if is_made else make
    with pytest.raises(UserError, match="would not be trained"):
        TorchTask(module, linear_samples(), TRAINING)
    assert not is_made or all(parameter.grad is None for parameter in module.parameters())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_torchscript_is_refused() -> None:
    traced = torch.jit.trace(LINEAR, torch.zeros(1, FEATURES))
    for module in (torch.jit.script(LINEAR), traced, nn.Sequential(traced, nn.ReLU())):
        with pytest.raises(UserError, match="TorchScript"):
            TorchTask(module, linear_samples(), TRAINING)


def test_a_module_that_cannot_be_copied_is_refused() -> None:
    held = nn.Linear(FEATURES, CLASSES)
    held.last = held(torch.zeros(1, FEATURES))  # torch copies only tensors without a history
    for module in (held, lambda: held):
        with pytest.raises(UserError, match="cannot be copied") as error:
            TorchTask(module, linear_samples(), TRAINING)
        assert "\n" not in str(error.value)


def test_unused_layers_and_a_gradient_of_zero_are_accepted() -> None:
    TorchTask(Unused, linear_samples(), TRAINING)
    TorchTask(LINEAR, linear_samples(), TRAINING, loss=lambda outputs, targets: 0 * outputs.sum())
