"""Parameters and buffers of a module as a model."""

import numpy as np
import pytest
from torch_cases import CLASSES, FEATURES, linear_samples

from slotwise.base.errors import InputError, UserError
from slotwise.learning import TrainingStart, train
from slotwise.learning.checked_task import CheckedTask
from slotwise.learning.local_training import LocalTraining
from slotwise.scenario import Scenario
from slotwise.schedule import simulate

torch = pytest.importorskip("torch")
nn = torch.nn
TorchTask = pytest.importorskip("slotwise.torch.task").TorchTask
TRAINING = LocalTraining(local_steps=3, batch_size=4, learning_rate=0.1)
START = TrainingStart(2, 1)


def normalised() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, CLASSES))


def state_of(task, model):
    return {name: torch.from_numpy(array.copy()) for name, array in task.named_arrays(model).items()}


def trained_by_hand(module, samples, start, training=TRAINING):
    """Train a copy of the module as a plain loop does."""
    module.train()
    optimiser = torch.optim.SGD(module.parameters(), lr=training.learning_rate)
    inputs, targets = samples.dataset.train_inputs, samples.dataset.train_targets
    for rows in samples.batches(training, start):
        optimiser.zero_grad()
        outputs = module(torch.tensor(inputs[rows], dtype=torch.float32))
        nn.functional.cross_entropy(outputs, torch.tensor(targets[rows])).backward()
        optimiser.step()
    return module


def test_a_module_starts_from_its_weights_or_is_made_from_the_seed() -> None:
    module = normalised()
    task = TorchTask(module, linear_samples(), TRAINING)
    for name, array in task.named_arrays(task.initial_model()).items():
        assert np.array_equal(array, module.state_dict()[name].numpy())

    def model(seed, model_seed=None):
        training = LocalTraining(local_steps=3, batch_size=4, seed=seed)
        return TorchTask(normalised, linear_samples(), training, model_seed=model_seed).initial_model()

    before = torch.get_rng_state()
    first = model(0)
    assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(first, model(0))
    assert not np.array_equal(first, model(1))
    assert np.array_equal(first, model(1, model_seed=0))
    tasks = [TorchTask(normalised(), linear_samples(), TRAINING, initial="seed") for _ in range(2)]
    one, other = (task.named_arrays(task.initial_model()) for task in tasks)
    assert all(np.array_equal(one[name], other[name]) for name in one)
    assert set(one["1.weight"]) == {1.0}
    assert np.abs(one["0.weight"]).max() <= 1 / np.sqrt(FEATURES)


def test_local_statistics_do_not_travel() -> None:
    samples, module = linear_samples(), normalised()
    task = TorchTask(module, samples, TRAINING)
    model = task.initial_model()
    assert model.size == sum(parameter.numel() for parameter in module.parameters())
    expected = trained_by_hand(normalised_like(module), samples, START)
    found = state_of(task, model - task.local_update(model, START))
    for name, parameter in expected.named_parameters():
        assert torch.allclose(found[name], parameter, atol=1e-6)


def normalised_like(module: nn.Module) -> nn.Module:
    same = normalised()
    same.load_state_dict(module.state_dict())
    return same


def test_an_evaluation_with_local_statistics_measures_them_on_the_devices_samples() -> None:
    samples, module = linear_samples(), normalised()
    task = TorchTask(module, samples, TRAINING)
    module[1].momentum = None
    module.train()
    with torch.no_grad():
        inputs = torch.tensor(samples.dataset.train_inputs, dtype=torch.float32)
        loss = nn.functional.cross_entropy(module(inputs), torch.tensor(samples.dataset.train_targets))
        module.eval()
        outputs = module(torch.tensor(samples.dataset.test_inputs, dtype=torch.float32))
        test = nn.functional.cross_entropy(outputs, torch.tensor(samples.dataset.test_targets))
    found = task.evaluate(task.initial_model())
    assert found.loss == pytest.approx(float(loss), rel=1e-5)
    assert found.metrics["test_loss"] == pytest.approx(float(test), rel=1e-5)


def test_averaged_statistics_travel_with_the_update_untouched_by_the_optimiser() -> None:
    samples, module = linear_samples(), normalised()
    options = {"local_steps": 3, "batch_size": 4, "weight_decay": 0.1, "proximal": 0.5, "gradient_clip": 0.1}
    plain = TorchTask(module, samples, TRAINING, buffers="average")
    model = plain.initial_model()
    expected = trained_by_hand(normalised_like(module), samples, START).state_dict()
    found = state_of(plain, model - plain.local_update(model, START))
    assert set(found) == set(expected) - {"1.num_batches_tracked"}
    for name, tensor in found.items():
        assert torch.allclose(tensor, expected[name], atol=1e-6)
    # With a first layer that does not learn, statistics are the same whatever the optimiser does.
    frozen = normalised_like(module)
    frozen[0].requires_grad_(False)
    tasks = [
        TorchTask(frozen, samples, training, buffers="average")
        for training in (TRAINING, LocalTraining(**options))
    ]
    one, other = (state_of(task, task.local_update(task.initial_model(), START)) for task in tasks)
    assert torch.equal(one["1.running_mean"], other["1.running_mean"])
    assert not torch.equal(one["3.weight"], other["3.weight"])


def test_the_mean_update_does_not_divide_statistics() -> None:
    samples, module = linear_samples(), normalised()
    mean = LocalTraining(local_steps=3, batch_size=4, learning_rate=0.1, update="mean")
    tasks = [TorchTask(module, samples, training, buffers="average") for training in (TRAINING, mean)]
    total, average = (state_of(task, task.local_update(task.initial_model(), START)) for task in tasks)
    assert torch.equal(total["1.running_var"], average["1.running_var"])
    assert torch.allclose(total["0.weight"], 3 * average["0.weight"])


def test_one_synchronous_round_averages_statistics() -> None:
    samples, module = linear_samples(), normalised()
    task = TorchTask(module, samples, TRAINING, buffers="average")
    timeline = simulate(Scenario(devices=3, group_size=3, compute_slots=2), "sync", rounds=1)
    found = state_of(task, train(timeline, task, workers=2).model)
    ends = [
        trained_by_hand(normalised_like(module), samples, TrainingStart(device, 0)).state_dict()
        for device in (1, 2, 3)
    ]
    for name, tensor in found.items():
        assert torch.allclose(tensor, torch.stack([end[name] for end in ends]).mean(dim=0), atol=1e-6)


def test_a_negative_variance_does_not_break_an_evaluation() -> None:
    task = TorchTask(normalised(), linear_samples(), TRAINING, buffers="average")
    model = task.initial_model()
    task.named_arrays(model)["1.running_var"][:] = -0.1
    assert np.isfinite(task.evaluate(model).loss)


@pytest.mark.parametrize("buffers", ["local", "average"])
def test_evaluating_does_not_change_anything(buffers: str) -> None:
    task = TorchTask(normalised(), linear_samples(), TRAINING, buffers=buffers)
    model = task.initial_model()
    first, update = task.evaluate(model), task.local_update(model, START)
    assert task.evaluate(model) == first
    assert np.array_equal(task.local_update(model, START), update)


def test_normalisations_that_are_kept_in_evaluation_keep_their_statistics() -> None:
    class Fixed(nn.BatchNorm1d):
        def train(self, mode: bool = True):
            return super().train(False)

    module = nn.Sequential(nn.Linear(FEATURES, 6), Fixed(6), nn.Linear(6, CLASSES))
    module[1].running_mean.fill_(0.5)
    samples = linear_samples()
    task = TorchTask(module, samples, TRAINING)
    module.eval()
    with torch.no_grad():
        outputs = module(torch.tensor(samples.dataset.test_inputs, dtype=torch.float32))
        expected = nn.functional.cross_entropy(outputs, torch.tensor(samples.dataset.test_targets))
    found = task.evaluate(task.initial_model())
    assert found.metrics["test_loss"] == pytest.approx(float(expected), rel=1e-6)


def test_frozen_parameters_are_left_out_and_tied_ones_are_one_array() -> None:
    module = nn.Sequential(nn.Linear(FEATURES, 6), nn.Tanh(), nn.Linear(6, CLASSES))
    module[0].requires_grad_(False)
    task = TorchTask(module, linear_samples(), TRAINING)
    assert list(task.named_arrays(task.initial_model())) == ["2.weight", "2.bias"]
    assert np.any(task.local_update(task.initial_model(), START))

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(FEATURES, FEATURES), nn.Linear(FEATURES, FEATURES)
            self.second.weight = self.first.weight

        def forward(self, inputs):
            return self.second(self.first(inputs).relu())

    task = CheckedTask.of(TorchTask(Tied(), linear_samples(), TRAINING))
    assert set(task.named_arrays(task.initial_model())) == {"first.weight", "first.bias", "second.bias"}
    assert np.any(task.local_update(task.initial_model(), START))


@pytest.mark.parametrize(
    "module",
    [
        nn.Linear(FEATURES, CLASSES).double(),
        nn.Linear(FEATURES, CLASSES).requires_grad_(False),
        lambda: "no module",
    ],
    ids=["float64", "nothing trained", "no module"],
)
def test_modules_that_cannot_be_a_model_are_refused(module) -> None:
    with pytest.raises(UserError):
        TorchTask(module, linear_samples(), TRAINING)


@pytest.mark.parametrize("option", ["initial", "buffers"])
def test_unknown_choices_are_refused(option: str) -> None:
    with pytest.raises(InputError) as error:
        TorchTask(normalised(), linear_samples(), TRAINING, **{option: "other"})
    assert error.value.parameter == option
