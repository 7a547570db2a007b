"""Layout in memory of a network of wide layers, made by `wide_layout` and read by `wide_passes`.

A *map* is the output of a layer, or the image: [row, column, channel], its channels padded to whole vectors,
with a border of zeros as wide as the padding of the convolutions that read it. All maps of one sample lie in
one row of memory. Dense layers have maps of one pixel.

Matrices that are multiplied with lie in *panels*: [panel of outputs, term, output of the panel], so that a
product reads them in order.

Parameters of convolutions come first, in the order in which their gradient is computed. The forward pass
reads a copy of the filters in panels, and the backward pass another, of which the kind depends on the layer:

- without a pool, or in patches: panels of the filters turned around, because the errors of the inputs are a
  convolution of the errors of the outputs; with a stride s, s x s convolutions, each with every s-th row and
  column of the filters;
- else: [filter, row of the kernel, column and channel], because few errors are not zero, and each
  adds a multiple of one filter to the errors of the inputs.

Convolutions with many positions are computed in patches, see `winograd`, from transformed copies.

Weights of dense layers have no copy: they are in panels themselves, and their gradient is added in place.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.fastcnn.architecture import LANES, aligned
from slotwise.fastcnn.vectors import WIDE

BLOCK = 64
"""Samples that go through the network together, at most."""
CHANNELS = 16  # channels are padded to a multiple of this
PANEL = 2 * WIDE  # outputs of a panel; the last one may have half of them
POSITIONS = 8 if WIDE == 16 else 6  # rows of a matrix product that are computed together
PATCH = 6  # rows and columns of inputs of a patch
PATCHES = 16  # patches that are multiplied together, at least
SQUARE = 8  # rows and columns of inputs of a patch of several samples, see `wide_together`
TOGETHER = 16  # such patches that are multiplied together
FEW = 8  # samples that go through the convolutions together
CONVOLUTION, MEAN_POOL, MAX_POOL, NORMALISATION, SUM, DENSE = range(6)

MAP = (
    "start",
    "row",
    "pixel",
    "channels",
    "height",
    "width",
    "border",
    "first",
    "size",
    "inputs",
    "error_start",
    "batched",
)
OPERATION = (
    "kind", "source", "target", "rectify", "first", "drop_start", "drop_channel", "drop_row", "drop_column",
    "kernel_height", "kernel_width", "stride", "padding", "pooled", "map_height", "map_width",
    "outputs", "row", "terms", "runs", "run_length", "run_step", "has_bias",
    "model_start", "weight_start", "bias_start", "back_start", "gradient_start", "bias_gradient",
    "winner_start", "pre_start", "pre_row", "filter_row", "filter_size", "tile", "pixel",
    "patches", "patch_start", "back_patches", "back_patch_start", "patch_step", "input_step", "sum_step",
    "error_target", "adds", "other", "adds_other", "groups", "affine", "moments", "epsilon",
    "in_patches", "patch_gradient", "patches_together", "together",
)  # fmt: skip


class WidePlan(NamedTuple):
    """Constants of a network, as arrays so that compiled code can take them."""

    block: int  # samples that go through the network together
    maps: NDArray[np.void]
    operations: NDArray[np.void]
    place_of: NDArray[np.int32]  # where each parameter of a convolution, and its gradient, is
    copies_of: NDArray[np.int32]  # place of the parameter of each number in the copies, -1 for zero
    factor: NDArray[np.float32]  # a pixel x of channel c becomes factor[c] * x + shift[c]
    shift: NDArray[np.float32]
    keep_scale: NDArray[np.float32]  # factor of what dropout keeps, for each value that it may drop
    parameters: int  # numbers of all parameters, and of the gradient
    convolutions: int  # of those of the convolutions, which come first
    values: int  # numbers of all maps of a sample
    dense_errors: int  # numbers of the maps that are read or written by dense layers
    winners: int
    errors: int  # numbers of the errors of one sample
    scratch: int
    positions: int  # of a convolution with a pool, before it
    transposed: int
    patch_filters: int
    patch_numbers: int  # of the inputs of some patches, and of their sums
    patch_gradients: int  # of the filters of convolutions whose gradient is computed in patches
    together_errors: int


class WideWorkspace(NamedTuple):
    """Memory of one call; nothing in it is used after the call but the borders, which stay zero."""

    values: NDArray[np.float32]  # [sample, all maps]
    dense_errors: NDArray[np.float32]  # [sample, maps of dense layers]
    winners: NDArray[np.int32]  # [sample, window and channel]: distance to the maximum
    errors: NDArray[np.float32]  # of the maps of one sample
    scratch: NDArray[np.float32]  # rows of outputs, and lists of errors
    places: NDArray[np.int32]
    list_starts: NDArray[np.int32]  # of each position in the lists, and where the position is
    list_places: NDArray[np.int32]
    copies: NDArray[np.float32]
    transposed: NDArray[np.float32]  # errors of a dense layer and of its inputs, [number, sample]
    patch_filters: NDArray[np.float32]  # [layer, point, panels]
    patch_inputs: NDArray[np.float32]  # [point, patch, channel]
    patch_sums: NDArray[np.float32]
    patch_gradients: NDArray[np.float32]  # like `patch_filters`
    together_errors: NDArray[np.float32]  # [sample, map]: of the inputs of a convolution
    zeros: NDArray[np.float32]
    parameters: NDArray[np.float32]
    gradient: NDArray[np.float32]


def make_wide_workspace(plan: WidePlan) -> WideWorkspace:
    """Allocate the memory of one call."""
    slack = 16 * PANEL  # tiles may read and write a few positions after the last
    return WideWorkspace(
        values=aligned((plan.block + POSITIONS) * plan.values + slack, np.float32),
        dense_errors=aligned((plan.block + LANES) * plan.dense_errors + slack, np.float32),
        winners=aligned(plan.block * plan.winners, np.int32),
        errors=aligned(plan.errors + slack, np.float32),
        scratch=aligned(plan.scratch + slack, np.float32),
        places=aligned(plan.scratch + slack, np.int32),
        list_starts=aligned(plan.positions + CHANNELS, np.int32),
        list_places=aligned(plan.positions + CHANNELS, np.int32),
        copies=aligned(plan.copies_of.size + slack, np.float32),
        transposed=aligned(plan.transposed + slack, np.float32),
        patch_filters=aligned(plan.patch_filters + slack, np.float32),
        patch_inputs=aligned(plan.patch_numbers + slack, np.float32),
        patch_sums=aligned(plan.patch_numbers + slack, np.float32),
        patch_gradients=aligned(plan.patch_gradients + slack, np.float32),
        together_errors=aligned(plan.together_errors + slack, np.float32),
        zeros=aligned(max(plan.transposed, int(max(plan.maps["pixel"]))) + slack, np.float32),
        parameters=aligned(plan.parameters + slack, np.float32),
        gradient=aligned(plan.parameters + slack, np.float32),
    )
