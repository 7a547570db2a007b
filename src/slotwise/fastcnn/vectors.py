"""The language of the kernels: numba's decorators, and vectors of float32, which numba does not have.

A `Vector` has eight lanes and lives in one register (AVX: one ymm). A wide vector has as many lanes as the
widest registers of this processor: 16 with AVX-512, else eight as well. Which is used is a matter of speed:
every lane is computed by itself, so results are the same to the bit. Vectors exist only inside compiled code,
where each function below turns into one or two machine instructions. The lanes are usually samples of the
batch, sometimes neighbouring values of one sample; the arithmetic is the same.

A `Tile` is a tuple of vectors that stay in registers while a loop runs over them. Functions take its length
from its type, and their loops over it are unrolled when compiled. `like` is a tile given only for its length.

Addresses are element numbers in one-dimensional arrays. They are not checked, and negative ones do not count
from the end: that is what makes these loads cheaper than indexing.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from inspect import signature
from pathlib import Path
from typing import Any, TypeVar, cast

import llvmlite.binding
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils, config
from numba.extending import intrinsic, models, register_model

from slotwise.fastcnn.architecture import LANES

Builder = Any
Vector = Any
Tile = Any
Value = Any  # what LLVM calls a value: something a machine instruction computed
Function = TypeVar("Function", bound=Callable[..., Any])

# numba compiles for this processor, or for the one that NUMBA_CPU_FEATURES describes.
_host = cast(Any, llvmlite.binding).get_host_cpu_features()
_chosen = cast(Any, config).CPU_FEATURES
HAS_AVX512VL = bool(_host.get("avx512vl")) if _chosen is None else "+avx512vl" in _chosen.split(",")
WIDE = 16 if HAS_AVX512VL else LANES
"""Lanes of a wide vector."""
OUTPUTS = WIDE // LANES
"""Outputs in a wide vector of eight samples: all outputs of the first sample, then of the second, ..."""

_HAS_PERMUTE = bool(_host.get("avx")) if _chosen is None else "+avx" in _chosen.split(",")

FLOATS = ir.VectorType(ir.FloatType(), LANES)
INT32, INT64 = ir.IntType(32), ir.IntType(64)
WHOLES = ir.VectorType(INT32, LANES)
WIDE_WHOLES = ir.VectorType(INT32, WIDE)


def compiled(function: Function) -> Function:
    """Compile a kernel that other compiled code calls."""
    # With numpy's error model a division by zero gives inf or NaN, and needs no test that raises.
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


_files = sorted(Path(__file__).parent.glob("*.py"))
SOURCES = sha256(b"".join(file.read_bytes() for file in _files)).hexdigest()[:16]
"""Changes with every file of this package.

Numba compiles again what it kept on disk only if the file of the entry changed, not those of the kernels it
calls. The types of the arguments always count, and the value of a default is part of its type.
"""


class _VectorType(types.Type):
    def __init__(self, lanes: int) -> None:
        super().__init__(name=f"float32x{lanes}")
        self.floats = ir.VectorType(ir.FloatType(), lanes)


register_model(_VectorType)(
    lambda manager, kind: cast(Any, models).PrimitiveModel(manager, kind, kind.floats)
)
vector, wide = _VectorType(LANES), _VectorType(WIDE)
index = types.intp
GIVEN = None  # in a signature: an argument of any type, an array or a tile


def type_of(argument: int) -> Callable[..., Any]:
    """Declare, in a signature, that the result has the type of an argument."""
    return lambda *given: given[argument]


def instruction(result: Any, *arguments: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function of compiled code out of one that writes LLVM instructions with a builder.

    `result` and `arguments` are numba types, see also `GIVEN` and `type_of`. Arrays arrive as pointers to
    their data.
    """

    def decorate(write_instructions: Callable[..., Any]) -> Callable[..., Any]:
        def define(_typing: Any, *given: Any) -> Any:
            # Numba casts the arguments to these types, any integer to an index for example.
            exact = [kind or found for kind, found in zip(arguments, given, strict=True)]
            returned = result if isinstance(result, types.Type) else result(*given)
            return returned(*exact), generate

        def generate(context: Any, builder: Builder, exact: Any, values: Any) -> Value:
            plain = list(values)
            for number, kind in enumerate(exact.args):
                if isinstance(kind, types.Array):
                    plain[number] = context.make_array(kind)(context, builder, values[number]).data
            written = write_instructions(builder, *plain)
            return context.get_dummy_value() if written is None else written

        # Numba takes the parameters from this signature, all but the first.
        define.__signature__ = signature(write_instructions)  # type: ignore[attr-defined]
        return cast(Callable[..., Any], intrinsic(define))

    return decorate


def read(builder: Builder, array: Value, at: Value, kind: Any = FLOATS) -> Value:
    """Write the instruction that loads a vector, at any alignment."""
    address = builder.bitcast(builder.gep(array, [at]), kind.as_pointer())
    return builder.load(address, align=4)


def write(builder: Builder, array: Value, at: Value, value: Value) -> None:
    """Write the instruction that stores a vector, at any alignment."""
    address = builder.bitcast(builder.gep(array, [at]), value.type.as_pointer())
    builder.store(value, address, align=4)


def _number(builder: Builder, array: Value, at: Value) -> Value:
    return builder.load(builder.gep(array, [at]))


def moved(builder: Builder, at: Value, stride: Value, number: int) -> Value:
    """Write the instructions of at + stride * number."""
    return builder.add(at, builder.mul(stride, INT64(number)))


def _spread(builder: Builder, number: Value, kind: Any = FLOATS) -> Value:
    """Write the instruction that repeats a number in all lanes."""
    nothing = ir.Constant(kind, ir.Undefined)
    # LLVM makes one broadcast instruction of these two.
    first = builder.insert_element(nothing, number, INT32(0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(INT32, kind.count), None))


def fused(builder: Builder, factor: Value, value: Value, total: Value) -> Value:
    """Write factor * value + total: one instruction where the processor has it, or two."""
    floats = value.type
    kind = ir.FunctionType(floats, [floats] * 3)
    name = f"llvm.fmuladd.v{floats.count}f32"
    function = cast(Any, cgutils).get_or_insert_function(builder.module, kind, name)
    return builder.call(function, [factor, value, total])


def _add_product(builder: Builder, tile: Value, number: int, factor: Value, value: Value) -> Value:
    """Add factor * value to one vector of a tile."""
    total = fused(builder, factor, value, builder.extract_value(tile, number))
    return builder.insert_value(tile, total, number)


def loader(kind: Any) -> Callable[..., Any]:
    """Return the instruction ``(array, at)``: the vector of this type that begins at array[at]."""
    return instruction(kind, GIVEN, index)(lambda builder, array, at: read(builder, array, at, kind.floats))


def repeater(kind: Any) -> Callable[..., Any]:
    """Return the instruction ``(number)``: a number in all lanes of this type."""
    return instruction(kind, types.float32)(lambda builder, number: _spread(builder, number, kind.floats))


def broadcaster(kind: Any) -> Callable[..., Any]:
    """Return the instruction ``(array, at)``: array[at] in all lanes of this type."""

    def written(builder: Builder, array: Any, at: Any) -> Vector:
        return _spread(builder, _number(builder, array, at), kind.floats)

    return instruction(kind, GIVEN, index)(written)


load, wide_load = loader(vector), loader(wide)
repeat, wide_repeat = repeater(vector), repeater(wide)
broadcast, wide_broadcast = broadcaster(vector), broadcaster(wide)
store = instruction(types.void, GIVEN, index, GIVEN)(write)  # array[at : at + lanes] = value


def zeros(count: int) -> Callable[..., Any]:
    """Return the instruction without arguments that is a tile of so many wide vectors of zeros."""
    tile = cast(Any, types).UniTuple(wide, count)
    return instruction(tile)(lambda _builder: ir.Constant(ir.ArrayType(wide.floats, count), None))


@instruction(index, GIVEN, index)
def address(builder: Builder, array: Any, at: Any) -> Any:
    """array[at] of an array of int32, to be used as an address."""
    return builder.sext(_number(builder, array, at), INT64)


@instruction(wide, GIVEN, index, index, wide)
def where_equal(builder: Builder, array: Any, at: Any, number: Any, value: Vector) -> Vector:
    """`value` in the lanes where array[at : at + lanes], of int32, is `number`; else zero."""
    whole = ir.VectorType(INT32, WIDE)
    same = builder.icmp_signed(
        "==", read(builder, array, at, whole), _spread(builder, builder.trunc(number, INT32), whole)
    )
    return builder.select(same, value, ir.Constant(value.type, [0.0] * WIDE))


@instruction(types.void, GIVEN, index, GIVEN)
def store_whole(builder: Builder, array: Any, at: Any, value: Vector) -> None:
    """array[at : at + lanes] = value, for whole numbers and an array of int32."""
    write(builder, array, at, builder.fptosi(value, ir.VectorType(INT32, value.type.count)))


@instruction(type_of(0), GIVEN, GIVEN)
def add(builder: Builder, one: Vector, other: Vector) -> Vector:
    """Return one + other, lane by lane."""
    return builder.fadd(one, other)


@instruction(type_of(0), GIVEN, GIVEN)
def times(builder: Builder, one: Vector, other: Vector) -> Vector:
    """Return one * other, lane by lane."""
    return builder.fmul(one, other)


@instruction(type_of(0), GIVEN, GIVEN, GIVEN)
def times_plus(builder: Builder, factor: Vector, value: Vector, total: Vector) -> Vector:
    """Return factor * value + total, lane by lane."""
    return fused(builder, factor, value, total)


@instruction(types.float32, vector)
def lane_sum(builder: Builder, value: Vector) -> Any:
    """Sum of the lanes, first to last."""
    total = builder.extract_element(value, INT32(0))
    for lane in range(1, LANES):
        total = builder.fadd(total, builder.extract_element(value, INT32(lane)))
    return total


@instruction(type_of(2), GIVEN, GIVEN, GIVEN, GIVEN)
def where_greater(builder: Builder, one: Vector, other: Vector, then: Vector, otherwise: Vector) -> Vector:
    """`then` in the lanes where one > other, else `otherwise` (also where one of them is not a number)."""
    return builder.select(builder.fcmp_ordered(">", one, other), then, otherwise)


@instruction(type_of(3), GIVEN, index, index, GIVEN)
def load_tile(builder: Builder, array: Any, at: Any, stride: Any, like: Tile) -> Tile:
    """array[at + i * stride : ... + lanes] for every i."""
    tile = like
    for number in range(like.type.count):
        value = read(builder, array, moved(builder, at, stride, number), like.type.element)
        tile = builder.insert_value(tile, value, number)
    return tile


@instruction(types.void, GIVEN, index, index, GIVEN)
def store_tile(builder: Builder, array: Any, at: Any, stride: Any, tile: Tile) -> None:
    """array[at + i * stride : ... + lanes] = tile[i] for every i."""
    for number in range(tile.type.count):
        write(builder, array, moved(builder, at, stride, number), builder.extract_value(tile, number))


def _write_sum(builder: Builder, array: Value, at: Value, value: Value) -> None:
    write(builder, array, at, builder.fadd(read(builder, array, at, value.type), value))


@instruction(types.void, GIVEN, index, index, GIVEN)
def add_to_tile(builder: Builder, array: Any, at: Any, stride: Any, tile: Tile) -> None:
    """array[at + i * stride : ... + lanes] += tile[i] for every i."""
    for number in range(tile.type.count):
        _write_sum(builder, array, moved(builder, at, stride, number), builder.extract_value(tile, number))


@instruction(type_of(2), GIVEN, GIVEN, GIVEN)
def gather_tile(builder: Builder, array: Any, places: Any, like: Tile) -> Tile:
    """array[places[i] : ... + lanes] for every i."""
    tile = like
    for number in range(like.type.count):
        value = read(builder, array, builder.extract_value(places, number), like.type.element)
        tile = builder.insert_value(tile, value, number)
    return tile


@instruction(types.void, GIVEN, GIVEN, GIVEN)
def scatter_tile(builder: Builder, array: Any, places: Any, tile: Tile) -> None:
    """array[places[i] : ... + lanes] = tile[i] for every i."""
    for number in range(tile.type.count):
        write(builder, array, builder.extract_value(places, number), builder.extract_value(tile, number))


@instruction(lambda _array, _at, like: cast(Any, types).UniTuple(index, like.count), GIVEN, index, GIVEN)
def load_steps(builder: Builder, array: Any, at: Any, like: Tile) -> Any:
    """array[at + i] of an array of int64, for every i."""
    steps = ir.Constant(ir.ArrayType(INT64, like.type.count), ir.Undefined)
    for number in range(like.type.count):
        value = _number(builder, array, builder.add(at, INT64(number)))
        steps = builder.insert_value(steps, value, number)
    return steps


@instruction(type_of(0), GIVEN, GIVEN, GIVEN, index, GIVEN)
def gather_add(builder: Builder, tile: Tile, factor: Vector, array: Any, at: Any, steps: Any) -> Tile:
    """tile[i] + factor * array[at + steps[i] : ... + lanes] for every i."""
    start = builder.gep(array, [at])
    for number in range(tile.type.count):
        value = read(builder, start, builder.extract_value(steps, number), factor.type)
        tile = _add_product(builder, tile, number, factor, value)
    return tile


@instruction(type_of(0), GIVEN, GIVEN, GIVEN, index)
def scaled_add(builder: Builder, tile: Tile, factor: Vector, array: Any, at: Any) -> Tile:
    """tile[i] + factor * array[at + lanes * i : ... + lanes] for every i."""
    floats = factor.type
    for number in range(tile.type.count):
        value = read(builder, array, builder.add(at, INT64(floats.count * number)), floats)
        tile = _add_product(builder, tile, number, factor, value)
    return tile


@instruction(type_of(0), GIVEN, GIVEN, index, index, GIVEN)
def outer_add(builder: Builder, tile: Tile, array: Any, at: Any, stride: Any, value: Vector) -> Tile:
    """tile[i] + array[at + i * stride] * value for every i."""
    for number in range(tile.type.count):
        factor = _spread(builder, _number(builder, array, moved(builder, at, stride, number)), value.type)
        tile = _add_product(builder, tile, number, factor, value)
    return tile


def _outputs(builder: Builder, array: Value, at: Value) -> Value:
    """Write the instruction that repeats as many numbers as a wide vector has outputs, for every sample."""
    numbers = read(builder, array, at, ir.VectorType(ir.FloatType(), OUTPUTS))
    lanes = ir.Constant(ir.VectorType(INT32, WIDE), [*range(OUTPUTS)] * LANES)
    return builder.shuffle_vector(numbers, ir.Constant(numbers.type, ir.Undefined), lanes)


repeat_outputs = instruction(wide, GIVEN, index)(_outputs)


def _write_outputs(builder: Builder, array: Value, at: Value, value: Value) -> None:
    """Write the instructions that store the eight samples of each output after those of the one before."""
    for output in range(OUTPUTS):
        lanes = ir.Constant(WHOLES, list(range(output, WIDE, OUTPUTS)))
        own = builder.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), lanes)
        write(builder, array, builder.add(at, INT64(LANES * output)), own)


store_outputs = instruction(types.void, GIVEN, index, wide)(_write_outputs)


@instruction(types.void, GIVEN, index, wide)
def store_whole_outputs(builder: Builder, array: Any, at: Any, value: Vector) -> None:
    """Store the outputs of a vector of whole numbers in an array of int32."""
    _write_outputs(builder, array, at, builder.fptosi(value, ir.VectorType(INT32, WIDE)))


@instruction(type_of(0), GIVEN, GIVEN, index, GIVEN, index, index, index)
def window_add(
    builder: Builder, tile: Tile, weights: Any, weight: Any, inputs: Any, at: Any, right: Any, down: Any
) -> Tile:
    """tile[4 * o + q] + weights[weight + o] * inputs[at + step of q : ... + 8] for every o and q = 0..3.

    The four q are the positions of a pooling window: here, to the right, below, below and to the right. Each
    o is one output, or two where a vector has as many.
    """
    vectors = range(tile.type.count // 4)
    places = [builder.add(weight, INT64(OUTPUTS * number)) for number in vectors]
    factors = [_outputs(builder, weights, place) for place in places]
    below = builder.add(at, down)
    samples = ir.Constant(ir.VectorType(INT32, WIDE), [lane // OUTPUTS for lane in range(WIDE)])
    # Twelve sums, three weights and one input at a time are the 16 vector registers of AVX2.
    for place, start in enumerate((at, builder.add(at, right), below, builder.add(below, right))):
        value = read(builder, inputs, start)
        value = builder.shuffle_vector(value, ir.Constant(FLOATS, ir.Undefined), samples)
        for number in vectors:
            tile = _add_product(builder, tile, 4 * number + place, factors[number], value)
    return tile


@instruction(type_of(0), GIVEN, GIVEN, index)
def where_positive(builder: Builder, tile: Tile, array: Any, at: Any) -> Tile:
    """tile[i] in the lanes where array[at + 8 * i : ... + 8] > 0, else zero."""
    zero = ir.Constant(FLOATS, [0.0] * LANES)
    for number in range(tile.type.count):
        value = read(builder, array, builder.add(at, INT64(LANES * number)))
        positive = builder.fcmp_ordered(">", value, zero)
        kept = builder.select(positive, builder.extract_value(tile, number), zero)
        tile = builder.insert_value(tile, kept, number)
    return tile


@instruction(type_of(0), GIVEN)
def transpose(builder: Builder, tile: Tile) -> Tile:
    """Eight vectors as an 8 x 8 matrix: lane j of vector i becomes lane i of vector j."""
    rows = [builder.extract_value(tile, number) for number in range(LANES)]
    for number, row in enumerate(transposed(builder, rows)):
        tile = builder.insert_value(tile, row, number)
    return tile


def transposed(builder: Builder, rows: list[Value]) -> list[Value]:
    """Write the instructions of `transpose` for eight vectors of any type.

    Three rounds exchange lanes between vectors 1, 2 and 4 apart, as in a fast Fourier transform.
    """
    for distance in (1, 2, 4):
        rows = [_exchanged(builder, rows, number, distance) for number in range(LANES)]
    return rows


def _exchanged(builder: Builder, rows: list[Value], number: int, distance: int) -> Value:
    """Exchange the lanes `distance` apart of row `number` with those of the row `distance` apart."""
    upper = bool(number & distance)
    partner = rows[number ^ distance]
    first, second = (partner, rows[number]) if upper else (rows[number], partner)
    start = distance if upper else 0
    # Numbers from LANES on choose lanes of the second vector.
    lanes = [start + (LANES + lane - distance if lane & distance else lane) for lane in range(LANES)]
    return builder.shuffle_vector(first, second, ir.Constant(WHOLES, lanes))


# A panel tile has two wide vectors for each of its rows.


@instruction(type_of(3), GIVEN, index, index, GIVEN)
def load_panel(builder: Builder, array: Any, at: Any, stride: Any, like: Tile) -> Tile:
    """array[at + row * stride : ... + two vectors] for every row; a stride of 0 repeats one row."""
    tile, floats = like, like.type.element
    for number in range(like.type.count):
        start = builder.add(moved(builder, at, stride, number // 2), INT64(number % 2 * floats.count))
        tile = builder.insert_value(tile, read(builder, array, start, floats), number)
    return tile


@instruction(types.void, GIVEN, index, index, GIVEN)
def store_panel(builder: Builder, array: Any, at: Any, stride: Any, tile: Tile) -> None:
    """array[at + row * stride : ... + two vectors] = tile[row] for every row."""
    lanes = tile.type.element.count
    for number in range(tile.type.count):
        start = builder.add(moved(builder, at, stride, number // 2), INT64(number % 2 * lanes))
        write(builder, array, start, builder.extract_value(tile, number))


@instruction(types.void, GIVEN, index, index, GIVEN)
def add_to_panel(builder: Builder, array: Any, at: Any, stride: Any, tile: Tile) -> None:
    """array[at + row * stride : ... + two vectors] += tile[row] for every row."""
    lanes = tile.type.element.count
    for number in range(tile.type.count):
        start = builder.add(moved(builder, at, stride, number // 2), INT64(number % 2 * lanes))
        _write_sum(builder, array, start, builder.extract_value(tile, number))


@instruction(type_of(0), GIVEN, GIVEN, index, index, GIVEN, index)
def panel_add(builder: Builder, tile: Tile, rows: Any, start: Any, stride: Any, panel: Any, at: Any) -> Tile:
    """tile[row] + rows[start + row * stride] * panel[at : at + two vectors] for every row."""
    floats = tile.type.element
    values = [read(builder, panel, builder.add(at, INT64(floats.count * each)), floats) for each in range(2)]
    for row in range(tile.type.count // 2):
        factor = _spread(builder, _number(builder, rows, moved(builder, start, stride, row)), floats)
        for each, value in enumerate(values):
            tile = _add_product(builder, tile, 2 * row + each, factor, value)
    return tile


def _of_four(builder: Builder, fours: Value, numbers: Value) -> Value:
    """Write the instructions that choose, in each lane, one of its group of four lanes by a number 0 to 3."""
    floats = fours.type
    if _HAS_PERMUTE:
        kind = ir.FunctionType(floats, [floats, numbers.type])
        name = (
            f"llvm.x86.avx512.vpermilvar.ps.{32 * WIDE}" if WIDE == 16 else "llvm.x86.avx.vpermilvar.ps.256"
        )
        return builder.call(
            cast(Any, cgutils).get_or_insert_function(builder.module, kind, name), [fours, numbers]
        )
    chosen, nothing = fours, ir.Constant(floats, ir.Undefined)
    for number in range(4):
        lanes = ir.Constant(numbers.type, [lane // 4 * 4 + number for lane in range(WIDE)])
        here = builder.icmp_signed("==", numbers, ir.Constant(numbers.type, [number] * WIDE))
        chosen = builder.select(here, builder.shuffle_vector(fours, nothing, lanes), chosen)
    return chosen


@instruction(types.void, GIVEN, index, index, index, GIVEN, index)
def interleave(builder: Builder, array: Any, at: Any, right: Any, down: Any, found: Any, to: Any) -> None:
    """found[to + 4 * i + q] = array[at + i + step of q] for q = 0..3: no step, `right`, `down`, both."""
    kind = ir.VectorType(ir.FloatType(), WIDE)
    below = builder.add(at, down)
    starts = (at, builder.add(at, right), below, builder.add(below, right))
    one, two, three, four = (read(builder, array, start, kind) for start in starts)

    def mixed(first: Value, second: Value, width: int) -> list[Value]:
        """Take groups of so many lanes from both in turn: the first half, then the second."""
        order = [
            lane + half
            for group in range(0, WIDE, width)
            for half in (0, WIDE)
            for lane in range(group, group + width)
        ]
        halves = (order[:WIDE], order[WIDE:])
        return [builder.shuffle_vector(first, second, ir.Constant(WIDE_WHOLES, lanes)) for lanes in halves]

    pairs = zip(mixed(one, two, 1), mixed(three, four, 1), strict=True)
    for number, value in enumerate(value for pair in pairs for value in mixed(*pair, 2)):
        write(builder, found, builder.add(to, INT64(WIDE * number)), value)


def window_adder(columns: int) -> Callable[..., Any]:
    """Return the instruction ``(tile, fours, at, step, error, winners, won, right, down)``.

    It is that of `patch_adder`, but each lane takes the patch at one of the four positions of a window: where
    winners[won + lane] is 0, `right`, `down`, or both. ``fours[4 * n : 4 * n + 4]`` are the numbers n of the
    four patches.
    """

    def written(
        builder: Builder, tile: Tile, fours: Any, at: Any, step: Any, error: Vector, winners: Any, won: Any,
        right: Any, down: Any,
    ) -> Tile:  # fmt: skip
        whole = ir.VectorType(INT32, WIDE)
        winner = read(builder, winners, won, whole)
        numbers = ir.Constant(whole, [0] * WIDE)
        for number, place in enumerate((right, down, builder.add(right, down)), start=1):
            here = builder.icmp_signed("==", winner, _spread(builder, builder.trunc(place, INT32), whole))
            numbers = builder.select(here, ir.Constant(whole, [number] * WIDE), numbers)
        repeated = ir.Constant(whole, [lane % 4 for lane in range(WIDE)])
        for number in range(tile.type.count):
            row = moved(builder, at, step, number // columns)
            place = builder.mul(builder.add(row, INT64(number % columns)), INT64(4))
            four = read(builder, fours, place, ir.VectorType(ir.FloatType(), 4))
            spread = builder.shuffle_vector(four, ir.Constant(four.type, ir.Undefined), repeated)
            tile = _add_product(builder, tile, number, _of_four(builder, spread, numbers), error)
        return tile

    return instruction(type_of(0), GIVEN, GIVEN, index, index, GIVEN, GIVEN, index, index, index)(written)


def patch_adder(columns: int) -> Callable[..., Any]:
    """Return the instruction ``(tile, array, at, step, value)`` for patches with rows of so many numbers.

    It is tile[r * columns + c] + array[at + r * step + c] * value for every row r and column c.
    """

    def written(builder: Builder, tile: Tile, array: Any, at: Any, step: Any, value: Vector) -> Tile:
        for number in range(tile.type.count):
            row = moved(builder, at, step, number // columns)
            place = builder.add(row, INT64(number % columns))
            factor = _spread(builder, _number(builder, array, place), value.type)
            tile = _add_product(builder, tile, number, factor, value)
        return tile

    return instruction(type_of(0), GIVEN, GIVEN, index, index, GIVEN)(written)
