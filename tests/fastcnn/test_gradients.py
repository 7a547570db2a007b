"""The gradient of FastCnn against two others: plain numpy in float64, and PyTorch."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view

from slotwise.fastcnn import kernels
from slotwise.fastcnn.architecture import Architecture, Plan, Workspace, make_workspace
from slotwise.fastcnn.dense_layout import DensePlan, DenseWorkspace, make_dense_workspace
from slotwise.fastcnn.kernels import FastCnn
from slotwise.fastcnn.layers import as_architecture, as_layers

OFFSET, SCALE = 4 * (0.25, 0.5, 0.0), 4 * (0.5, 1.0, 0.25)
few = settings(max_examples=80, deadline=None, derandomize=True)


class Case(NamedTuple):
    architecture: Architecture
    model: np.ndarray
    images: np.ndarray
    labels: np.ndarray
    kept: np.ndarray | None = None  # what dropout keeps, [sample, value]


@st.composite
def architectures(draw: st.DrawFn) -> Architecture:
    sizes = draw(st.lists(st.tuples(st.integers(1, 7), st.integers(1, 7)), max_size=3))
    height, width = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    for _, kernel in reversed(sizes):
        height = 2 * height + kernel - 1 + draw(st.integers(0, 1))
        width = 2 * width + kernel - 1 + draw(st.integers(0, 1))
    shape = (draw(st.integers(1, 12)), height, width)
    hidden = draw(st.lists(st.integers(1, 20), max_size=2))
    return Architecture(shape, tuple(sizes), tuple(hidden), draw(st.integers(2, 11)))


def make_case(architecture: Architecture, samples: int, seed: int) -> Case:
    generator = np.random.default_rng(seed)
    images = generator.integers(0, 256, (samples, *architecture.input_shape), np.uint8)
    labels = generator.integers(0, architecture.classes, samples)
    return Case(architecture, 2 * architecture.initial_parameters(generator), images, labels)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    return make_case(draw(architectures()), draw(st.integers(1, 19)), draw(st.integers(0, 2**32 - 1)))


@st.composite
def dropout_cases(draw: st.DrawFn) -> Case:
    """Networks with dropout, and what it keeps."""
    case = draw(cases())
    architecture = replace(case.architecture, dropout=draw(st.sampled_from([0.25, 0.5, 0.9])))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = (len(case.images), sum(architecture.dropped_sizes))
    return case._replace(architecture=architecture, kept=generator.random(shape) >= architecture.dropout)


@st.composite
def dense_cases(draw: st.DrawFn) -> Case:
    """Networks without convolutions, on images of which a part of the pixels is zero."""
    shape = (draw(st.integers(1, 3)), draw(st.integers(1, 13)), draw(st.integers(1, 13)))
    hidden = draw(st.lists(st.integers(1, 90), max_size=3))
    architecture = Architecture(shape, (), tuple(hidden), draw(st.integers(2, 40)))
    case = make_case(architecture, draw(st.integers(1, 150)), draw(st.integers(0, 2**32 - 1)))
    case.images[case.images < draw(st.integers(0, 256))] = 0
    return case


@st.composite
def cases_full_of_ties(draw: st.DrawFn) -> Case:
    """Black and white images and weights of -1, 0 and 1: sums are whole numbers, equal or zero very often."""
    case = draw(cases())
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    model = generator.integers(-1, 2, case.model.size).astype(np.float32)
    inputs, classes = case.architecture.dense_sizes[-1]
    model[-(inputs + 1) * classes :] /= 64  # no certain answers, whose gradients vanish
    return case._replace(model=model, images=np.where(case.images > 127, np.uint8(255), np.uint8(0)))


def normalised(case: Case) -> np.ndarray:
    channels = case.architecture.input_shape[0]
    offset, scale = (np.reshape(numbers[:channels], (-1, 1, 1)) for numbers in (OFFSET, SCALE))
    return (case.images / 255 - offset) / scale


def fast_gradient(case: Case) -> tuple[float, np.ndarray]:
    channels = case.architecture.input_shape[0]
    cnn = FastCnn(case.architecture, offset=OFFSET[:channels], scale=SCALE[:channels])
    return cnn.gradient(case.model, case.images, case.labels, case.kept)


def dropout_factors(case: Case) -> tuple[np.ndarray | float, np.ndarray | float]:
    """Return the factors of the channels of the last convolution, and of the inputs of the last layer."""
    if case.kept is None:
        return 1.0, 1.0
    channels, _ = case.architecture.dropped_sizes
    factors = case.kept / (1 - case.architecture.dropout)
    return factors[:, :channels, None, None] if channels else 1.0, factors[:, channels:]


def naive_gradient(case: Case) -> tuple[float, np.ndarray]:
    """Every formula written out, in float64."""
    shapes = case.architecture.parameter_shapes
    parts = np.split(case.model.astype(np.float64), np.cumsum([np.prod(shape) for shape in shapes])[:-1])
    shaped = [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
    layers = list(zip(shaped[::2], shaped[1::2], strict=True))
    convolutions = len(case.architecture.convolutions)
    filters, dense = layers[:convolutions], layers[convolutions:]

    values, kept = normalised(case), []
    for weight, bias in filters:
        inputs = values
        values, *memory = convolve_and_pool(inputs, weight, bias)
        kept.append((inputs, *memory))
    channel_factors, input_factors = dropout_factors(case)
    values = values * channel_factors
    feature_shape, activations = values.shape, [values.reshape(len(values), -1)]
    for weight, bias in dense[:-1]:
        sums = activations[-1] @ weight.T + bias
        if not filters:  # a sum whose sign float32 cannot tell switches a neuron on or off
            assume(np.abs(sums).min() > 3e-6)
        activations.append(np.maximum(sums, 0))
    activations[-1] = activations[-1] * input_factors
    loss, error = cross_entropy(activations[-1] @ dense[-1][0].T + dense[-1][1], case.labels)

    gradients: list[np.ndarray] = []
    factors = input_factors
    for weight, _ in reversed(dense):
        values = activations.pop()
        gradients[:0] = [(error.T @ values).ravel(), error.sum(0)]
        error = (error @ weight) * (values > 0) * factors
        factors = 1.0
    error = error.reshape(feature_shape) * channel_factors
    for weight, _ in reversed(filters):
        inputs, patches, winners, sums_shape = kept.pop()
        spread = unpool(error, winners, sums_shape)
        gradients[:0] = [np.einsum("noyx,ncyxij->ocij", spread, patches).ravel(), spread.sum((0, 2, 3))]
        error = convolve_back(spread, weight, inputs.shape) * (inputs > 0)
    return loss, np.concatenate(gradients)


def convolve_and_pool(values, weight, bias):
    patches = sliding_window_view(values, weight.shape[2:], (2, 3))
    sums = np.einsum("ncyxij,ocij->noyx", patches, weight) + bias[:, None, None]
    samples, outputs, height, width = sums.shape[0], sums.shape[1], sums.shape[2] // 2, sums.shape[3] // 2
    windows = sums[:, :, : 2 * height, : 2 * width].reshape(samples, outputs, height, 2, width, 2)
    windows = windows.transpose(0, 1, 2, 4, 3, 5).reshape(samples, outputs, height, width, 4)
    winners = windows.argmax(4)[..., np.newaxis]
    return np.maximum(np.take_along_axis(windows, winners, 4)[..., 0], 0), patches, winners, sums.shape


def cross_entropy(scores, labels):
    scores = scores - scores.max(1, keepdims=True)
    chances = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    hits = np.eye(scores.shape[1])[labels]
    losses = np.log(np.exp(scores).sum(1)) - (scores * hits).sum(1)
    return losses.mean(), (chances - hits) / len(labels)


def unpool(error, winners, sums_shape):
    samples, outputs, height, width = error.shape
    windows = np.zeros((*error.shape, 4))
    np.put_along_axis(windows, winners, error[..., np.newaxis], 4)
    windows = windows.reshape(*error.shape, 2, 2).transpose(0, 1, 2, 4, 3, 5)
    spread = np.zeros(sums_shape)
    spread[:, :, : 2 * height, : 2 * width] = windows.reshape(samples, outputs, 2 * height, 2 * width)
    return spread


def convolve_back(spread, weight, shape):
    error = np.zeros(shape)
    height, width = spread.shape[2:]
    for row, column in np.ndindex(*weight.shape[2:]):
        part = np.einsum("noyx,oc->ncyx", spread, weight[:, :, row, column])
        error[:, :, row : row + height, column : column + width] += part
    return error


def torch_gradient(case: Case) -> tuple[float, np.ndarray]:
    torch = pytest.importorskip("torch")
    from torch import nn

    class Times(nn.Module):
        """Dropout whose choice is known."""

        def __init__(self, factors):
            super().__init__()
            self.factors = torch.as_tensor(factors, dtype=torch.float32)

        def forward(self, values):
            return values * self.factors

    torch.set_num_threads(1)
    layers, channels = [], case.architecture.input_shape[0]
    for outputs, kernel in case.architecture.convolutions:
        layers += [nn.Conv2d(channels, outputs, kernel), nn.MaxPool2d(2), nn.ReLU()]
        channels = outputs
    layers.append(nn.Flatten())
    for inputs, outputs in case.architecture.dense_sizes:
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    channel_factors, input_factors = dropout_factors(case)
    if case.architecture.convolutions:
        layers.insert(3 * len(case.architecture.convolutions) - 2, Times(channel_factors))
    layers.insert(-2, Times(input_factors))
    model = nn.Sequential(*layers[:-1])
    nn.utils.vector_to_parameters(torch.from_numpy(case.model), model.parameters())
    scores = model(torch.from_numpy(normalised(case).astype(np.float32)))
    loss = nn.functional.cross_entropy(scores, torch.from_numpy(case.labels))
    loss.backward()
    found = torch.cat([parameter.grad.ravel() for parameter in model.parameters()])
    return loss.item(), found.numpy()


def assert_same(found: tuple[float, np.ndarray], expected: tuple[float, np.ndarray]) -> None:
    assert found[0] == pytest.approx(expected[0], rel=1e-4, abs=1e-6)
    distance = np.linalg.norm(found[1] - expected[1])
    assert distance <= 1e-4 * np.linalg.norm(expected[1]) + 1e-7


@few
@given(cases())
def test_gradient_equals_the_formulas_for_any_network(case: Case) -> None:
    assert_same(fast_gradient(case), naive_gradient(case))


@few
@given(cases_full_of_ties())
def test_the_first_of_equal_maxima_gets_the_gradient_and_zero_stops_it(case: Case) -> None:
    assert_same(fast_gradient(case), naive_gradient(case))


@few
@given(cases())
def test_gradient_equals_pytorch_for_any_network(case: Case) -> None:
    assert_same(fast_gradient(case), torch_gradient(case))


@few
@given(dropout_cases())
def test_gradient_with_dropout_equals_the_formulas_and_pytorch(case: Case) -> None:
    found = fast_gradient(case)
    assert_same(found, naive_gradient(case))
    assert_same(found, torch_gradient(case))


@few
@given(cases_full_of_ties())
def test_ties_are_broken_as_in_pytorch(case: Case) -> None:
    assert_same(fast_gradient(case), torch_gradient(case))


@pytest.mark.parametrize("samples", [1, 7, 8, 9, 64])
def test_gradient_of_the_mnist_network_equals_pytorch_for_any_batch(samples: int) -> None:
    case = make_case(Architecture((1, 28, 28), ((10, 5), (20, 5)), (50,), 10), samples, seed=samples)
    assert_same(fast_gradient(case), torch_gradient(case))


def test_gradient_of_a_colour_network_with_three_convolutions_equals_pytorch() -> None:
    case = make_case(Architecture((3, 32, 32), ((6, 5), (16, 3), (33, 3)), (84,), 10), 20, seed=0)
    assert_same(fast_gradient(case), torch_gradient(case))


@few
@given(dense_cases())
def test_gradient_of_dense_layers_equals_the_formulas(case: Case) -> None:
    assert_same(fast_gradient(case), naive_gradient(case))


@pytest.mark.parametrize("hidden", [(), (64,), (200, 30)])
@pytest.mark.parametrize("samples", [1, 64, 65, 200])
def test_gradient_of_dense_layers_equals_pytorch(hidden: tuple[int, ...], samples: int) -> None:
    case = make_case(Architecture((1, 28, 28), (), hidden, 10), samples, seed=samples)
    case.images[case.images < 200] = 0
    assert_same(fast_gradient(case), torch_gradient(case))


@few
@given(st.one_of(cases(), cases_full_of_ties(), dense_cases(), dropout_cases()))
def test_kernels_of_wide_layers_compute_the_same_gradient(case: Case) -> None:
    assume(case.architecture.hidden or case.kept is None)
    channels, labels = case.architecture.input_shape[0], case.labels.astype(np.int64)
    wide = kernels.WideKernels(as_layers(case.architecture), OFFSET[:channels], SCALE[:channels])
    given = map(read_only, (case.model, case.images.reshape(len(labels), -1), labels))
    assert_same(wide.gradient(wide.make_workspace(), *given, case.kept), naive_gradient(case))


@pytest.mark.parametrize("samples", [30, 64, 150])
def test_a_step_of_wide_layers_follows_their_gradient(samples: int) -> None:
    """Up to 64 samples the gradient of dense layers is added to the weights without being stored."""
    case = make_case(Architecture((3, 12, 12), ((16, 3), (20, 3)), (50,), 10), samples, seed=1)
    cnn = FastCnn(case.architecture, offset=OFFSET[:3], scale=SCALE[:3])
    batches = np.arange(samples).reshape(1, 1, -1)
    trained = cnn.train_each(case.model, case.images, case.labels, batches, [0.1])[0]
    _, gradient = cnn.gradient(case.model, case.images, case.labels)
    assert np.allclose(case.model - trained, 0.1 * gradient, atol=1e-6)


@few
@given(architectures(), st.sampled_from([0.0, 0.5]))
def test_an_architecture_as_layers_is_recognised(architecture: Architecture, dropout: float) -> None:
    given = replace(architecture, dropout=dropout if architecture.hidden else 0.0)
    layers = as_layers(given)
    assert as_architecture(layers) == given
    assert layers.parameter_shapes == given.parameter_shapes
    assert np.array_equal(layers.dropout_rates, given.dropout_rates)
    one, other = (each.initial_parameters(np.random.default_rng(0)) for each in (layers, given))
    assert np.array_equal(one, other)


@pytest.mark.parametrize(
    ("architecture", "kind"),
    [
        (Architecture((1, 28, 28), ((10, 5), (20, 5)), (50,), 10), kernels.ConvolutionKernels),
        (Architecture((1, 28, 28), ((32, 5), (64, 5)), (512,), 10), kernels.WideKernels),
        (Architecture((1, 28, 28), ((32, 5),), (), 10, 0.5), kernels.ConvolutionKernels),
        (Architecture((1, 28, 28), (), (200, 200), 10), kernels.DenseKernels),
    ],
)
def test_kernels_are_chosen_by_the_widths_of_the_layers(architecture: Architecture, kind: type) -> None:
    given = [architecture, as_layers(architecture)] if architecture.hidden else [architecture]
    for network in given:
        assert type(kernels.choose_kernels(network, (0.5,), (0.5,))) is kind


def test_gradient_of_dense_layers_on_colour_images_equals_pytorch() -> None:
    case = make_case(Architecture((3, 32, 32), (), (64,), 10), 64, seed=0)
    assert_same(fast_gradient(case), torch_gradient(case))


def test_dense_kernels_equal_those_of_networks_with_convolutions() -> None:
    case = make_case(Architecture((2, 9, 9), (), (50, 20), 10), 64, seed=0)
    general = kernels.ConvolutionKernels(case.architecture, OFFSET[:2], SCALE[:2])
    pixels, labels = case.images.reshape(64, -1), case.labels.astype(np.int64)
    found = general.gradient(general.make_workspace(), *map(read_only, (case.model, pixels, labels)), None)
    assert_same(fast_gradient(case), found)


def read_only(array: np.ndarray) -> np.ndarray:
    return kernels.read_only(array, array.dtype.type)


@few
@given(st.one_of(cases(), dense_cases(), dropout_cases()))
def test_kernels_neither_write_outside_their_workspace_nor_use_what_lies_there(case: Case) -> None:
    """They check no address, so every array gets a margin of values that are not numbers."""
    margin, surrounded = 1024, []

    def surround(array: np.ndarray) -> np.ndarray:
        surrounded.append(np.pad(array, margin, constant_values=outside(array)))
        return surrounded[-1][margin:-margin]

    def make_surrounded_workspace(plan: Plan) -> Workspace:
        return Workspace(*map(surround, make_workspace(plan)))

    def make_surrounded_dense_workspace(plan: DensePlan) -> DenseWorkspace:
        return DenseWorkspace(*map(surround, make_dense_workspace(plan)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "make_workspace", make_surrounded_workspace)
        patch.setattr(kernels, "make_dense_workspace", make_surrounded_dense_workspace)
        found = fast_gradient(case)
    assert_same(found, naive_gradient(case))
    assert surrounded
    for array in surrounded:
        margins = np.concatenate([array[:margin], array[-margin:]])
        assert np.array_equal(margins, np.full_like(margins, outside(array)), equal_nan=True)


def outside(array: np.ndarray) -> float:
    """Return a value that spoils a result: not a number, or all bits set."""
    return np.nan if array.dtype == np.float32 else np.iinfo(array.dtype).max
