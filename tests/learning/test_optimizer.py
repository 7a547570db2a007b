"""Steps of the optimisers against torch.optim, and those that torch does not have against their formulas."""

import numpy as np
import pytest
import torch

from slotwise.errors import InputError, UserError
from slotwise.learning import TrainingStart
from slotwise.learning.local_training import LocalTraining
from slotwise.learning.optimizer import Optimizer, with_own_step

START = TrainingStart(1, 0)
CENTRE = np.array([1.0, -2.0, 0.5], dtype=np.float64)
STEPS = 7


def gradient(weights):
    """Of ½‖w − CENTRE‖²."""
    return weights - CENTRE


def trained(**options: object) -> np.ndarray:
    optimizer = Optimizer(LocalTraining(learning_rate=0.1, **options))
    weights = np.zeros(3)
    context = optimizer.begin(START, weights.copy())
    for _ in range(STEPS):
        optimizer.step(weights, gradient(weights), context)
    return weights


def torch_trained(kind: type[torch.optim.Optimizer], clip: float | None = None, **options: float):
    weights = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    optimizer = kind([weights], lr=0.1, **options)
    for _ in range(STEPS):
        optimizer.zero_grad()
        (0.5 * ((weights - torch.from_numpy(CENTRE)) ** 2).sum()).backward()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_([weights], clip)
        optimizer.step()
    return weights.detach().numpy()


@pytest.mark.parametrize(
    ("ours", "kind", "theirs"),
    [
        ({}, torch.optim.SGD, {}),
        ({"momentum": 0.9}, torch.optim.SGD, {"momentum": 0.9}),
        ({"weight_decay": 0.3}, torch.optim.SGD, {"weight_decay": 0.3}),
        ({"momentum": 0.5, "weight_decay": 0.3}, torch.optim.SGD, {"momentum": 0.5, "weight_decay": 0.3}),
        ({"gradient_clip": 0.7}, torch.optim.SGD, {"clip": 0.7}),
        ({"optimizer": "adam"}, torch.optim.Adam, {}),
        (
            {"optimizer": "adam", "beta1": 0.5, "beta2": 0.6, "epsilon": 1e-3, "weight_decay": 0.2},
            torch.optim.Adam,
            {"betas": (0.5, 0.6), "eps": 1e-3, "weight_decay": 0.2},
        ),
    ],
)
def test_steps_equal_torch_optim(ours, kind, theirs) -> None:
    np.testing.assert_allclose(trained(**ours), torch_trained(kind, **theirs), rtol=1e-5, atol=1e-6)


def test_the_proximal_term_pulls_towards_the_start() -> None:
    # One coordinate: w ← w − eta((w − c) + mu·w), from 0: w_H = c/(1 + mu)·(1 − (1 − eta(1 + mu))^H).
    mu = 0.5
    expected = CENTRE / (1 + mu) * (1 - (1 - 0.1 * (1 + mu)) ** STEPS)
    np.testing.assert_allclose(trained(proximal=mu), expected, rtol=1e-12)


def test_a_start_elsewhere_is_the_centre_of_the_proximal_term() -> None:
    optimizer = Optimizer(LocalTraining(learning_rate=0.5, proximal=2.0))
    weights, start = np.array([3.0]), np.array([1.0])
    optimizer.step(weights, np.array([0.25]), optimizer.begin(START, start))
    assert weights.tolist() == [3.0 - 0.5 * (0.25 + 2.0 * (3.0 - 1.0))]


def test_a_step_of_the_user_s_own_is_one_function(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    (tmp_path / "own_sign_step.py").write_text(
        "import numpy as np\n"
        "def step(weights, gradient, context):\n"
        "    context.state['count'] = context.state.get('count', 0) + 1\n"
        "    assert context.state['count'] == context.step + 1\n"
        "    weights -= context.learning_rate * np.sign(gradient)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    np.testing.assert_allclose(trained(local_step="own_sign_step:step"), [0.7, -0.7, 0.5], atol=0.1)


def test_a_step_with_other_arguments_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    (tmp_path / "own_bad_step.py").write_text("def step(weights): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError) as caught:
        trained(local_step="own_bad_step:step")
    assert caught.value.parameter == "local_step"


def test_a_step_that_returns_new_weights_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    (tmp_path / "own_returning_step.py").write_text("def step(w, g, context): return w - 0.1 * g\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match="in place"):
        trained(local_step="own_returning_step:step")


def double_step(weights, gradient, context) -> None:
    weights -= 2 * context.learning_rate * gradient


def test_a_function_is_a_step_without_a_name() -> None:
    training = with_own_step(LocalTraining(learning_rate=0.5), double_step)
    optimizer, weights = Optimizer(training, double_step), np.ones(3, np.float32)
    optimizer.step(weights, np.ones(3, np.float32), optimizer.begin(TrainingStart(1, 0), weights.copy()))
    assert weights.tolist() == [0, 0, 0]
    assert not training.is_plain_sgd
    assert not with_own_step(LocalTraining(), lambda w, g, c: None).is_plain_sgd


@pytest.mark.parametrize(
    ("training", "step"),
    [
        (LocalTraining(momentum=0.5), double_step),
        (LocalTraining(local_step="module:step"), double_step),
        (LocalTraining(), lambda weights: None),
        (LocalTraining(), "module:step"),
    ],
    ids=["unused option", "two steps", "arguments", "no function"],
)
def test_a_function_that_cannot_be_the_step_is_refused(training: LocalTraining, step) -> None:
    with pytest.raises(UserError):
        with_own_step(training, step)
