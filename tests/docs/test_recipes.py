"""Every recipe of the cookbook, and the tutorial about channels, works in an empty folder.

The blocks of a page are followed in their order, as a reader would: files are saved, Python and commands are
run, and a block of text is what the block before it printed.
"""

import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from command_lines import CommandLine, check_pip, command_lines, run_slotwise
from doc_links import targets
from doc_pages import ROOT, Block, blocks, followed, name
from python_blocks import run_code, unprinted

RECIPES = [page for page in followed() if page.parent.name == "cookbook"]


@pytest.fixture
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    yield tmp_path
    for module in [key for key, found in sys.modules.items() if _is_below(found, tmp_path)]:
        del sys.modules[module]


def _is_below(module: ModuleType, folder: Path) -> bool:
    return str(getattr(module, "__file__", None)).startswith(str(folder))


@pytest.mark.slow
@pytest.mark.parametrize("page", followed(), ids=name)
def test_a_reader_can_follow_the_page(
    page: Path, empty_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    printed = ""
    for block in blocks(page):
        if block.mark in {"output", "not run"}:
            continue
        if block.language == "text":
            missing = unprinted(block.text, printed)
            assert not missing, f"{block.place}: {missing} is not in\n{printed}"
        elif block.file:
            (empty_folder / block.file).write_text(block.text, encoding="utf-8")
        else:
            _run(block)
            printed = capsys.readouterr().out
    pictures = re.findall(r"!\[[^\]]*\]\(.*?([\w-]+)\.\w+\)", page.read_text(encoding="utf-8"))
    assert set(pictures) <= {path.stem for path in empty_folder.rglob("*")}


def _run(block: Block) -> None:
    if block.language == "python":
        run_code(block, sys.modules["__main__"])
    else:
        assert block.language == "console", f"{block.place}: what is this for?"
        for line in command_lines(block.text, prompt=True):
            _run_command(line)


def _run_command(line: CommandLine) -> None:
    if line.program == "python":
        runpy.run_path(line.arguments[1], run_name="__main__")
    elif line.program == "pip":
        check_pip(line)
    else:
        assert run_slotwise(line) == 0, line.text


@pytest.mark.parametrize("page", RECIPES, ids=name)
def test_a_recipe_is_short_shows_output_and_says_where_to_read_on(page: Path) -> None:
    assert len(page.read_text(encoding="utf-8").splitlines()) <= 110
    assert any(block.language == "text" for block in blocks(page))
    assert any(target.startswith("../") for target in targets(page))


def test_every_recipe_is_in_the_list() -> None:
    listed = targets(ROOT / "docs/cookbook/index.md")
    assert {page.name for page in RECIPES} <= listed


def test_output_may_differ_in_measured_numbers_only() -> None:
    printed = "async   12 rounds, loss 0.513\nidfl    12 rounds, loss 0.401"
    assert unprinted("async 12 rounds, loss 0.514\n…", printed) == []
    assert unprinted("idfl 12 rounds, loss 0.514", printed) == ["idfl 12 rounds, loss 0.514"]
    assert unprinted("idfl 13 rounds, loss 0.401", printed) == ["idfl 13 rounds, loss 0.401"]
