"""Eight float32 side by side: the one machine type the kernels need and numba does not have.

A `Vector` lives in one register (AVX: one ymm). It exists only inside compiled code, where each function below
turns into one or two machine instructions. The lanes of a vector are usually eight samples of the batch,
sometimes eight neighbouring values of one sample; the arithmetic is the same.

Addresses are element numbers in one-dimensional arrays. They are not checked, and negative ones do not count
from the end: that is what makes these loads cheaper than indexing.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any, cast

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

from slotwise.learning.fastcnn.compilation import Function

LANES = 8

Vector = Any
Builder = Any
Value = Any
"""What LLVM calls a value: something a machine instruction computed."""

FLOATS = ir.VectorType(ir.FloatType(), LANES)
INT32 = ir.IntType(32)
INT64 = ir.IntType(64)


class VectorType(types.Type):  # type: ignore[misc]
    """Numba's name for eight float32 in one register."""

    def __init__(self) -> None:
        super().__init__(name="float32x8")


class _VectorModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, numba_type: Any) -> None:
        super().__init__(manager, numba_type, FLOATS)


register_model(VectorType)(_VectorModel)
vector = VectorType()
index = types.intp


def instruction(typed: Callable[..., Any]) -> Callable[[Function], Function]:
    """Make a function of compiled code out of one that writes LLVM instructions with a builder.

    `typed` maps the numba types of the arguments to the signature. Arrays arrive as pointers to their data.
    """

    def decorate(write_instructions: Function) -> Function:
        def define(_typing: Any, *given: Any) -> Any:
            def generate(context: Any, builder: Builder, exact: Any, values: Any) -> Value:
                plain = [
                    context.make_array(kind)(context, builder, value).data if isinstance(kind, types.Array) else value
                    for kind, value in zip(exact.args, values, strict=True)
                ]
                written = write_instructions(builder, *plain)
                return context.get_dummy_value() if written is None else written

            return typed(*given), generate

        define.__signature__ = signature(write_instructions)  # type: ignore[attr-defined]
        return cast(Function, intrinsic(define))

    return decorate


def read(builder: Builder, array: Value, at: Value) -> Value:
    """The instruction that loads a vector, at any alignment."""
    address = builder.bitcast(builder.gep(array, [at]), FLOATS.as_pointer())
    return builder.load(address, align=4)


def write(builder: Builder, array: Value, at: Value, value: Value) -> None:
    """The instruction that stores a vector, at any alignment."""
    address = builder.bitcast(builder.gep(array, [at]), FLOATS.as_pointer())
    builder.store(value, address, align=4)


def spread(builder: Builder, number: Value) -> Value:
    """The instruction that repeats a number in all lanes."""
    nothing = ir.Constant(FLOATS, ir.Undefined)
    first = builder.insert_element(nothing, number, INT32(0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(INT32, LANES), [0] * LANES))


def fused(builder: Builder, factor: Value, value: Value, added: Value) -> Value:
    """Multiply and add: one instruction where the processor has it, two elsewhere."""
    kind = ir.FunctionType(FLOATS, [FLOATS] * 3)
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fmuladd.v{LANES}f32")
    return builder.call(function, [factor, value, added])


@instruction(lambda array, at: vector(array, index))
def load(builder: Builder, array: Any, at: Any) -> Vector:
    """array[at : at + 8]."""
    return read(builder, array, at)


@instruction(lambda array, at, value: types.void(array, index, vector))
def store(builder: Builder, array: Any, at: Any, value: Vector) -> None:
    """array[at : at + 8] = value."""
    write(builder, array, at, value)


@instruction(lambda array, at, value: types.void(array, index, vector))
def store_whole(builder: Builder, array: Any, at: Any, value: Vector) -> None:
    """array[at : at + 8] = value, for whole numbers and an array of int32."""
    numbers = ir.VectorType(INT32, LANES)
    address = builder.bitcast(builder.gep(array, [at]), numbers.as_pointer())
    builder.store(builder.fptosi(value, numbers), address, align=4)


@instruction(lambda array, at: vector(array, index))
def broadcast(builder: Builder, array: Any, at: Any) -> Vector:
    """array[at] in all lanes."""
    return spread(builder, builder.load(builder.gep(array, [at])))


@instruction(lambda number: vector(types.float32))
def repeat(builder: Builder, number: Any) -> Vector:
    """One number in all lanes."""
    return spread(builder, number)


@instruction(lambda array, at: index(array, index))
def address(builder: Builder, array: Any, at: Any) -> Any:
    """array[at] of an array of int32, to be used as an address."""
    return builder.sext(builder.load(builder.gep(array, [at])), INT64)


@instruction(lambda one, other: vector(vector, vector))
def add(builder: Builder, one: Vector, other: Vector) -> Vector:
    """one + other."""
    return builder.fadd(one, other)


@instruction(lambda value: types.float32(vector))
def lane_sum(builder: Builder, value: Vector) -> Any:
    """Sum of the lanes, first to last."""
    total = builder.extract_element(value, INT32(0))
    for lane in range(1, LANES):
        total = builder.fadd(total, builder.extract_element(value, INT32(lane)))
    return total


@instruction(lambda one, other, then, otherwise: vector(vector, vector, vector, vector))
def where_greater(builder: Builder, one: Vector, other: Vector, then: Vector, otherwise: Vector) -> Vector:
    """`then` in the lanes where one > other, else `otherwise` (also where one of them is not a number)."""
    return builder.select(builder.fcmp_ordered(">", one, other), then, otherwise)
