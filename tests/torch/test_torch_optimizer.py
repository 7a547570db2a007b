"""Optimisers of local training in TorchTask, against torch.optim and the formulas."""

from typing import Any

import numpy as np
import pytest
from torch_cases import CLASSES, FEATURES, linear_samples

from slotwise.learning import TrainingStart
from slotwise.learning.local_training import LocalTraining

torch = pytest.importorskip("torch")
nn = torch.nn
TorchTask = pytest.importorskip("slotwise.torch.task").TorchTask
START = TrainingStart(3, 2)
COMMON = {"local_steps": 6, "batch_size": 8, "learning_rate": 0.05}


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 7), nn.Tanh(), nn.Linear(7, CLASSES))


def weights_after(training: LocalTraining, make_optimiser, clip=None, proximal=0.0):
    """Return the parameters after a local training by TorchTask and by a plain loop."""
    samples, module = linear_samples(), network()
    task = TorchTask(module, samples, training)
    model = task.initial_model()
    found = model - task.local_update(model, START)
    optimiser = make_optimiser(module.parameters())
    before = [parameter.detach().clone() for parameter in module.parameters()]
    for rows in samples.batches(training, START):
        optimiser.zero_grad()
        inputs = torch.tensor(samples.dataset.train_inputs[rows], dtype=torch.float32)
        loss = nn.functional.cross_entropy(module(inputs), torch.tensor(samples.dataset.train_targets[rows]))
        for parameter, start in zip(module.parameters(), before, strict=True):
            loss = loss + proximal / 2 * (parameter - start).square().sum()
        loss.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(module.parameters(), clip)
        optimiser.step()
    return found, nn.utils.parameters_to_vector(module.parameters()).detach().numpy()


SGD, ADAM = torch.optim.SGD, torch.optim.Adam
CASES: dict[str, tuple[dict[str, Any], Any, dict[str, Any]]] = {
    "plain": ({}, lambda p: SGD(p, lr=0.05), {}),
    "momentum": ({"momentum": 0.9}, lambda p: SGD(p, lr=0.05, momentum=0.9), {}),
    "weight decay": ({"weight_decay": 0.3}, lambda p: SGD(p, lr=0.05, weight_decay=0.3), {}),
    "clipping": ({"gradient_clip": 0.2}, lambda p: SGD(p, lr=0.05), {"clip": 0.2}),
    "proximal": ({"proximal": 2.0}, lambda p: SGD(p, lr=0.05), {"proximal": 2.0}),
    "all of them": (
        {"momentum": 0.8, "weight_decay": 0.1, "gradient_clip": 0.3, "proximal": 1.0},
        lambda p: SGD(p, lr=0.05, momentum=0.8, weight_decay=0.1),
        {"clip": 0.3, "proximal": 1.0},
    ),
    "adam": (
        {"optimizer": "adam", "beta1": 0.8, "beta2": 0.95},
        lambda p: ADAM(p, lr=0.05, betas=(0.8, 0.95)),
        {},
    ),
    "adam with weight decay": (
        {"optimizer": "adam", "weight_decay": 0.2},
        lambda p: ADAM(p, lr=0.05, weight_decay=0.2),
        {},
    ),
}


@pytest.mark.parametrize(("options", "make_optimiser", "terms"), CASES.values(), ids=CASES)
def test_an_optimiser_is_that_of_torch(options, make_optimiser, terms) -> None:
    found, expected = weights_after(LocalTraining(**COMMON, **options), make_optimiser, **terms)
    assert np.allclose(found, expected, rtol=1e-4, atol=2e-6)


def test_the_step_size_follows_its_schedule() -> None:
    halved = LocalTraining(**COMMON, rate_decay="step", rate_unit="training", rate_period=START.training)
    found, expected = weights_after(halved, lambda p: SGD(p, lr=0.025))
    assert np.allclose(found, expected, atol=1e-6)


def sign_step(weights, gradient, context):
    """SignSGD, with a state: the number of weights it has met."""
    context.state["met"] = context.state.get("met", 0) + len(weights)
    assert context.state["met"] == (context.step + 1) * len(weights)
    weights -= context.learning_rate * np.sign(gradient)


def test_a_step_of_the_user_s_own_knows_its_training_and_start() -> None:
    training = LocalTraining(**COMMON, local_step="test_torch_optimizer:sign_step")
    task = TorchTask(network(), linear_samples(), training)
    update = task.local_update(task.initial_model(), START)
    steps = update / training.learning_rate
    assert np.allclose(steps, np.rint(steps), atol=1e-4)
    assert np.abs(steps).max() <= training.local_steps + 1e-4
    training = LocalTraining(**COMMON, local_step="test_torch_optimizer:return_to_start")
    task = TorchTask(network(), linear_samples(), training)
    assert not task.local_update(task.initial_model(), START).any()


def return_to_start(weights, gradient, context):
    """Take a step along the gradient first, and back to the start at last."""
    assert context.start == START
    last = context.step == context.training.local_steps - 1
    weights[:] = context.start_weights if last else weights - context.learning_rate * gradient
