"""Image sets that are fetched or imported once, then kept in the cache: Fashion-MNIST, EMNIST and CIFAR-100.

Fashion-MNIST: Xiao, Rasul and Vollgraf 2017. EMNIST: Cohen, Afshar, Tapson and van Schaik 2017, its balanced
split of 47 classes, digits and letters; the published images lie on their side, here they are upright, as
those of MNIST. CIFAR-100: Krizhevsky 2009, with its 100 fine labels.
"""

import gzip
import hashlib
import io
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from slotwise.data.cifar10 import read_members
from slotwise.data.dataset import Bytes, DataError, Dataset, channel_statistics, parse_idx
from slotwise.data.dataset_cache import dataset_path, load_cached, scratch_folder, write_dataset
from slotwise.data.facts import FACTS, TITLES

FASHION_MNIST_HOST = "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion"
FASHION_MNIST_MD5 = {
    "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
    "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
    "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
}
FASHION_MNIST_TIMES = {"train": 1504176606, "t10k": 1504176627}
"""Times in the headers of the original gzip files, in seconds since 1970."""
FASHION_MNIST_STATISTICS = (0.2860,), (0.3530,)
EMNIST_ADDRESS = "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip"
EMNIST_MD5 = "58c8d27c78d21e728a6bc7b3cc06412e"
EMNIST_PER_CLASS = {"train": 2400, "test": 400}
EMNIST_FILES = tuple(
    f"emnist-balanced-{part}-{kind}-ubyte.gz"
    for part in EMNIST_PER_CLASS
    for kind in ("images-idx3", "labels-idx1")
)
CIFAR100_ADDRESS = "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz"
CIFAR100_MD5 = "03b5dce01913d631647c71ecec9e9cb8"
CIFAR100_PER_CLASS = {"train": 500, "test": 100}
_RECORD = 2 + 3072  # of CIFAR-100: coarse label, fine label, pixels
_LIMIT = 256 * 2**20  # bytes of a file
_FASHION_MNIST = f"a folder with {', '.join(FASHION_MNIST_MD5)}"
_EMNIST = f"gzip.zip, or a folder with {', '.join(EMNIST_FILES)}"
_CIFAR100 = "cifar-100-binary.tar.gz, or a folder with its files train.bin and test.bin"


def import_fashion_mnist(folder: Path | str, *, md5: Mapping[str, str] = FASHION_MNIST_MD5) -> Dataset:
    """Read the four gzipped idx files of Fashion-MNIST in a folder, check them and keep the data set.

    The files of Debian's package dataset-fashion-mnist are the original ones without name and time in their
    gzip header; both are put back before the sum is checked. ``md5`` has the sums that the files must have;
    tests use others with a small copy.

    Raises:
        DataError: a file is missing or is not the original.
    """
    arrays = []
    for name, wanted in md5.items():
        path = Path(folder) / name
        try:
            packed = path.read_bytes()
        except OSError as error:
            reason = f"cannot be read ({error.strerror}), must be {_FASHION_MNIST}"
            raise DataError(f"{path} {reason}") from None
        found = hashlib.md5(_with_gzip_header(packed, name), usedforsecurity=False).hexdigest()
        if found != wanted:
            raise DataError(f"{path} has md5 {found}, must be {wanted}, the original of Fashion-MNIST")
        arrays.append(_unpacked(packed, path, name, _FASHION_MNIST))
    images, labels, test_images, test_labels = arrays
    channels = images[:, np.newaxis], labels, test_images[:, np.newaxis], test_labels
    return _kept("fashion-mnist", channels, FASHION_MNIST_STATISTICS)


def _with_gzip_header(packed: bytes, name: str) -> bytes:
    """Put the original name and time into the gzip header of a file of Fashion-MNIST, if it has no name."""
    magic, flags, own_name = b"\x1f\x8b\x08", 3, b"\x08"
    if packed[:4] != magic + b"\0":
        return packed
    time = FASHION_MNIST_TIMES[name.partition("-")[0]].to_bytes(4, "little")
    header = packed[:flags] + own_name + time + packed[8:10]
    return header + name.removesuffix(".gz").encode() + b"\0" + packed[10:]


def fetch_fashion_mnist(progress: bool = True, *, md5: Mapping[str, str] = FASHION_MNIST_MD5) -> Dataset:
    """Download Fashion-MNIST from its repository, unless an intact copy is kept already."""
    addresses = {f"{FASHION_MNIST_HOST}/{name}": wanted for name, wanted in md5.items()}
    return _fetched(
        "fashion-mnist", addresses, lambda folder: import_fashion_mnist(folder, md5=md5), progress
    )


def import_emnist(path: Path | str, *, per_class: Mapping[str, int] = EMNIST_PER_CLASS) -> Dataset:
    """Read EMNIST from the published archive or a folder with its four files, check it and keep it.

    ``per_class`` are the images of each class; tests use fewer.

    Raises:
        DataError: a file is missing, is damaged or holds other images.
    """
    arrays: list[Bytes] = []
    for part, count in per_class.items():
        images, labels = (_emnist_array(Path(path), name) for name in EMNIST_FILES if f"-{part}-" in name)
        if len(images) != len(labels):
            raise DataError(f"{path} has {len(images)} {part} images and {len(labels)} labels")
        _check_classes(labels, count, "emnist", f"{path}: the {part} images")
        arrays += [images.swapaxes(1, 2)[:, np.newaxis], labels]
    return _kept("emnist", arrays)


def fetch_emnist(progress: bool = True) -> Dataset:
    """Download EMNIST (562 MB, all splits) from its host, unless an intact copy is kept already."""
    return _fetched("emnist", {EMNIST_ADDRESS: EMNIST_MD5}, import_emnist, progress)


def import_cifar100(path: Path | str, *, per_class: Mapping[str, int] = CIFAR100_PER_CLASS) -> Dataset:
    """Read CIFAR-100 from its binary archive or a folder with its files, check it and keep it.

    ``per_class`` are the images of each class; tests use fewer.

    Raises:
        DataError: it is none of these, is damaged or holds other images.
    """
    names = frozenset(f"{part}.bin" for part in per_class)
    files = dict(read_members(Path(path), names, _CIFAR100, _LIMIT))
    arrays: list[Bytes] = []
    for part, count in per_class.items():
        raw, wanted = files.get(f"{part}.bin"), FACTS["cifar100"].classes * count * _RECORD
        if raw is None:
            raise DataError(f"{path} lacks {part}.bin, must be {_CIFAR100}")
        if len(raw) != wanted:
            raise DataError(f"{part}.bin in {path} is {len(raw)} bytes long, must be {wanted}")
        records = np.frombuffer(raw, np.uint8).reshape(-1, _RECORD)
        _check_classes(records[:, 1], count, "cifar100", f"{path}: the {part} images")
        arrays += [records[:, 2:].reshape(-1, 3, 32, 32), records[:, 1].copy()]
    return _kept("cifar100", arrays)


def fetch_cifar100(progress: bool = True) -> Dataset:
    """Download CIFAR-100 from its official host, unless an intact copy is kept already."""
    return _fetched("cifar100", {CIFAR100_ADDRESS: CIFAR100_MD5}, import_cifar100, progress)


def _fetched(
    name: str, addresses: Mapping[str, str], read: Callable[[Path], Dataset], progress: bool
) -> Dataset:
    """Return the copy that is kept, or download files and read them: the only one, or the folder of them."""
    try:
        return load_cached(name)
    except DataError:
        from slotwise.data.download import download_files  # noqa: PLC0415 - brings slow imports
    with scratch_folder() as folder:
        elsewhere = f"get a copy elsewhere and run `slotwise data import {name} PATH`"
        download_files(TITLES[name], addresses, folder, elsewhere, progress)
        files = [*folder.iterdir()]
        return read(files[0] if len(files) == 1 else folder)


def _kept(
    name: str, arrays: Sequence[Bytes], statistics: tuple[tuple[float, ...], tuple[float, ...]] | None = None
) -> Dataset:
    """Write a data set to the cache; images and labels for training, then for tests."""
    train, train_labels, test, test_labels = arrays
    offset, scale = statistics or channel_statistics(train)
    dataset = Dataset(name, train, train_labels, test, test_labels, FACTS[name].classes, offset, scale)
    write_dataset(dataset, dataset_path(name))
    return dataset


def _check_classes(labels: Bytes, per_class: int, name: str, what: str) -> None:
    """Refuse images that are not equally many of each class."""
    classes = FACTS[name].classes
    if np.bincount(labels, minlength=classes).tolist() != [per_class] * classes:
        raise DataError(f"{what} must be {per_class} of each of {classes} classes")


def _emnist_array(path: Path, name: str) -> Bytes:
    """Return the content of one of the four files, in a folder or in the archive."""
    try:
        packed = (path / name).read_bytes() if path.is_dir() else _member(path, name)
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise DataError(f"{name} in {path} cannot be read ({error}), must be {_EMNIST}") from None
    return _unpacked(packed, path, name, _EMNIST)


def _member(path: Path, name: str) -> bytes:
    """Return a file of the archive, known by its last name only; nothing is extracted."""
    with zipfile.ZipFile(path) as archive:
        found = [one for one in archive.infolist() if PurePosixPath(one.filename).name == name]
        if not found or found[0].file_size > _LIMIT:
            raise KeyError("no such file")
        return archive.read(found[0])


def _unpacked(packed: bytes, path: Path, name: str, allowed: str) -> Bytes:
    """Return the array in a gzipped idx file."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
            raw = file.read(_LIMIT)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{name} in {path} is no gzip file ({error}), must be {allowed}") from None
    return parse_idx(raw, 3 if "idx3" in name else 1, f"{name} in {path}")
