"""Steps of the optimisers against torch.optim, and those that torch does not have against their formulas."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from slotwise.base.errors import InputError, UserError
from slotwise.learning import TrainingStart
from slotwise.learning.local_training import LocalTraining, with_own_step
from slotwise.learning.optimizer import DECAYS, Adam, Decay, InverseDecay, Optimizer, Sgd

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


def test_the_proximal_term_pulls_towards_the_start_or_another_centre() -> None:
    # One coordinate: w ← w − eta((w − c) + mu·w), from 0: w_H = c/(1 + mu)·(1 − (1 − eta(1 + mu))^H).
    mu = 0.5
    expected = CENTRE / (1 + mu) * (1 - (1 - 0.1 * (1 + mu)) ** STEPS)
    np.testing.assert_allclose(trained(proximal=mu), expected, rtol=1e-12)
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
    optimizer, weights = Optimizer(training), np.ones(3, np.float32)
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
        Optimizer(with_own_step(training, step))


def test_a_step_has_parameters_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    (tmp_path / "own_scaled_step.py").write_text(
        "def step(weights, gradient, context, *, scale: float = 1.0):\n"
        "    weights -= scale * context.learning_rate * gradient\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    own = {"local_step": "own_scaled_step:step"}
    np.testing.assert_allclose(trained(**own), trained())
    scaled = trained(**own, local_step_options={"scale": 2.0})
    np.testing.assert_allclose(scaled, CENTRE * (1 - (1 - 0.2) ** STEPS))
    with pytest.raises(InputError, match=r"step\(weights, gradient, context, \*, scale: float = 1.0\)"):
        trained(**own, local_step_options={"scales": 2.0})


def test_options_of_an_optimiser_are_its_fields_or_those_of_the_training() -> None:
    assert LocalTraining(optimizer="adam", beta1=0.5) == LocalTraining(optimizer=Adam(beta1=0.5))
    assert replace(LocalTraining(optimizer=Sgd(momentum=0.5)), proximal=1.0).optimizer == Sgd(
        momentum=0.5, proximal=1.0
    )
    decaying = LocalTraining(rate_decay="inverse", rate_period=10)
    assert decaying.rate_decay == InverseDecay(rate_period=10)


@pytest.mark.parametrize("decay", [kind() for kind in DECAYS.values() if issubclass(kind, Decay)])
@given(times=st.lists(st.floats(0, 1e6), min_size=2, max_size=2).map(sorted))
def test_a_factor_starts_at_1_and_never_rises(decay: Decay, times: list[float]) -> None:
    first, later = map(decay.after, times)
    assert 1 == decay.after(0) >= first >= later >= 0


@pytest.mark.parametrize(
    ("decay", "factor"),
    [("constant", 1), ("step", 0.5), ("exponential", 0.3536), ("inverse", 0.4), ("cosine", 0)],
)
def test_the_factor_after_one_and_a_half_periods(decay: str, factor: float) -> None:
    later = {} if decay == "constant" else {"rate_period": 10}
    training = LocalTraining(learning_rate=1.0, rate_decay=decay, **later)
    assert training.rate_at(TrainingStart(1, 4, round=15)) == pytest.approx(factor, abs=5e-5)


@pytest.mark.parametrize(("unit", "elapsed"), [("round", 20), ("slot", 100), ("training", 4)])
def test_the_decay_counts_rounds_slots_or_trainings(unit, elapsed) -> None:
    training = LocalTraining(learning_rate=0.5, rate_decay="inverse", rate_unit=unit, rate_period=10)
    assert training.rate_at(TrainingStart(3, 4, round=20, slot=100)) == 0.5 / (1 + elapsed / 10)


@pytest.mark.parametrize(
    ("options", "parameter"),
    [
        ({"rate_period": 5}, "rate_period"),
        ({"optimizer": "adam", "momentum": 0.9}, "momentum"),
        ({"local_step": "mine:step", "proximal": 0.1}, "proximal"),
        ({"local_step": "mine:step", "optimizer": "adam"}, "optimizer"),
        ({"local_step": "mine"}, "local_step"),
        ({"local_steps": 1, "proximal": 0.1}, "proximal"),
        ({"local_steps": 1, "update": "mean"}, "update"),
        ({"optimizer": "lion"}, "optimizer"),
    ],
)
def test_options_without_effect_are_refused(options, parameter) -> None:
    with pytest.raises(InputError) as caught:
        LocalTraining(**options)
    assert caught.value.parameter == parameter
