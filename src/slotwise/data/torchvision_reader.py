"""Read an image classification set of torchvision with its own class, by the parameters that the class has.

Nothing here knows a data set by name. A class with ``train`` has two parts, one with ``split`` those that it
accepts, and any other a single one.
"""

from __future__ import annotations

import inspect
import operator
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from slotwise.base.errors import InputError, MissingError, UserError, nearest_names
from slotwise.base.extras import MissingPackage
from slotwise.data.dataset import DataError, Dataset, channel_statistics
from slotwise.data.dataset_cache import scratch_folder
from slotwise.data.download import TIMEOUTS
from slotwise.data.named_reader import (
    TEST_SPLITS,
    Images,
    Labels,
    check_samples,
    first_line,
    numbered,
    with_test,
)
from slotwise.data.torchvision_data import TorchvisionData

Part = Any  # a data set of torchvision: samples are pairs of an image and a label
Parameters = Mapping[str, inspect.Parameter]
_CLASSIFICATION = "a set of images with a whole number as label"


def download_torchvision(data: TorchvisionData, progress: bool) -> Dataset:
    """Return a data set that its class downloads, or raise a UserError that says why it cannot be read."""
    kind, parameters = _class_of(data)
    elsewhere = f"; get its files elsewhere and run `slotwise data import {data.title} FOLDER`"
    if "download" not in parameters:
        raise DataError(f"{data.title} is not downloaded by torchvision{elsewhere}")
    with scratch_folder() as scratch, _output(progress), _timeout():
        place = {"root": str(scratch), "download": True}
        return _Reader(data, kind, parameters, place, elsewhere).dataset()


def read_torchvision(data: TorchvisionData, folder: Path) -> Dataset:
    """Return a data set from files in the folder that its class takes as its root."""
    kind, parameters = _class_of(data)
    download = {"download": False} if "download" in parameters else {}
    with _output(shown=False):
        return _Reader(data, kind, parameters, {"root": str(folder), **download}).dataset()


class _Reader:
    """Reads the parts of one data set.

    Attributes:
        place: What the class is told in any case: where its files are, and whether to download them.
        otherwise: End of the message if they cannot be had.
    """

    def __init__(
        self,
        data: TorchvisionData,
        kind: type[Any],
        parameters: Parameters,
        place: dict[str, Any],
        otherwise: str = "",
    ) -> None:
        self.data, self.kind, self.parameters = data, kind, parameters
        self.place, self.otherwise = place, otherwise

    def dataset(self) -> Dataset:
        """Return all samples, standardised later by the mean and deviation of the training images."""
        title, parts = self.data.title, self._parts()
        check_samples(title, len(parts[0]), len(parts[1]) if len(parts) > 1 else None)
        images = Images(title, self.data.image_size)
        found = [self._add_samples(part, images) for part in parts]
        labels, classes = numbered(title, found, sorted({*found[0].tolist()}))
        pixels = np.split(images.array(), [len(found[0])])[: len(parts)]
        (train, test), (train_labels, test_labels) = with_test(pixels), with_test(labels)
        offset, scale = channel_statistics(train)
        arrays = (train, train_labels, test, test_labels)
        return Dataset(title, *arrays, classes=classes, offset=offset, scale=scale)

    def _parts(self) -> list[Part]:
        """Return the training samples and, if there is a split of them, the test samples."""
        data, splits = self.data, "split" in self.parameters
        halves = "train" in self.parameters
        if data.torchvision_split is not None and not splits:
            allowed = f"omitted: {data.title} has no splits"
            raise InputError("torchvision_split", data.torchvision_split, allowed)
        if data.test_split is not None and (halves or not splits):
            allowed = f"omitted: {data.title} has no names of test splits"
            raise InputError("test_split", data.test_split, allowed)
        if halves:
            chosen = (data.torchvision_split, self._default("split"))
            how = {"split": next((name for name in chosen if name is not None), "")} if splits else {}
            return [self._given("torchvision_split", **how, train=train) for train in (True, False)]
        if not splits:
            return [self._opened()]
        train = self._first("torchvision_split", ("train", self._default("split") or ""))
        test = self._first("test_split", TEST_SPLITS)
        if train is None:
            return [self._given("torchvision_split", split="")]
        return [train] if test is None else [train, test]

    def _default(self, name: str) -> str | None:
        """Return the default of a parameter that is text; None if it has none."""
        default = self.parameters[name].default if name in self.parameters else None
        return default if isinstance(default, str) else None

    def _first(self, option: str, usual: tuple[str, ...]) -> Part | None:
        """Return the split that an option names, or else the first of the usual ones that there is."""
        if (given := getattr(self.data, option)) is not None:
            return self._given(option, split=given)
        for name in usual:
            try:
                return self._opened(split=name)
            except _UnknownSplit:
                continue
        return None

    def _given(self, option: str, **how: Any) -> Part:
        """Return the part that an option names."""
        try:
            return self._opened(**how)
        except _UnknownSplit as error:
            if not how["split"]:
                allowed = f"given: {self.data.title} has the splits {error}"
                raise MissingError(option, allowed) from None
            allowed = f"one of the splits of {self.data.title}: {error}"
            raise InputError(option, how["split"], allowed) from None

    def _opened(self, **how: Any) -> Part:
        """Return a part of the data set, which may be downloaded for it."""
        try:
            return self.kind(**self.place, **how)
        except Exception as error:  # missing or damaged files, hosts and packages: nearly any
            reason = first_line(error)
            _, refused, splits = reason.partition("for argument split. Valid values are ")
            if refused:
                raise _UnknownSplit(splits.strip("{}.").replace("'", "")) from None
            raise DataError(f"{self.data.title} cannot be read: {reason}{self.otherwise}") from None

    def _add_samples(self, part: Part, images: Images) -> Labels:
        """Add the images of a part, and return its labels."""
        title, labels = self.data.title, []
        for place in range(len(part)):
            try:
                image, label = part[place]
                number = operator.index(label)
                images.add(image)
            except UserError:
                raise
            except (TypeError, ValueError, AttributeError):
                raise InputError("data", title, f"{_CLASSIFICATION}, which its samples are not") from None
            except Exception as error:  # a damaged picture makes the decoder raise nearly any
                raise DataError(f"{title} has an image that cannot be read: {first_line(error)}") from None
            if number < 0:
                raise DataError(f"{title} has samples without a label: name another split")
            labels.append(number)
        return np.array(labels, dtype=np.int64)


class _UnknownSplit(Exception):
    """A class has no split of a name; the text are those that it has."""


def _class_of(data: TorchvisionData) -> tuple[type[Any], Parameters]:
    """Return the class of a data set and its parameters, or raise a UserError."""
    try:
        from torchvision import datasets  # noqa: PLC0415 - optional, and slow to import
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "torchvision"):
            raise
        raise MissingPackage(f"{error.name} is not installed: pip install {error.name}") from None
    kinds = {name: kind for name, kind in vars(datasets).items() if isinstance(kind, type)}
    found = {name: _parameters(kind) for name, kind in kinds.items()}
    known = [name for name, parameters in found.items() if _has_classes(parameters)]
    if data.name in kinds and data.name not in known:
        raise InputError("data", data.title, f"{_CLASSIFICATION}, which its class is not")
    if data.name not in known:
        allowed = f"a class of torchvision.datasets{nearest_names(data.name, known)}"
        raise InputError("data", data.title, allowed)
    return kinds[data.name], found[data.name]


def _parameters(kind: type[Any]) -> Parameters:
    """Return the named parameters of a class, those that it passes on to its bases included."""
    found: dict[str, inspect.Parameter] = {}
    for base in kind.__mro__[:-1]:
        if (function := vars(base).get("__init__")) is not None:
            own = dict(list(inspect.signature(function).parameters.items())[1:])
            found = {**own, **found}
            if all(one.kind is not one.VAR_KEYWORD for one in own.values()):
                break
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {name: one for name, one in found.items() if one.kind in named}


def _has_classes(parameters: Parameters) -> bool:
    """Return whether the parameters are those of images with one label each.

    Where a target may be something else, a parameter says that it is a category, or transforms of image and
    target together are taken, as for boxes and masks.
    """
    needed = {name for name, one in parameters.items() if one.default is one.empty}
    targets = [one.default for name, one in parameters.items() if name in ("target_type", "target_types")]
    is_category = targets == ["category"] if targets else "transforms" not in parameters
    return {"root", "target_transform"} <= parameters.keys() and needed <= {"root", "split"} and is_category


@contextmanager
def _output(shown: bool) -> Iterator[None]:
    """Let torchvision print to stderr, or nowhere."""
    target = sys.stderr if shown else StringIO()
    with redirect_stdout(target), redirect_stderr(target):
        yield


@contextmanager
def _timeout() -> Iterator[None]:
    """Let connections that are silent for long fail: torchvision sets no limit."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(TIMEOUTS[1])
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
