"""The steps of docs/your-flower-app.md work in an empty folder, in the order of the page."""

import re
import shlex
from pathlib import Path

import pytest

from slotwise.cli.app import run

PAGE = Path(__file__).parents[2] / "docs/your-flower-app.md"
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
NAMED = re.compile(r"# ([\w/.-]+)\n")  # the first line of a file that the reader saves


def test_every_step_of_the_page_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = ""
    for language, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if named := NAMED.match(text):
            Path(named[1]).parent.mkdir(parents=True, exist_ok=True)
            Path(named[1]).write_text(text, encoding="utf-8")
        elif language == "console":
            for line in text.splitlines():
                program, *arguments = shlex.split(line.removeprefix("$ "))
                assert program == "pip" or run(arguments) == 0, line
        elif language == "python":
            capsys.readouterr()
            exec(text, {})
            shown = capsys.readouterr().out
        elif language == "text":
            assert shown == text
    assert Path("my-flower.png").exists()
