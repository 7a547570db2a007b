"""A folder of .npz files, one for each device: device-1.npz, device-2.npz, … and test.npz.

Every file has the arrays x (inputs) and y (targets), saved with numpy.savez or numpy.savez_compressed.
"""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.data.dataset import DataError, Dataset

TEST_FILE = "test.npz"
ARRAY_NAMES = ("x", "y")
MOST_CLASSES = 100_000


@dataclass(frozen=True)
class FolderFacts:
    """Facts about a folder of .npz files.

    Attributes:
        samples: Number of samples of devices 1 to N.
        input_shape: Shape of the input of one sample.
        classes: The largest label + 1; None if the targets are not labels.
    """

    samples: tuple[int, ...]
    input_shape: tuple[int, ...]
    classes: int | None


def load_npz_folder(
    path: Path | str, *, devices: Collection[int] | None = None, classes: int | None = None
) -> Dataset:
    """Return the samples in device-1.npz, device-2.npz, … and test.npz; the devices are their owners.

    Each file has the arrays ``x`` [n, ...] and ``y`` [n, ...] of numbers. uint8 images are [n, channels,
    height, width] and are scaled to -1..1 by tasks. Whole numbers [n] in y are labels, their number of
    classes is the largest label + 1.

    Args:
        path: The folder.
        devices: Read the files of these devices only, and no test.npz: the training samples take the place
            of the test samples. A live device needs no more, because the server evaluates.
        classes: Number of classes, if it is known.

    Raises:
        DataError: a file is missing or damaged, holds other arrays or pickled objects, or its shapes and
            types are not those of the other files.
    """
    folder = Path(path).absolute()
    numbers = _numbers(folder) if devices is None else sorted(devices)
    parts = [_read(_device_file(folder, number)) for number in numbers]
    for number, part in zip(numbers, parts, strict=True):
        _check_alike(_device_file(folder, numbers[0]), parts[0], _device_file(folder, number), part)
    inputs, targets = (np.concatenate([part[kind] for part in parts]) for kind in (0, 1))
    test = inputs, targets
    if devices is None:
        test = _read(folder / TEST_FILE)
        _check_alike(_device_file(folder, numbers[0]), parts[0], folder / TEST_FILE, test)
    if classes is None and _are_labels(targets):
        classes = 1 + max(int(targets.max()), int(test[1].max()))
    channels = inputs.shape[1] if inputs.dtype == np.uint8 and inputs.ndim == 4 else 0
    return Dataset(
        name=str(folder),
        train_inputs=inputs,
        train_targets=targets,
        test_inputs=test[0],
        test_targets=test[1],
        classes=classes,
        offset=(0.5,) * channels,
        scale=(0.5,) * channels,
        owners=np.repeat(np.array(numbers, np.int32) - 1, [len(part[1]) for part in parts]),
    )


def folder_facts(path: Path | str) -> FolderFacts:
    """Return what a folder holds, without reading inputs; errors are those of `load_npz_folder`."""
    folder = Path(path).absolute()
    files = [_device_file(folder, number) for number in _numbers(folder)]
    samples, largest, labels = [], 0, True
    for file in [*files, folder / TEST_FILE]:
        with _opened(file) as stored:
            targets = stored["y"]
        if targets.ndim == 0:
            raise DataError(f"{file}: y is a single number, must have one target for each sample")
        _check_targets(file, targets)
        labels = labels and _are_labels(targets)
        largest = max(largest, int(targets.max())) if labels else 0
        samples.append(len(targets))
    *counts, _ = samples
    return FolderFacts(tuple(counts), _header(files[0])[0][1:], largest + 1 if labels else None)


def input_type(path: Path | str) -> str:
    """Return the type of the inputs in a folder, such as ``uint8``, from the header of one file."""
    return _header(_device_file(Path(path).absolute(), 1))[1]


def folder_hash(path: Path | str) -> str:
    """Return the sha256 over the names and bytes of a folder's files, in hexadecimal."""
    folder, digest = Path(path).absolute(), hashlib.sha256()
    for file in [*(_device_file(folder, number) for number in _numbers(folder)), folder / TEST_FILE]:
        try:
            with file.open("rb") as opened:
                content = hashlib.file_digest(opened, "sha256").hexdigest()
        except OSError as error:
            raise DataError(f"{file} cannot be read: {error.strerror}") from None
        digest.update(f"{file.name} {content}\n".encode())
    return digest.hexdigest()


def _numbers(folder: Path) -> range:
    """Return the numbers of the devices that have files: 1 to N without a gap."""
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder, must be one with device-1.npz, … and {TEST_FILE}")
    found = [re.fullmatch(r"device-([1-9][0-9]{0,8})\.npz", file.name) for file in folder.iterdir()]
    numbers = {int(match[1]) for match in found if match}
    missing = next((n for n in range(1, max(numbers, default=1) + 1) if n not in numbers), None)
    if missing is not None:
        raise DataError(f"{folder} has no device-{missing}.npz, must have one file for each device")
    return range(1, len(numbers) + 1)


def _device_file(folder: Path, number: int) -> Path:
    return folder / f"device-{number}.npz"


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open an .npz file with x and y; errors while it is read become a DataError."""
    try:
        with path.open("rb") as file:
            if not zipfile.is_zipfile(file):
                raise DataError(f"{path} is damaged or no .npz file, must have the arrays x and y")
            file.seek(0)
            with np.load(file, allow_pickle=False) as stored:
                if not {*ARRAY_NAMES} <= {*stored.files}:
                    found = ", ".join(sorted(stored.files)) or "no arrays"
                    raise DataError(f"{path} has {found}, must have the arrays x and y")
                yield stored
    except DataError:
        raise
    except FileNotFoundError:
        raise DataError(f"{path} does not exist") from None
    except Exception as error:  # a damaged file makes the readers of zip and npy raise nearly any
        pickled = "Object arrays" in str(error)
        reason = "has pickled objects, must be arrays of numbers" if pickled else f"cannot be read: {error}"
        raise DataError(f"{path} {reason}") from None


def _read(path: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    with _opened(path) as stored:
        inputs, targets = stored["x"], stored["y"]
    _check_targets(path, targets)
    for name, array in zip(ARRAY_NAMES, (inputs, targets), strict=True):
        if array.dtype.kind not in "biuf" or array.ndim == 0 or not len(array):
            found = f"{array.dtype} {array.shape}"
            raise DataError(f"{path}: {name} is {found}, must be an array of numbers, one row a sample")
    if len(inputs) != len(targets):
        raise DataError(f"{path}: x has {len(inputs)} rows and y {len(targets)}, must be equally many")
    return inputs, targets


def _check_targets(path: Path, targets: NDArray[Any]) -> None:
    """Refuse a file without samples, and labels that are too large to be numbers of classes."""
    if targets.ndim and not len(targets):
        raise DataError(f"{path} is empty: y has 0 samples, must have at least 1")
    if _are_labels(targets) and targets.max() >= MOST_CLASSES:
        allowed = f"must be less than {MOST_CLASSES:,}; values of a regression must be floats"
        raise DataError(f"{path}: y has the label {targets.max()}, {allowed}")


def _header(path: Path) -> tuple[tuple[int, ...], str]:
    """Return shape and type of x, without reading it."""
    header = np.lib.format
    with _opened(path), zipfile.ZipFile(path) as archive, archive.open("x.npy") as member:
        first = header.read_magic(member) == (1, 0)
        read = header.read_array_header_1_0 if first else header.read_array_header_2_0
        shape, _, kind = read(member)
        return tuple(shape), str(kind)


def _check_alike(
    path: Path,
    expected: tuple[NDArray[Any], NDArray[Any]],
    other: Path,
    found: tuple[NDArray[Any], NDArray[Any]],
) -> None:
    for name, wanted, array in zip(ARRAY_NAMES, expected, found, strict=True):
        if (array.shape[1:], array.dtype) != (wanted.shape[1:], wanted.dtype):
            kinds = [f"{one.dtype} [n, {', '.join(map(str, one.shape[1:]))}]" for one in (array, wanted)]
            kinds = [kind.replace(", ]", "]") for kind in kinds]
            raise DataError(f"{other}: {name} is {kinds[0]}, must be {kinds[1]} as in {path.name}")


def _are_labels(targets: NDArray[Any]) -> bool:
    return bool(targets.ndim == 1 and targets.dtype.kind in "iu" and targets.size)
