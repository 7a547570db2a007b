"""Data that TorchTask trains on: arrays of any kind, and torch data sets."""

import random
from math import isnan
from pathlib import Path

import numpy as np
import pytest
from torch_cases import CLASSES, FEATURES, ROWS, linear_samples

from slotwise.base.errors import InputError, UserError
from slotwise.data import Dataset, load_mnist
from slotwise.learning import TrainingStart, train
from slotwise.learning.local_training import DeviceSamples, LocalTraining
from slotwise.runs import RunConfig
from slotwise.scenario import Scenario
from slotwise.schedule import simulate

torch = pytest.importorskip("torch")
nn = torch.nn
torch_task = pytest.importorskip("slotwise.torch.task")
CHUNK, TorchTask = torch_task.CHUNK, torch_task.TorchTask
torch_samples = pytest.importorskip("slotwise.torch.samples")
ArrayBatches, ResidentBatches, TorchSamples = (
    getattr(torch_samples, name) for name in ("ArrayBatches", "ResidentBatches", "TorchSamples")
)
TRAINING = LocalTraining(local_steps=3, batch_size=6, learning_rate=0.1)


def as_torch(samples, transform=None):
    """Return the same samples as torch data sets."""
    data = samples.dataset

    class Items(torch.utils.data.Dataset):
        def __init__(self, inputs, targets):
            self.inputs, self.targets = inputs, targets

        def __len__(self):
            return len(self.targets)

        def __getitem__(self, index):
            item = torch.from_numpy(np.array(self.inputs[index]))
            return (transform(item) if transform else item), self.targets[index]

    rows = [np.array(own) for own in ROWS]
    devices = [Items(data.train_inputs[own], data.train_targets[own]) for own in rows]
    return TorchSamples(devices, Items(data.test_inputs, data.test_targets))


def test_torch_data_sets_train_as_the_same_arrays_do() -> None:
    module, samples = nn.Linear(FEATURES, CLASSES), linear_samples()
    one, other = (TorchTask(module, found, TRAINING) for found in (samples, as_torch(samples)))
    model = one.initial_model()
    for device in (1, 2, 3):
        assert one.sample_count(device) == other.sample_count(device) == len(ROWS[device - 1])
        updates = [task.local_update(model, TrainingStart(device, 4)) for task in (one, other)]
        assert np.array_equal(*updates)
    assert one.evaluate(model) == other.evaluate(model)


def test_random_augmentations_do_not_depend_on_the_number_of_workers() -> None:
    samples = as_torch(linear_samples(), lambda item: item + 0.1 * torch.randn(FEATURES))
    task = TorchTask(nn.Linear(FEATURES, CLASSES), samples, TRAINING)
    timeline = simulate(Scenario(devices=3, group_size=1, compute_slots=2), "async", rounds=8)
    one, four = (train(timeline, task, workers=workers) for workers in (1, 4))
    assert np.array_equal(one.model, four.model)
    assert one.points == four.points


def noisy(draw, count=6):
    """Return a data set whose items are drawn again each time they are read."""

    class Items(torch.utils.data.Dataset):
        def __len__(self):
            return count

        def __getitem__(self, index):
            return torch.arange(FEATURES) + torch.as_tensor(draw(FEATURES)), index % CLASSES

    return Items()


PLAIN = [(torch.arange(FEATURES).float(), 1)] * 4


@pytest.mark.parametrize(
    "devices",
    [
        [noisy(torch.randn)],
        [PLAIN, noisy(torch.randn)],
        [torch.utils.data.ConcatDataset([PLAIN * 9, noisy(torch.randn)])],
    ],
    ids=["all", "one device", "some samples"],
)
def test_augmented_training_samples_are_seeded(devices) -> None:
    task = TorchTask(nn.Linear(FEATURES, CLASSES), TorchSamples(devices, PLAIN), TRAINING)
    model, last = task.initial_model(), len(devices)
    before = torch.get_rng_state()
    evaluations = [task.evaluate(model) for _ in range(2)]
    assert evaluations[0] == evaluations[1]
    for training in range(5):
        one, other = (task.local_update(model, TrainingStart(last, training)) for _ in range(2))
        assert np.array_equal(one, other)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    "draw", [lambda n: random.random(), np.random.random_sample], ids=["random", "numpy"]
)
@pytest.mark.parametrize("place", ["device", "test"])
def test_data_sets_that_cannot_be_seeded_are_refused(draw, place: str) -> None:
    unseeded = noisy(draw, 20)  # larger than the other device, so no gradient is computed on it
    samples = {"device": ([PLAIN, unseeded], PLAIN), "test": ([PLAIN, PLAIN], unseeded)}[place]
    with pytest.raises(UserError, match="cannot be seeded"):
        TorchTask(nn.Linear(FEATURES, CLASSES), TorchSamples(*samples), TRAINING)


@pytest.mark.parametrize(
    ("devices", "test"), [([], [(0, 1)]), ([[]], [(0, 1)]), ([[(0, 1)]], [])], ids=["no", "empty", "no test"]
)
def test_missing_samples_are_refused(devices, test) -> None:
    with pytest.raises(InputError):
        TorchSamples(devices, test)


def test_items_that_are_no_pairs_are_refused() -> None:
    samples = TorchSamples([[torch.zeros(FEATURES)] * 4], [torch.zeros(FEATURES)])
    with pytest.raises(UserError, match="pairs"):
        TorchTask(nn.Linear(FEATURES, CLASSES), samples, TRAINING)


def test_a_regression_has_no_accuracy() -> None:
    draw = np.random.default_rng(0)
    samples = linear_samples(draw.normal(size=(42, 2)), draw.normal(size=(42, FEATURES)))
    module = nn.Linear(FEATURES, 2)
    task = TorchTask(module, samples, TRAINING, loss=nn.functional.mse_loss)
    found = task.evaluate(task.initial_model())
    assert isnan(found.accuracy)
    errors = module(torch.tensor(samples.dataset.test_inputs, dtype=torch.float32)).detach().numpy()
    expected = np.square(errors - samples.dataset.test_targets).mean()
    assert found.metrics == {"test_loss": pytest.approx(expected, rel=1e-5)}


def test_a_loss_for_each_sample_is_averaged() -> None:
    def each(outputs, targets):
        return nn.functional.cross_entropy(outputs, targets, reduction="none")

    module = nn.Linear(FEATURES, CLASSES)
    tasks = [TorchTask(module, linear_samples(), TRAINING, **options) for options in ({}, {"loss": each})]
    model = tasks[0].initial_model()
    one, other = (task.local_update(model, TrainingStart(2, 0)) for task in tasks)
    assert np.allclose(one, other, atol=1e-7)
    assert tasks[1].evaluate(model).loss == pytest.approx(tasks[0].evaluate(model).loss, rel=1e-6)


def test_metrics_are_means_over_the_test_samples() -> None:
    def top_two(outputs, targets):
        return (outputs.topk(2, dim=1).indices == targets[:, None]).any(dim=1)

    metrics = {"top_two": top_two, "constant": lambda outputs, targets: 3}
    samples, module = linear_samples(), nn.Linear(FEATURES, CLASSES)
    task = TorchTask(module, samples, TRAINING, metrics=metrics)
    found = task.evaluate(task.initial_model())
    outputs = module(torch.tensor(samples.dataset.test_inputs, dtype=torch.float32))
    expected = top_two(outputs, torch.tensor(samples.dataset.test_targets)).float().mean()
    assert list(found.metrics) == ["test_loss", "top_two", "constant"]
    assert found.metrics["top_two"] == pytest.approx(expected.item())
    assert found.metrics["constant"] == 3


def test_a_metric_with_a_single_number_gets_all_test_samples() -> None:
    def lowest_recall(outputs, targets):
        right = outputs.argmax(dim=1) == targets
        return min(float(right[targets == label].float().mean()) for label in targets.unique())

    inputs = torch.randn(CHUNK + 200, FEATURES, generator=torch.Generator().manual_seed(1))
    targets = torch.arange(CHUNK + 200) % CLASSES
    tensors = torch.utils.data.TensorDataset
    test, device = tensors(inputs, targets), tensors(inputs[:40], targets[:40])
    module = nn.Linear(FEATURES, CLASSES)
    task = TorchTask(module, TorchSamples([device], test), TRAINING, metrics={"lowest": lowest_recall})
    with torch.no_grad():
        expected = lowest_recall(module(inputs), targets)
    assert task.evaluate(task.initial_model()).metrics["lowest"] == pytest.approx(expected)


def test_outputs_of_chunks_that_do_not_fit_together_are_refused_for_a_single_number() -> None:
    def padded(items):  # to the longest sequence of the chunk
        longest = max(len(sequence) for sequence, _ in items)
        inputs = torch.zeros(len(items), longest)
        for row, (sequence, _) in enumerate(items):
            inputs[row, : len(sequence)] = sequence
        return inputs, torch.tensor([target for _, target in items])

    class Growing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(1))

        def forward(self, inputs):
            return inputs * self.scale

    items = [(torch.ones(2 + row // CHUNK), 1) for row in range(CHUNK + 5)]
    samples = TorchSamples([items[:20]], items, collate=padded)
    task = TorchTask(Growing(), samples, TRAINING, metrics={"mean": lambda outputs, _: outputs.mean()})
    with pytest.raises(UserError, match="all test samples"):
        task.evaluate(task.initial_model())


@pytest.mark.parametrize("name", ["test_loss", "loss", "train_loss", "test_accuracy", "slot"])
def test_a_metric_with_the_name_of_another_number_is_refused(name: str) -> None:
    metrics = {name: lambda outputs, targets: 3}
    with pytest.raises(UserError, match=name):
        TorchTask(nn.Linear(FEATURES, CLASSES), linear_samples(), TRAINING, metrics=metrics)


def test_labels_of_sequences_count_one_by_one_and_padding_does_not() -> None:
    class Repeat(nn.Module):
        """Says that the next symbol is the last one."""

        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(()))

        def forward(self, symbols):
            return self.scale * nn.functional.one_hot(symbols, 4).float().transpose(1, 2)

    text = np.tile([[0, 1, 1, 2]], (42, 1))
    targets = np.tile([[1, 1, 2, -100]], (42, 1))  # one of three is right
    task = TorchTask(Repeat(), linear_samples(targets, text), TRAINING)
    assert task.evaluate(task.initial_model()).accuracy == pytest.approx(1 / 3)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_floating_point_inputs_of_any_size_are_used_as_float32(dtype) -> None:
    inputs = np.random.default_rng(0).normal(size=(42, FEATURES)).astype(dtype)
    task = TorchTask(nn.Linear(FEATURES, 3), linear_samples(np.arange(42) % 3, inputs), TRAINING)
    assert np.any(task.local_update(task.initial_model(), TrainingStart(1, 0)))


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64])
def test_integer_inputs_reach_an_embedding(dtype) -> None:
    inputs = (np.arange(42 * 4).reshape(42, 4) % 9).astype(dtype)
    module = nn.Sequential(nn.Embedding(9, 3), nn.Flatten(), nn.Linear(12, 3))
    task = TorchTask(module, linear_samples(np.arange(42) % 3, inputs), TRAINING)
    assert np.any(task.local_update(task.initial_model(), TrainingStart(1, 0)))


class Attention(nn.Module):
    """Attends to the positions that are not padding."""

    def __init__(self):
        super().__init__()
        self.attention, self.scores = nn.MultiheadAttention(4, 1, batch_first=True), nn.Linear(4, CLASSES)

    def forward(self, inputs):
        sequence, padding = inputs
        attended, _ = self.attention(sequence, sequence, sequence, key_padding_mask=padding)
        return self.scores((attended * (~padding)[:, :, None]).sum(dim=1))


def test_boolean_inputs_stay_boolean() -> None:
    padding = torch.tensor([False, False, True])

    def items(padded):
        parts = [torch.randn(3, 4, generator=torch.Generator().manual_seed(n)) for n in range(6)]
        for part in parts:
            part[2] = padded
        return [((part, padding), n % CLASSES) for n, part in enumerate(parts)]

    tasks = [TorchTask(Attention, TorchSamples([found], found), TRAINING) for found in map(items, (0.0, 7.0))]
    model = tasks[0].initial_model()
    losses = [task.evaluate(model).loss for task in tasks]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


def test_boolean_arrays_stay_boolean_and_labels_are_0_and_1() -> None:
    class Mask(nn.Linear):
        def forward(self, mask):
            return super().forward((~mask).float())

    inputs, targets = np.arange(42 * 4).reshape(42, 4) % 3 == 0, np.arange(42) % 3
    module = Mask(4, 3)
    task = TorchTask(module, linear_samples(targets, inputs), TRAINING)
    expected = nn.functional.cross_entropy(module(torch.tensor(inputs[32:])), torch.tensor(targets[32:]))
    assert task.evaluate(task.initial_model()).metrics["test_loss"] == pytest.approx(expected.item())
    module, labels = nn.Linear(FEATURES, 2), np.arange(42) % 3 == 0
    tasks = [TorchTask(module, linear_samples(found), TRAINING) for found in (labels, labels.astype(int))]
    model = tasks[0].initial_model()
    assert tasks[0].evaluate(model) == tasks[1].evaluate(model)


def test_the_example_of_an_own_model_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "examples" / "own_model"))
    from sine import make_task

    options = {"devices": 4, "group_size": 2, "compute_slots": 2, "deadline": 300, "learning_rate": 0.03}
    config = RunConfig().with_options(**options)
    task = make_task(config)
    assert [task.sample_count(device) for device in (1, 4)] == [10, 40]
    points = train(config.simulate(), task, workers=2).points
    assert points[-1].metrics["test_loss"] < 0.9 * points[0].metrics["test_loss"]


@pytest.mark.parametrize(("option", "same"), [("model_seed", "data"), ("data_seed", "model")])
def test_the_example_of_an_own_model_has_two_seeds(
    monkeypatch: pytest.MonkeyPatch, option: str, same: str
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "examples" / "own_model"))
    from sine import make_task

    options = {"devices": 4, "group_size": 2, "compute_slots": 2, "deadline": 300}
    one, other = (make_task(RunConfig().with_options(**options, **{option: seed})) for seed in (1, 2))
    model = one.initial_model()
    assert np.array_equal(model, other.initial_model()) == (same == "model")
    assert (one.evaluate(model).loss == other.evaluate(model).loss) == (same == "data")


@pytest.mark.parametrize("make", [lambda ok: [iter([1])], lambda ok: iter([ok]), lambda ok: 3])
def test_data_sets_without_a_length_are_refused(make) -> None:
    tiny = torch.utils.data.TensorDataset(torch.zeros(2, 3), torch.zeros(2))
    with pytest.raises(InputError, match="samples ="):
        TorchSamples(make(tiny), tiny)


def image_batches(dtype: type[np.generic]):
    draw = np.random.default_rng(0)
    images = draw.integers(0, 255, (30, 3, 4, 4)).astype(dtype)
    labels, standard = np.arange(30) % 3, ((0.5,) * 3, (0.25,) * 3) if dtype is np.uint8 else ((), ())
    dataset = Dataset("images", images, labels, images[:6], labels[:6], 3, *standard)
    return ArrayBatches(DeviceSamples(dataset, (np.arange(15), np.arange(15, 30))), None, None)


@pytest.mark.parametrize("dtype", [np.uint8, np.float64])
def test_samples_that_stay_on_a_device_are_the_same(dtype: type[np.generic]) -> None:
    batches, rows = image_batches(dtype), np.array([3, 1, 4, 1])
    resident = ResidentBatches(batches, torch.device("cpu"))
    for take in ("train_batch", "test_batch"):
        pairs = zip(getattr(batches, take)(rows), getattr(resident, take)(rows), strict=True)
        assert all(torch.equal(one, other) and one.dtype == other.dtype for one, other in pairs)
    assert (len(resident), resident.count(2)) == (2, 15)


def test_batches_of_resident_samples_are_made_on_the_device() -> None:
    resident = ResidentBatches(image_batches(np.uint8), torch.device("meta"))  # a device without memory
    images, labels = resident.train_batch(np.arange(5))
    assert (images.device.type, images.shape, labels.device.type) == ("meta", (5, 3, 4, 4), "meta")


@pytest.mark.parametrize(
    ("device", "free", "kept"), [("cpu", 10**9, False), ("meta", 10**9, True), ("meta", 8000, False)]
)
def test_samples_stay_on_a_gpu_if_they_take_at_most_a_quarter_of_its_memory(
    device: str, free: int, kept: bool
) -> None:
    batches = image_batches(np.uint8)
    assert isinstance(torch_samples.kept_on(torch.device(device), batches, free), ResidentBatches) == kept


class Viewing(nn.Module):
    """A CNN that flattens with ``view``, which needs the usual order in memory."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(1, 4, 5, stride=4)
        self.head = nn.Linear(144, 10)

    def forward(self, images):
        return self.head(self.convolution(images).view(-1, 144))


def test_a_module_may_call_view_on_images_of_one_channel() -> None:
    mnist = load_mnist()
    pixels = torch.from_numpy(mnist.train_inputs[:8] / np.float32(255))
    items = list(zip(pixels, mnist.train_targets.tolist(), strict=False))

    def channels_last(chosen):
        images = torch.stack([image for image, _ in chosen])
        return images.as_strided(images.shape, (784, 1, 28, 1)), torch.tensor([label for _, label in chosen])

    torch_items = TorchSamples([items], items, collate=channels_last)
    for samples in (DeviceSamples(mnist, [np.arange(8)]), torch_items):
        task = TorchTask(Viewing(), samples, TRAINING)
        assert np.isfinite(task.local_update(task.initial_model(), TrainingStart(1, 0))).all()


IMAGES = np.zeros((42, 1, 6, 6), np.uint8)


@pytest.mark.parametrize(
    ("samples", "options", "parameter"),
    [
        (linear_samples(), {"offset": (0.1,), "scale": (0.3,)}, "offset"),
        (linear_samples(), {"scale": (0.3,)}, "scale"),
        (linear_samples(inputs=IMAGES / 255), {"offset": (0.1,), "scale": (0.3,)}, "offset"),
        (linear_samples(inputs=IMAGES[:, 0]), {"offset": (0.1,), "scale": (0.3,)}, "offset"),
        (as_torch(linear_samples()), {"offset": (0.1,)}, "offset"),
        (linear_samples(inputs=IMAGES), {"offset": (0.1,)}, "scale"),
        (linear_samples(inputs=IMAGES), {"scale": (0.3,)}, "offset"),
    ],
    ids=["floats", "scale", "images of floats", "no channels", "torch", "offset alone", "scale alone"],
)
def test_offset_and_scale_without_pixels_or_each_other_are_refused(samples, options, parameter) -> None:
    class First(nn.Linear):
        def forward(self, inputs):
            return super().forward(inputs.flatten(1)[:, :FEATURES].float())

    with pytest.raises(InputError) as caught:
        TorchTask(First(FEATURES, CLASSES), samples, TRAINING, **options)
    assert caught.value.parameter == parameter


@pytest.mark.parametrize("source", ["arrays", "data sets"])
def test_every_sample_is_used_once_in_each_epoch(source: str) -> None:
    used: list[float] = []

    class Noting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(FEATURES, CLASSES)

        def forward(self, inputs):
            if self.training:
                used.extend(inputs[:, 0].tolist())
            return self.layer(inputs)

    samples = linear_samples()
    given = samples if source == "arrays" else as_torch(samples)
    training = LocalTraining(local_epochs=3, batch_size=6, learning_rate=0.1)
    task = TorchTask(Noting(), given, training)
    for device in (1, 2, 3):
        used.clear()
        task.local_update(task.initial_model(), TrainingStart(device, 5))
        own = samples.dataset.train_inputs[samples.rows[device - 1], 0].astype(np.float32)
        assert sorted(used) == sorted(own.tolist() * 3)


def test_a_batch_normalisation_of_one_sample_is_found_before_the_training() -> None:
    module = nn.Sequential(nn.Linear(FEATURES, 4), nn.BatchNorm1d(4), nn.Linear(4, CLASSES))
    TorchTask(module, linear_samples(), LocalTraining(local_epochs=1, batch_size=4))
    with pytest.raises(UserError, match="device 3, which has 20 samples: ValueError: Expected more than 1"):
        TorchTask(module, linear_samples(), LocalTraining(local_epochs=1, batch_size=19))
