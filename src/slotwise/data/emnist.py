"""EMNIST, its balanced split of 47 classes (Cohen, Afshar, Tapson and van Schaik 2017): digits and letters.

It is fetched or imported once, then kept in the cache. The published images lie on their side; here they are
upright, as those of MNIST.
"""

import gzip
import io
import zipfile
import zlib
from pathlib import Path, PurePosixPath

import numpy as np

from slotwise.data.dataset import Bytes, DataError, Dataset, channel_statistics, parse_idx
from slotwise.data.dataset_cache import dataset_path, load_cached, scratch_folder, write_dataset

NAME = "emnist"
ADDRESS = "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip"
MD5 = "58c8d27c78d21e728a6bc7b3cc06412e"
CLASSES = 47
PER_CLASS = {"train": 2400, "test": 400}
_LIMIT = 256 * 2**20
KINDS = ("images-idx3", "labels-idx1")
FILES = tuple(f"emnist-balanced-{part}-{kind}-ubyte.gz" for part in PER_CLASS for kind in KINDS)
_ALLOWED = f"gzip.zip, or a folder with {', '.join(FILES)}"


def import_emnist(path: Path | str, *, per_class: dict[str, int] | None = None) -> Dataset:
    """Read EMNIST from the published archive or a folder with its four files, check it and keep it.

    ``per_class`` are the images of each class; tests use fewer.

    Raises:
        DataError: a file is missing, is damaged or holds other images.
    """
    counts = PER_CLASS if per_class is None else per_class
    arrays: list[Bytes] = []
    for part, count in counts.items():
        images, labels = (_array(Path(path), name) for name in FILES if f"-{part}-" in name)
        if np.bincount(labels, minlength=CLASSES).tolist() != [count] * CLASSES or len(images) != len(labels):
            raise DataError(f"{path}: the {part} images must be {count} of each of {CLASSES} classes")
        arrays += [images.swapaxes(1, 2)[:, np.newaxis], labels]
    train, train_labels, test, test_labels = arrays
    offset, scale = channel_statistics(train)
    dataset = Dataset(NAME, train, train_labels, test, test_labels, CLASSES, offset, scale)
    write_dataset(dataset, dataset_path(NAME))
    return dataset


def fetch_emnist(progress: bool = True) -> Dataset:
    """Download EMNIST (562 MB, all splits) from its host, unless an intact copy is kept already."""
    try:
        return load_cached(NAME)
    except DataError:
        from slotwise.data.download import download_files  # noqa: PLC0415 - brings slow imports
    with scratch_folder() as folder:
        elsewhere = f"get a copy elsewhere and run `slotwise data import {NAME} PATH`"
        download_files("EMNIST", {ADDRESS: MD5}, folder, elsewhere, progress)
        return import_emnist(folder / ADDRESS.rpartition("/")[2])


def _array(path: Path, name: str) -> Bytes:
    """Return the content of one of the four files."""
    try:
        packed = (path / name).read_bytes() if path.is_dir() else _member(path, name)
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
            raw = file.read(_LIMIT)
    except (OSError, EOFError, KeyError, zlib.error, zipfile.BadZipFile) as error:
        raise DataError(f"{name} in {path} cannot be read ({error}), must be {_ALLOWED}") from None
    return parse_idx(raw, 3 if "idx3" in name else 1, f"{name} in {path}")


def _member(path: Path, name: str) -> bytes:
    """Return a file of the archive, known by its last name only; nothing is extracted."""
    with zipfile.ZipFile(path) as archive:
        found = [one for one in archive.infolist() if PurePosixPath(one.filename).name == name]
        if not found or found[0].file_size > _LIMIT:
            raise KeyError("no such file")
        return archive.read(found[0])
