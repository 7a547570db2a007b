"""The command line: parse, call, print. Mistakes end with exit code 2 and one line."""

from slotwise.cli.main import main

__all__ = ["main"]
