import importlib.util
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slotwise.data import DataError, Dataset, cifar10_path, import_cifar10, load_cifar10
from slotwise.data.cifar10 import check_cifar10, read_cifar10

FORMS = ["binary", "python"]
Pack = Callable[..., Path]
Unpack = Callable[[dict[str, bytes]], Path]
REMEDY = "run `slotwise data fetch cifar10` or `slotwise data import cifar10 PATH`"


def test_once_imported_it_loads_and_absent_it_says_how(cache: Path, tiny: Any, pack: Pack) -> None:
    with pytest.raises(DataError, match=rf"cifar10.npz does not exist; {REMEDY}"):
        load_cifar10()
    imported = import_cifar10(pack(tiny.binary()), expected=tiny.expected)
    loaded = load_cifar10(expected=tiny.expected)
    assert loaded.content_hash == imported.content_hash == tiny.expected.content_hash


def test_the_source_may_be_named_by_a_string(tiny: Any, pack: Pack, cache: Path) -> None:
    import_cifar10(str(pack(tiny.binary())), expected=tiny.expected)
    assert cifar10_path() == cache / "cifar10.npz"
    assert cifar10_path().exists()


def test_a_damaged_copy_is_noticed_and_the_error_says_what_to_do(tiny: Any, pack: Pack, cache: Path) -> None:
    import_cifar10(pack(tiny.binary()), expected=tiny.expected)
    raw = bytearray(cifar10_path().read_bytes())
    raw[len(raw) // 2] ^= 1
    cifar10_path().write_bytes(raw)
    with pytest.raises(DataError, match=rf"cifar10.npz is damaged.*; {REMEDY}"):
        load_cifar10(expected=tiny.expected)


def test_another_data_set_in_its_place_is_noticed(tiny: Any, pack: Pack, cache: Path) -> None:
    import_cifar10(pack(tiny.binary()), expected=tiny.expected)
    with pytest.raises(
        DataError, match=rf"has content hash {tiny.expected.content_hash}, must be 0bf1.*; {REMEDY}"
    ):
        load_cifar10()


def test_a_bad_source_leaves_the_copy_alone(tiny: Any, pack: Pack, cache: Path) -> None:
    import_cifar10(pack(tiny.binary()), expected=tiny.expected)
    with pytest.raises(DataError, match="lacks"):
        import_cifar10(pack({"test_batch": tiny.python()["test_batch"]}), expected=tiny.expected)
    assert load_cifar10(expected=tiny.expected).content_hash == tiny.expected.content_hash


def test_the_real_checks_refuse_a_small_copy(tiny: Any, pack: Pack, cache: Path) -> None:
    with pytest.raises(DataError, match="30730 bytes long, a binary batch must be 30730000"):
        import_cifar10(pack(tiny.binary()))


@pytest.mark.parametrize("form", FORMS)
def test_an_archive_of_each_form_gives_the_same_content(tiny: Any, pack: Pack, form: str) -> None:
    path = pack(getattr(tiny, form)())
    assert read_cifar10(path, tiny.expected).content_hash == tiny.expected.content_hash


@pytest.mark.parametrize("form", FORMS)
def test_a_folder_of_each_form_gives_the_same_content(tiny: Any, unpack: Unpack, form: str) -> None:
    path = unpack(getattr(tiny, form)())
    assert read_cifar10(path, tiny.expected).content_hash == tiny.expected.content_hash


def test_order_and_names_of_files_do_not_matter(tiny: Any, pack: Pack) -> None:
    dataset = read_cifar10(pack(tiny.python()), tiny.expected)
    np.testing.assert_array_equal(dataset.train_inputs[10:20], tiny.images["data_batch_2"])
    assert dataset.train_targets[10:20].tolist() == tiny.labels["data_batch_2"]
    files = dict(reversed(tiny.python().items()))
    assert read_cifar10(pack(files), tiny.expected).content_hash == tiny.expected.content_hash
    path = pack(tiny.binary(), "cifar-10-python.tar.gz", mode="w")
    assert read_cifar10(path, tiny.expected).content_hash == tiny.expected.content_hash
    files = {f"{name}.bin": content for name, content in tiny.python().items()}
    assert read_cifar10(pack(files), tiny.expected).content_hash == tiny.expected.content_hash
    dataset = read_cifar10(pack(tiny.binary()), tiny.expected)
    assert (dataset.offset, dataset.scale) == (tiny.expected.mean, tiny.expected.deviation)


@pytest.mark.parametrize("form", FORMS)
def test_a_missing_batch_is_named(tiny: Any, pack: Pack, form: str) -> None:
    files = {name: raw for name, raw in getattr(tiny, form)().items() if not name.startswith("data_batch_3")}
    with pytest.raises(DataError, match=r"archive.tar.gz lacks the images of data_batch_3, must be cifar-10"):
        read_cifar10(pack(files), tiny.expected)


def test_an_archive_of_something_else_is_told_what_is_allowed(tiny: Any, pack: Pack) -> None:
    with pytest.raises(
        DataError, match=r"holds no CIFAR-10 batches, must be cifar-10-binary.tar.gz, .* or a folder"
    ):
        read_cifar10(pack({"train-images-idx3-ubyte": b"1"}), tiny.expected)


def test_two_copies_of_a_batch_are_refused(tiny: Any, unpack: Unpack) -> None:
    with pytest.raises(DataError, match="holds data_batch_1 more than once"):
        read_cifar10(unpack(tiny.binary() | tiny.python()), tiny.expected)


def test_a_changed_length_label_or_pixel_is_noticed(tiny: Any, pack: Pack) -> None:
    files = tiny.binary()
    files["data_batch_4.bin"] = files["data_batch_4.bin"][:-1]
    with pytest.raises(
        DataError, match=r"data_batch_4.bin in .* 30729 bytes long, a binary batch must be 30730"
    ):
        read_cifar10(pack(files), tiny.expected)
    files = tiny.binary()
    files["test_batch.bin"] = b"\x0a" + files["test_batch.bin"][1:]
    with pytest.raises(
        DataError, match=r"test_batch.bin in .* holds a label that is no whole number from 0 to 9"
    ):
        read_cifar10(pack(files), tiny.expected)
    files = tiny.binary()
    changed = bytearray(files["test_batch.bin"])
    changed[500] ^= 1
    with pytest.raises(DataError, match=r"content hash is .* images or labels were changed"):
        read_cifar10(pack(files | {"test_batch.bin": bytes(changed)}), tiny.expected)


@pytest.fixture
def dataset(tiny: Any) -> Dataset:
    stems = list(tiny.images)
    return Dataset(
        name="cifar10",
        train_inputs=np.concatenate([tiny.images[stem] for stem in stems[:5]]),
        train_targets=np.array([tiny.labels[stem] for stem in stems[:5]], np.uint8).ravel(),
        test_inputs=tiny.images["test_batch"],
        test_targets=np.array(tiny.labels["test_batch"], np.uint8),
        classes=10,
        offset=tiny.expected.mean,
        scale=tiny.expected.deviation,
    )


def test_other_classes_channels_deviations_or_order_are_noticed(dataset: Dataset, tiny: Any) -> None:
    check_cifar10(dataset, tiny.expected, "copy")
    labels = np.where(dataset.train_targets == 3, 4, dataset.train_targets).astype(np.uint8)
    with pytest.raises(
        DataError, match=r"copy: train images per class are \[5, 5, 5, 0, 10, .*must be 5 each"
    ):
        check_cifar10(replace(dataset, train_targets=labels), tiny.expected, "copy")
    with pytest.raises(DataError, match=r"copy: test images per class are .* must be 1 each"):
        check_cifar10(replace(dataset, test_targets=np.zeros(10, np.uint8)), tiny.expected, "copy")
    turned = replace(dataset, train_inputs=dataset.train_inputs[:, ::-1])
    with pytest.raises(DataError, match=r"copy: channel mean is \(.*\), must be \("):
        check_cifar10(turned, tiny.expected, "copy")
    unlike = replace(tiny.expected, deviation=(0.1, 0.1, 0.1))
    with pytest.raises(DataError, match=r"copy: channel deviation is \(.*\), must be \(0.1, 0.1, 0.1\)"):
        check_cifar10(dataset, unlike, "copy")
    reversed_ = replace(
        dataset, train_inputs=dataset.train_inputs[::-1], train_targets=dataset.train_targets[::-1]
    )
    with pytest.raises(DataError, match="or are in another order than the official one"):
        check_cifar10(reversed_, tiny.expected, "copy")


def test_the_script_for_npm_writes_the_official_batches(tiny: Any, pack: Pack) -> None:
    path = Path(__file__).parents[2] / "benchmarks" / "cifar10_from_npm.py"
    spec = importlib.util.spec_from_file_location("cifar10_from_npm", path)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.binary_batches(pack(tiny.npm())) == tiny.binary()
