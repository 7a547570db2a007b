import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slotwise.data.cifar10 import decode_pickle
from slotwise.data.dataset import DataError

LABELS = [3, 1]
PIXELS = np.random.default_rng(0).integers(256, size=(2, 3, 32, 32)).astype(np.uint8)
Build = Callable[..., bytes]


class Calls:
    """Pickled, it has the reader call a function."""

    def __init__(self, function: Callable[..., object], *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[object, ...]:
        return self.call


def test_batches_in_either_order_are_read(pickled_array: Build, pickled_batch: Build) -> None:
    pixels, labels = decode_pickle(pickled_batch(LABELS, pickled_array(2, PIXELS.tobytes())), 2, "batch")
    np.testing.assert_array_equal(pixels, PIXELS)
    assert labels == LABELS
    columns = PIXELS.reshape(2, 3072).tobytes(order="F")
    pixels, _ = decode_pickle(pickled_batch(LABELS, pickled_array(2, columns, fortran=True)), 2, "batch")
    np.testing.assert_array_equal(pixels, PIXELS)


@pytest.mark.parametrize("protocol", [3, 4])
def test_a_batch_saved_again_by_python_3_is_read(protocol: int) -> None:
    raw = pickle.dumps({"data": PIXELS.reshape(2, 3072), "labels": LABELS}, protocol=protocol)
    pixels, labels = decode_pickle(raw, 2, "batch")
    np.testing.assert_array_equal(pixels, PIXELS)
    assert labels == LABELS


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_would_run_code_is_refused_and_runs_nothing(tmp_path: Path, protocol: int) -> None:
    evil = Calls(Path.touch, tmp_path / "was_here")
    with pytest.raises(DataError, match=r"batch is refused, must be a pickled batch of CIFAR-10: it names "):
        decode_pickle(pickle.dumps({b"data": evil}, protocol=protocol), 2, "batch")
    assert not (tmp_path / "was_here").exists()


@pytest.mark.parametrize(
    "name",
    [
        "os\nsystem",
        "builtins\neval",
        "numpy\nload",
        "numpy.core.multiarray\nfromfile",
        "copyreg\n_reconstructor",
    ],
)
def test_every_other_name_is_refused(name: str) -> None:
    with pytest.raises(DataError, match=f"it names {name.replace(chr(10), '.')}"):
        decode_pickle(b"\x80\x02c" + name.encode() + b"\n.", 2, "batch")


def test_opcodes_that_a_batch_does_not_need_are_refused() -> None:
    with pytest.raises(DataError, match=r"it names numpy.ndarray.tofile"):
        decode_pickle(b"\x80\x04\x8c\x05numpy\x8c\x0endarray.tofile\x93.", 2, "batch")
    with pytest.raises(DataError, match="is refused"):
        decode_pickle(b"\x80\x02cnumpy\nndarray\nN}U\x01xK\x01s\x86b.", 2, "batch")
    with pytest.raises(DataError, match="is refused"):
        decode_pickle(b"\x80\x02\x82\x01.", 2, "batch")
    with pytest.raises(DataError, match="must be a pickled batch of CIFAR-10: expected 1099511627776 bytes"):
        decode_pickle(b"\x80\x05\x96" + (2**40).to_bytes(8, "little") + b".", 2, "batch")
    with pytest.raises(DataError, match="is refused"):
        decode_pickle(b"\x80\x02K\x01Q.", 2, "batch")


@pytest.mark.parametrize("raw", [b"\x80\x02Nr\xff\xff\xff\x7f.", b"\x80\x02Np2000000000\n."])
def test_a_pickle_that_would_fill_the_memory_with_its_table_is_refused(raw: bytes) -> None:
    with pytest.raises(DataError, match="it numbers an object 2"):
        decode_pickle(raw, 2, "batch")


def test_another_type_or_number_of_images_is_refused(pickled_array: Build, pickled_batch: Build) -> None:
    raw = pickled_batch(LABELS, pickled_array(2, PIXELS.tobytes(), code=b"O8"))
    with pytest.raises(DataError, match="batch holds other data than a uint8 array of 2 x 3072"):
        decode_pickle(raw, 2, "batch")
    raw = pickled_batch(LABELS, pickled_array(2, PIXELS.tobytes()))
    with pytest.raises(DataError, match="a uint8 array of 10000 x 3072"):
        decode_pickle(raw, 10_000, "batch")
    raw = pickled_batch(LABELS, pickled_array(2, PIXELS.tobytes()[:-1]))
    with pytest.raises(DataError, match="other data than a uint8 array"):
        decode_pickle(raw, 2, "batch")


@pytest.mark.parametrize("content", [[], {}, {b"data": None}, {b"data": b"x"}, None, 1])
def test_a_pickle_of_something_else_is_refused(content: object) -> None:
    with pytest.raises(DataError, match=r"^batch holds"):
        decode_pickle(pickle.dumps(content, protocol=3), 2, "batch")


@given(cut=st.integers(0, 6300), place=st.integers(0, 6300), value=st.integers(0, 255))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
def test_no_damage_gives_anything_but_a_batch_or_a_refusal(
    pickled_array: Build, pickled_batch: Build, cut: int, place: int, value: int
) -> None:
    raw = bytearray(pickled_batch(LABELS, pickled_array(2, PIXELS.tobytes())))
    raw[min(place, len(raw) - 1)] = value
    try:
        pixels, _ = decode_pickle(bytes(raw[:-cut] if cut % 2 else raw), 2, "batch")
    except DataError:
        return
    assert pixels.shape == (2, 3, 32, 32)
