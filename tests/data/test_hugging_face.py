"""FEMNIST and Shakespeare from local copies, read by the package that reads the originals."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hub_copies import png, write_femnist, write_shakespeare

from slotwise.base.extras import MissingPackage
from slotwise.data import DataError, PartitionedData, dataset_path, fetch_dataset, import_dataset
from slotwise.data.facts import CHARACTERS, FACTS
from slotwise.data.leaf import encode_text

WRITERS = ["f0001_41", "f0000_14", "f0002_05"]
COUNTS = [25, 12, 7]
TEXT = 'To be, or not to be:\nthat is the question—"whether \'tis nobler" & so on; 12 [x] '


def images(count: int) -> list[bytes | np.ndarray]:
    return [*np.random.default_rng(0).integers(256, size=(count, 28, 28)).astype(np.uint8)]


@pytest.fixture
def femnist(tmp_path: Path) -> Path:
    writers = [writer for writer, count in zip(WRITERS, COUNTS, strict=True) for _ in range(count)]
    shuffled = np.random.default_rng(1).permutation(writers).tolist()
    count = len(shuffled)
    return write_femnist(tmp_path / "femnist", images(count), shuffled, [n % 62 for n in range(count)])


@pytest.fixture
def shakespeare(tmp_path: Path) -> Path:
    roles = {"HAMLET_Ham": TEXT * 15, "A_PLAY_Servant": TEXT[::-1] * 2}
    return write_shakespeare(tmp_path / "shakespeare", roles)


def test_the_vocabulary_is_that_of_leaf_and_all_else_is_one_number() -> None:
    assert len(CHARACTERS) == len(set(CHARACTERS)) == 80
    assert FACTS["shakespeare"].classes == 81
    assert encode_text(["—é\t\x00"], 4).tolist() == [[80] * 4]
    assert encode_text(["\n }"], 3).tolist() == [[0, 1, 79]]


def test_femnist_is_images_with_labels_and_writers(femnist: Path, cache: Path) -> None:
    dataset = import_dataset("femnist", femnist)
    assert dataset.classes == 62
    assert dataset.input_shape == FACTS["femnist"].input_shape == (1, 28, 28)
    assert dataset.train_inputs.dtype == np.uint8
    # In the order of their ids; every tenth sample of a writer is a test sample.
    assert [len(rows) for rows in dataset.owner_rows()] == [12 - 1, 25 - 2, 7]
    assert len(dataset.test_targets) == 3
    pixels = dataset.train_inputs / 255
    assert dataset.offset == pytest.approx((pixels.mean(),), abs=1e-4)
    assert dataset.scale == pytest.approx((pixels.std(),), abs=1e-4)
    kept = {image.tobytes(): number for number, image in enumerate(np.array(images(sum(COUNTS))))}
    for inputs, targets in (
        (dataset.train_inputs, dataset.train_targets),
        (dataset.test_inputs, dataset.test_targets),
    ):
        assert [kept[image.tobytes()] % 62 for image in inputs] == targets.tolist()


def test_shakespeare_is_windows_of_numbers_with_roles(shakespeare: Path, cache: Path) -> None:
    dataset = import_dataset("shakespeare", shakespeare)
    assert dataset.classes == 81
    assert dataset.input_shape == (80,)
    assert dataset.train_targets.ndim == 1
    servant, hamlet = dataset.owner_rows()
    long, short = 15 * len(TEXT) - 80, 2 * len(TEXT) - 80
    assert len(hamlet) == long - long // 10
    assert len(servant) == short - short // 10
    first = encode_text([TEXT[:80]], 80)
    np.testing.assert_array_equal(dataset.train_inputs[hamlet[:1]], first)
    followed = encode_text([(TEXT * 2)[80]], 1)
    assert dataset.train_targets[hamlet[0]] == followed[0, 0]


def test_no_test_window_shares_a_character_with_a_training_sample(tmp_path: Path, cache: Path) -> None:
    count = 1200
    text = "".join(CHARACTERS[number] for number in np.random.default_rng(0).integers(80, size=count))
    dataset = import_dataset("shakespeare", write_shakespeare(tmp_path / "copy", {"role": text}))
    windows = count - 80
    trained = windows - windows // 10
    assert len(dataset.train_targets) == trained
    assert len(dataset.test_targets) == windows - trained - 80
    start = text.index("".join(CHARACTERS[number] for number in dataset.test_inputs[0]))
    assert start == trained + 80


@pytest.mark.parametrize("name", ["femnist", "shakespeare"])
def test_an_imported_data_set_is_kept_with_its_owners(
    name: str, femnist: Path, shakespeare: Path, cache: Path
) -> None:
    dataset = import_dataset(name, {"femnist": femnist, "shakespeare": shakespeare}[name])  # type: ignore[arg-type]
    again = PartitionedData(data=name).load()  # type: ignore[arg-type]
    assert again.content_hash == dataset.content_hash
    assert again.owners is not None
    np.testing.assert_array_equal(again.owners, dataset.owners)
    assert [path.name for path in cache.iterdir()] == [f"{name}.npz"]
    assert fetch_dataset(name).content_hash == dataset.content_hash  # type: ignore[arg-type]


def test_a_kept_data_set_needs_no_further_package(femnist: Path, cache: Path) -> None:
    import_dataset("femnist", femnist)
    program = (
        "import sys; sys.modules['datasets'] = None; from slotwise.data import PartitionedData;"
        "config = PartitionedData(data='femnist', partition='natural'); print(config.load().classes)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "62\n"


def test_without_the_package_the_extra_is_named(
    femnist: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    for get in (lambda: import_dataset("femnist", femnist), lambda: fetch_dataset("femnist")):
        with pytest.raises(MissingPackage, match=r"slotwise\[datasets\]"):
            get()
    assert not cache.exists()


@pytest.mark.parametrize("name", ["femnist", "shakespeare"])
def test_without_a_network_a_local_copy_is_suggested(
    name: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import datasets

    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)  # tests of trackers set it
    monkeypatch.setattr(datasets.config, "HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(DataError, match=f"cannot be reached.*slotwise data import {name} FOLDER"):
        fetch_dataset(name, progress=False)  # type: ignore[arg-type]
    assert not dataset_path(name).exists()


def test_a_data_set_that_is_not_kept_says_how_to_get_it(cache: Path) -> None:
    with pytest.raises(
        DataError, match=r"FEMNIST.*slotwise data fetch femnist.*slotwise data import femnist"
    ):
        PartitionedData(data="femnist").load()


def small(count: int = 10) -> list[bytes | np.ndarray]:
    return [np.zeros((28, 28), np.uint8)] * count


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (np.zeros((28, 29), np.uint8), "29 x 28 pixels"),
        (b"no picture", "damaged PNG"),
        (png(np.zeros((28, 28), np.uint8), "GIF"), "damaged PNG"),
        (png(np.zeros((28, 28), np.uint8))[:45], "damaged PNG"),
    ],
    ids=["size", "text", "gif", "cut"],
)
def test_other_images_are_refused_and_nothing_is_kept(
    first: bytes | np.ndarray, reason: str, tmp_path: Path, cache: Path
) -> None:
    copy = write_femnist(tmp_path / "copy", [first, *small(9)], ["w"] * 10, [0] * 10)
    with pytest.raises(DataError, match=reason):
        import_dataset("femnist", copy)
    assert [*cache.iterdir()] == []


def test_a_copy_with_missing_columns_few_samples_or_other_texts_is_refused(
    tmp_path: Path, cache: Path
) -> None:
    copy = write_femnist(tmp_path / "copy", small(), ["w"] * 10, [0] * 10, columns={"writer_id": "author"})
    with pytest.raises(DataError, match=r"author.*must have image, writer_id, character"):
        import_dataset("femnist", copy)
    with pytest.raises(DataError, match="no writer of 10 samples"):
        import_dataset("femnist", write_femnist(tmp_path / "images", small(9), ["w"] * 9, [0] * 9))
    with pytest.raises(DataError, match="no role of 810 samples"):
        import_dataset("shakespeare", write_shakespeare(tmp_path / "texts", {"role": TEXT * 3}))
    (tmp_path / "texts" / "shakespeare.csv").write_text("character_id,x,y\nrole,too short,a\n")
    with pytest.raises(DataError, match="must be 80 characters long"):
        import_dataset("shakespeare", tmp_path / "texts")


@pytest.mark.parametrize("content", [None, {}, {"data.parquet": b"damaged"}])
def test_a_folder_without_the_files_is_refused(
    content: dict[str, bytes] | None, tmp_path: Path, cache: Path
) -> None:
    folder = tmp_path / "copy"
    if content is not None:
        folder.mkdir()
        for name, raw in content.items():
            (folder / name).write_bytes(raw)
    with pytest.raises(DataError, match=str(folder)):
        import_dataset("femnist", folder)
    assert not dataset_path("femnist").exists()
