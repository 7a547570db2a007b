"""CIFAR-100 and EMNIST: small copies of the published files, imported, kept and refused."""

import gzip
import io
import struct
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from slotwise.data import DataError, PartitionedData
from slotwise.data.image_sets import EMNIST_FILES, import_cifar100, import_emnist

FEW = {"train": 2, "test": 1}


def record_file(per_class: int) -> bytes:
    """Records of CIFAR-100 whose pixels are all the fine label."""
    labels = np.repeat(np.arange(100, dtype=np.uint8), per_class)[:, np.newaxis]
    return np.hstack([labels // 5, labels, np.repeat(labels, 3072, axis=1)]).tobytes()


def idx(array: np.ndarray) -> bytes:
    header = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
    return gzip.compress(header + array.astype(np.uint8).tobytes())


def emnist_files() -> dict[str, bytes]:
    """The four files; the image of a label has it in its second row and first column."""
    files = {}
    for part, count in FEW.items():
        labels = np.repeat(np.arange(47), count)
        images = np.zeros((len(labels), 28, 28))
        images[:, 1, 0] = labels
        images_name, labels_name = (name for name in EMNIST_FILES if f"-{part}-" in name)
        files |= {images_name: idx(images), labels_name: idx(labels)}
    return files


@pytest.mark.parametrize("packed", [False, True])
def test_cifar100_has_fine_labels_and_is_kept(tmp_path: Path, cache: Path, packed: bool) -> None:
    files = {f"{part}.bin": record_file(count) for part, count in FEW.items()}
    source = tmp_path / "cifar-100-binary.tar.gz" if packed else tmp_path
    if packed:
        with tarfile.open(source, "w:gz") as archive:
            for name, content in files.items():
                member = tarfile.TarInfo(f"cifar-100-binary/{name}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    else:
        for name, content in files.items():
            (tmp_path / name).write_bytes(content)
    data = import_cifar100(source, per_class=FEW)
    assert data.train_inputs.shape == (200, 3, 32, 32)
    assert (data.train_inputs[:, 0, 0, 0] == data.train_targets).all()
    loaded = PartitionedData(data="cifar100").load()
    assert loaded.content_hash == data.content_hash
    assert cache.is_dir()


def test_other_files_than_those_of_cifar100_are_refused(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "train.bin").write_bytes(record_file(2))
    with pytest.raises(DataError, match=r"lacks test\.bin"):
        import_cifar100(tmp_path, per_class=FEW)
    (tmp_path / "test.bin").write_bytes(record_file(1))
    with pytest.raises(DataError, match=r"train\.bin in .* is 614800 bytes long, must be 153700000"):
        import_cifar100(tmp_path)
    (tmp_path / "test.bin").write_bytes(record_file(1)[:3074] * 100)
    with pytest.raises(DataError, match="the test images must be 1 of each of 100 classes"):
        import_cifar100(tmp_path, per_class=FEW)
    assert not (cache / "cifar100.npz").exists()


@pytest.mark.parametrize("packed", [False, True])
def test_emnist_is_upright_and_kept(tmp_path: Path, cache: Path, packed: bool) -> None:
    source = tmp_path / "gzip.zip" if packed else tmp_path
    if packed:
        with zipfile.ZipFile(source, "w") as archive:
            for name, content in emnist_files().items():
                archive.writestr(f"gzip/{name}", content)
    else:
        for name, content in emnist_files().items():
            (tmp_path / name).write_bytes(content)
    data = import_emnist(source, per_class=FEW)
    assert data.train_inputs.shape == (94, 1, 28, 28)
    assert (data.train_inputs[:, 0, 0, 1] == data.train_targets).all()
    assert PartitionedData(data="emnist").load().content_hash == data.content_hash
    assert cache.is_dir()


def test_other_files_than_those_of_emnist_are_refused(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(DataError, match=r"emnist-balanced-train-images.* cannot be read"):
        import_emnist(tmp_path)
    for name, content in emnist_files().items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match="the train images must be 2400 of each of 47 classes"):
        import_emnist(tmp_path)
    assert not (cache / "emnist.npz").exists()
