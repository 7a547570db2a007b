"""Where tables are printed."""

from __future__ import annotations

from rich.console import Console

TABLE_WIDTH = 80


def table_console() -> Console:
    """Standard output, never taken for narrower than tables are made for.

    A narrow terminal folds their lines, which can be read; columns cut down to fit it cannot.
    """
    console = Console()
    return console if console.width >= TABLE_WIDTH else Console(width=TABLE_WIDTH)
