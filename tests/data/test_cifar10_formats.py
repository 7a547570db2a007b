import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slotwise.data import DataError
from slotwise.data.cifar10_formats import read_cifar10

FORMS = ["binary", "python", "npm"]
Pack = Callable[..., Path]
Unpack = Callable[[dict[str, bytes]], Path]


@pytest.mark.parametrize("form", FORMS)
def test_an_archive_of_each_form_gives_the_same_content(tiny: Any, pack: Pack, form: str) -> None:
    path = pack(getattr(tiny, form)())
    assert read_cifar10(path, tiny.expected).content_hash == tiny.expected.content_hash


@pytest.mark.parametrize("form", FORMS)
def test_a_folder_of_each_form_gives_the_same_content(tiny: Any, unpack: Unpack, form: str) -> None:
    path = unpack(getattr(tiny, form)())
    assert read_cifar10(path, tiny.expected).content_hash == tiny.expected.content_hash


def test_images_keep_their_labels(tiny: Any, pack: Pack) -> None:
    dataset = read_cifar10(pack(tiny.npm()), tiny.expected)
    np.testing.assert_array_equal(dataset.train_inputs[10:20], tiny.images["data_batch_2"])
    assert dataset.train_targets[10:20].tolist() == tiny.labels["data_batch_2"]


def test_the_order_of_files_in_the_archive_does_not_matter(tiny: Any, pack: Pack) -> None:
    files = dict(reversed(tiny.python().items()))
    assert read_cifar10(pack(files), tiny.expected).content_hash == tiny.expected.content_hash


def test_a_misleading_archive_name_does_not_matter(tiny: Any, pack: Pack) -> None:
    path = pack(tiny.binary(), "cifar-10-python.tar.gz", mode="w")
    assert read_cifar10(path, tiny.expected).content_hash == tiny.expected.content_hash


def test_a_misleading_batch_name_does_not_matter(tiny: Any, pack: Pack) -> None:
    files = {f"{name}.bin": content for name, content in tiny.python().items()}
    assert read_cifar10(pack(files), tiny.expected).content_hash == tiny.expected.content_hash


def test_standardisation_comes_with_the_data(tiny: Any, pack: Pack) -> None:
    dataset = read_cifar10(pack(tiny.binary()), tiny.expected)
    assert (dataset.offset, dataset.scale) == (tiny.expected.mean, tiny.expected.deviation)


@pytest.mark.parametrize("form", FORMS)
def test_a_missing_batch_is_named(tiny: Any, pack: Pack, form: str) -> None:
    files = {name: raw for name, raw in getattr(tiny, form)().items() if not name.startswith("data_batch_3")}
    with pytest.raises(DataError, match=r"archive.tar.gz lacks the images of data_batch_3, must be cifar-10"):
        read_cifar10(pack(files), tiny.expected)


def test_missing_labels_are_named(tiny: Any, pack: Pack) -> None:
    files = {name: raw for name, raw in tiny.npm().items() if name != "test_lables.json"}
    with pytest.raises(DataError, match="lacks the labels of test_batch"):
        read_cifar10(pack(files), tiny.expected)


def test_an_archive_of_something_else_is_told_what_is_allowed(tiny: Any, pack: Pack) -> None:
    with pytest.raises(
        DataError, match=r"holds no CIFAR-10 batches, must be cifar-10-binary.tar.gz, .* or a folder"
    ):
        read_cifar10(pack({"train-images-idx3-ubyte": b"1"}), tiny.expected)


def test_two_copies_of_a_batch_are_refused(tiny: Any, unpack: Unpack) -> None:
    with pytest.raises(DataError, match="holds data_batch_1 more than once"):
        read_cifar10(unpack(tiny.binary() | tiny.python()), tiny.expected)


def test_a_batch_of_another_length_is_refused(tiny: Any, pack: Pack) -> None:
    files = tiny.binary()
    files["data_batch_4.bin"] = files["data_batch_4.bin"][:-1]
    with pytest.raises(
        DataError, match=r"data_batch_4.bin in .* 30729 bytes long, a binary batch must be 30730"
    ):
        read_cifar10(pack(files), tiny.expected)


def test_a_label_of_ten_is_refused(tiny: Any, pack: Pack) -> None:
    files = tiny.binary()
    files["test_batch.bin"] = b"\x0a" + files["test_batch.bin"][1:]
    with pytest.raises(
        DataError, match=r"test_batch.bin in .* holds a label that is no whole number from 0 to 9"
    ):
        read_cifar10(pack(files), tiny.expected)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"{}", "must hold a list of 10 labels"),
        (b"[1, 2]", "must hold a list of 10 labels"),
        (json.dumps([True] * 10).encode(), "holds a label that is no whole number"),
        (json.dumps([-1] * 10).encode(), "holds a label that is no whole number"),
        (json.dumps([[1]] * 10).encode(), "holds a label that is no whole number"),
        (json.dumps(["1"] * 10).encode(), "holds a label that is no whole number"),
    ],
)
def test_a_malformed_label_file_is_named(tiny: Any, pack: Pack, raw: bytes, message: str) -> None:
    with pytest.raises(DataError, match=rf"test_lables.json in .* {message}"):
        read_cifar10(pack(tiny.npm() | {"test_lables.json": raw}), tiny.expected)


def test_two_batches_in_each_others_place_are_noticed(tiny: Any, pack: Pack) -> None:
    files = tiny.binary()
    files["data_batch_1.bin"], files["data_batch_2.bin"] = (
        files["data_batch_2.bin"],
        files["data_batch_1.bin"],
    )
    with pytest.raises(DataError, match="in another order than the official one"):
        read_cifar10(pack(files), tiny.expected)


def test_one_changed_pixel_is_noticed(tiny: Any, pack: Pack) -> None:
    files = tiny.binary()
    changed = bytearray(files["test_batch.bin"])
    changed[500] ^= 1
    with pytest.raises(DataError, match=r"content hash is .* images or labels were changed"):
        read_cifar10(pack(files | {"test_batch.bin": bytes(changed)}), tiny.expected)
