"""From [sample, value] to [value, sample] and back, eight samples at a time: see `plan`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slotwise.learning.fastcnn.compilation import compiled
from slotwise.learning.fastcnn.plan import LANES, Plan
from slotwise.learning.fastcnn.tiles import load_tile, store_tile, transpose, where_positive
from slotwise.learning.fastcnn.vectors import repeat

Floats = NDArray[np.float32]


@compiled
def read_images(
    plan: Plan, images: NDArray[np.uint8], chosen: NDArray[np.int64], planes: Floats, lanes: Floats
) -> None:
    """Normalise up to eight images into lanes, channels last; missing samples are blank.

    `planes` is room for eight images, channels first as they come.
    """
    stride, channels = plan.image_stride, plan.factor.size
    pixels = images.shape[1] // channels
    for sample in range(LANES):
        for channel in range(channels):
            start = sample * stride + channel * pixels
            plane = planes[start : start + pixels]
            if sample < chosen.size:
                factor, shift = plan.factor[channel], plan.shift[channel]
                image = images[chosen[sample], channel * pixels : (channel + 1) * pixels]
                for pixel in range(pixels):
                    plane[pixel] = factor * np.float32(image[pixel]) + shift
            else:
                plane[:] = 0
    zero = repeat(np.float32(0))
    eight = (zero, zero, zero, zero, zero, zero, zero, zero)
    step = LANES * channels
    for channel in range(channels):
        for pixel in range(0, pixels, LANES):
            found = transpose(load_tile(planes, channel * pixels + pixel, stride, eight))
            store_tile(lanes, step * pixel + LANES * channel, step, found)


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
