"""A run of a regression has no accuracy: its files and displays say so."""

import json
import sys
from pathlib import Path

import pytest

from slotwise.runs import RunConfig, RunFolder, run

pytest.importorskip("torch")


def refuse(name: str) -> None:
    raise ValueError(f"JSON has no {name}")


def test_files_and_displays_of_a_regression(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from slotwise.cli import main

    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "torch"))
    options = {"devices": 3, "group_size": 1, "compute_slots": 2, "deadline": 12, "local_steps": 1}
    config = RunConfig().with_options(**options, batch_size=4, evaluate_every=3, task="torch_zoo:mlp")
    result = run(config, tmp_path / "run", workers=1)
    document = json.loads((tmp_path / "run" / "run.json").read_text(), parse_constant=refuse)
    assert document["final"]["accuracy"] is None
    assert document["final"]["metrics"]["test_loss"] > 0
    points = RunFolder(tmp_path / "run").points()
    assert [point.metrics for point in points] == [point.metrics for point in result.history.points]
    assert set(points[0].metrics) == {"test_loss", "absolute_error"}

    def show(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["slotwise", "show", str(tmp_path / "run"), *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        return capsys.readouterr().out

    assert "nan" not in show()
    assert json.loads(show("--json"), parse_constant=refuse)[0]["final"]["accuracy"] is None
    show("--out", str(tmp_path / "curves.svg"))
    assert "Accuracy" not in (tmp_path / "curves.svg").read_text()
    assert "accuracy" not in (tmp_path / "curves.svg").read_text()
