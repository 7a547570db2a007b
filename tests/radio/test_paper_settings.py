"""The files in examples/papers and examples/radio-studies can be read and simulated."""

import re
import shutil
from pathlib import Path

import pytest

from slotwise.batch import BatchSpec

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted([*EXAMPLES.glob("papers/*.toml"), *EXAMPLES.glob("radio-studies/*.toml")])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_schedules_of_a_setting_have_rounds(path, tmp_path, monkeypatch):
    for folder in ("papers", "own_aggregation"):
        monkeypatch.syspath_prepend(str(EXAMPLES / folder))
    shutil.copytree(path.parent, tmp_path / "copy")
    copy, text = tmp_path / "copy" / path.name, path.read_text(encoding="utf-8")
    text = re.sub(r"^seeds = .*$", "seeds = [0]", text, flags=re.MULTILINE)
    deadline = int(re.search(r"^deadline = (\d+)", text, re.MULTILINE)[1])
    copy.write_text(text.replace(f"deadline = {deadline}", f"deadline = {min(deadline, 600)}"))
    spec = BatchSpec.read(copy)  # which simulates every schedule
    assert spec.skipped is None
    assert len(spec.points) >= 3


@pytest.mark.parametrize("path", [p for p in FILES if p.parent.name == "papers"], ids=lambda path: path.stem)
def test_a_setting_has_a_page_that_the_list_names(path):
    page = path.with_suffix(".md")
    assert path.name in page.read_text(encoding="utf-8")
    assert page.name in (path.parent / "README.md").read_text(encoding="utf-8")
