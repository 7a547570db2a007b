"""Instructions that append the lanes of a vector that are not zero to a list."""

from __future__ import annotations

from typing import Any, cast

import llvmlite.binding
from llvmlite import ir
from numba import types
from numba.core import cgutils, config

from slotwise.learning.fastcnn.architecture import LANES
from slotwise.learning.fastcnn.vectors import (
    GIVEN,
    INT32,
    INT64,
    WHOLES,
    Builder,
    Value,
    index,
    instruction,
    transposed,
)

MASK = ir.VectorType(ir.IntType(1), LANES)
# Moving chosen lanes to the front is one instruction with AVX-512. numba compiles for this processor, or for
# the one that NUMBA_CPU_FEATURES describes.
_host = cast(Any, llvmlite.binding).get_host_cpu_features()
_chosen = cast(Any, config).CPU_FEATURES
_HAS_AVX512VL = bool(_host.get("avx512vl")) if _chosen is None else "+avx512vl" in _chosen.split(",")
HAS_COMPRESS = _HAS_AVX512VL and llvmlite.binding.llvm_version_info[0] >= 19


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
