"""Networks with group normalisations and sums, against plain numpy in float64.

The forward pass is written out; the gradient follows from it by central differences.
"""

from itertools import pairwise

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from slotwise.fastcnn import kernels
from slotwise.fastcnn.kernels import FastCnn
from slotwise.fastcnn.layers import Convolution, Dense, Layer, LayerNetwork, Normalisation, Pool, Sum

OFFSET, SCALE, CLASSES = (0.4, 0.5, 0.3), (0.3, 0.5, 0.25), 3


def convolve(values: np.ndarray, layer: Convolution, weight: np.ndarray) -> np.ndarray:
    around = (layer.padding, layer.padding)
    padded = np.pad(values, ((0, 0), (0, 0), around, around))
    patches = sliding_window_view(padded, layer.kernel, (2, 3))[:, :, :: layer.stride, :: layer.stride]
    return np.einsum("ncyxij,ocij->noyx", patches, weight)


def normalise(values: np.ndarray, layer: Normalisation) -> np.ndarray:
    groups = values.reshape(len(values), layer.groups, -1)
    means, variances = groups.mean(2, keepdims=True), groups.var(2, keepdims=True)
    return ((groups - means) / np.sqrt(variances + layer.epsilon)).reshape(values.shape)


def pool(values: np.ndarray, layer: Pool) -> np.ndarray:
    (down, right), windows = layer.stride, sliding_window_view(values, layer.kernel, (2, 3))
    windows = windows[:, :, ::down, ::right]
    return windows.mean((4, 5)) if layer.mean else windows.max((4, 5))


def losses(network: LayerNetwork, model: np.ndarray, images: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the loss of each sample."""
    offset, scale = (np.reshape(numbers, (-1, 1, 1)) for numbers in (OFFSET, SCALE))
    outputs = [(images / 255 - offset) / scale]
    sizes = np.cumsum([0] + [int(np.prod(shape)) for shape in network.parameter_shapes])
    parts = iter(model[a:b] for a, b in pairwise(sizes))
    for number, layer in enumerate(network.layers):
        values = outputs[layer.source + 1]
        shapes = layer.parameter_shapes(network.source_shape(number))
        own = [next(parts).reshape(shape) for shape in shapes]
        if isinstance(layer, Convolution):
            values = convolve(values, layer, own[0])
        elif isinstance(layer, Normalisation):
            values = normalise(values, layer)
            values = values * own[0][:, None, None] if own else values
        elif isinstance(layer, Pool):
            values = pool(values, layer)
        elif isinstance(layer, Sum):
            values = values if layer.other is None else values + outputs[layer.other + 1]
        elif isinstance(layer, Dense):
            values = (values.reshape(len(values), -1) @ own[0].T)[:, :, None, None]
        values = values + own[1][:, None, None] if len(own) == 2 else values
        if isinstance(layer, Convolution) and layer.pooled:
            values = pool(values, Pool(kernel=(2, 2), stride=(2, 2), mean=False))
        outputs.append(np.maximum(values, 0) if layer.rectify else values)
    scores = outputs[-1][:, :, 0, 0]
    return np.log(np.exp(scores).sum(1)) - scores[np.arange(len(labels)), labels]


def differences(
    network: LayerNetwork, model: np.ndarray, images: np.ndarray, labels: np.ndarray
) -> np.ndarray:
    """Return the gradient of the mean loss."""
    found, step = np.empty(model.size), 1e-5
    for number in range(model.size):
        moved = model.astype(np.float64)
        moved[number] += step
        above = losses(network, moved, images, labels).mean()
        moved[number] -= 2 * step
        found[number] = (above - losses(network, moved, images, labels).mean()) / (2 * step)
    return found


def block(*layers: Layer) -> LayerNetwork:
    return LayerNetwork((3, 7, 6), layers)


def filters(source: int, count: int, size: int = 1, **options) -> Convolution:
    return Convolution(source=source, filters=count, kernel=(size, size), **options)


NETWORKS = {
    "one group": block(
        filters(-1, 4, 3),
        Normalisation(source=0, groups=1),
        Dense(source=1, units=CLASSES),
    ),
    "groups, relu, a padded reader": block(
        filters(-1, 6),
        Normalisation(source=0, groups=3, rectify=True, epsilon=0.5),
        filters(1, 3, 3, padding=1, bias=False),
        Dense(source=2, units=CLASSES),
    ),
    "groups of one channel without weights, more than a vector": block(
        filters(-1, 18),
        Normalisation(source=0, groups=18, affine=False),
        Pool(source=1, kernel=(7, 6), stride=(7, 6), mean=True, rectify=True),
        Dense(source=2, units=CLASSES),
    ),
    "identity shortcut": block(
        filters(-1, 4, 2, rectify=True),
        filters(0, 4, 3, padding=1),
        Sum(source=1, other=0, rectify=True),
        Dense(source=2, units=CLASSES),
    ),
    "projection with a stride, both normalised": block(
        filters(-1, 3, 3, padding=1, bias=False),
        filters(0, 4, 3, stride=2, padding=1),
        Normalisation(source=1, groups=2),
        filters(0, 4, 1, stride=2),
        Normalisation(source=3, groups=2),
        Sum(source=2, other=4, rectify=True),
        Dense(source=5, units=CLASSES),
    ),
    "one output taken by layers of all kinds": block(
        filters(-1, 4),
        filters(0, 4, 3, padding=1),
        Normalisation(source=0, groups=2),
        Sum(source=0, rectify=True),
        Pool(source=0, kernel=(1, 1), stride=(1, 1), mean=False),
        Pool(source=0, kernel=(1, 1), stride=(1, 1), mean=True),
        filters(0, 4, 2, padding=1),
        Sum(source=1, other=2),
        Sum(source=3, other=7),
        Sum(source=4, other=8),
        Sum(source=9, other=5),
        Sum(source=0, other=0),
        Sum(source=10, other=11),
        Pool(source=12, kernel=(2, 2), stride=(2, 2), mean=False),
        filters(6, 4, 2, stride=1, pooled=True),
        Sum(source=13, other=14),
        Dense(source=15, units=CLASSES),
    ),
}


def example(network: LayerNetwork, samples: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    draw = np.random.default_rng(1)
    images = draw.integers(0, 256, (samples, *network.input_shape), np.uint8)
    model = network.initial_parameters(draw) + 0.3 * draw.standard_normal(network.parameters)
    return model.astype(np.float32), images, draw.integers(0, CLASSES, samples)


@pytest.mark.parametrize("name", NETWORKS)
def test_gradient_loss_and_a_step_are_those_of_the_formulas(name: str) -> None:
    network = NETWORKS[name]
    model, images, labels = example(network, 5)
    cnn = FastCnn(network, offset=OFFSET, scale=SCALE)
    loss, gradient = cnn.gradient(model, images, labels)
    each, expected = losses(network, model, images, labels), differences(network, model, images, labels)
    assert loss == pytest.approx(each.mean(), rel=1e-5)
    assert np.linalg.norm(gradient - expected) <= 2e-5 * np.linalg.norm(expected)
    assert cnn.evaluate(model, images, labels)[0] == pytest.approx(each.sum(), rel=1e-5)
    trained = cnn.train_each(model, images, labels, np.arange(5).reshape(1, 1, 5), [0.1])[0]
    assert np.allclose(model - trained, 0.1 * expected, atol=1e-5)


def test_a_constant_map_is_normalised_to_its_bias() -> None:
    network = NETWORKS["one group"]
    model, images, labels = example(network, 2)
    images[:] = 7
    loss, gradient = FastCnn(network, offset=OFFSET, scale=SCALE).gradient(model, images, labels)
    assert loss == pytest.approx(losses(network, model, images, labels).mean(), rel=1e-4)
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize(
    ("layers", "reason"),
    [
        ((filters(-1, 4), filters(0, 5), Sum(source=0, other=1)), "different sizes"),
        ((filters(-1, 4), filters(0, 4), filters(0, 4)), "no layer takes the output of layer 2"),
        ((Normalisation(source=-1, groups=1),), "images"),
        ((filters(-1, 4), Sum(source=0, other=3), filters(1, 4)), "after it"),
    ],
)
def test_networks_that_do_not_fit_together_are_refused(layers: tuple[Layer, ...], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        block(*layers, Dense(source=len(layers) - 1, units=CLASSES))


def test_residual_networks_are_computed_by_the_kernels_of_wide_layers() -> None:
    for network in NETWORKS.values():
        assert isinstance(kernels.choose_kernels(network, OFFSET, SCALE), kernels.WideKernels)
