"""Memory layout of networks of wide layers: makes the plans of `wide_plan`."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.fastcnn.architecture import Shape, round_up
from slotwise.fastcnn.layers import Convolution, Dense, Layer, LayerNetwork, Normalisation, Pool, Sum
from slotwise.fastcnn.vectors import WIDE
from slotwise.fastcnn.wide_plan import (
    BLOCK,
    CHANNELS,
    CONVOLUTION,
    DENSE,
    FEW,
    MAP,
    MAX_POOL,
    MEAN_POOL,
    NORMALISATION,
    OPERATION,
    PANEL,
    PATCH,
    PATCHES,
    POSITIONS,
    SQUARE,
    SUM,
    TOGETHER,
    WidePlan,
)

Indices = NDArray[np.int64]

MOST_MEMORY = 1 << 30  # bytes of the maps of a block
TILES = (10, 6, 5, 3)  # neighbouring vectors of a filter that are summed together


def make_wide_plan(network: LayerNetwork, offset: Sequence[float], scale: Sequence[float]) -> WidePlan:
    """Return the layout of a network; a pixel x of channel c becomes (x / 255 - offset[c]) / scale[c]."""
    layout = _Layout(network)
    for number in range(len(network.layers)):
        layout.add(number)
    block = layout.block()
    needed = 4 * (block + POSITIONS) * (layout.values + layout.dense_errors)
    if needed > MOST_MEMORY:
        raise ValueError(f"maps of {block} samples take {needed >> 20:,} MB, more than {MOST_MEMORY >> 20:,}")
    convolutions = layout.gradients
    layout.place_dense_parameters()
    place_of, copies_of = _joined(layout.gradient_of), _joined(layout.copies_of)
    deviations = np.asarray(scale, np.float64)
    return WidePlan(
        block=block,
        maps=_records(MAP, layout.maps),
        operations=_records(OPERATION, layout.operations),
        place_of=place_of,
        copies_of=np.where(copies_of < 0, np.int32(-1), place_of[copies_of]),
        factor=(1.0 / (255.0 * deviations)).astype(np.float32),
        shift=(-np.asarray(offset, np.float64) / deviations).astype(np.float32),
        keep_scale=(1.0 / (1.0 - network.dropout_rates)).astype(np.float32),
        parameters=layout.gradients,
        convolutions=convolutions,
        # An odd number of cache lines, so that the same place of many samples does not compete for one set.
        values=_odd_lines(layout.values),
        dense_errors=_odd_lines(layout.dense_errors),
        winners=round_up(layout.winners, CHANNELS),
        errors=layout.errors,
        scratch=layout.scratch,
        positions=layout.positions,
        transposed=layout.transposed,
        patch_filters=layout.patch_filters,
        patch_numbers=layout.patch_numbers,
        patch_gradients=layout.patch_gradients,
        together_errors=layout.together_errors,
    )


def _records(names: Sequence[str], rows: list[dict[str, Any]]) -> NDArray[np.void]:
    kinds = [(name, np.float64 if name == "epsilon" else np.int64) for name in names]
    return np.array([tuple(row.get(name, 0) for name in names) for row in rows], kinds)


def _joined(parts: list[Indices]) -> NDArray[np.int32]:
    return np.concatenate([np.empty(0, np.int64), *(part.ravel() for part in parts)]).astype(np.int32)


def _odd_lines(numbers: int) -> int:
    lines = round_up(numbers, CHANNELS) // CHANNELS
    return CHANNELS * (lines + 1 - lines % 2)


def _patches(taps: int, height: int, width: int) -> int:
    """Return the number of patches with so many outputs; 0 if they do not pay."""
    side = PATCH + 1 - taps
    if height % side or width % side:
        return 0
    patches = height * width // side**2
    # Tiles have eight rows, of which the last ones may be in vain.
    products, direct = PATCH**2 * round_up(patches, 8), height * round_up(width, 8) * taps**2
    return patches if 3 * products <= 2 * direct else 0


def _panels(matrix: Indices) -> Indices:
    """Return [terms, outputs] as panels, the outputs padded with -1 to whole vectors."""
    padded = _padded(matrix, 1, CHANNELS)
    width = padded.shape[1]
    return np.concatenate([padded[:, at : at + PANEL].ravel() for at in range(0, width, PANEL)])


def _padded(numbers: Indices, axis: int, multiple: int) -> Indices:
    more = [(0, 0)] * numbers.ndim
    more[axis] = (0, -numbers.shape[axis] % multiple)
    return np.pad(numbers, more, constant_values=-1)


class _Layout:
    """Maps, operations and parameters that have their place already."""

    def __init__(self, network: LayerNetwork) -> None:
        self.network = network
        self.maps: list[dict[str, int]] = []
        self.operations: list[dict[str, Any]] = []
        self.gradient_of: list[Indices] = []
        self.copies_of: list[Indices] = []
        self.gradients = self.values = self.dense_errors = self.winners = self.errors = 0
        self.transposed = self._taken = self._dropped = self.patch_filters = self.patch_numbers = 0
        self.scratch, self.positions, self.patch_gradients = CHANNELS, 0, 0
        self.together_errors = 0
        channels = network.input_shape[0]
        self._add_map(-1, network.input_shape, channels)  # images are only read number by number

    def _add_map(self, number: int, shape: Shape, pixel: int) -> None:
        channels, height, width = shape
        readers = [layer for layer in self.network.layers if number in layer.sources]
        border = max((layer.padding for layer in readers if isinstance(layer, Convolution)), default=0)
        row = (width + 2 * border) * pixel
        first, size = self.values, row * (height + 2 * border)
        found = {"start": first + border * (row + pixel), "row": row, "pixel": pixel, "channels": channels}
        found |= {"height": height, "width": width, "border": border, "first": first, "size": size}
        found["inputs"] = prod(shape)
        # A tile of positions may reach past the end of the last row.
        self.values += round_up(size + POSITIONS * pixel, CHANNELS)
        writers = self.network.layers[number : number + 1] if number >= 0 else ()
        if any(isinstance(layer, Dense) for layer in (*readers, *writers)):
            if border:
                raise ValueError("a map that dense layers read must not be padded")
            found |= {"error_start": self.dense_errors, "batched": 1}
            self.dense_errors += round_up(size, PANEL)
        else:  # the errors have the same border
            found["error_start"] = self.errors + border * (row + pixel)
            self.errors += self._error_size(size, pixel, readers)
        self.maps.append(found)

    def _error_size(self, size: int, pixel: int, readers: Sequence[Layer]) -> int:
        """Return the numbers of a map of errors: tiles of positions a stride apart may pass its end."""
        stride = max((layer.stride for layer in readers if isinstance(layer, Convolution)), default=1)
        return round_up(size + stride * POSITIONS * pixel, CHANNELS)

    def _take(self, shape: Shape) -> Indices:
        """Return the numbers of the next parameters in the model's vector."""
        numbers = self._taken + np.arange(prod(shape), dtype=np.int64).reshape(shape)
        self._taken += prod(shape)
        return numbers

    def add(self, number: int) -> None:
        """Place a layer and its output."""
        layer, shape = self.network.layers[number], self.network.shapes[number]
        self._add_map(number, shape, round_up(shape[0], CHANNELS))
        operation: dict[str, Any] = {"source": layer.source + 1, "target": number + 1}
        operation |= {"rectify": int(layer.rectify), **self._error_target(number)}
        operation |= {"first": int(layer.source < 0), **self._dropout(layer, shape)}
        operation |= {"outputs": shape[0], "row": round_up(shape[0], CHANNELS)}
        self.operations.append(operation)
        if isinstance(layer, Convolution):
            self._add_convolution(operation, layer, self.network.source_shape(number))
        elif isinstance(layer, Dense):
            self._add_dense(operation, layer, self.network.source_shape(number))
        elif isinstance(layer, Pool):
            self._add_pool(operation, layer, shape)
        elif isinstance(layer, Normalisation):
            self._add_normalisation(operation, layer)
        elif isinstance(layer, Sum):
            other = -1 if layer.other is None else layer.other
            adds = layer.other == layer.source or self._has_errors(number, other)
            operation |= {"kind": SUM, "other": other + 1, "adds_other": int(adds)}

    def block(self) -> int:
        """Return how many samples go through the network together.

        One if there are normalisations or sums, so that maps stay in the caches until their errors come, but
        not if that would read more weights of dense layers than numbers of maps.
        """
        weights = sum(each["terms"] * each["row"] for each in self.operations if each["kind"] == DENSE)
        return 1 if self._is_residual and weights <= self.values else BLOCK

    @property
    def _is_residual(self) -> bool:
        """Say whether there are normalisations or sums; other networks are computed as before these."""
        return any(isinstance(layer, Normalisation | Sum) for layer in self.network.layers)

    def _has_errors(self, number: int, source: int) -> bool:
        """Say whether a later layer has left errors of an output when those of this layer come."""
        return any(source in layer.sources for layer in self.network.layers[number + 1 :])

    def _error_target(self, number: int) -> dict[str, int]:
        """Return where a layer writes the errors of its source, and whether they are added to others."""
        layer = self.network.layers[number]
        source, adds = self.maps[layer.source + 1], self._has_errors(number, layer.source)
        if not adds or isinstance(layer, Normalisation | Sum):  # which add number by number
            return {"error_target": source["error_start"], "adds": int(adds)}
        target = self.errors + source["border"] * (source["row"] + source["pixel"])
        self.errors += self._error_size(source["size"], source["pixel"], [layer])
        return {"error_target": target, "adds": 1}

    def _add_normalisation(self, operation: dict[str, Any], layer: Normalisation) -> None:
        channels, row = operation["outputs"], operation["row"]
        operation |= {"kind": NORMALISATION, "groups": layer.groups, "affine": int(layer.affine)}
        operation |= {"epsilon": layer.epsilon, "moments": self.values, "gradient_start": self.gradients}
        self.values += 2 * row
        self.scratch = max(self.scratch, 4 * row)
        if not layer.affine:
            return
        operation["weight_start"] = self._copy(_padded(self._take((channels,)), 0, CHANNELS))
        operation["bias_start"] = self._copy(_padded(self._take((channels,)), 0, CHANNELS))
        operation["bias_gradient"] = self.gradients + row
        for start in (operation["gradient_start"], operation["bias_gradient"]):
            self.gradient_of.append(start + np.arange(channels))
        self.gradients += 2 * row

    def _dropout(self, layer: Layer, shape: Shape) -> dict[str, int]:
        """Return where the factors of a layer's dropout are, and the steps between them; -1 without."""
        if not layer.dropout:
            return {"drop_start": -1}
        channels, height, width = shape
        start = self._dropped
        self._dropped += channels if layer.drops_channels else prod(shape)
        if layer.drops_channels:
            return {"drop_start": start, "drop_channel": 1}
        return {"drop_start": start, "drop_channel": height * width, "drop_row": width, "drop_column": 1}

    def _add_pool(self, operation: dict[str, Any], layer: Pool, shape: Shape) -> None:
        (height, width), (down, right) = layer.kernel, layer.stride
        operation |= {"kind": MEAN_POOL if layer.mean else MAX_POOL, "winner_start": self.winners}
        operation |= {"kernel_height": height, "kernel_width": width, "stride": down, "run_step": right}
        self.winners += 0 if layer.mean else prod(shape[1:]) * operation["row"]

    def _add_convolution(self, operation: dict[str, Any], layer: Convolution, shape: Shape) -> None:
        source = self.maps[operation["source"]]
        channels, pixel = source["channels"], source["pixel"]
        (kernel_height, kernel_width), row = layer.kernel, operation["row"]
        map_height, map_width = layer.map_shape(shape)
        whole = channels == pixel  # then a row of the kernel is one run of neighbouring numbers
        operation |= {
            "kind": CONVOLUTION, "kernel_height": kernel_height, "kernel_width": kernel_width,
            "stride": layer.stride, "padding": layer.padding, "pooled": int(layer.pooled),
            "map_height": map_height, "map_width": map_width,
            "terms": kernel_height * kernel_width * channels, "runs": 1 if whole else kernel_width,
            "run_length": kernel_width * channels if whole else channels, "run_step": pixel,
            "has_bias": int(layer.bias), "winner_start": self.winners,
        }  # fmt: skip
        filters = self._take((layer.filters, channels, kernel_height, kernel_width))
        bias = self._take((layer.filters,)) if layer.bias else np.full(layer.filters, -1)
        terms = filters.transpose(2, 3, 1, 0).reshape(-1, layer.filters)
        operation["weight_start"] = self._copy(_panels(terms))
        operation["bias_start"] = self._copy(_padded(bias, 0, CHANNELS))
        self._add_patches(operation, source)
        by_filter = layer.pooled and not operation["first"] and not operation.get("together")
        if operation.get("together"):
            operation["back_start"] = self._copy(_panels(filters.transpose(2, 3, 0, 1).reshape(-1, channels)))
        elif not by_filter or operation["back_patches"]:
            self._turn(operation, filters)
        self.gradient_of.append((self._by_filter if by_filter else self._by_term)(operation, filters))
        operation["bias_gradient"] = self.gradients
        if layer.bias:
            self.gradient_of.append(self.gradients + np.arange(layer.filters))
        self.gradients += row
        self.scratch = max(self.scratch, 2 * (map_width + WIDE) * row)  # rows of outputs before the pool
        if layer.pooled:
            windows = (map_height // 2) * (map_width // 2)
            self.winners += windows * row
            self.scratch = max(self.scratch, windows * row)  # the list of all errors
            if operation["first"]:
                self.scratch = max(self.scratch, 4 * source["size"])  # four positions of each window
            self.positions = max(self.positions, 4 * windows)

    def _add_patches(self, operation: dict[str, Any], source: dict[str, int]) -> None:
        """Compute a convolution in patches if that takes clearly fewer products, see `winograd`."""
        channels, row, taps = source["channels"], operation["row"], operation["kernel_height"]
        operation |= {"pixel": source["pixel"], "patches": 0, "back_patches": 0}
        if self._is_together(operation, source):
            self._add_together(operation, source)
            return
        square = operation["kernel_width"] == taps and taps in (3, 5)
        if operation["first"] or operation["stride"] > 1 or not square or channels % CHANNELS:
            return
        height, width = operation["map_height"], operation["map_width"]
        if operation["pooled"]:
            height, width = 2 * (height // 2), 2 * (width // 2)
        operation["patches"] = patches = _patches(taps, height, width)
        operation["patch_start"] = self.patch_filters
        operation["patch_step"] = step = _odd_lines(channels * row)
        self.patch_filters += PATCH**2 * step * (patches > 0)
        # Behind a max-pool few errors are not zero, but with 3 x 3 a quarter of the products is still less.
        if row == operation["outputs"] and (taps == 3 or not operation["pooled"]):
            operation["back_patches"] = back = _patches(taps, source["height"], source["width"])
            operation["back_patch_start"] = self.patch_filters
            self.patch_filters += PATCH**2 * step * (back > 0)
        if patches and taps == 3 and not operation["pooled"] and self._is_residual:
            operation["patch_gradient"], operation["in_patches"] = self.patch_gradients, 1
            self.patch_gradients += PATCH**2 * step
        # Of narrow layers, more of them: the time of a call is spent on more numbers.
        operation["patches_together"] = together = max(PATCHES, 4 * PATCHES * CHANNELS // max(channels, row))
        numbers = [_odd_lines(together * channels), _odd_lines(together * row)]
        operation["input_step"], operation["sum_step"] = numbers
        # A tile reads and writes a few patches after the last.
        self.patch_numbers = max(self.patch_numbers, PATCH**2 * max(numbers) + POSITIONS * max(channels, row))
        self.scratch = max(self.scratch, height * (operation["map_width"] + WIDE) * row * (patches > 0))

    def _is_together(self, operation: dict[str, int], source: dict[str, int]) -> bool:
        """Whether the samples of a convolution are computed together, see `wide_together`."""
        layers, number = self.network.layers, operation["target"] - 1
        chain = all(layer.sources == (before - 1,) for before, layer in enumerate(layers))
        last = chain and isinstance(layers[number + 1], Dense)
        fives = operation["kernel_height"] == operation["kernel_width"] == 5 and operation["stride"] == 1
        whole = operation["row"] == operation["outputs"] and operation["row"] % 32 == 0
        fits = 2 * (operation["map_height"] // 2) % 4 == 0 and 2 * (operation["map_width"] // 2) % 4 == 0
        padded = source["channels"] != source["pixel"] or operation["first"]
        return bool(last and fives and whole and fits and operation["pooled"] and not padded)

    def _add_together(self, operation: dict[str, int], source: dict[str, int]) -> None:
        """Place what `wide_together` needs."""
        channels, row = source["channels"], operation["row"]
        operation |= {"together": 1, "patches": operation["map_height"] // 4 * (operation["map_width"] // 4)}
        operation["patch_step"] = step = _odd_lines(channels * row)
        operation["patch_start"] = self.patch_filters
        operation["back_patch_start"] = self.patch_filters + SQUARE**2 * step
        self.patch_filters += 2 * SQUARE**2 * step
        numbers = [_odd_lines(TOGETHER * channels), _odd_lines(TOGETHER * row)]
        operation["input_step"], operation["sum_step"] = numbers
        self.patch_numbers = max(
            self.patch_numbers, SQUARE**2 * max(numbers) + POSITIONS * max(channels, row)
        )
        operation["patch_gradient"] = self.patch_gradients
        self.patch_gradients += SQUARE**2 * step
        self.together_errors = FEW * source["size"]

    def _copy(self, numbers: Indices) -> int:
        """Append numbers of parameters to the copies; return their start."""
        start = sum(part.size for part in self.copies_of)
        self.copies_of.append(_padded(numbers.ravel(), 0, CHANNELS))
        return start

    def _turn(self, operation: dict[str, Any], numbers: Indices) -> None:
        """Copy filters for the errors of the inputs, and place the errors of all positions."""
        _, channels, height, width = numbers.shape
        border = 0 if operation["first"] else max(height, width) - 1  # zeros around the errors of the outputs
        if not operation["first"]:
            # Inputs a stride apart get their errors from the same rows and columns of the filters.
            stride, turned = operation["stride"], []
            for down, right in np.ndindex(stride, stride):
                part = numbers[:, :, down::stride, right::stride][:, :, ::-1, ::-1]
                turned.append(_panels(part.transpose(2, 3, 0, 1).reshape(-1, channels)))
            operation["back_start"] = self._copy(np.concatenate(turned))
        operation["pre_row"] = pre_row = (operation["map_width"] + 2 * border + 1) * operation["row"]
        operation["pre_start"] = self.errors + border * (pre_row + operation["row"])
        tall = operation["map_height"] + 2 * border + 1
        self.errors += round_up(tall * pre_row + POSITIONS * operation["row"], CHANNELS)

    def _by_term(self, operation: dict[str, Any], numbers: Indices) -> Indices:
        """Place the gradient in panels; return where that of each parameter is."""
        filters, channels, height, width = numbers.shape
        operation["gradient_start"] = self.gradients
        terms = np.arange(operation["terms"] * operation["row"]).reshape(-1, operation["row"])
        order = np.empty_like(terms)
        order.ravel()[_panels(terms)] = terms.ravel()
        self.gradients += terms.size
        found = order[:, :filters].reshape(height, width, channels, filters)
        return np.asarray(operation["gradient_start"] + found.transpose(3, 2, 0, 1), np.int64)

    def _by_filter(self, operation: dict[str, Any], numbers: Indices) -> Indices:
        """Place gradient and filters in rows of kernels; return where the gradient of each parameter is."""
        filters, _, height, _ = numbers.shape
        source = self.maps[operation["source"]]
        rows = _padded(numbers.transpose(0, 2, 3, 1), 3, source["pixel"]).reshape(filters, height, -1)
        vectors = -(-rows.shape[2] // WIDE)
        operation["tile"] = tile = min(TILES, key=lambda size: round_up(vectors, size))
        rows = _padded(rows, 2, WIDE * tile)
        operation["filter_row"] = filter_row = rows.shape[2]
        operation["filter_size"] = size = height * filter_row
        if not operation["back_patches"]:
            operation["back_start"] = self._copy(rows.reshape(filters, -1))
        operation["gradient_start"] = self.gradients
        self.gradients += filters * size
        number, channel, y, x = np.indices(numbers.shape, np.int64)
        found = number * size + y * filter_row + x * source["pixel"] + channel
        return np.asarray(operation["gradient_start"] + found, np.int64)

    def _add_dense(self, operation: dict[str, Any], layer: Dense, shape: Shape) -> None:
        terms = self.maps[operation["source"]]["size"]
        operation |= {"kind": DENSE, "terms": terms, "runs": 1, "run_length": terms, "kernel_height": 1}
        operation |= {"has_bias": int(layer.bias), "model_start": self._taken}
        self._take((layer.units, prod(shape)))
        if layer.bias:
            self._take((layer.units,))
        if not operation["first"]:
            self.transposed = max(self.transposed, BLOCK * (terms + POSITIONS + operation["row"]))

    def place_dense_parameters(self) -> None:
        """Place the parameters of the dense layers after all others."""
        for operation in self.operations:
            if operation["kind"] == DENSE:
                bias = self.gradients + operation["terms"] * operation["row"]
                operation |= {"weight_start": self.gradients, "bias_start": bias}
                self.gradients = bias + operation["row"]
