"""`slotwise data import hf:NAME`, and a training on what was imported."""

from pathlib import Path

import numpy as np
import pytest

from slotwise.cli.app import run

datasets = pytest.importorskip("datasets")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of a table without images, and an empty cache."""
    monkeypatch.setenv("SLOTWISE_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "copy"
    folder.mkdir()
    (folder / "train.csv").write_text("\n".join(["size,kind", *(f"{n},{n % 2}" for n in range(40))]))
    return folder


def test_a_set_is_imported_by_its_name_shown_and_missing_elsewhere(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = ["hf:me/set", "--label-column", "kind"]
    assert run(["data", "import", *named, str(folder)]) == 0
    assert capsys.readouterr().out.startswith(
        "hf:me/set: 36 training samples and 4 test samples, verified, in"
    )
    assert run(["data", "show", "--data", *named, "--partition", "shards", "--devices", "3"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("hf:me/set, shards (shards per device 2), 3 devices\n36 of 36 samples")
    assert run(["train", "--data", "hf:me/other", "--out", "nowhere"]) == 2
    missing = "slotwise: hf:me/other is not on this machine: slotwise data fetch hf:me/other\n"
    assert capsys.readouterr().err == missing


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["hf:me/set"], "--label-column is missing; it must be given: hf:me/set has the columns size, kind"),
        (["hf:me/set", "--label-column", "sort"], "--label-column sort: must be a column of hf:me/set: size"),
        (["imagenet"], "--data imagenet: must be mnist, fashion-mnist"),
        (["mnist"], "--data mnist: must be another data set"),
        (["cifar10", "--image-size", "8"], "--image-size 8: must be omitted with data cifar10"),
    ],
)
def test_what_cannot_be_imported_is_refused_in_one_line(
    folder: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["data", "import", *words, str(folder)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"slotwise: {message}")
    assert error.count("\n") == 1


@pytest.mark.slow
def test_images_of_any_shape_are_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLOTWISE_CACHE", str(tmp_path / "cache"))
    draw = np.random.default_rng(0)
    images = [draw.integers(256, size=(20, 24, 3)).astype(np.uint8) for _ in range(60)]
    features = datasets.Features({"img": datasets.Image(), "label": datasets.ClassLabel(num_classes=4)})
    table = datasets.Dataset.from_dict({"img": images, "label": np.arange(60) % 4}, features=features)
    table.save_to_disk(str(tmp_path / "saved"))
    assert run(["data", "import", "hf:me/pictures", str(tmp_path / "saved")]) == 0
    words = "--devices 4 --group-size 2 --deadline 200 --partition iid --samples-per-device 12 --quiet"
    out = ["--out", str(tmp_path / "run")]
    assert run(["train", "--data", "hf:me/pictures", *words.split(), *out]) == 0
