"""A CIFAR-10 of ten images a batch, written in every form the real one is published in."""

import io
import json
import struct
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from slotwise.data.cifar10 import Expected
from slotwise.data.dataset import Dataset

sys.path.insert(0, str(Path(__file__).parent))

PER_BATCH = 10
STEMS = [f"data_batch_{number}" for number in range(1, 6)] + ["test_batch"]

Files = dict[str, bytes]


def python2_string(text: bytes) -> bytes:
    return b"U" + bytes([len(text)]) + text if len(text) < 256 else b"T" + struct.pack("<i", len(text)) + text


def pickled_array(rows: int, pixels: bytes, *, code: bytes = b"u1", fortran: bool = False) -> bytes:
    """A uint8 array [rows, 3072] as numpy under Python 2 pickled it."""
    element = b"cnumpy\ndtype\n" + python2_string(code) + b"K\x00K\x01\x87R(K\x03U\x01|NNNJ"
    element += b"\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    shape = b"M" + struct.pack("<H", rows) + b"M" + struct.pack("<H", 3072) + b"\x86"
    start = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    order = b"\x88" if fortran else b"\x89"
    return start + b"(K\x01" + shape + element + order + python2_string(pixels) + b"tb"


def pickled_batch(labels: list[int], data: bytes) -> bytes:
    """A batch in the opcodes of the official python archive: protocol 2, written by Python 2."""
    items = python2_string(b"batch_label") + python2_string(b"training batch 1 of 5")
    items += python2_string(b"labels") + b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    items += python2_string(b"data") + data
    names = b"".join(python2_string(b"image_%d.png" % number) for number in range(len(labels)))
    items += python2_string(b"filenames") + b"](" + names + b"e"
    return b"\x80\x02}(" + items + b"u."


def png(pixels: np.ndarray) -> bytes:
    """Rows of images [n, 3, 32, 32] as one picture, 1024 wide and n high."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels.transpose(0, 2, 3, 1)).reshape(-1, 1024, 3)).save(file, "PNG")
    return file.getvalue()


@dataclass(frozen=True)
class TinyCifar10:
    images: dict[str, np.ndarray]
    labels: dict[str, list[int]]
    expected: Expected

    def binary(self) -> Files:
        return {f"{stem}.bin": self._records(stem) for stem in STEMS}

    def _records(self, stem: str) -> bytes:
        labels = np.array(self.labels[stem], np.uint8)[:, np.newaxis]
        return np.concatenate([labels, self.images[stem].reshape(-1, 3072)], axis=1).tobytes()

    def python(self) -> Files:
        arrays = {stem: pickled_array(PER_BATCH, self.images[stem].tobytes()) for stem in STEMS}
        return {stem: pickled_batch(self.labels[stem], arrays[stem]) for stem in STEMS}

    def npm(self) -> Files:
        train = [label for stem in STEMS[:5] for label in self.labels[stem]]
        labels = {"train_lables.json": train, "test_lables.json": self.labels["test_batch"]}
        texts = {name: json.dumps(values).encode() for name, values in labels.items()}
        return texts | {f"{stem}.png": png(self.images[stem]) for stem in STEMS}


def expected_of(images: dict[str, np.ndarray], labels: dict[str, list[int]]) -> Expected:
    train = np.concatenate([images[stem] for stem in STEMS[:5]])
    mean = (train / 255).mean(axis=(0, 2, 3)).round(4)
    deviation = (train / 255).std(axis=(0, 2, 3)).round(4)
    dataset = Dataset(
        name="cifar10",
        train_inputs=train,
        train_targets=np.array([labels[stem] for stem in STEMS[:5]], np.uint8).ravel(),
        test_inputs=images["test_batch"],
        test_targets=np.array(labels["test_batch"], np.uint8),
        classes=10,
        offset=tuple(mean.tolist()),
        scale=tuple(deviation.tolist()),
    )
    return Expected(PER_BATCH, dataset.offset, dataset.scale, dataset.content_hash)


@pytest.fixture(scope="session")
def tiny() -> TinyCifar10:
    generator = np.random.default_rng(2009)
    ceiling = np.array([256, 200, 150]).reshape(3, 1, 1)  # channels differ, so that mixing them up shows
    images = {
        stem: generator.integers(ceiling, size=(PER_BATCH, 3, 32, 32)).astype(np.uint8) for stem in STEMS
    }
    labels = {stem: generator.permutation(10).tolist() for stem in STEMS}
    return TinyCifar10(images, labels, expected_of(images, labels))


@pytest.fixture
def pack(tmp_path: Path) -> Callable[..., Path]:
    """Write files into a tar archive, below a folder as the published ones are."""

    def packed(
        files: Files, name: str = "archive.tar.gz", below: str = "folder/", mode: str = "w:gz"
    ) -> Path:
        path = tmp_path / name
        with tarfile.open(path, mode) as archive:
            for member, content in files.items():
                info = tarfile.TarInfo(below + member)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
        return path

    return packed


@pytest.fixture
def unpack(tmp_path: Path) -> Callable[[Files], Path]:
    """Write files into a folder."""

    def unpacked(files: Files) -> Path:
        folder = tmp_path / "unpacked"
        folder.mkdir()
        for name, content in files.items():
            (folder / name).write_bytes(content)
        return folder

    return unpacked


@pytest.fixture(name="pickled_array")
def pickled_array_fixture() -> Callable[..., bytes]:
    return pickled_array


@pytest.fixture(name="pickled_batch")
def pickled_batch_fixture() -> Callable[[list[int], bytes], bytes]:
    return pickled_batch


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the test's own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("SLOTWISE_CACHE", str(folder))
    return folder
