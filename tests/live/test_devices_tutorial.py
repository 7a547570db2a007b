"""The steps of docs/your-devices.md work in an empty folder, in the order of the page."""

import json
import re
import shlex
from pathlib import Path

import pytest
from processes import Embedded, Process, accepts, until

from slotwise.cli.app import run

PAGE = Path(__file__).parents[2] / "docs/your-devices.md"
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
NAMED = re.compile(r"# ([\w/.-]+)\n")  # the first line of a file that the reader saves


class Terminals:
    """The reader's two terminals: a server stays in the first while its devices run in the second."""

    def __init__(self, folder):
        self.folder = folder
        self.servers = []

    def execute(self, command, *arguments):
        if command == "serve":
            self.broker = Embedded(self.folder)  # on a free port, not the usual one
            self.servers.append(self._start(command, *arguments, "--listen", f"127.0.0.1:{self.broker.port}"))
        elif command == "fleet":
            server = self.servers[-1]
            until(lambda: accepts(self.broker.port) or server.poll() is not None, "broker")
            fleet = self._start(command, *arguments, "--broker", self.broker.address)
            try:
                server.ends()
                fleet.ends()
            finally:
                fleet.kill()
        else:
            assert run([command, *arguments]) == 0, arguments

    def _start(self, *arguments):
        return Process(self.folder, *arguments, cwd=self.folder)

    def close(self):
        for server in self.servers:
            server.kill()
            server.wait()


@pytest.fixture
def terminals(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    opened = Terminals(tmp_path)
    yield opened
    opened.close()


@pytest.mark.slow
def test_every_step_of_the_page_works(terminals):
    for language, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if named := NAMED.match(text):
            Path(named[1]).write_text(text, encoding="utf-8")
        elif language == "console":
            for line in text.splitlines():
                program, *arguments = shlex.split(line.removeprefix("$ "))
                if program == "slotwise":
                    terminals.execute(*arguments)
    assert len(terminals.servers) == 2
    for folder in ("live", "runs/next", "live-task"):
        assert json.loads(Path(folder, "run.json").read_text())["status"] == "finished", folder
    assert {"live.png", "fleet.csv", "fleet.toml", "my_task.py"} <= {path.name for path in Path().iterdir()}
