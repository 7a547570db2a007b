"""Data sets of the Hub by their names, read from small local copies: columns, images, tables, splits."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slotwise.base.errors import InputError, UserError
from slotwise.data import DataError, Dataset, HubData, PartitionedData
from slotwise.options import build, table_of
from slotwise.runs import RunConfig
from slotwise.runs.execution import build_task

datasets = pytest.importorskip("datasets")
from slotwise.data import hugging_face  # noqa: E402


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLOTWISE_CACHE", str(tmp_path / "cache"))


def png(shape: tuple[int, ...], seed: int) -> dict[str, Any]:
    from PIL import Image

    pixels = np.random.default_rng(seed).integers(256, size=shape).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return {"bytes": file.getvalue(), "path": None}


def pictures(samples: int, shape: tuple[int, ...] = (14, 14), **more: Any) -> Any:
    """A table of images with three classes."""
    columns = {
        "image": [png(shape, row) for row in range(samples)],
        "label": [row % 3 for row in range(samples)],
    }
    kinds = {"image": datasets.Image(), "label": datasets.ClassLabel(names=["a", "b", "c"])}
    features = datasets.Features({**kinds, **{name: datasets.Value("string") for name in more}})
    return datasets.Dataset.from_dict({**columns, **more}, features=features)


def rows(samples: int = 40) -> Any:
    """A table with numbers, words and a text label."""
    draw = np.random.default_rng(0)
    sizes = draw.normal(5, 2, samples)
    columns = {
        "size": sizes,
        "count": draw.integers(9, size=samples),
        "colour": [("red", "green")[row % 2] for row in range(samples)],
        "target": ["big" if size > 5 else "small" for size in sizes],
    }
    return datasets.Dataset.from_dict(columns)


def imported(folder: Path, splits: dict[str, Any], how: str = "parquet", **options: Any) -> Dataset:
    """The data set after it was written to a folder and imported."""
    folder.mkdir()
    if how == "disk":
        datasets.DatasetDict(splits).save_to_disk(str(folder))
    else:
        for name, table in splits.items():
            table.to_parquet(str(folder / f"{name}.parquet"))
    return HubData(name="me/set", **options).import_from(folder)


@pytest.mark.parametrize("how", ["parquet", "disk"])
def test_images_and_labels_are_found(tmp_path: Path, how: str) -> None:
    data = imported(tmp_path / "copy", {"train": pictures(30), "test": pictures(9)}, how)
    assert repr(data) == "Dataset(hf:me/set: 30 + 9 samples, uint8[1, 14, 14], 3 classes)"
    assert data.train_targets[:4].tolist() == [0, 1, 2, 0]
    assert data.offset[0] == pytest.approx(data.train_inputs.mean() / 255, abs=1e-4)
    assert data.scale[0] == pytest.approx(data.train_inputs.std() / 255, abs=1e-4)
    config = PartitionedData(data="hf:me/set")
    assert config.missing is None
    assert config.facts.input_shape == (1, 14, 14)
    assert config.content_hash == config.load().content_hash == data.content_hash


def test_colours_sizes_owners_and_a_held_out_tenth(tmp_path: Path) -> None:
    table = pictures(40, (10, 12, 3), user=[f"u{row % 4}" for row in range(40)])
    options = {"image_size": 8, "owner_column": "user"}
    data = imported(tmp_path / "copy", {"train": table}, **options)
    assert data.train_inputs.shape == (36, 3, 8, 8)
    assert len(data.test_targets) == 4
    natural = {"data": "hf:me/set", **options, "partition": "natural", "devices": 4, "group_size": 2}
    config = RunConfig.from_options({**natural, "network": "logistic", "deadline": 60})
    assert sum(build_task(config).sample_count(device) for device in (1, 2, 3, 4)) == 36


def test_numbers_and_words_of_a_table_are_standardised(tmp_path: Path) -> None:
    columns = "size,count,colour"
    data = imported(tmp_path / "copy", {"train": rows(), "validation": rows(8)}, input_columns=columns)
    assert data.train_inputs.shape == (40, 4)
    assert data.train_inputs.mean(axis=0) == pytest.approx(np.zeros(4), abs=1e-6)
    assert data.train_inputs.std(axis=0) == pytest.approx(np.ones(4), abs=1e-6)
    assert data.classes == 2
    # Words are left out unless they are named.
    assert imported(tmp_path / "other", {"train": rows()}).train_inputs.shape == (36, 2)


@pytest.mark.slow
def test_dense_networks_train_a_table_on_torch(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    imported(tmp_path / "copy", {"train": rows(60), "test": rows(10)})
    options = {"data": "hf:me/set", "devices": 4, "group_size": 2, "deadline": 200, "partition": "iid"}
    options |= {"samples_per_device": 15, "network": "mlp", "learning_rate": 0.1}
    with pytest.raises(InputError, match="backend = numba: must be torch: hf:me/set is a table"):
        RunConfig.from_options(options).network()
    with pytest.raises(InputError, match="network = cnn: must be mlp or logistic"):
        RunConfig.from_options(options | {"network": "cnn"}).network()
    task = build_task(RunConfig.from_options(options | {"backend": "torch"}))
    assert task.evaluate(task.initial_model()).loss > 0


def test_the_name_and_its_options_are_a_table_and_back() -> None:
    config = RunConfig.from_options({"data": "hf:me/set", "label_column": "digit", "image_size": 28})
    table = table_of(config.dataset)
    assert (table["data"], table["label_column"], table["image_size"]) == ("hf:me/set", "digit", 28)
    assert "name" not in table
    assert build(PartitionedData, table) == config.dataset
    assert RunConfig.from_saved(config.options()) == config
    other = config.with_options(data="hf:me/other")
    assert other.dataset.data == HubData(name="me/other")
    assert config.dataset.source == "hf:me/set label_column=digit image_size=28"
    command = "slotwise data fetch hf:me/set --label-column digit --image-size 28"
    assert config.dataset.missing == f"hf:me/set is not on this machine: {command}"
    with pytest.raises(DataError, match="hf:me/set is not on this machine"):
        config.network()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"data": "hf:../x"}, r"data = hf:\.\./x: must be hf: and a name on the Hub"),
        ({"data": "mnist", "label_column": "y"}, "label_column = y: must be omitted with data mnist"),
        ({"data": "imagenet"}, "data = imagenet: must be mnist.*hf:NAME or torchvision:NAME"),
        ({"data": "hf:a", "partition": "natural"}, "partition = natural.*owner_column"),
    ],
)
def test_other_names_and_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        RunConfig.from_options(options)


REFUSED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "no labels": (rows().rename_column("target", "outcome"), {}, "label_column is missing; .* hf:me/set has"),
    "no inputs": (rows().select_columns(["colour", "target"]), {}, "input_columns is missing"),
    "no column": (
        rows(),
        {"label_column": "nothing"},
        "label_column = nothing: must be a column",
    ),
    "no label": (
        rows(),
        {"label_column": "size"},
        "label_column = size: must be a column of hf:me/set with whole",
    ),
    "no split": (rows(), {"test_split": "check"}, "test_split = check: must be one of the splits"),
    "both": (pictures(20), {"input_columns": "image,label"}, "input_columns = image,label: must be one"),
    "sizes": (
        datasets.concatenate_datasets([pictures(20), pictures(3, (5, 5))]),
        {},
        "image_size is missing; .*images of 14 x 14 and 5 x 5 pixels",
    ),
    "few": (rows(5), {}, "5 training samples, must have more"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_classification_is_refused_in_one_line(tmp_path: Path, case: str) -> None:
    table, options, message = REFUSED[case]
    with pytest.raises(UserError, match=message) as refused:
        imported(tmp_path / "copy", {"train": table}, **options)
    assert "\n" not in str(refused.value)


def test_a_name_that_the_hub_does_not_have_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(source: str, **_: Any) -> None:
        raise datasets.exceptions.DatasetNotFoundError(f"Dataset '{source}' doesn't exist on the Hub")

    monkeypatch.setattr(hugging_face, "_check_reachable", lambda _: None)
    monkeypatch.setattr(datasets, "load_dataset", missing)
    with pytest.raises(DataError, match="me/none cannot be read: Dataset 'me/none' doesn't exist on the Hub"):
        HubData(name="me/none").fetch()
