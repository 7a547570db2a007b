"""Instructions next to those of `vectors`: on bits and bytes, exp, and lists of lanes that are not zero."""

from __future__ import annotations

from typing import Any, cast

import llvmlite.binding
from llvmlite import ir
from numba import types
from numba.core import cgutils

from slotwise.fastcnn.architecture import LANES
from slotwise.fastcnn.vectors import (
    FLOATS,
    GIVEN,
    HAS_AVX512VL,
    INT32,
    INT64,
    WHOLES,
    Builder,
    Value,
    Vector,
    index,
    instruction,
    transposed,
    vector,
)

BITS = 64
BYTES = ir.VectorType(ir.IntType(8), BITS)
WORDS = ir.VectorType(INT64, LANES)


@instruction(types.uint64, GIVEN, index, GIVEN, index)
def copy_bytes(builder: Builder, source: Any, start: Any, target: Any, at: Any) -> Any:
    """Copy 64 bytes from source[start] to target[at]; bit i of the result is set where byte i is not zero."""
    read = builder.bitcast(builder.gep(source, [start]), BYTES.as_pointer())
    write = builder.bitcast(builder.gep(target, [at]), BYTES.as_pointer())
    found = builder.load(read, align=1)
    builder.store(found, write, align=1)
    nonzero = builder.icmp_unsigned("!=", found, ir.Constant(BYTES, [0] * BITS))
    # On a little-endian machine lane i of a vector of bits becomes bit i.
    return builder.bitcast(nonzero, INT64)


@instruction(types.void, GIVEN, index, GIVEN, index)
def transpose_bits(builder: Builder, source: Any, start: Any, target: Any, at: Any) -> None:
    """Copy 64 numbers of 64 bits: bit j of number i becomes bit i of number j.

    Six rounds exchange bits 1, 2, 4, ... 32 apart between numbers that far apart.
    """
    first = [builder.add(start, INT64(LANES * number)) for number in range(LANES)]
    rows = [_read_words(builder, source, place) for place in first]
    for distance in (1, 2, 4, 8, 16, 32):
        rows = [_exchanged_bits(builder, rows, number, distance) for number in range(LANES)]
    for number, row in enumerate(rows):
        place = builder.gep(target, [builder.add(at, INT64(LANES * number))])
        builder.store(row, builder.bitcast(place, WORDS.as_pointer()), align=8)


def _read_words(builder: Builder, array: Value, at: Value) -> Value:
    return builder.load(builder.bitcast(builder.gep(array, [at]), WORDS.as_pointer()), align=8)


def _exchanged_bits(builder: Builder, rows: list[Value], number: int, distance: int) -> Value:
    """Exchange bits `distance` apart between the numbers of one row and those `distance` apart."""
    row = rows[number]
    if distance < LANES:  # the other numbers are in the same row
        lanes = ir.Constant(ir.VectorType(INT32, LANES), [lane ^ distance for lane in range(LANES)])
        partner, upper = builder.shuffle_vector(row, row, lanes), [lane & distance for lane in range(LANES)]
    else:
        partner, upper = rows[number ^ distance // LANES], [number & distance // LANES] * LANES
    low = sum(1 << bit for bit in range(BITS) if not bit & distance)
    high = low << distance
    # An upper number keeps its upper bits and gets those of its partner as its lower ones. A lower number
    # keeps its lower bits and gets those of its partner as its upper ones.
    kept = builder.and_(row, ir.Constant(WORDS, [high if is_upper else low for is_upper in upper]))
    step = ir.Constant(WORDS, [distance] * LANES)
    down = builder.and_(builder.lshr(partner, step), ir.Constant(WORDS, [low] * LANES))
    up = builder.and_(builder.shl(partner, step), ir.Constant(WORDS, [high] * LANES))
    is_up = ir.Constant(ir.VectorType(ir.IntType(1), LANES), [not is_upper for is_upper in upper])
    return builder.or_(kept, builder.select(is_up, up, down))


@instruction(index, types.uint64)
def lowest_bit(builder: Builder, word: Any) -> Any:
    """Return the number of the lowest bit that is set, of a word that is not zero."""
    kind = ir.FunctionType(INT64, [INT64, ir.IntType(1)])
    count = cast(Any, cgutils).get_or_insert_function(builder.module, kind, "llvm.cttz.i64")
    # The second argument allows any result for zero, so no test for it is compiled.
    return builder.call(count, [word, ir.Constant(ir.IntType(1), 1)])


@instruction(types.float32, vector)
def lane_max(builder: Builder, value: Vector) -> Any:
    """Return the greatest of the lanes."""
    greatest = builder.extract_element(value, INT32(0))
    for lane in range(1, LANES):
        other = builder.extract_element(value, INT32(lane))
        greatest = builder.select(builder.fcmp_ordered(">", other, greatest), other, greatest)
    return greatest


LOG2_E = 1.4426950408889634
# ln 2 in two parts: multiples of the first by whole numbers are exact.
LN2_HIGH, LN2_LOW = 0.693359375, -2.1219444e-4
# exp(r) = 1 + r + r² · p(r) for |r| <= ln(2) / 2: Chebyshev interpolation of p, highest power first.
TERMS = (1.989098088e-4, 1.393364103e-3, 8.333310934e-3, 4.166646501e-2, 1.666666668e-1, 0.5)
ROUNDING = 12582912.0  # 1.5 · 2**23: a float32 of this size has no digits after the point
SMALLEST = -87.0  # exp of less than this is taken to be zero


@instruction(vector, vector)
def exponential(builder: Builder, value: Vector) -> Vector:
    """Return exp of every lane, for values up to 0, to about one unit in the last place."""
    kind = ir.FunctionType(FLOATS, [FLOATS] * 3)
    fused = cast(Any, cgutils).get_or_insert_function(builder.module, kind, f"llvm.fmuladd.v{LANES}f32")

    def multiply_add(one: Value, other: Value, added: Value) -> Value:
        return builder.call(fused, [one, other, added])

    # exp(x) = 2**n · exp(r), n the whole number next to x / ln 2. Adding ROUNDING leaves n in the low bits.
    shifted = multiply_add(value, _all(LOG2_E), _all(ROUNDING))
    whole = builder.fsub(shifted, _all(ROUNDING))
    rest = multiply_add(whole, _all(-LN2_HIGH), value)
    rest = multiply_add(whole, _all(-LN2_LOW), rest)
    series = _all(TERMS[0])
    for term in TERMS[1:]:
        series = multiply_add(series, rest, _all(term))
    series = multiply_add(series, builder.fmul(rest, rest), builder.fadd(rest, _all(1.0)))
    # 2**n: n + 127 in the bits of the exponent.
    # The shift drops the bits of ROUNDING above n. From SMALLEST on, n + 127 is at least 1: a normal number.
    exponent = builder.add(builder.bitcast(shifted, WHOLES), ir.Constant(WHOLES, [127] * LANES))
    power = builder.bitcast(builder.shl(exponent, ir.Constant(WHOLES, [23] * LANES)), FLOATS)
    found = builder.fmul(series, power)
    # Below SMALLEST, as for -inf, the power is meaningless. NaN compares false and stays NaN.
    return builder.select(builder.fcmp_ordered("<", value, _all(SMALLEST)), _all(0.0), found)


def _all(number: float) -> Any:
    return ir.Constant(FLOATS, [number] * LANES)


MASK = ir.VectorType(ir.IntType(1), LANES)
# Moving chosen lanes to the front is one instruction with AVX-512.
HAS_COMPRESS = HAS_AVX512VL and llvmlite.binding.llvm_version_info[0] >= 19


@instruction(index, GIVEN, GIVEN, index, GIVEN, GIVEN, index, index, index)
def append_places(
    builder: Builder, places: Any, amounts: Any, count: Any, winners: Any, errors: Any, at: Any, corner: Any,
    stride: Any,
) -> Any:  # fmt: skip
    """Append to two lists of length `count` what is not zero in errors[at : at + 8]; return the new length.

    For lane i, `places` gets corner + i * stride + winners[at + i] and `amounts` the error. Up to eight
    entries after the new end are overwritten.
    """
    error, winner = _read(builder, errors, at), _read(builder, winners, at)
    step = builder.mul(_spread(builder, stride), ir.Constant(WHOLES, list(range(LANES))))
    place = builder.add(winner, builder.add(_spread(builder, corner), step))
    # Compared as whole numbers: -0.0 is listed too, which adds nothing, and NaN always is.
    kept = builder.icmp_signed("!=", error, ir.Constant(WHOLES, [0] * LANES))
    return append(builder, places, amounts, count, place, error, kept)


@instruction(types.void, GIVEN, GIVEN, GIVEN, GIVEN, GIVEN, *[index] * 6)
def append_filters(
    builder: Builder, moved: Any, amounts: Any, ends: Any, winners: Any, errors: Any, at: Any, left: Any,
    start: Any, span: Any, down: Any, step: Any,
) -> None:  # fmt: skip
    """Append up to eight filters of a window to the lists of eight samples, where errors are not zero.

    errors[at + 8 * f + s] is the error of filter f, of which `left` are left, and sample s. The list of the
    sample goes on at ends[s], which becomes its new end. `moved` gets start + f * span, plus the distance to
    the copy of the filter that is moved to where it won: `step` if to the right, 2 * step unless down.
    """
    zero = ir.Constant(WHOLES, [0] * LANES)
    lower, right, above = (_spread(builder, number) for number in (down, step, builder.add(step, step)))
    found, places = [], []
    for number in range(LANES):
        row = builder.add(at, INT64(LANES * number))
        found.append(_read(builder, errors, row))
        winner = _read(builder, winners, row)
        is_below = builder.icmp_signed(">=", winner, lower)
        beside = builder.sub(winner, builder.select(is_below, lower, zero))
        is_right = builder.icmp_signed(">", beside, zero)
        place = _spread(builder, builder.add(start, builder.mul(span, INT64(number))))
        # A row of zeros comes before the kernel rows, so a filter that is not moved down begins a row later.
        place = builder.add(place, builder.select(is_below, zero, above))
        places.append(builder.add(place, builder.select(is_right, right, zero)))
    # Rows of errors after the last filter belong to the next window.
    lanes = ir.Constant(WHOLES, list(range(LANES)))
    is_filter = builder.icmp_signed("<", lanes, _spread(builder, left))
    # A vector holds one filter in eight samples; each list belongs to one sample, so transpose.
    samples = zip(transposed(builder, places), transposed(builder, found), strict=True)
    for sample, (place, error) in enumerate(samples):
        kept = builder.and_(is_filter, builder.icmp_signed("!=", error, zero))
        end = builder.gep(ends, [INT64(sample)])
        count = builder.sext(builder.load(end), INT64)
        count = append(builder, moved, amounts, count, place, error, kept)
        builder.store(builder.trunc(count, INT32), end)


@instruction(index, GIVEN, GIVEN, index, GIVEN, GIVEN, *[index] * 5)
def append_won(
    builder: Builder, places: Any, amounts: Any, count: Any, winners: Any, errors: Any, at: Any, winner: Any,
    left: Any, start: Any, step: Any,
) -> Any:  # fmt: skip
    """Append to two lists up to eight channels that one position won; return their new length.

    They have `count` entries. Of the channels errors[at : at + 8], of which `left` exist, those are listed
    whose winner is `winner` and whose error is not zero. `places` gets start + i * step for lane i, `amounts`
    the error. Up to eight entries after the new end are overwritten.
    """
    error, lanes = _read(builder, errors, at), ir.Constant(WHOLES, list(range(LANES)))
    place = builder.add(_spread(builder, start), builder.mul(_spread(builder, step), lanes))
    kept = builder.icmp_signed("!=", error, ir.Constant(WHOLES, [0] * LANES))
    won = builder.icmp_signed("==", _read(builder, winners, at), _spread(builder, winner))
    kept = builder.and_(kept, builder.and_(won, builder.icmp_signed("<", lanes, _spread(builder, left))))
    return append(builder, places, amounts, count, place, error, kept)


def _read(builder: Builder, array: Value, at: Value) -> Value:
    """Write the instruction that loads eight numbers of 32 bits as whole numbers."""
    return builder.load(builder.bitcast(builder.gep(array, [at]), WHOLES.as_pointer()), align=4)


def append(
    builder: Builder, places: Value, amounts: Value, count: Value, place: Value, error: Value, kept: Value
) -> Value:
    """Write the instructions that append the lanes of `place` and `error` chosen by `kept` to two lists."""
    lists = ((builder.gep(places, [count]), place), (builder.gep(amounts, [count]), error))
    if HAS_COMPRESS:
        # The whole vector is stored; the next append overwrites the lanes after the chosen ones.
        for start, value in lists:
            front = _compressed(builder, value, kept)
            builder.store(front, builder.bitcast(start, WHOLES.as_pointer()), align=4)
        chosen = builder.zext(builder.bitcast(kept, ir.IntType(LANES)), INT64)
        return builder.add(count, _bit_count(builder, chosen))
    taken = INT64(0)
    # Always written, and kept only if chosen: there is no branch to predict wrongly.
    for lane in range(LANES):
        for start, value in lists:
            target = builder.bitcast(builder.gep(start, [taken]), INT32.as_pointer())
            builder.store(builder.extract_element(value, INT32(lane)), target, align=4)
        taken = builder.add(taken, builder.zext(builder.extract_element(kept, INT32(lane)), INT64))
    return builder.add(count, taken)


def _compressed(builder: Builder, value: Value, kept: Value) -> Value:
    kind = ir.FunctionType(WHOLES, [WHOLES, MASK, WHOLES])
    name = f"llvm.experimental.vector.compress.v{LANES}i32"
    function = cast(Any, cgutils).get_or_insert_function(builder.module, kind, name)
    return builder.call(function, [value, kept, ir.Constant(WHOLES, ir.Undefined)])


def _bit_count(builder: Builder, word: Value) -> Value:
    kind = ir.FunctionType(INT64, [INT64])
    return builder.call(
        cast(Any, cgutils).get_or_insert_function(builder.module, kind, "llvm.ctpop.i64"), [word]
    )


def _spread(builder: Builder, number: Value) -> Value:
    """Write the instructions that repeat a whole number in all lanes."""
    nothing = ir.Constant(WHOLES, ir.Undefined)
    first = builder.insert_element(nothing, builder.trunc(number, INT32), INT32(0))
    return builder.shuffle_vector(first, nothing, ir.Constant(WHOLES, [0] * LANES))
