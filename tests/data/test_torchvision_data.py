"""Data sets of torchvision by their names, read from a stand-in with classes of the signatures it has."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from PIL import Image

from slotwise.base.errors import InputError, UserError
from slotwise.base.extras import MissingPackage
from slotwise.cli.app import run
from slotwise.data import DataError, Dataset, PartitionedData, TorchvisionData
from slotwise.options import build, table_of
from slotwise.runs import RunConfig
from slotwise.runs.execution import build_task

Target = Callable[[Any], Any] | None


def pixels(number: int, shape: tuple[int, ...] = (12, 12)) -> np.ndarray:
    """The pixels of an image of the stand-in."""
    return np.random.default_rng(number).integers(256, size=shape).astype(np.uint8)


class Standin:
    """Samples of a part of a data set; a file in the root says that it was downloaded."""

    shape: tuple[int, ...] = (12, 12)
    labels: tuple[int, ...] = (0, 1, 2)
    size = 30

    def __init__(self, root: str, part: str, download: bool) -> None:
        self.first = 1000 * ["train", "test", "val", "letters-train", "letters-test"].index(part)
        if download:
            (Path(root) / "files").touch()
            print("Using downloaded file")
        if not (Path(root) / "files").is_file():
            raise RuntimeError("Dataset not found.\nYou can use download=True to download it")

    def __len__(self) -> int:
        return self.size if self.first == 0 else self.size // 3

    def __getitem__(self, place: int) -> tuple[Any, Any]:
        label = self.labels[place % len(self.labels)]
        return Image.fromarray(pixels(self.first + place, self.shape)), label


class Digits(Standin):
    """With train=, as MNIST and CIFAR10 have it."""

    def __init__(
        self,
        root: str,
        train: bool = True,
        transform: Target = None,
        target_transform: Target = None,
        download: bool = False,
        prefix: str = "",
    ) -> None:
        super().__init__(root, prefix + ("train" if train else "test"), download)


class Letters(Digits):
    """With both, as EMNIST has them; labels begin at 1."""

    labels = (1, 2, 3)

    def __init__(self, root: str, split: str, **kwargs: Any) -> None:
        refuse_split(split, ["letters", "digits"])
        super().__init__(root, prefix="letters-", **kwargs)


def refuse_split(split: str, known: list[str]) -> None:
    if split not in known:
        names = "', '".join(known)
        raise ValueError(f"Unknown value '{split}' for argument split. Valid values are {{'{names}'}}.")


class Numbers(Standin):
    """With split=, as SVHN has it."""

    shape = (10, 8, 3)
    splits = ("train", "test", "val")

    def __init__(
        self,
        root: str,
        split: str = "train",
        transform: Target = None,
        target_transform: Target = None,
        download: bool = False,
    ) -> None:
        refuse_split(split, [*self.splits])
        super().__init__(root, split, download)


class Views(Numbers):
    """Whose only split has a name of its own, which is its default."""

    splits = ("everything",)

    def __init__(
        self,
        root: str,
        split: str = "everything",
        target_transform: Target = None,
        download: bool = False,
    ) -> None:
        refuse_split(split, [*self.splits])
        Standin.__init__(self, root, "train", download)


class Folders(Standin):
    """Without any, as EuroSAT has it; two labels of several, and images of several sizes."""

    labels = (7, 3)

    def __init__(self, root: str, target_transform: Target = None, download: bool = False) -> None:
        super().__init__(root, "train", download)

    def __getitem__(self, place: int) -> tuple[Any, Any]:
        image, label = super().__getitem__(place)
        return image.resize((12, 12 + place % 2)), np.int64(label)


class Pets(Folders):
    """Of which a category is one of several targets."""

    def __init__(
        self,
        root: str,
        target_types: str = "category",
        transforms: Target = None,
        target_transform: Target = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, target_transform, download)


class Boxes(Digits):
    """With transforms of image and target, as detection and segmentation have it."""

    def __init__(self, root: str, transforms: Target = None, **kwargs: Any) -> None:
        raise AssertionError("must not be asked")


class Captions(Digits):
    labels = ("a cat", "a dog")


class Unlabelled(Digits):
    labels = (-1,)


class Offline(Standin):
    def __init__(self, root: str, target_transform: Target = None) -> None:
        super().__init__(root, "train", download=False)


class Damaged(Digits):
    def __getitem__(self, place: int) -> tuple[Any, Any]:
        raise OSError("truncated\nfile")


KINDS = (Digits, Letters, Numbers, Views, Folders, Pets, Boxes, Captions, Unlabelled, Offline)


@pytest.fixture(autouse=True)
def _torchvision(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package, datasets = ModuleType("torchvision"), ModuleType("torchvision.datasets")
    for kind in (*KINDS, Damaged):
        setattr(datasets, kind.__name__, kind)
    package.datasets = datasets  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torchvision", package)
    monkeypatch.setitem(sys.modules, "torchvision.datasets", datasets)


def fetched(name: str, **options: Any) -> Dataset:
    return TorchvisionData(name=name, **options).fetch(progress=False)


def test_a_class_with_train_has_training_and_test_samples(capsys: pytest.CaptureFixture[str]) -> None:
    data = fetched("Digits")
    assert repr(data) == "Dataset(torchvision:Digits: 30 + 10 samples, uint8[1, 12, 12], 3 classes)"
    assert [*data.train_targets[:4]] == [0, 1, 2, 0]
    np.testing.assert_array_equal(data.train_inputs[5, 0], pixels(5))
    np.testing.assert_array_equal(data.test_inputs[9, 0], pixels(1009))
    assert data.offset[0] == pytest.approx(data.train_inputs.mean() / 255, abs=1e-4)
    assert capsys.readouterr() == ("", "")
    config = PartitionedData(data="torchvision:Digits")
    assert config.missing is None
    assert config.facts.input_shape == (1, 12, 12)
    assert config.content_hash == config.load().content_hash == data.content_hash


def test_a_class_with_both_has_variants_and_labels_count_from_zero() -> None:
    data = fetched("Letters", torchvision_split="letters")
    assert [*data.train_targets[:3]] == [0, 1, 2]
    np.testing.assert_array_equal(data.train_inputs[0, 0], pixels(3000))
    np.testing.assert_array_equal(data.test_inputs[0, 0], pixels(4000))
    with pytest.raises(InputError, match=r"torchvision_split is missing; .* the splits letters, digits"):
        fetched("Letters")


def test_a_class_with_splits_has_the_usual_ones_or_those_that_are_named() -> None:
    data = fetched("Numbers")
    assert data.train_inputs.shape == (30, 3, 10, 8)
    np.testing.assert_array_equal(data.train_inputs[2], pixels(2, (10, 8, 3)).transpose(2, 0, 1))
    np.testing.assert_array_equal(data.test_inputs[0], pixels(1000, (10, 8, 3)).transpose(2, 0, 1))
    other = fetched("Numbers", torchvision_split="test", test_split="val")
    np.testing.assert_array_equal(other.train_inputs[0], pixels(1000, (10, 8, 3)).transpose(2, 0, 1))
    np.testing.assert_array_equal(other.test_inputs[0], pixels(2000, (10, 8, 3)).transpose(2, 0, 1))
    views = fetched("Views")  # the default of the class, and each tenth sample held out
    assert (len(views.train_targets), len(views.test_targets)) == (27, 3)


def test_a_class_without_parts_gives_each_tenth_sample_to_the_test_and_images_one_size() -> None:
    for name in ("Folders", "Pets"):
        data = fetched(name, image_size=6)
        assert data.train_inputs.shape == (27, 1, 6, 6)
        assert [*data.train_targets[:3]] == [1, 0, 1]  # labels 7 and 3, in ascending order
        assert [*data.test_targets] == [0, 0, 0]
    with pytest.raises(InputError, match=r"image_size is missing; .*images of 12 x 12 and 12 x 13 pixels"):
        fetched("Folders")


def test_files_of_ones_own_are_imported_and_a_network_trains_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "root"
    folder.mkdir()
    assert run(["data", "import", "torchvision:Offline", str(folder)]) == 2
    error = capsys.readouterr().err
    assert error == "slotwise: torchvision:Offline cannot be read: Dataset not found.\n"
    (folder / "files").touch()
    assert run(["data", "import", "torchvision:Offline", str(folder)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("torchvision:Offline: 27 training samples and 3 test samples, verified, in")
    options = {"data": "torchvision:Offline", "devices": 3, "group_size": 1, "deadline": 60}
    task = build_task(RunConfig.from_options({**options, "network": "logistic", "samples_per_device": 9}))
    assert task.evaluate(task.initial_model()).loss > 0


def test_the_name_and_its_options_are_a_table_and_back() -> None:
    config = RunConfig.from_options({"data": "torchvision:EMNIST", "torchvision_split": "letters"})
    table = table_of(config.dataset)
    assert (table["data"], table["torchvision_split"]) == ("torchvision:EMNIST", "letters")
    assert build(PartitionedData, table) == config.dataset
    assert RunConfig.from_saved(config.options()) == config
    assert config.with_options(data="hf:me/set", torchvision_split=None).dataset.data.title == "hf:me/set"
    assert config.dataset.source == "torchvision:EMNIST torchvision_split=letters"
    command = "slotwise data fetch torchvision:EMNIST --torchvision-split letters"
    assert config.dataset.missing == f"torchvision:EMNIST is not on this machine: {command}"
    with pytest.raises(DataError, match="torchvision:EMNIST is not on this machine"):
        config.network()


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "nearest": ("digit", {}, "data = torchvision:digit: must be a class of .*: did you mean Digits?"),
    "unknown": ("Zebras", {}, "data = torchvision:Zebras: must be a class of torchvision.datasets: no known"),
    "not fit": (
        "Boxes",
        {},
        "torchvision:Boxes: must be a set of images with .* label, which its class is not",
    ),
    "words": ("Captions", {}, "a set of images with a whole number as label, which its samples are not"),
    "no labels": ("Unlabelled", {}, "torchvision:Unlabelled has samples without a label"),
    "offline": ("Offline", {}, "not downloaded .* run `slotwise data import torchvision:Offline FOLDER`"),
    "damaged": ("Damaged", {}, "torchvision:Damaged has an image that cannot be read: truncated$"),
    "variant": ("Letters", {"torchvision_split": "kana"}, "kana: must be one of the splits .*: letters, dig"),
    "split": (
        "Numbers",
        {"torchvision_split": "x"},
        "torchvision_split = x: must be one .*: train, test, val",
    ),
    "test": ("Numbers", {"test_split": "x"}, "test_split = x: must be one of the splits of torchvision:Numb"),
    "no splits": ("Digits", {"torchvision_split": "x"}, "torchvision_split = x: must be omitted"),
    "no test": ("Digits", {"test_split": "x"}, "test_split = x: must be omitted"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_refused_in_one_line(case: str) -> None:
    name, options, message = REFUSED[case]
    with pytest.raises(UserError, match=message) as refused:
        fetched(name, **options)
    assert "\n" not in str(refused.value)


def test_without_torchvision_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    assert run(["data", "fetch", "torchvision:Digits"]) == 2
    assert capsys.readouterr().err == "slotwise: torchvision is not installed: pip install torchvision\n"
    with pytest.raises(MissingPackage):
        fetched("Digits")
    with pytest.raises(InputError, match=r"must be torchvision: and a class of torchvision.datasets"):
        TorchvisionData(name="os.system")
