"""The examples of the documentation print what it says."""

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["unequal-devices.md", "channel.md"])
def test_the_examples_of_a_page_print_what_it_says(name: str) -> None:
    result = doctest.testfile(str(ROOT / "docs" / name), module_relative=False, encoding="utf-8")
    assert result.attempted > 0
    assert result.failed == 0


def test_the_plan_in_the_readme_is_what_the_program_prints() -> None:
    command, shown = re.search(r"\$ slotwise (plan [^\n]*)\n```\n```\n(.*?)```", README, re.DOTALL).groups()
    done = subprocess.run(
        [sys.executable, "-c", "from slotwise.cli import main; main()", *command.split()],
        env=os.environ | {"COLUMNS": "80"},
        capture_output=True,
        text=True,
        check=True,
    )
    printed = [line.rstrip() for line in done.stdout.splitlines()]
    assert set(shown.splitlines()) <= set(printed)


def test_the_files_that_the_readme_s_commands_name_are_there() -> None:
    named = set(re.findall(r"examples/[\w./-]+", README))
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_paths_of_a_page_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    links = {link for link in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in link}
    assert [link for link in links if not (page.parent / link).exists()] == []
    named = set(re.findall(r"`((?:\w+/)+\w+\.(?:py|toml|csv))`", text))
    assert [p for p in named if not any((base / p).exists() for base in (ROOT, ROOT / "src/slotwise"))] == []


NAMES = ("first-steps", "scale", "python", "own-model", "data", "radio", "recommend", "explorer")
EXECUTED = [ROOT / "README.md", *(ROOT / f"docs/{name}.md" for name in NAMES)]


@pytest.mark.parametrize("page", EXECUTED, ids=lambda page: page.name)
def test_python_blocks_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if page.name == "own-model.md":
        pytest.importorskip("torch")
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        values: dict[str, object] = {"__name__": "__main__"}
        exec(block, values)
        for expression, shown in re.findall(r"^(\S.*?)  # (\(.*\))$", block, re.MULTILINE):
            assert repr(eval(expression, values)) == shown
