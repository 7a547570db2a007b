"""Eight float32 side by side: the one machine type the kernels need and numba does not have.

A `Vector` lives in one register (AVX: one ymm). It exists only inside compiled code, where each function below
turns into one or two machine instructions. The lanes of a vector are usually eight samples of the batch,
sometimes eight neighbouring values of one sample; the arithmetic is the same.

A `Tile` is a tuple of vectors: accumulators that stay in registers while a loop runs. Functions on tiles take
the length from the tuple's type and are unrolled when compiled.

Addresses are element numbers in one-dimensional arrays. They are not checked, and negative ones do not count
from the end: that is what makes these loads cheaper than indexing.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any, TypeVar, cast

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

LANES = 8

Vector = Any
Tile = Any
Function = TypeVar("Function", bound=Callable[..., Any])

_VECTOR = ir.VectorType(ir.FloatType(), LANES)
_INT32 = ir.IntType(32)
_INT64 = ir.IntType(64)


def compiled(function: Function) -> Function:
    """Compile to run without the interpreter lock, and keep the result on disk for the next process."""
    return cast(Function, njit(function, nogil=True, cache=True, error_model="numpy"))


class VectorType(types.Type):  # type: ignore[misc]
    """Numba's name for eight float32 in one register."""

    def __init__(self) -> None:
        super().__init__(name="float32x8")


class _VectorModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, numba_type: Any) -> None:
        super().__init__(manager, numba_type, _VECTOR)


register_model(VectorType)(_VectorModel)
_vector = VectorType()


def _instruction(result: Callable[..., Any]) -> Callable[[Function], Function]:
    """Make a function of compiled code out of one that writes LLVM instructions with a builder.

    `result` maps the types of the arguments to the signature. Arrays arrive as pointers to their data.
    """

    def decorate(write: Function) -> Function:
        def define(_typing: Any, *given: Any) -> Any:
            def generate(context: Any, builder: Any, typed: Any, values: Any) -> Any:
                plain = [
                    context.make_array(kind)(context, builder, value).data
                    if isinstance(kind, types.Array)
                    else value
                    for kind, value in zip(typed.args, values, strict=True)
                ]
                written = write(builder, *plain)
                return context.get_dummy_value() if written is None else written

            return result(*given), generate

        define.__signature__ = signature(write)  # type: ignore[attr-defined]
        return cast(Function, intrinsic(prefer_literal=True)(define))

    return decorate


def _read(builder: Any, array: Any, at: Any) -> Any:
    address = builder.bitcast(builder.gep(array, [at]), _VECTOR.as_pointer())
    return builder.load(address, align=4)


def _write(builder: Any, array: Any, at: Any, value: Any) -> None:
    address = builder.bitcast(builder.gep(array, [at]), _VECTOR.as_pointer())
    builder.store(value, address, align=4)


def _repeat(builder: Any, number: Any) -> Any:
    nothing = ir.Constant(_VECTOR, ir.Undefined)
    first = builder.insert_element(nothing, number, _INT32(0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(_INT32, LANES), [0] * LANES))


def _fused(builder: Any, factor: Any, value: Any, added: Any) -> Any:
    """factor * value + added: one instruction where the processor has it, two elsewhere."""
    kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fmuladd.v{LANES}f32")
    return builder.call(function, [factor, value, added])


@_instruction(lambda array, at: _vector(array, types.intp))
def load(builder: Any, array: Any, at: Any) -> Vector:
    """array[at : at + 8]."""
    return _read(builder, array, at)


@_instruction(lambda array, at, value: types.void(array, types.intp, _vector))
def store(builder: Any, array: Any, at: Any, value: Vector) -> None:
    """array[at : at + 8] = value."""
    _write(builder, array, at, value)


@_instruction(lambda array, at: _vector(array, types.intp))
def broadcast(builder: Any, array: Any, at: Any) -> Vector:
    """array[at] in all eight lanes."""
    return _repeat(builder, builder.load(builder.gep(array, [at])))


@_instruction(lambda number: _vector(types.float32))
def repeat(builder: Any, number: Any) -> Vector:
    """One number in all eight lanes."""
    return _repeat(builder, number)


@_instruction(lambda array, at: types.intp(array, types.intp))
def position(builder: Any, array: Any, at: Any) -> Any:
    """array[at] of an array of int32, as an address."""
    return builder.sext(builder.load(builder.gep(array, [at])), _INT64)


@_instruction(lambda factor, value, added: _vector(_vector, _vector, _vector))
def multiply_add(builder: Any, factor: Vector, value: Vector, added: Vector) -> Vector:
    """factor * value + added."""
    return _fused(builder, factor, value, added)


@_instruction(lambda one, other, then, otherwise: _vector(_vector, _vector, _vector, _vector))
def where_greater(builder: Any, one: Vector, other: Vector, then: Vector, otherwise: Vector) -> Vector:
    """`then` in the lanes where one > other, else `otherwise` (also where one of them is not a number)."""
    return builder.select(builder.fcmp_ordered(">", one, other), then, otherwise)


@_instruction(lambda array, at, stride, like: like(array, types.intp, types.intp, like))
def load_tile(builder: Any, array: Any, at: Any, stride: Any, like: Tile) -> Tile:
    """array[at + i * stride : ... + 8], for as many i as `like` has vectors."""
    tile = like
    for number in range(like.type.count):
        value = _read(builder, array, builder.add(at, builder.mul(stride, _INT64(number))))
        tile = builder.insert_value(tile, value, number)
    return tile


@_instruction(lambda array, at, stride, tile: types.void(array, types.intp, types.intp, tile))
def store_tile(builder: Any, array: Any, at: Any, stride: Any, tile: Tile) -> None:
    """array[at + i * stride : ... + 8] = tile[i] for every i."""
    for number in range(tile.type.count):
        value = builder.extract_value(tile, number)
        _write(builder, array, builder.add(at, builder.mul(stride, _INT64(number))), value)


@_instruction(lambda array, at, like: types.UniTuple(types.intp, like.count)(array, types.intp, like))
def load_steps(builder: Any, array: Any, at: Any, like: Tile) -> Any:
    """As many neighbouring int64 as `like` has vectors, from array[at] on."""
    steps = ir.Constant(ir.ArrayType(_INT64, like.type.count), ir.Undefined)
    for number in range(like.type.count):
        value = builder.load(builder.gep(array, [builder.add(at, _INT64(number))]))
        steps = builder.insert_value(steps, value, number)
    return steps


@_instruction(lambda tile, factor, array, at, steps: tile(tile, _vector, array, types.intp, steps))
def gather_add(builder: Any, tile: Tile, factor: Vector, array: Any, at: Any, steps: Any) -> Tile:
    """tile[i] + factor * array[at + steps[i] : ... + 8] for every i."""
    start = builder.gep(array, [at])
    for number in range(tile.type.count):
        value = _read(builder, start, builder.extract_value(steps, number))
        total = _fused(builder, factor, value, builder.extract_value(tile, number))
        tile = builder.insert_value(tile, total, number)
    return tile


@_instruction(lambda array, at, steps, factor, tile: types.void(array, types.intp, steps, _vector, tile))
def scatter_add(builder: Any, array: Any, at: Any, steps: Any, factor: Vector, tile: Tile) -> None:
    """array[at + steps[i] : ... + 8] += factor * tile[i] for every i, one after another."""
    start = builder.gep(array, [at])
    for number in range(tile.type.count):
        step = builder.extract_value(steps, number)
        total = _fused(builder, factor, builder.extract_value(tile, number), _read(builder, start, step))
        _write(builder, start, step, total)


@_instruction(lambda tile, array, at, stride, value: tile(tile, array, types.intp, types.intp, _vector))
def outer_add(builder: Any, tile: Tile, array: Any, at: Any, stride: Any, value: Vector) -> Tile:
    """tile[i] + array[at + i * stride] * value for every i."""
    for number in range(tile.type.count):
        index = builder.add(at, builder.mul(stride, _INT64(number)))
        factor = _repeat(builder, builder.load(builder.gep(array, [index])))
        total = _fused(builder, factor, value, builder.extract_value(tile, number))
        tile = builder.insert_value(tile, total, number)
    return tile


@_instruction(lambda tile: tile(tile))
def transpose(builder: Any, tile: Tile) -> Tile:
    """Eight vectors as an 8 x 8 matrix: lane j of vector i becomes lane i of vector j.

    Three rounds exchange lanes between vectors 1, 2 and 4 apart, as in a fast Fourier transform.
    """
    rows = [builder.extract_value(tile, number) for number in range(LANES)]
    for distance in (1, 2, 4):
        rows = [_exchanged(builder, rows, number, distance) for number in range(LANES)]
    for number, row in enumerate(rows):
        tile = builder.insert_value(tile, row, number)
    return tile


def _exchanged(builder: Any, rows: list[Any], number: int, distance: int) -> Any:
    """Row `number` after lanes `distance` apart were exchanged with its partner row."""
    upper = bool(number & distance)
    partner = number ^ distance
    first, second = (rows[partner], rows[number]) if upper else (rows[number], rows[partner])
    start = distance if upper else 0
    lanes = [
        start + lane if not lane & distance else LANES + start + lane - distance for lane in range(LANES)
    ]
    return builder.shuffle_vector(first, second, ir.Constant(ir.VectorType(_INT32, LANES), lanes))
