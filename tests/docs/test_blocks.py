"""Every code block of the documentation is run, parsed, or marked as output."""

import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from command_lines import (
    CHECKS,
    FOREIGN,
    QUICK,
    CommandLine,
    check_script,
    command_lines,
    output_lines,
    run_slotwise,
)
from cyclopts import CycloptsError
from doc_pages import MARKS, NEEDS_REASON, ROOT, Block, blocks, followed, follows, name, pages
from python_blocks import import_only, run_code, run_session

from slotwise.batch import BatchSpec
from slotwise.fleet.fleet_file import read_fleet
from slotwise.runs import RunConfig
from slotwise.runs.toml_options import read_toml

# Pages whose Python blocks another test runs, because they need its packages or are listings of files.
ELSEWHERE = {
    "docs/guide.md": "tests/test_guide.py",
    "docs/flower.md": "tests/flower/test_flower_page.py",
    "docs/tracking.md": "tests/tracking/test_tracking_page.py",
    "docs/own-aggregation.md": "tests/aggregation/test_own_aggregation.py",
    "docs/own-policy.md": "tests/schedule/test_own_policy.py",
}
LANGUAGES = {"python", "console", "sh", "bash", "toml", "json", "yaml", "csv", "text"}


def of(*languages: str) -> list[Path]:
    """Return the pages that have a block in one of the languages to be checked here."""
    rest = [page for page in pages() if page not in followed()]
    return [page for page in rest if any(_wanted(block, languages) for block in blocks(page))]


def _wanted(block: Block, languages: tuple[str, ...]) -> bool:
    return block.language in languages and block.mark not in {"output", "not run"}


@pytest.mark.parametrize("page", pages(), ids=name)
def test_every_block_says_what_it_is(page: Path) -> None:
    for block in blocks(page):
        assert block.mark in {"", *MARKS}, f"{block.place}: unknown mark {block.mark!r}"
        assert bool(block.reason) == (block.mark in NEEDS_REASON), f"{block.place}: a reason, or none"
        known = block.language in LANGUAGES or block.mark in {"output", "not run"}
        assert known, f"{block.place}: language {block.language!r} is not checked; `text` is output"


def test_fences_are_all_recognised() -> None:
    for page in pages():
        fences = len(re.findall(r"^ *(?:```|~~~)", page.read_text(encoding="utf-8"), re.MULTILINE))
        directives = len(re.findall(r"^ *```+\{", page.read_text(encoding="utf-8"), re.MULTILINE))
        assert fences == 2 * (len(blocks(page)) + directives), page


@pytest.mark.parametrize("page", sorted(ELSEWHERE))
def test_pages_that_another_test_runs_are_named_there(page: str) -> None:
    assert Path(page).name in (ROOT / ELSEWHERE[page]).read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in of("python") if name(p) not in ELSEWHERE], ids=name)
def test_python_blocks_run_one_after_another(
    page: Path, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = [block for block in blocks(page) if _wanted(block, ("python",))]
    if any("import torch" in block.text or "TorchTask" in block.text for block in wanted):
        pytest.importorskip("torch")
    main = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    for block in wanted:
        if block.mark == "parsed only":
            import_only(block)
        elif block.text.startswith(">>> "):
            run_session(block, main)
        else:
            run_code(block, main)


@pytest.mark.parametrize("page", of("console", "sh", "bash"), ids=name)
def test_commands_run_or_parse(
    page: Path, workplace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    printed: list[str] = []
    before = None
    for block in blocks(page):
        if block.language == "text" and before is not None and printed and follows(block, before):
            _check_output(block, block.text.splitlines(), printed)
        before, printed = block, []
        if _wanted(block, ("console", "sh", "bash")):
            lines = command_lines(block.text, prompt=block.language == "console")
            ours = [line for line in lines if line.program not in FOREIGN]
            assert ours, f"{block.place}: no command that can be checked; mark it `not run: REASON`"
            for line in ours:
                _check_command(block, line, capsys)
            printed = [row.rstrip() for row in capsys.readouterr().out.splitlines()]
            if block.language == "console":
                _check_output(block, output_lines(block.text), printed)


def _check_command(block: Block, line: CommandLine, capsys: pytest.CaptureFixture[str]) -> None:
    """Run a command, or parse it if it would take long."""
    runs = line.program == "slotwise" and (line.arguments[1] in QUICK or block.mark == "run")
    try:
        if runs and block.mark != "parsed only":
            code = run_slotwise(line)
            assert code == 0, capsys.readouterr().err
        elif any(argument.endswith(".py") for argument in line.arguments):
            check_script(line)
        else:
            CHECKS[line.program](line)
    except Exception as error:
        raise AssertionError(f"{block.place}: {line.text}: {error!r}") from error


def _check_output(block: Block, shown: list[str], printed: list[str]) -> None:
    """Check that every line of the output that a page shows was printed; some may be left out."""
    wanted = [row.rstrip() for row in shown if row.strip() not in {"", "...", "…"}]
    assert [row for row in wanted if row not in printed] == [], f"{block.place}: not printed"


@pytest.mark.parametrize("page", of("toml"), ids=name)
def test_toml_is_read_as_options_of_a_run_or_as_a_batch(page: Path, workplace: Path) -> None:
    for block in blocks(page):
        if _wanted(block, ("toml",)):
            path = workplace / "options.toml"
            path.write_text(block.text, encoding="utf-8")
            if "[[case]]" in block.text or "seeds =" in block.text:
                assert BatchSpec.read(path).points
            else:
                RunConfig.from_options(read_toml(path))


@pytest.mark.parametrize("page", of("json", "yaml", "csv"), ids=name)
def test_data_is_read(page: Path, workplace: Path) -> None:
    for block in blocks(page):
        if _wanted(block, ("json",)):
            json.loads(block.text)
        elif _wanted(block, ("yaml",)):
            assert pytest.importorskip("yaml").safe_load(block.text)
        elif _wanted(block, ("csv",)):
            path = workplace / "fleet.csv"
            path.write_text(block.text, encoding="utf-8")
            read_fleet(path)


@pytest.mark.parametrize(
    "text",
    [
        "slotwise train --no-such-flag 1 --out x",
        "slotwise nothing",
        "pip install 'slotwise[nothing]'",
        "make nothing",
    ],
)
def test_a_command_that_no_longer_exists_is_found(text: str) -> None:
    (line,) = command_lines(text, prompt=False)
    with pytest.raises((AssertionError, CycloptsError)):
        CHECKS[line.program](line)
