"""The example of docs/tracking.md."""

import re
from pathlib import Path

import pytest
from stored_runs import read_tensorboard

PAGE = Path(__file__).parents[2] / "docs" / "tracking.md"


def test_the_example_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    exec(block, {})
    printed = [int(line.split()[0]) for line in capsys.readouterr().out.splitlines()]
    assert printed == read_tensorboard(tmp_path / "runs/example/tensorboard").steps
