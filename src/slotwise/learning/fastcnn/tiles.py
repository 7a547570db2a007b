"""Tuples of vectors that stay in registers while a loop runs over them.

A `Tile` is an ordinary tuple of vectors inside compiled code. The functions below take its length from its
type, and their loops over it are unrolled when compiled. `like` is a tile given only for its length.
"""

from __future__ import annotations

from typing import Any, cast

from llvmlite import ir
from numba import types

from slotwise.learning.fastcnn.memory_layout import LANES
from slotwise.learning.fastcnn.vectors import (
    FLOATS,
    GIVEN,
    INT32,
    INT64,
    Builder,
    Value,
    Vector,
    fused,
    index,
    instruction,
    read,
    spread,
    type_of,
    vector,
    write,
)

Tile = Any


def _part(builder: Builder, tile: Tile, number: int) -> Value:
    return builder.extract_value(tile, number)


def _neighbour(builder: Builder, at: Value, number: int) -> Value:
    return builder.add(at, INT64(LANES * number))


@instruction(type_of(3), GIVEN, index, index, GIVEN)
def load_tile(builder: Builder, array: Any, at: Any, stride: Any, like: Tile) -> Tile:
    """array[at + i * stride : ... + 8] for every i."""
    tile = like
    for number in range(like.type.count):
        value = read(builder, array, builder.add(at, builder.mul(stride, INT64(number))))
        tile = builder.insert_value(tile, value, number)
    return tile


@instruction(types.void, GIVEN, index, index, GIVEN)
def store_tile(builder: Builder, array: Any, at: Any, stride: Any, tile: Tile) -> None:
    """array[at + i * stride : ... + 8] = tile[i] for every i."""
    for number in range(tile.type.count):
        target = builder.add(at, builder.mul(stride, INT64(number)))
        write(builder, array, target, _part(builder, tile, number))


def _steps_for(_array: Any, _at: Any, like: Any) -> Any:
    return cast(Any, types).UniTuple(index, like.count)


@instruction(_steps_for, GIVEN, index, GIVEN)
def load_steps(builder: Builder, array: Any, at: Any, like: Tile) -> Any:
    """array[at + i] of an array of int64, for every i."""
    steps = ir.Constant(ir.ArrayType(INT64, like.type.count), ir.Undefined)
    for number in range(like.type.count):
        value = builder.load(builder.gep(array, [builder.add(at, INT64(number))]))
        steps = builder.insert_value(steps, value, number)
    return steps


@instruction(type_of(0), GIVEN, vector, GIVEN, index, GIVEN)
def gather_add(builder: Builder, tile: Tile, factor: Vector, array: Any, at: Any, steps: Any) -> Tile:
    """tile[i] + factor * array[at + steps[i] : ... + 8] for every i."""
    start = builder.gep(array, [at])
    for number in range(tile.type.count):
        value = read(builder, start, builder.extract_value(steps, number))
        total = fused(builder, factor, value, _part(builder, tile, number))
        tile = builder.insert_value(tile, total, number)
    return tile


@instruction(type_of(0), GIVEN, vector, GIVEN, index)
def scaled_add(builder: Builder, tile: Tile, factor: Vector, array: Any, at: Any) -> Tile:
    """tile[i] + factor * array[at + 8 * i : ... + 8] for every i."""
    for number in range(tile.type.count):
        value = read(builder, array, _neighbour(builder, at, number))
        total = fused(builder, factor, value, _part(builder, tile, number))
        tile = builder.insert_value(tile, total, number)
    return tile


@instruction(type_of(0), GIVEN, GIVEN, index, index, vector)
def outer_add(builder: Builder, tile: Tile, array: Any, at: Any, stride: Any, value: Vector) -> Tile:
    """tile[i] + array[at + i * stride] * value for every i."""
    for number in range(tile.type.count):
        source = builder.add(at, builder.mul(stride, INT64(number)))
        factor = spread(builder, builder.load(builder.gep(array, [source])))
        total = fused(builder, factor, value, _part(builder, tile, number))
        tile = builder.insert_value(tile, total, number)
    return tile


@instruction(type_of(0), GIVEN, GIVEN, index, GIVEN, index, index, index)
def window_add(
    builder: Builder, tile: Tile, weights: Any, weight: Any, inputs: Any, at: Any, right: Any, down: Any
) -> Tile:
    """tile[4 * o + q] + weights[weight + o] * inputs[at + step of q : ... + 8] for every o and q = 0..3.

    The four q are the positions of a pooling window: here, to the right, below, below and to the right.
    """
    outputs = range(tile.type.count // 4)
    factors = [
        spread(builder, builder.load(builder.gep(weights, [builder.add(weight, INT64(output))])))
        for output in outputs
    ]
    below = builder.add(at, down)
    for place, start in enumerate((at, builder.add(at, right), below, builder.add(below, right))):
        value = read(builder, inputs, start)
        for output in outputs:
            total = fused(builder, factors[output], value, _part(builder, tile, 4 * output + place))
            tile = builder.insert_value(tile, total, 4 * output + place)
    return tile


@instruction(type_of(0), GIVEN, GIVEN, index)
def where_positive(builder: Builder, tile: Tile, array: Any, at: Any) -> Tile:
    """tile[i] in the lanes where array[at + 8 * i : ... + 8] > 0, else zero."""
    zero = ir.Constant(FLOATS, [0.0] * LANES)
    for number in range(tile.type.count):
        positive = builder.fcmp_ordered(">", read(builder, array, _neighbour(builder, at, number)), zero)
        value = builder.select(positive, _part(builder, tile, number), zero)
        tile = builder.insert_value(tile, value, number)
    return tile


@instruction(type_of(0), GIVEN)
def transpose(builder: Builder, tile: Tile) -> Tile:
    """Eight vectors as an 8 x 8 matrix: lane j of vector i becomes lane i of vector j.

    Three rounds exchange lanes between vectors 1, 2 and 4 apart, as in a fast Fourier transform.
    """
    rows = [_part(builder, tile, number) for number in range(LANES)]
    for distance in (1, 2, 4):
        rows = [_exchanged(builder, rows, number, distance) for number in range(LANES)]
    for number, row in enumerate(rows):
        tile = builder.insert_value(tile, row, number)
    return tile


def _exchanged(builder: Builder, rows: list[Value], number: int, distance: int) -> Value:
    """Row `number` after it exchanged the lanes `distance` apart with the row `distance` apart."""
    upper = bool(number & distance)
    partner = rows[number ^ distance]
    first, second = (partner, rows[number]) if upper else (rows[number], partner)
    start = distance if upper else 0
    lanes = [start + (LANES + lane - distance if lane & distance else lane) for lane in range(LANES)]
    return builder.shuffle_vector(first, second, ir.Constant(ir.VectorType(INT32, LANES), lanes))
