"""Arrays of Flower as one vector, and back."""

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord

from slotwise import UserError
from slotwise.flower.array_layout import ArrayLayout


@pytest.mark.parametrize("kind", ["float32", "float64", "float16", "int64", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,), (2, 1, 2)], ids=str)
def test_arrays_come_back_as_they_were(kind: str, shape: tuple[int, ...]) -> None:
    array = np.asarray(np.arange(np.prod(shape, dtype=int)).reshape(shape) % 2, dtype=kind)
    arrays = ArrayRecord({"first": Array(array), "second": Array(np.ones(2, dtype=np.float32))})
    layout = ArrayLayout.of(arrays)
    sent = layout.record(layout.vector(arrays))
    assert list(sent) == ["first", "second"]
    back = sent["first"].numpy()
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    assert np.array_equal(back, array)


def test_fortran_order_and_other_types_are_read() -> None:
    layout = ArrayLayout.of(ArrayRecord({"a": Array(np.zeros((2, 3), dtype=np.float32))}))
    numbers = np.arange(6).reshape(2, 3)
    for array in (np.asfortranarray(numbers.astype(np.float32)), numbers, numbers.astype(">f4")):
        found = layout.vector(ArrayRecord({"a": Array(array)}))
        assert found.dtype == np.float32
        assert found.tolist() == numbers.ravel().tolist()


def test_whole_numbers_are_rounded() -> None:
    layout = ArrayLayout.of(ArrayRecord({"a": Array(np.zeros(2, dtype=np.int64))}))
    assert layout.record(np.array([1.6, -0.2], dtype=np.float32))["a"].numpy().tolist() == [2, 0]


@pytest.mark.parametrize("kind", ["complex64", "str"])
def test_returned_arrays_must_have_real_numbers(kind: str) -> None:
    layout = ArrayLayout.of(ArrayRecord({"a": Array(np.zeros(2, dtype=np.float32))}))
    with pytest.raises(UserError, match="array a"):
        layout.vector(ArrayRecord({"a": Array(np.ones(2).astype(kind))}))


@pytest.mark.parametrize(
    ("kind", "data"),
    [("bfloat16", b""), ("float32", b"not numpy"), ("float32", None)],
    ids=["unknown type", "no array", "cut off"],
)
def test_returned_bytes_that_cannot_be_read_are_a_user_error(kind: str, data: bytes | None) -> None:
    layout = ArrayLayout.of(ArrayRecord({"a": Array(np.zeros(2, dtype=np.float32))}))
    sent = layout.record(np.ones(2, dtype=np.float32))["a"]
    returned = Array(kind, (2,), sent.stype, sent.data[:-4] if data is None else data)
    with pytest.raises(UserError, match="array a"):
        layout.vector(ArrayRecord({"a": returned}))


def test_a_model_without_numbers_is_refused() -> None:
    for arrays in (ArrayRecord(), ArrayRecord({"a": Array(np.array(["x"]))}), ArrayRecord([np.zeros(0)])):
        with pytest.raises(UserError):
            ArrayLayout.of(arrays)
