"""Serving of applications on a port of this machine."""

from __future__ import annotations

import socket
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slotwise.base.errors import InputError, UserError
from slotwise.base.extras import require
from slotwise.options.checks import whole

if TYPE_CHECKING:
    import uvicorn

HOST, PORT = "127.0.0.1", 8337
NEW_RUNS = Path("runs")


def explore(
    runs: Path | str | None = None,
    *,
    port: int | None = None,
    browser: bool = True,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve the explorer on this machine until Ctrl-C.

    Args:
        runs: Folder of runs, batches and recommendations to browse. Runs started in the page are written
            there too, or to the folder ``runs`` if it is None.
        port: Port; by default 8337, or a free one if that is taken.
        browser: Open the page in a web browser.
        ready: Is called with the address as soon as the page can be opened.

    Raises:
        UserError: the folder does not exist, the port is taken, or the extra ``web`` is not installed.
    """
    folder = None if runs is None else Path(runs)
    if folder is not None and not _is_folder(folder):
        raise UserError(f"{folder}: not a folder")
    require_web()
    from slotwise.web.explorer_app import Explorer  # noqa: PLC0415  (needs the extra)

    with listening(HOST, port) as listener:
        address = f"http://{HOST}:{listener.getsockname()[1]}/"

        def started() -> None:
            if ready is not None:
                ready(address)
            if browser:  # in a thread: a text browser blocks
                threading.Thread(target=webbrowser.open, args=[address], daemon=True).start()

        server = make_server(Explorer(folder, folder or NEW_RUNS).app, started)
        with suppress(KeyboardInterrupt):  # uvicorn raises it again after it has shut down
            server.run(sockets=[listener])


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # a name too long to be a folder's
        return False


def require_web() -> None:
    """Raise a UserError if starlette or uvicorn is not installed."""
    require("starlette", "uvicorn")


def listening(host: str, port: int | None, usual: int = PORT) -> socket.socket:
    """Return a listening socket on a port; without one, on the usual port or a free one."""
    if port is not None:
        whole("port", port, 1, 65_535)
    for number in (usual, 0) if port is None else (port,):
        listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        # Otherwise the port cannot be used for a while after a restart.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, number))
            listener.listen(128)
        except OSError as error:
            listener.close()
            problem = error.strerror or str(error)
            continue
        return listener
    raise InputError("port", port if port is not None else usual, f"a free port ({problem})")


def make_server(app: Any, started: Callable[[], None] | None = None, **options: Any) -> uvicorn.Server:
    """Return a server for an application; ``started`` is called when it answers."""
    import uvicorn  # noqa: PLC0415

    from slotwise.web.http_connections import TimedConnection  # noqa: PLC0415

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if started is not None and not self.should_exit:
                started()

    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=1,  # streams have no end of their own
        http=TimedConnection,
        h11_max_incomplete_event_size=16 << 10,
        server_header=False,
        **options,
    )
    return Server(config)
