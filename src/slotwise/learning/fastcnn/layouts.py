"""From [sample, value] to [value, sample] and back, eight samples at a time: see `plan`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slotwise.learning.fastcnn.compilation import compiled
from slotwise.learning.fastcnn.plan import Plan
from slotwise.learning.fastcnn.tiles import load_tile, store_tile, transpose, where_positive
from slotwise.learning.fastcnn.vectors import LANES, repeat

Floats = NDArray[np.float32]


@compiled
def read_images(plan: Plan, images: NDArray[np.uint8], chosen: NDArray[np.int64], rows: Floats) -> None:
    """Normalise up to eight images into rows, channels last; missing samples are blank."""
    channels = plan.factor.size
    pixels = images.shape[1] // channels
    for sample in range(LANES):
        row = rows[sample * plan.image_stride : sample * plan.image_stride + images.shape[1]]
        if sample >= chosen.size:
            row[:] = 0
            continue
        for channel in range(channels):
            factor, shift = plan.factor[channel], plan.shift[channel]
            plane = images[chosen[sample], channel * pixels : (channel + 1) * pixels]
            for pixel in range(pixels):
                row[pixel * channels + channel] = factor * np.float32(plane[pixel]) + shift


@compiled
def rows_to_lanes(values: int, stride: int, rows: Floats, lanes: Floats) -> None:
    """lanes[value, sample] = rows[sample, value]."""
    zero = repeat(np.float32(0))
    eight = (zero, zero, zero, zero, zero, zero, zero, zero)
    for value in range(0, values, LANES):
        store_tile(lanes, LANES * value, LANES, transpose(load_tile(rows, value, stride, eight)))


@compiled
def lanes_to_rows(values: int, stride: int, lanes: Floats, rows: Floats) -> None:
    """rows[sample, value] = lanes[value, sample]."""
    zero = repeat(np.float32(0))
    eight = (zero, zero, zero, zero, zero, zero, zero, zero)
    for value in range(0, values, LANES):
        store_tile(rows, value, stride, transpose(load_tile(lanes, LANES * value, LANES, eight)))


@compiled
def errors_to_lanes(values: int, stride: int, rows: Floats, activations: Floats, errors: Floats) -> None:
    """errors[value, sample] = rows[sample, value] where the activation > 0, else 0: back through relu."""
    zero = repeat(np.float32(0))
    eight = (zero, zero, zero, zero, zero, zero, zero, zero)
    for value in range(0, values, LANES):
        found = transpose(load_tile(rows, value, stride, eight))
        store_tile(errors, LANES * value, LANES, where_positive(found, activations, LANES * value))
