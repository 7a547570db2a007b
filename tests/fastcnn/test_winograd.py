"""Convolutions in patches: their matrices, where they are chosen, gradients against PyTorch in float64."""

import numpy as np
import pytest

from slotwise.fastcnn import wide_together
from slotwise.fastcnn.architecture import Architecture
from slotwise.fastcnn.kernels import FastCnn
from slotwise.fastcnn.layers import Convolution, Dense, LayerNetwork, as_layers
from slotwise.fastcnn.wide_layout import make_wide_plan
from slotwise.fastcnn.wide_plan import PATCH, SQUARE
from slotwise.fastcnn.winograd import ADDS_TO_ALL, matrices


def convolution(source: int, filters: int, size: int, **other) -> Convolution:
    return Convolution(source=source, filters=filters, kernel=(size, size), rectify=True, **other)


MCMAHAN = as_layers(Architecture((1, 28, 28), ((32, 5), (64, 5)), (512,), 10))
# Filters of 3 x 3 without a pool, so that the errors of the inputs are a convolution too, and 5 x 5 with one.
WITHOUT_POOL = LayerNetwork(
    (3, 16, 16),
    (
        convolution(-1, 16, 3, padding=1),
        convolution(0, 48, 3, padding=1),
        convolution(1, 20, 5, padding=2, pooled=True),
        Dense(source=2, units=10),
    ),
)
# 49 patches, of which one is left after three times sixteen; then a map of an odd number of rows.
PART_OF_A_TILE = LayerNetwork(
    (1, 28, 28),
    (
        convolution(-1, 32, 5, padding=2, pooled=True),
        convolution(0, 16, 5, padding=2, pooled=True),
        convolution(1, 32, 3, pooled=True),
        Dense(source=2, units=10),
    ),
)
# Padding at the edge of the map, no bias, and more channels than a panel has.
WIDE = LayerNetwork(
    (1, 12, 12),
    (
        convolution(-1, 64, 3, padding=1),
        convolution(0, 80, 3, padding=2, bias=False),
        Dense(source=1, units=10),
    ),
)
# Samples together in patches of 8 x 8, with padding and an odd number of rows.
TOGETHER = LayerNetwork(
    (2, 22, 20),
    (
        convolution(-1, 48, 5, pooled=True),
        convolution(0, 64, 5, padding=2, pooled=True),
        Dense(source=1, units=10),
    ),
)
# Convolutions of images with a max-pool that have kernels of their own.
GREY = LayerNetwork((1, 17, 20), (convolution(-1, 32, 5, padding=1, pooled=True), Dense(source=0, units=10)))
COLOUR = LayerNetwork(
    (3, 19, 16), (convolution(-1, 48, 3, stride=2, pooled=True, bias=False), Dense(source=0, units=10))
)
# The errors of the inputs behind max-pools, with and without padding.
POOLED = LayerNetwork(
    (3, 18, 18),
    (
        convolution(-1, 32, 3),
        convolution(0, 16, 3, pooled=True),
        convolution(1, 48, 2, padding=1),
        convolution(2, 32, 3, padding=1, pooled=True),
        Dense(source=3, units=10),
    ),
)


@pytest.mark.parametrize(("taps", "patch"), [(3, PATCH), (5, PATCH), (5, SQUARE)])
def test_matrices_give_the_sums_of_a_sliding_filter(taps: int, patch: int) -> None:
    of_inputs, of_filters, of_outputs = matrices(taps, patch)
    draw = np.random.default_rng(taps)
    inputs, taken = draw.normal(size=patch), draw.normal(size=taps)
    found = of_outputs @ ((of_inputs @ inputs) * (of_filters @ taken))
    assert np.allclose(found, np.correlate(inputs, taken, "valid"))
    row, column = divmod(ADDS_TO_ALL if patch == PATCH else wide_together.ADDS_TO_ALL, patch)
    assert np.all(np.outer(of_outputs[:, row], of_outputs[:, column]) == 1)


def patches(network: LayerNetwork) -> list[tuple[int, int]]:
    operations = make_wide_plan(network, (0.5,) * 3, (0.5,) * 3).operations
    return [(int(row["patches"]), int(row["back_patches"])) for row in operations]


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        (MCMAHAN, [(0, 0), (4, 0), (0, 0), (0, 0)]),
        (TOGETHER, [(0, 0), (4, 0), (0, 0)]),
        (WITHOUT_POOL, [(0, 0), (16, 16), (64, 0), (0, 0)]),
        (PART_OF_A_TILE, [(0, 0), (49, 0), (0, 0), (0, 0)]),
        (WIDE, [(0, 0), (0, 9), (0, 0)]),
        (POOLED, [(0, 0), (0, 16), (0, 0), (4, 4), (0, 0)]),
    ],
    ids=["McMahan", "together", "without pool", "part of a tile", "wide", "pooled"],
)
def test_patches_are_used_where_they_fit_and_save_products(
    network: LayerNetwork, expected: list[tuple[int, int]]
) -> None:
    assert patches(network) == expected


def torch_gradient(network: LayerNetwork, model: np.ndarray, images: np.ndarray, labels: np.ndarray):
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    vector = torch.from_numpy(model.astype(np.float64)).requires_grad_()
    shapes = network.parameter_shapes
    parts = iter(
        part.view(shape) for part, shape in zip(vector.split([*map(np.prod, shapes)]), shapes, strict=True)
    )
    values = torch.from_numpy(images / 127.5 - 1)
    for layer in network.layers:
        weight, bias = next(parts), next(parts) if layer.bias else None
        if isinstance(layer, Dense):
            values = functional.linear(values.flatten(1), weight, bias)
        else:
            values = functional.conv2d(values, weight, bias, layer.stride, layer.padding)
            values = functional.max_pool2d(values, 2) if layer.pooled else values
        values = functional.relu(values) if layer.rectify else values
    loss = functional.cross_entropy(values, torch.from_numpy(labels))
    loss.backward()
    return loss.item(), vector.grad.numpy()


@pytest.mark.parametrize(
    ("network", "samples"),
    [
        (WITHOUT_POOL, 5),
        (PART_OF_A_TILE, 5),
        (WIDE, 5),
        (POOLED, 5),
        (TOGETHER, 11),
        (GREY, 5),
        (COLOUR, 5),
    ],
    ids=["without pool", "part of a tile", "wide", "pooled", "together", "grey", "colour"],
)
def test_gradient_equals_pytorch(network: LayerNetwork, samples: int) -> None:
    draw = np.random.default_rng(1)  # with 0, the sign of a value next to zero depends on the rounding
    images = draw.integers(0, 256, (samples, *network.input_shape), np.uint8)
    labels, model = draw.integers(0, 10, samples), network.initial_parameters(draw)
    channels = network.input_shape[0]
    kernels = FastCnn(network, offset=(0.5,) * channels, scale=(0.5,) * channels)
    loss, gradient = torch_gradient(network, model, images, labels)
    for _ in range(2):  # the second time with the memory of the first
        found, own = kernels.gradient(model, images, labels)
        assert found == pytest.approx(loss, rel=1e-5)
        assert np.linalg.norm(own - gradient) <= 1e-5 * np.linalg.norm(gradient)
