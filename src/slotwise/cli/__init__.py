"""The command line: parse, call, print. Mistakes end with exit code 2 and one line."""

import sys
from typing import NoReturn

INTERRUPTED = 130

__all__ = ["main"]


def main() -> NoReturn:
    """Run the command line and exit."""
    try:
        # Imported here: Ctrl-C while modules load should end as quietly as later.
        from slotwise.cli.app import run  # noqa: PLC0415

        code = run()
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(code)
