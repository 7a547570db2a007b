"""CIFAR-10 (Krizhevsky 2009): fetched or imported once, then kept in a cache file and checked when read.

The official binary batches and the official python batches hold the same images in the same order, so both
give the same data set, to the byte. Archives are read into memory and not extracted. No code that a pickle
names is run.
"""

import io
import lzma
import pickle
import pickletools
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from slotwise.base.user_code import describe_value
from slotwise.data.dataset import Bytes, DataError, Dataset
from slotwise.data.dataset_cache import dataset_path, read_dataset, remedy, scratch_folder, write_dataset

OFFICIAL_ADDRESS = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
OFFICIAL_MD5 = "c32a1d4ab5d03f1284b67883e8d87530"
_REMEDY = remedy("cifar10")

CLASSES = 10
TRAIN_BATCHES = 5
_TRAIN = tuple(f"data_batch_{number}" for number in range(1, TRAIN_BATCHES + 1))
_TEST = ("test_batch",)
_WANTED = frozenset(stem + suffix for stem in _TRAIN + _TEST for suffix in ("", ".bin"))
_RECORD = 1 + 3072
_PICKLED_ARRAY = frozenset(
    [(module, "_reconstruct") for module in ("numpy.core.multiarray", "numpy._core.multiarray")]
    + [("numpy", "ndarray"), ("numpy", "dtype")]
)
_PICKLE_MARK = b"\x80"  # no binary batch starts so: its first byte is a label

_ALLOWED = "cifar-10-binary.tar.gz, cifar-10-python.tar.gz, or a folder with the files of one of them"
_FILE_LIMIT = 64 * 2**20
_ARCHIVE_LIMIT = 2**30


@dataclass(frozen=True)
class Expected:
    """Facts that a copy of CIFAR-10 is checked against."""

    images_per_batch: int  # in each of the five training batches and in the test batch
    mean: tuple[float, ...]  # per channel of the training images, pixels in 0..1, to four decimals
    deviation: tuple[float, ...]  # likewise
    content_hash: str  # of the data set in the official order


# The six batches behind this hash have the md5 sums of the files in the official binary archive.
OFFICIAL = Expected(
    images_per_batch=10_000,
    mean=(0.4914, 0.4822, 0.4465),
    deviation=(0.2470, 0.2435, 0.2616),
    content_hash="0bf1174a828cf53d84ab775927bbf8e096a7ca40a8ebef7763dc7a16b6ee9e1a",
)


def cifar10_path() -> Path:
    """Return the file that CIFAR-10 is kept in on this machine, whether or not it exists."""
    return dataset_path("cifar10")


def load_cifar10(*, expected: Expected = OFFICIAL) -> Dataset:
    """Return CIFAR-10 as kept on this machine: 50,000 training and 10,000 test images of 32 x 32 pixels.

    ``expected`` is what it must be; tests use another value with a small copy.

    Raises:
        DataError: it is missing or damaged; the message says which command gets it.
    """
    path = cifar10_path()
    try:
        dataset = read_dataset(path)
    except DataError as error:
        raise DataError(f"CIFAR-10: {error}; {_REMEDY}") from None
    if dataset.content_hash != expected.content_hash:
        found, wanted = dataset.content_hash, expected.content_hash
        raise DataError(f"CIFAR-10: {path} has content hash {found}, must be {wanted}; {_REMEDY}")
    return dataset


def import_cifar10(path: Path | str, *, expected: Expected = OFFICIAL) -> Dataset:
    """Read CIFAR-10 from a local file or folder, check it and keep it.

    ``path`` is the official binary or python archive, or a folder with the files of one of these. It is
    recognised by content.

    Raises:
        DataError: it is none of these, is damaged or holds other images.
    """
    dataset = read_cifar10(Path(path), expected)
    write_dataset(dataset, cifar10_path())
    return dataset


def fetch_cifar10(progress: bool = True, *, expected: Expected = OFFICIAL) -> Dataset:
    """Download CIFAR-10 from its official host and keep it.

    Nothing is downloaded if an intact copy is kept already. With ``progress`` it writes to standard error.

    Raises:
        DataError: it cannot be downloaded.
    """
    try:
        return load_cifar10(expected=expected)
    except DataError:
        from slotwise.data.download import download_files  # noqa: PLC0415 - brings slow imports
    with scratch_folder() as folder:
        elsewhere = "get a copy elsewhere and run `slotwise data import cifar10 PATH`"
        download_files("CIFAR-10", {OFFICIAL_ADDRESS: OFFICIAL_MD5}, folder, elsewhere, progress)
        return import_cifar10(folder / OFFICIAL_ADDRESS.rpartition("/")[2], expected=expected)


def read_cifar10(path: Path, expected: Expected) -> Dataset:
    """Read CIFAR-10 from an archive or a folder in either official form, known by content, and check it."""
    images, labels = _batches(path, expected.images_per_batch)
    if not images:
        raise DataError(f"{path} holds no CIFAR-10 batches, must be {_ALLOWED}")
    if missing := [stem for stem in _TRAIN + _TEST if stem not in images]:
        raise DataError(f"{path} lacks the images of {', '.join(missing)}, must be {_ALLOWED}")
    dataset = Dataset(
        name="cifar10",
        train_inputs=np.concatenate([images[stem] for stem in _TRAIN]),
        train_targets=np.concatenate([labels[stem] for stem in _TRAIN]),
        test_inputs=images[_TEST[0]],
        test_targets=labels[_TEST[0]],
        classes=CLASSES,
        offset=expected.mean,
        scale=expected.deviation,
    )
    check_cifar10(dataset, expected, str(path))
    return dataset


def _batches(path: Path, count: int) -> tuple[dict[str, Bytes], dict[str, Bytes]]:
    """Return images and labels of each batch, decoded file by file, without a second copy of the source."""
    images: dict[str, Bytes] = {}
    labels: dict[str, Bytes] = {}
    for name, raw in read_members(path, _WANTED, _ALLOWED):
        source, stem = f"{name} in {path}", PurePosixPath(name).stem
        if stem in images:
            raise DataError(f"{path} holds {stem} more than once, must hold one copy of each batch")
        images[stem], found = _batch(raw, count, source)
        labels[stem] = _labels(found, count, source)
    return images, labels


def read_members(
    path: Path, wanted: frozenset[str], allowed: str, limit: int = _FILE_LIMIT
) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each wanted file in a folder, or in a tar archive at any depth.

    Members of an archive are known by their last name only and are never extracted, so no path in an
    archive can lead anywhere. Compression is recognised by content. A DataError says what ``path`` must be,
    ``allowed``.
    """
    if path.is_dir():
        for file in (path / name for name in sorted(wanted)):
            if file.is_file():
                try:
                    _check_size(str(file), file.stat().st_size, limit)
                    content = file.read_bytes()
                except OSError as error:
                    raise DataError(f"{file} cannot be read: {error.strerror}") from None
                yield file.name, content
    elif path.is_file():
        yield from _from_archive(path, wanted, allowed, limit)
    else:
        raise DataError(f"{path} is neither a file nor a folder, must be {allowed}")


def _from_archive(
    path: Path, wanted: frozenset[str], allowed: str, limit: int
) -> Iterator[tuple[str, bytes]]:
    try:
        with tarfile.open(path, "r:*") as archive:
            for member in archive:
                # This limits what is decompressed on the way to the next member, wanted or not.
                if member.offset_data + member.size > _ARCHIVE_LIMIT:
                    raise DataError(
                        f"{path} unpacks to more than {_ARCHIVE_LIMIT} bytes, must be at most that"
                    )
                name = PurePosixPath(member.name).name
                if name in wanted and member.isfile():
                    _check_size(f"{member.name} in {path}", member.size, limit)
                    file = archive.extractfile(member)
                    yield name, b"" if file is None else file.read()
    except (tarfile.TarError, OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        reason = str(error).partition("\n")[0].rstrip(":")
        raise DataError(f"{path} is no archive or is damaged ({reason}), must be {allowed}") from None


def _check_size(what: str, size: int, limit: int) -> None:
    if size > limit:
        raise DataError(f"{what} is {size} bytes long, must be at most {limit}")


def _batch(raw: bytes, count: int, source: str) -> tuple[Bytes, object]:
    """Return images and unchecked labels of one batch."""
    if raw.startswith(_PICKLE_MARK):
        return decode_pickle(raw, count, source)
    if len(raw) != count * _RECORD:
        raise DataError(
            f"{source} is not a pickle, and {len(raw)} bytes long, a binary batch must be {count * _RECORD}"
        )
    records = np.frombuffer(raw, np.uint8).reshape(count, _RECORD)
    return records[:, 1:].reshape(count, 3, 32, 32), records[:, 0].tolist()


def _labels(values: object, count: int, source: str) -> Bytes:
    if not isinstance(values, list) or len(values) != count:
        raise DataError(f"{source} must hold a list of {count} labels")
    if not all(type(value) is int and 0 <= value < CLASSES for value in values):
        raise DataError(f"{source} holds a label that is no whole number from 0 to {CLASSES - 1}")
    return np.array(values, np.uint8)


class _Record:
    """Placeholder for the numpy objects in a pickle: keeps its arguments and does nothing.

    Numpy's own array and dtype would trust the state that a pickle sets, down to raw pointers, so none of
    numpy's code sees the file; the array is made here from the recorded shape and bytes.
    """

    __slots__ = ("arguments", "state")

    def __init__(self, *arguments: object) -> None:
        self.arguments = arguments
        self.state: object = None

    def __setstate__(self, state: object) -> None:
        self.state = state


class _BatchUnpickler(pickle.Unpickler):
    """Unpickler for dicts, lists, numbers, strings and the names in a pickled numpy array of bytes."""

    def find_class(self, module: str, name: str) -> type[_Record]:
        if (module, name) in _PICKLED_ARRAY:
            return _Record
        raise pickle.UnpicklingError(f"it names {module}.{name}")


def decode_pickle(raw: bytes, images: int, source: str) -> tuple[Bytes, object]:
    """Return the pixels [images, 3, 32, 32] and the unchecked labels of one pickled batch."""
    try:
        # A table of objects larger than the pickle, of which 8 bytes could fill the memory, is refused.
        for opcode, argument, _ in pickletools.genops(raw):
            if opcode.name in {"PUT", "LONG_BINPUT"} and (argument or 0) > len(raw):
                raise pickle.UnpicklingError(f"it numbers an object {argument}")
        content = _BatchUnpickler(io.BytesIO(raw), encoding="bytes").load()
    except Exception as error:  # a hostile or damaged pickle can raise any
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise DataError(f"{source} is refused, must be a pickled batch of CIFAR-10: {reason}") from None
    if not isinstance(content, dict):
        raise DataError(f"{source} holds {describe_value(content)}, must hold a dict of data and labels")
    # Python 2 wrote names as bytes, a batch saved by Python 3 has strings.
    data, labels = (content.get(name.encode(), content.get(name)) for name in ("data", "labels"))
    match data:
        case _Record(
            state=(_, (int(rows), 3072), _Record(arguments=(b"u1" | "u1", *_)), fortran, bytes(pixels))
        ) if rows == images and len(pixels) == images * 3072:
            flat = np.frombuffer(pixels, np.uint8).reshape((images, 3072), order="F" if fortran else "C")
            return flat.reshape(images, 3, 32, 32), labels
    raise DataError(f"{source} holds other data than a uint8 array of {images} x 3072")


def check_cifar10(dataset: Dataset, expected: Expected, source: str) -> None:
    """Raise a DataError for a copy that differs; coarse checks come first, because they say what is wrong."""
    per_class = expected.images_per_batch // CLASSES
    for part, batches in (("train", TRAIN_BATCHES), ("test", 1)):
        wanted = batches * per_class
        found = np.bincount(getattr(dataset, f"{part}_targets"), minlength=CLASSES).tolist()
        if found != [wanted] * CLASSES:
            raise DataError(f"{source}: {part} images per class are {found}, must be {wanted} each")
    # Counts [channels, 256] are exact, and need no float copy of the images.
    images = dataset.train_inputs
    counts = np.zeros((images.shape[1], 256), np.intp)
    for batch in np.array_split(images, TRAIN_BATCHES):
        counts += [np.bincount(batch[:, channel].ravel(), minlength=256) for channel in range(len(counts))]
    levels = np.arange(256) / 255
    mean = counts @ levels / counts.sum(axis=1)
    deviation = np.sqrt(counts @ levels**2 / counts.sum(axis=1) - mean**2)
    for name, values, expect in (("mean", mean, expected.mean), ("deviation", deviation, expected.deviation)):
        rounded = tuple(values.round(4).tolist())
        if rounded != expect:
            raise DataError(f"{source}: channel {name} is {rounded}, must be {expect}")
    if dataset.content_hash != expected.content_hash:
        raise DataError(
            f"{source}: content hash is {dataset.content_hash}, must be {expected.content_hash}:"
            " images or labels were changed, or are in another order than the official one"
        )
