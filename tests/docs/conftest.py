"""Checks of the documentation: code blocks, links, the README and the paper draft."""

import sys
from pathlib import Path

import pytest

# doc_pages.py and command_lines.py.
sys.path.insert(0, str(Path(__file__).parent))

ROOT = Path(__file__).parents[2]


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory in which the examples of the repository can be read."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("examples", "benchmarks"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path
