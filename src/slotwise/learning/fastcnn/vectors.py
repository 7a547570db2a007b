"""The language of the kernels: numba's decorators, and vectors of eight float32, which numba does not have.

A `Vector` lives in one register (AVX: one ymm). It exists only inside compiled code, where each function
below turns into one or two machine instructions. The lanes of a vector are usually eight samples of the
batch, sometimes eight neighbouring values of one sample; the arithmetic is the same.

Addresses are element numbers in one-dimensional arrays. They are not checked, and negative ones do not count
from the end: that is what makes these loads cheaper than indexing.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from inspect import signature
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

from slotwise.learning.fastcnn.memory_layout import LANES

Vector = Any
Builder = Any
Value = Any
"""What LLVM calls a value: something a machine instruction computed."""

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Function = TypeVar("Function", bound=Callable[..., Any])

FLOATS = ir.VectorType(ir.FloatType(), LANES)
INT32 = ir.IntType(32)
INT64 = ir.IntType(64)


def compiled(function: Function) -> Function:
    """Compile a kernel that other compiled code calls."""
    return cast(Function, njit(function, error_model="numpy"))


def inlined(function: Function) -> Function:
    """Copy a function into those that call it.

    For the passes above the kernels. Numba optimises a function once more in each function that calls it, so
    every level of calls between kernels and entry that is not there saves seconds of compilation.
    """
    return cast(Function, njit(function, error_model="numpy", inline="always"))


def entry(function: Function) -> Function:
    """Compile a function that Python calls: it runs without the interpreter lock, and is kept on disk.

    Give it a last parameter ``_sources: str = SOURCES``, see there.
    """
    return cast(Function, njit(function, error_model="numpy", nogil=True, cache=True))


def _fingerprint() -> str:
    files = sorted(Path(__file__).parent.glob("*.py"))
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


SOURCES = _fingerprint()
"""Changes with every file of this package.

Numba compiles again what it kept on disk only if the file of the entry changed, not those of the kernels it
calls. The types of the arguments always count, and the value of a default is part of its type.
"""


class VectorType(types.Type):
    """Numba's name for eight float32 in one register."""

    def __init__(self) -> None:
        super().__init__(name="float32x8")


def _vector_model(manager: Any, numba_type: Any) -> Any:
    return cast(Any, models).PrimitiveModel(manager, numba_type, FLOATS)


register_model(VectorType)(_vector_model)
vector = VectorType()
index = types.intp

GIVEN = None
"""Declares, in a signature, an argument of any type: an array or a tile."""


def type_of(argument: int) -> Callable[..., Any]:
    """Declare, in a signature, that the result has the type of an argument."""
    return lambda *given: given[argument]


def instruction(
    result: Any, *arguments: Any
) -> Callable[[Callable[Concatenate[Builder, Parameters], Result]], Callable[Parameters, Result]]:
    """Make a function of compiled code out of one that writes LLVM instructions with a builder.

    `result` and `arguments` are numba types, see also `GIVEN` and `type_of`. Arrays arrive as pointers to
    their data.
    """

    def decorate(
        write_instructions: Callable[Concatenate[Builder, Parameters], Result],
    ) -> Callable[Parameters, Result]:
        def define(_typing: Any, *given: Any) -> Any:
            exact = [kind or found for kind, found in zip(arguments, given, strict=True)]
            returned = result if isinstance(result, types.Type) else result(*given)
            return returned(*exact), generate

        def generate(context: Any, builder: Builder, exact: Any, values: Any) -> Value:
            plain = [_plain(context, builder, *pair) for pair in zip(exact.args, values, strict=True)]
            written = cast(Any, write_instructions)(builder, *plain)
            return context.get_dummy_value() if written is None else written

        define.__signature__ = signature(write_instructions)  # type: ignore[attr-defined]
        return cast(Callable[Parameters, Result], intrinsic(define))

    return decorate


def _plain(context: Any, builder: Builder, kind: Any, value: Value) -> Value:
    if isinstance(kind, types.Array):
        return context.make_array(kind)(context, builder, value).data
    return value


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
    function = cast(Any, cgutils).get_or_insert_function(builder.module, kind, f"llvm.fmuladd.v{LANES}f32")
    return builder.call(function, [factor, value, added])


@instruction(vector, GIVEN, index)
def load(builder: Builder, array: Any, at: Any) -> Vector:
    """array[at : at + 8]."""
    return read(builder, array, at)


@instruction(types.void, GIVEN, index, vector)
def store(builder: Builder, array: Any, at: Any, value: Vector) -> None:
    """array[at : at + 8] = value."""
    write(builder, array, at, value)


@instruction(types.void, GIVEN, index, vector)
def store_whole(builder: Builder, array: Any, at: Any, value: Vector) -> None:
    """array[at : at + 8] = value, for whole numbers and an array of int32."""
    numbers = ir.VectorType(INT32, LANES)
    address = builder.bitcast(builder.gep(array, [at]), numbers.as_pointer())
    builder.store(builder.fptosi(value, numbers), address, align=4)


@instruction(vector, GIVEN, index)
def broadcast(builder: Builder, array: Any, at: Any) -> Vector:
    """array[at] in all lanes."""
    return spread(builder, builder.load(builder.gep(array, [at])))


@instruction(vector, types.float32)
def repeat(builder: Builder, number: Any) -> Vector:
    """One number in all lanes."""
    return spread(builder, number)


@instruction(index, GIVEN, index)
def address(builder: Builder, array: Any, at: Any) -> Any:
    """array[at] of an array of int32, to be used as an address."""
    return builder.sext(builder.load(builder.gep(array, [at])), INT64)


@instruction(vector, vector, vector)
def add(builder: Builder, one: Vector, other: Vector) -> Vector:
    """Return one + other, lane by lane."""
    return builder.fadd(one, other)


@instruction(types.float32, vector)
def lane_sum(builder: Builder, value: Vector) -> Any:
    """Sum of the lanes, first to last."""
    total = builder.extract_element(value, INT32(0))
    for lane in range(1, LANES):
        total = builder.fadd(total, builder.extract_element(value, INT32(lane)))
    return total


@instruction(vector, vector, vector, vector, vector)
def where_greater(builder: Builder, one: Vector, other: Vector, then: Vector, otherwise: Vector) -> Vector:
    """`then` in the lanes where one > other, else `otherwise` (also where one of them is not a number)."""
    return builder.select(builder.fcmp_ordered(">", one, other), then, otherwise)
