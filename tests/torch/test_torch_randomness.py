"""Random operations of modules come from a generator of their training, in every thread."""

import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from torch_cases import FEATURES, linear_samples

from slotwise.base.errors import UserError
from slotwise.learning import TrainingStart
from slotwise.learning.local_training import LocalTraining

torch = pytest.importorskip("torch")
nn = torch.nn
TorchTask = pytest.importorskip("slotwise.torch.task").TorchTask
SeededOperations = pytest.importorskip("slotwise.torch.randomness").SeededOperations
TRAINING = LocalTraining(local_steps=2, batch_size=4, learning_rate=0.1)
MANY = torch.linspace(0.1, 0.9, 12).view(1, 2, 6)

OPERATIONS = {
    "dropout": lambda: nn.functional.dropout(MANY),
    "dropout in place": lambda: nn.functional.dropout(MANY.clone(), inplace=True),
    "native dropout": lambda: torch.native_dropout(MANY, 0.5, True)[0],
    "dropout1d": lambda: nn.functional.dropout1d(MANY.repeat(1, 8, 1)),
    "alpha dropout": lambda: nn.functional.alpha_dropout(MANY, training=True),
    "rrelu": lambda: nn.functional.rrelu(-MANY, training=True),
    "attention": lambda: nn.functional.scaled_dot_product_attention(MANY, MANY, MANY, dropout_p=0.5),
    "fractional pool": lambda: nn.functional.fractional_max_pool2d(torch.rand(1, 4, 9, 9), 2, output_size=4),
    "gumbel": lambda: nn.functional.gumbel_softmax(MANY),
    "rand": lambda: torch.rand(9),
    "randn": lambda: torch.randn(9),
    "rand_like": lambda: torch.rand_like(MANY),
    "randn_like": lambda: torch.randn_like(MANY),
    "randint": lambda: torch.randint(1000, (9,)),
    "randint from": lambda: torch.randint(10, 1000, (9,)),
    "randint_like": lambda: torch.randint_like(MANY, 1000),
    "randperm": lambda: torch.randperm(50),
    "bernoulli": lambda: torch.bernoulli(torch.full((60,), 0.5)),
    "normal": lambda: torch.normal(MANY, 1.0),
    "normal_": lambda: torch.empty(9).normal_(),
    "random_": lambda: torch.empty(9).random_(1000),
    "multinomial": lambda: torch.multinomial(torch.ones(100), 9),
    "poisson": lambda: torch.poisson(torch.full((30,), 50.0)),
    "exponential_": lambda: torch.empty(9).exponential_(),
    "gamma": lambda: torch.distributions.Gamma(torch.ones(9), torch.ones(9)).rsample(),
    "dirichlet": lambda: torch.distributions.Dirichlet(torch.ones(9)).rsample(),
    "binomial": lambda: torch.binomial(torch.full((30,), 500.0), torch.full((30,), 0.5)),
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_an_operation_is_a_function_of_seed_device_and_training(operation) -> None:
    def drawn(*key: int):
        before = torch.get_rng_state()
        with SeededOperations(*key) as mode:
            found = operation()
        assert mode.seen
        assert torch.equal(torch.get_rng_state(), before)
        return found

    first = drawn(0, 1, 2)
    torch.rand(3)
    assert torch.equal(drawn(0, 1, 2), first)
    with ThreadPoolExecutor(4) as pool:
        assert all(torch.equal(found, first) for found in pool.map(lambda _: drawn(0, 1, 2), range(12)))
    others = [drawn(*key) for key in ((1, 1, 2), (0, 2, 2), (0, 1, 3))]
    assert not any(torch.equal(found, first) for found in others)


def test_dropout_keeps_the_mean_and_repeats_with_the_training() -> None:
    ones = torch.ones(100_000)
    for drop in (nn.functional.dropout, lambda x, p: torch.native_dropout(x, p, True)[0]):
        with SeededOperations(0):
            found = drop(ones, 0.25)
        assert float((found == 0).float().mean()) == pytest.approx(0.25, abs=0.01)
        assert float(found.mean()) == pytest.approx(1, abs=0.02)
    with SeededOperations(0) as mode:
        found = torch.rand(3, generator=torch.Generator().manual_seed(5))
    assert torch.equal(found, torch.rand(3, generator=torch.Generator().manual_seed(5)))
    assert not mode.seen
    task = TorchTask(nn.Sequential(nn.Linear(FEATURES, 3), nn.Dropout()), linear_samples(), TRAINING)
    model = task.initial_model()
    first = task.local_update(model, TrainingStart(1, 0))
    torch.rand(5)
    assert np.array_equal(task.local_update(model, TrainingStart(1, 0)), first)
    assert not np.array_equal(task.local_update(model, TrainingStart(1, 1)), first)


def test_modules_without_random_operations_are_trained_without_the_mode() -> None:
    class Spy(nn.Linear):
        modes: list[int] = []  # noqa: RUF012

        def forward(self, inputs):
            self.modes.append(torch._C._len_torch_dispatch_stack())
            return super().forward(inputs)

    task = TorchTask(Spy(FEATURES, 3), linear_samples(), TRAINING)
    Spy.modes.clear()
    task.local_update(task.initial_model(), TrainingStart(1, 0))
    assert set(Spy.modes) == {0}


class Noisy(nn.Linear):
    """Draws in training and in evaluation."""

    def forward(self, inputs):
        return super().forward(inputs + torch.randn_like(inputs))


def test_a_module_that_is_random_in_evaluation_is_evaluated_twice_alike() -> None:
    task = TorchTask(Noisy(FEATURES, 3), linear_samples(), TRAINING)
    model = task.initial_model()
    assert task.evaluate(model) == task.evaluate(model)


@pytest.mark.parametrize("draw", [random.random, np.random.random_sample], ids=["random", "numpy"])
def test_random_numbers_that_cannot_be_seeded_are_refused(draw) -> None:
    class Unseeded(nn.Linear):
        def forward(self, inputs):
            return super().forward(inputs) * (1 + draw())

    with pytest.raises(UserError, match="cannot be seeded"):
        TorchTask(Unseeded(FEATURES, 3), linear_samples(), TRAINING)


def test_a_module_that_keeps_a_state_of_its_own_is_refused() -> None:
    class Counting(nn.Linear):
        calls = 0

        def forward(self, inputs):
            self.calls += 1
            return super().forward(inputs) * self.calls

    with pytest.raises(UserError, match="state"):
        TorchTask(Counting(FEATURES, 3), linear_samples(), TRAINING)


def test_random_numbers_in_the_backward_pass_are_refused() -> None:
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(FEATURES, 3), nn.Dropout())

        def forward(self, inputs):
            return torch.utils.checkpoint.checkpoint(self.layers, inputs, use_reentrant=False)

    with pytest.raises(UserError, match="checkpointing"):
        TorchTask(Checkpointed(), linear_samples(), TRAINING)
