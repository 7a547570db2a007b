"""The steps of docs/your-channel.md work in an empty folder, in the order of the page."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from slotwise.cli.app import run

PAGE = Path(__file__).parents[1] / "docs/your-channel.md"
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
NAMED = re.compile(r"# ([\w/.-]+)\n")  # the first line of a file that the reader saves


@pytest.mark.slow
def test_every_step_of_the_page_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for language, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if named := NAMED.match(text):
            Path(named[1]).write_text(text, encoding="utf-8")
        elif language == "console":
            for line in text.splitlines():
                program, *arguments = shlex.split(line.removeprefix("$ "))
                if program == "slotwise":
                    assert run(arguments) == 0, line
                elif program == "python":
                    subprocess.run([sys.executable, *arguments], check=True)
    assert {"my_trace.csv", "my-channel.png"} <= {path.name for path in tmp_path.iterdir()}
