"""The explore command: the explorer in a web browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from slotwise.cli.flags import output, whole_number
from slotwise.web.web_server import explore as serve_explorer

RUNS = Parameter(
    help="Folder of runs, batches and recommendations to browse; new runs are written there. "
    "Default: new runs are written to runs/."
)
PORT = output("Port on this machine. Default: 8337, or a free one if that is taken.", converter=whole_number)


def explore(
    runs: Annotated[Path | None, RUNS] = None,
    /,
    *,
    port: Annotated[int | None, PORT] = None,
    no_browser: Annotated[bool, output("Do not open a web browser; print the address only.")] = False,
) -> None:
    """Explore schedules in a web browser: drag the group size and watch rounds and staleness.

    The page also trains what it shows, and browses the runs in a folder. It is served on this machine only,
    until Ctrl-C. Needs the extra web: pip install 'slotwise[web]'.
    """
    serve_explorer(runs, port=port, browser=not no_browser, ready=_announce)


def _announce(address: str) -> None:
    print(f"slotwise explorer at {address} (Ctrl-C ends it)", flush=True)
