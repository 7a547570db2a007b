"""Read a classification set of the Hub, or a local copy: find its columns, decode images, encode tables."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.base.errors import InputError, MissingError, UserError
from slotwise.data.dataset import Bytes, DataError, Dataset, channel_statistics
from slotwise.data.given_partitions import LABEL_COLUMNS
from slotwise.data.hub_data import HubData
from slotwise.data.leaf import OwnerIds
from slotwise.data.named_reader import TEST_SPLITS, Images, check_samples, numbered, with_test
from slotwise.options import declared

Table = NDArray[np.float32]
MOST_CATEGORIES = 100  # different words in a column of a table
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF")  # of images; no other decoder sees them
_BATCH = 1024


def read_hub(hub: HubData, splits: Mapping[str, Any], library: Any) -> Dataset:
    """Return the data set in the splits of a set of the Hub, or raise a UserError that says what lacks."""
    train, test = _train_and_test(hub, splits)
    columns = _Columns.found(hub, train, library)
    kept = [*columns.inputs, columns.label, *([columns.owner] if columns.owner else [])]
    parts = [_undecoded(part.select_columns(kept), library) for part in (train, test) if part is not None]
    inputs: list[NDArray[Any]]
    if columns.are_images:
        inputs = [_images(part, columns.inputs[0], hub) for part in parts]
    else:
        inputs = [*_tables(parts, columns.inputs, hub)]
    labels, classes = _labels(parts, columns.label, hub, library)
    owners = None if columns.owner is None else _owners(parts[0], columns.owner)
    owners = with_test([owners])[0] if test is None and owners is not None else owners
    inputs, labels = with_test(inputs), with_test(labels)
    offset, scale = channel_statistics(inputs[0]) if columns.are_images else ((), ())
    inputs = inputs if columns.are_images else [*_standardised(inputs)]
    (train_inputs, test_inputs), (train_labels, test_labels) = inputs, labels
    arrays = (train_inputs, train_labels, test_inputs, test_labels)
    return Dataset(hub.title, *arrays, classes=classes, offset=offset, scale=scale, owners=owners)


def _train_and_test(hub: HubData, splits: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the split to train on, and that to test on or None."""
    names = ", ".join(splits)
    if hub.test_split is not None and hub.test_split not in splits:
        raise InputError("test_split", hub.test_split, f"one of the splits of {hub.title}: {names}")
    others = [name for name in splits if name not in (*TEST_SPLITS, hub.test_split)]
    train = "train" if "train" in splits else others[0] if len(others) == 1 else None
    if train is None:
        raise DataError(f"{hub.title} has the splits {names}, must have one named train")
    test = hub.test_split or next((name for name in TEST_SPLITS if name in splits), None)
    check_samples(hub.title, splits[train].num_rows, splits[test].num_rows if test else None)
    return splits[train], splits[test] if test else None


@dataclass(frozen=True)
class _Columns:
    """The columns that are read."""

    inputs: tuple[str, ...]
    label: str
    owner: str | None
    are_images: bool

    @classmethod
    def found(cls, hub: HubData, table: Any, library: Any) -> _Columns:
        """Return the columns that are named, or else those that are likely."""
        features = table.features
        for option in (name for name in declared(HubData) if "column" in name):
            for name in (getattr(hub, option) or "").split(","):
                if name and name not in features:
                    raise InputError(option, name, f"a column of {hub.title}: {', '.join(features)}")
        label = hub.label_column or _label_column(hub, features, library)
        images = [name for name, kind in features.items() if isinstance(kind, library.Image)]
        inputs = _input_columns(hub, features, images, label)
        are_images = [name in images for name in inputs]
        if any(are_images) and len(inputs) > 1:
            allowed = "one column of images, or several of a table"
            raise InputError("input_columns", hub.input_columns, allowed)
        return cls(inputs, label, hub.owner_column, all(are_images))


def _label_column(hub: HubData, features: Mapping[str, Any], library: Any) -> str:
    """Return the only column of classes, or one with a usual name."""
    classes = [name for name, kind in features.items() if isinstance(kind, library.ClassLabel)]
    if len(classes) == 1:
        return classes[0]
    usual = [name for name in LABEL_COLUMNS if name in (classes or features)]
    if not usual:
        raise MissingError("label_column", f"given: {hub.title} has the columns {', '.join(features)}")
    return usual[0]


def _input_columns(
    hub: HubData, features: Mapping[str, Any], images: Sequence[str], label: str
) -> tuple[str, ...]:
    """Return the columns that are named, the only one of images, or all of numbers."""
    if hub.input_columns:
        return tuple(hub.input_columns.split(","))
    if len(images) > 1:
        raise MissingError("input_columns", f"given: {hub.title} has images in {', '.join(images)}")
    others = [name for name in features if name not in (label, hub.owner_column)]
    inputs = (*images,) or tuple(name for name in others if _is_number(features[name]))
    if not inputs:
        found = f"{hub.title} has no images and no numbers, only {', '.join(features)}"
        raise MissingError("input_columns", f"given: {found}")
    return inputs


def _is_number(feature: Any) -> bool:
    return str(getattr(feature, "dtype", "")).startswith(("int", "uint", "float", "bool"))


def _undecoded(table: Any, library: Any) -> Any:
    """Return a table whose images are bytes: only the decoders named here see them."""
    for column, feature in table.features.items():
        if isinstance(feature, library.Image):
            table = table.cast_column(column, library.Image(decode=False))
    return table


def _images(table: Any, column: str, hub: HubData) -> Bytes:
    """Return all images [n, channels, height, width]."""
    from PIL import Image  # noqa: PLC0415 - slow to import, and only needed here

    images = Images(hub.title, hub.image_size)
    for batch in table.select_columns(column).iter(batch_size=_BATCH):
        for image in batch[column]:
            raw, path = (image.get("bytes"), image.get("path")) if isinstance(image, dict) else (None, None)
            try:
                with Image.open(io.BytesIO(raw) if raw else path or "", formats=FORMATS) as picture:
                    images.add(picture)
            except UserError:
                raise
            except Exception as error:  # a damaged picture makes the decoder raise nearly any
                raise DataError(f"{hub.title} has an image that cannot be read: {error}") from None
    return images.array()


def _tables(parts: Sequence[Any], columns: Sequence[str], hub: HubData) -> list[Table]:
    """Return the columns of a table as numbers [n, features]; words become one column for each."""
    features: list[list[Table]] = [[] for _ in parts]
    for column in columns:
        values = [np.asarray(part.select_columns(column)[:][column]) for part in parts]
        words = sorted({str(word) for word in values[0]}) if values[0].dtype.kind == "U" else []
        if values[0].dtype.kind not in "biufU" or len(words) > MOST_CATEGORIES:
            allowed = f"columns of numbers, or of at most {MOST_CATEGORIES} different words"
            raise InputError("input_columns", column, allowed)
        for own, found in zip(features, values, strict=True):
            if words:
                own += [(found == word).astype(np.float32)[:, np.newaxis] for word in words]
            else:
                own.append(found.astype(np.float32).reshape(len(found), -1))
    tables = [np.concatenate(own, axis=1) for own in features]
    if not all(np.isfinite(table).all() for table in tables):
        raise DataError(f"{hub.title} has numbers that are missing or infinite: name other columns as inputs")
    return tables


def _labels(
    parts: Sequence[Any], column: str, hub: HubData, library: Any
) -> tuple[list[NDArray[np.int64]], int]:
    """Return the labels from 0 on, and the number of classes."""
    values = [np.asarray(part.select_columns(column)[:][column]) for part in parts]
    feature = parts[0].features[column]
    if isinstance(feature, library.ClassLabel):
        names: Iterable[Any] = range(feature.num_classes)
    elif values[0].ndim == 1 and values[0].dtype.kind in "biuU":
        names = sorted(set(values[0].tolist()))
    else:
        raise InputError("label_column", column, f"a column of {hub.title} with whole numbers or words")
    labels, classes = numbered(f"{hub.title}: the column {column}", values, names)
    if classes < 2:
        raise InputError("label_column", column, f"one of {hub.title} with several labels")
    return labels, classes


def _owners(table: Any, column: str) -> NDArray[np.int32]:
    owners = OwnerIds()
    owners.add(table.select_columns(column)[:][column])
    return owners.numbers()


def _standardised(tables: Sequence[Table]) -> list[Table]:
    """Return the columns with mean 0 and deviation 1 in the first table; constant ones are 0."""
    mean, deviation = tables[0].mean(axis=0, dtype=np.float64), tables[0].std(axis=0, dtype=np.float64)
    return [((table - mean) / np.where(deviation > 0, deviation, 1)).astype(np.float32) for table in tables]
