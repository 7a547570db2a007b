import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slotwise.base.errors import ConflictError, InputError, UserError
from slotwise.batch import BatchSpec
from slotwise.data import DataError, DataFolder, PartitionedData, load_npz_folder
from slotwise.recommendation.search import toml_of
from slotwise.runs import RunConfig, RunFolder, resume
from slotwise.runs.execution import build_task

COUNTS = (6, 3, 9)
FILES = {**{f"device-{number}": count for number, count in enumerate(COUNTS, 1)}, "test": 10}
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a folder of images; single files can be replaced by others, or left out with None."""

    def written(replaced: dict[str, Any] | None = None, labels: int = 4) -> Path:
        folder, draw = tmp_path / "samples", np.random.default_rng(0)
        folder.mkdir()
        for name, count in FILES.items():
            arrays = {
                "x": draw.integers(256, size=(count, 1, 12, 12)).astype(np.uint8),
                "y": (np.arange(count) % labels).astype(np.int64),
            }
            given = (replaced or {}).get(name, {})
            if given is not None:
                np.savez(folder / f"{name}.npz", **{**arrays, **given})
        return folder

    return written


def test_a_gap_before_a_large_number_is_found_without_counting_up_to_it(tmp_path: Path) -> None:
    (tmp_path / "device-1000000.npz").touch()
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=r"has no device-1\.npz"):
            load_npz_folder(tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_every_device_owns_its_file_of_any_numbers_and_needs_no_other(write: Write) -> None:
    folder = write()
    dataset = load_npz_folder(folder)
    assert [len(rows) for rows in dataset.owner_rows()] == [*COUNTS]
    for number, rows in enumerate(dataset.owner_rows(), 1):
        with np.load(folder / f"device-{number}.npz") as stored:
            np.testing.assert_array_equal(dataset.train_inputs[rows], stored["x"])
            np.testing.assert_array_equal(dataset.train_targets[rows], stored["y"])
    assert len(dataset.test_targets) == 10
    assert dataset.classes == 4
    assert (dataset.offset, dataset.scale) == ((0.5,), (0.5,))
    for name in ("device-1", "device-3", "test"):
        (folder / f"{name}.npz").unlink()
    own = load_npz_folder(folder, devices=[2], classes=4)
    np.testing.assert_array_equal(own.train_inputs, dataset.train_inputs[dataset.owner_rows()[1]])
    assert own.classes == 4


def test_any_numbers_are_read(write: Write) -> None:
    def regression(count: int) -> dict[str, np.ndarray]:
        return {"x": np.ones((count, 5), np.float32), "y": np.ones((count, 2), np.float64)}

    names = [*(f"device-{number}" for number in (1, 2, 3)), "test"]
    dataset = load_npz_folder(write({name: regression(4) for name in names}))
    assert (dataset.classes, dataset.input_shape, dataset.offset) == (None, (5,), ())


@pytest.mark.parametrize(
    ("replaced", "reason"),
    [
        ({"device-2": {"x": np.zeros((3, 1, 12, 13), np.uint8)}}, r"device-2.*13\], must be uint8 \[n, 1"),
        ({"device-2": {"x": np.zeros((3, 1, 12, 12), np.float32)}}, "device-2.*x is float32"),
        ({"device-2": {"y": np.zeros(3, np.int32)}}, r"device-2.*y is int32 \[n\], must be int64 \[n\]"),
        ({"test": {"y": np.zeros((10, 1), np.int64)}}, "test.npz: y is"),
        ({"device-3": {"y": np.zeros(4, np.int64)}}, "device-3.*9 rows and y 4"),
        ({"device-1": {"x": np.array([{}] * 6)}}, "device-1.*pickled"),
        ({"device-1": {"y": np.array(["a"] * 6)}}, "device-1.*y is <U1"),
        ({"device-2": {"x": np.zeros((0, 1, 12, 12), np.uint8), "y": np.arange(0)}}, "device-2.*empty"),
        ({"test": {"x": np.zeros((0, 1, 12, 12), np.uint8), "y": np.arange(0)}}, "test.npz is empty"),
        ({"device-2": {"y": np.array([0, 10**9, 1])}}, "device-2.*label 1000000000, must be less than"),
        ({"device-2": None}, "no device-2.npz"),
        ({"device-1": None, "device-2": None, "device-3": None}, "no device-1.npz"),
        ({"test": None}, "test.npz does not exist"),
        ({"device-2": {"y": np.array([0, 1, -1])}}, "label -1"),
    ],
    ids=["shape", "type", "label-type", "label-shape", "lengths", "pickle", "text", "empty",
         "empty-test", "large-label", "gap", "none", "no-test", "negative"],
)  # fmt: skip
def test_a_wrong_file_is_named_with_the_reason(replaced: dict[str, Any], reason: str, write: Write) -> None:
    with pytest.raises(DataError, match=reason) as refused:
        load_npz_folder(write(replaced))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["device-2", "test"])
@pytest.mark.parametrize("targets", [np.arange(0), np.array([10**9])], ids=["empty", "large-label"])
def test_a_configuration_names_the_file_with_wrong_targets(
    name: str, targets: np.ndarray, write: Write
) -> None:
    images = np.zeros((len(targets), 1, 12, 12), np.uint8)
    with pytest.raises(DataError, match=f"{name}.npz"):
        DataFolder(data_folder=str(write({name: {"x": images, "y": targets}})))


def test_a_built_in_network_needs_two_classes(write: Write) -> None:
    names = [*(f"device-{number}" for number in (1, 2, 3)), "test"]
    alike = {name: {"x": np.zeros((4, 1, 12, 12), np.uint8), "y": np.zeros(4, np.int64)} for name in names}
    config = RunConfig.from_options({"data_folder": str(write(alike)), "group_size": 1, "channels": (4,)})
    with pytest.raises(InputError, match="at least two classes") as refused:
        config.network()
    assert refused.value.parameter == "data_folder"


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 cut"])
def test_a_damaged_file_is_named(content: bytes, write: Write) -> None:
    folder = write()
    (folder / "device-2.npz").write_bytes(content)
    with pytest.raises(DataError, match=r"device-2\.npz"):
        load_npz_folder(folder)


def test_other_arrays_are_named(write: Write, tmp_path: Path) -> None:
    folder = write()
    np.savez(folder / "device-2.npz", images=np.zeros(3), y=np.zeros(3))
    with pytest.raises(DataError, match="images, y, must have the arrays x and y"):
        load_npz_folder(folder)
    np.save(folder / "device-2.npy", np.zeros(3))
    (folder / "device-2.npy").rename(folder / "device-2.npz")
    with pytest.raises(DataError, match="must have the arrays x and y"):
        load_npz_folder(folder)


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not a folder"):
        load_npz_folder(tmp_path / "nothing")


def test_a_configuration_finds_devices_shape_and_classes(write: Write) -> None:
    folder = write()
    config = RunConfig.from_options({"data_folder": str(folder), "group_size": 1})
    assert config.channel.devices == 3
    assert config.dataset.device_samples == COUNTS
    assert (config.dataset.folder_shape, config.dataset.folder_classes) == ((1, 12, 12), 4)
    assert config.dataset.sizes.total(3) == sum(COUNTS)


def test_a_relative_folder_is_kept_as_an_absolute_one(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write()
    monkeypatch.chdir(folder.parent)
    assert DataFolder(data_folder="samples").data_folder == str(folder)


@pytest.mark.parametrize("backend", ["numba", "torch"])
def test_the_built_in_network_trains_on_images(write: Write, backend: str) -> None:
    options = {"data_folder": str(write()), "group_size": 1, "channels": (4,), "backend": backend}
    task = build_task(RunConfig.from_options(options))
    first = task.evaluate(task.initial_model())
    assert 0 <= first.accuracy <= 1


@pytest.mark.parametrize("changed", ["device-2", "test"])
def test_a_run_is_not_resumed_with_other_values_in_its_folder(
    write: Write, tmp_path: Path, changed: str
) -> None:
    folder = write()
    config = RunConfig.from_options(
        {"data_folder": str(folder), "group_size": 1, "channels": (4,), "deadline": 60}
    )
    RunFolder.create(tmp_path / "run", config)
    with np.load(folder / f"{changed}.npz") as stored:
        inputs, targets = stored["x"], stored["y"]
    np.savez(folder / f"{changed}.npz", x=255 - inputs, y=targets)
    with pytest.raises(UserError, match="samples has changed"):
        resume(tmp_path / "run", workers=1)
    np.savez(folder / f"{changed}.npz", x=inputs, y=targets)
    assert resume(tmp_path / "run", workers=1).status == "finished"
    assert RunFolder.open(tmp_path / "run").description()["data_sha256"] == config.dataset.content_hash


def test_another_number_of_devices_is_refused(write: Write) -> None:
    with pytest.raises(InputError, match="one for each file") as refused:
        RunConfig.from_options({"data_folder": str(write()), "group_size": 1, "devices": 4})
    assert refused.value.parameter == "devices"


@pytest.mark.parametrize(
    ("name", "value"),
    [("data", "cifar10"), ("partition", "iid"), ("samples_per_device", 5), ("sample_skew", 1.0)],
)
def test_options_of_built_in_data_are_refused(write: Write, name: str, value: object) -> None:
    with pytest.raises(InputError) as refused:
        RunConfig.from_options({"data_folder": str(write()), "group_size": 1, name: value})
    assert refused.value.parameter == name


def test_device_samples_follow_from_the_folder(write: Write) -> None:
    with pytest.raises(ConflictError):
        RunConfig.from_options({"data_folder": str(write()), "group_size": 1, "device_samples": COUNTS})


def test_what_a_built_in_network_cannot_train_is_refused(write: Write) -> None:
    names = [*(f"device-{number}" for number in (1, 2, 3)), "test"]
    floats = {name: {"x": np.zeros((4, 1, 12, 12), np.float32), "y": np.arange(4)} for name in names}
    config = RunConfig.from_options({"data_folder": str(write(floats)), "group_size": 1, "channels": (4,)})
    with pytest.raises(InputError, match="float32") as refused:
        build_task(config)
    assert refused.value.parameter == "data_folder"


def test_the_type_of_inputs_is_refused_before_layers_that_do_not_fit(write: Write) -> None:
    small = {name: {"x": np.zeros((count, 1, 8, 8), np.float32)} for name, count in FILES.items()}
    config = RunConfig.from_options({"data_folder": str(write(small)), "group_size": 1})
    with pytest.raises(InputError, match="float32") as error:
        config.network()
    assert error.value.parameter == "data_folder"


def test_flat_inputs_need_a_task(write: Write) -> None:
    names = [*(f"device-{number}" for number in (1, 2, 3)), "test"]
    flat = {name: {"x": np.zeros((4, 7), np.uint8), "y": np.arange(4)} for name in names}
    config = RunConfig.from_options({"data_folder": str(write(flat)), "group_size": 1})
    with pytest.raises(InputError, match="own task") as refused:
        config.network()
    assert refused.value.parameter == "data_folder"


def test_a_folder_that_has_changed_is_refused(write: Write) -> None:
    folder = write()
    config = RunConfig.from_options({"data_folder": str(folder), "group_size": 1})
    np.savez(folder / "device-1.npz", x=np.zeros((2, 1, 12, 12), np.uint8), y=np.arange(2))
    with pytest.raises(DataError, match="other samples"):
        config.dataset.load()


def test_the_options_of_a_run_are_read_without_the_folder(write: Write) -> None:
    folder = write()
    config = RunConfig.from_options({"data_folder": str(folder), "group_size": 1})
    folder.rename(folder.with_name("moved"))
    assert RunConfig.from_saved(config.options()) == config


def test_another_folder_is_read_again(write: Write) -> None:
    first = write()
    first = first.rename(first.with_name("first"))
    config = RunConfig.from_options({"data_folder": str(first), "group_size": 1})
    two = {name: np.zeros((5, 1, 8, 8), np.uint8) for name in ("device-1", "device-2", "device-3", "test")}
    labels = np.arange(5) % 2
    other = write({name: {"x": images, "y": labels} for name, images in two.items()})
    changed = config.with_options(data_folder=str(other)).dataset
    assert changed == DataFolder(data_folder=str(other))
    assert (changed.device_samples, changed.folder_shape, changed.folder_classes) == ((5,) * 3, (1, 8, 8), 2)
    assert RunConfig.from_options({"data_folder": str(other)}, config.options()).dataset == changed
    assert config.with_options(data_folder=None).dataset == PartitionedData()
    first.rename(first.with_name("moved"))
    assert config.with_options(data_folder=str(first), deadline=99).dataset == config.dataset


def test_the_layers_of_a_case_do_not_count_for_another_network() -> None:
    case = RunConfig.from_options({"network": "mlp", "hidden": [7]}).options()
    assert RunConfig.from_options({"network": "logistic"}, case).model.network.hidden == ()
    sized = RunConfig.from_options({"network": "logistic", "bits_per_slot": 100}, case)
    assert sized.channel.link_slots == -(-sized.network().parameters * 32 // 100)


def test_folders_of_a_sweep_are_relative_to_its_file(write: Write, tmp_path: Path) -> None:
    second = write()
    first = second.rename(second.with_name("first"))
    (tmp_path / "grids").mkdir()
    grid = tmp_path / "grids" / "grid.toml"
    grid.write_text('data-folder = ["../first", "../samples"]\ngroup-size = 1\nchannels = [4]\n')
    write()
    runs = BatchSpec.read(grid).runs
    assert [Path(run.config.dataset.data_folder or "").resolve() for run in runs] == [first, second]
    assert [run.name for run in runs] == ["data-folder=first,seed=0", "data-folder=samples,seed=0"]


def test_a_toml_file_names_the_folder_relative_to_itself(write: Write, tmp_path: Path) -> None:
    folder = write()
    (tmp_path / "run.toml").write_text('data-folder = "samples"\ngroup-size = 1\n')
    assert RunConfig.from_toml(tmp_path / "run.toml").dataset.data_folder == str(folder)


def test_the_slots_of_the_link_follow_from_the_network(write: Write) -> None:
    options = {"data_folder": str(write()), "group_size": 1, "channels": (4,), "bits_per_slot": 100}
    config = RunConfig.from_options(options)
    assert config.channel.link_slots == -(-config.network().parameters * 32 // 100)


def test_a_recommendation_for_a_folder_can_be_trained(write: Write, tmp_path: Path) -> None:
    config = RunConfig.from_options({"data_folder": str(write()), "group_size": 1})
    (tmp_path / "recommended.toml").write_text(toml_of(config))
    assert RunConfig.from_toml(tmp_path / "recommended.toml") == config


@pytest.mark.parametrize("options", [{"device_samples": (5, 6)}, {"sample_skew": 0.5}])
def test_a_recommendation_for_unequal_data_can_be_trained(options: dict[str, Any], tmp_path: Path) -> None:
    config = RunConfig.from_options({"devices": 2, "group_size": 1, **options})
    (tmp_path / "recommended.toml").write_text(toml_of(config))
    assert RunConfig.from_toml(tmp_path / "recommended.toml") == config
