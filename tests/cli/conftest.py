"""The command line, called in this process."""

import sys
from collections.abc import Callable

import pytest

from slotwise.cli import main

Outcome = tuple[int, str, str]


@pytest.fixture
def slotwise(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Calls ``slotwise`` at 80 columns; gives exit code, stdout and stderr."""
    monkeypatch.setenv("COLUMNS", "80")

    def call(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["slotwise", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            main()
        captured = capsys.readouterr()
        return int(exit_.value.code or 0), captured.out, captured.err

    return call
