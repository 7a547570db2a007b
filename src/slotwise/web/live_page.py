"""The page of a live run: an observer that shows the run in a web browser, read-only."""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from slotwise.base.errors import InputError, MissingError
from slotwise.base.observer import BaseObserver
from slotwise.live.server.campaign_run import CampaignStatus
from slotwise.live.server.events import LiveObserver, LiveView
from slotwise.live.server.live_status import LiveStatus
from slotwise.live.transport.broker import is_loopback, listen_address
from slotwise.options import Range
from slotwise.options.checks import Value
from slotwise.web.live_snapshot import LiveSnapshot, SnapshotMaker
from slotwise.web.web_server import listening, make_server, require_web

PORT = 8338
DEFAULT_LISTEN = f"127.0.0.1:{PORT}"
SHORTEST_TOKEN = 16  # characters
INTERVAL, INTERVAL_UNWATCHED = 0.25, 1.0  # seconds between two snapshots
STAY_POLL = 0.1  # seconds
LARGEST_SHARE = 0.05  # of the time of the server, for snapshots


@dataclass(frozen=True, kw_only=True)
class PageOptions(Value):
    """Options of the page of a live run.

    Attributes:
        page_listen: HOST:PORT of the page. Beyond this machine it needs a token and a certificate. Default:
            127.0.0.1:8338, or a free port if that is taken.
        page_token_file: File with the token that readers of the page have to know, at least 16 characters.
        page_certificate: TLS certificate of the page, a PEM file with its chain.
        page_key: Private key of the certificate, a PEM file.
        page_stay: Seconds for which the page stays after the end of the run; Ctrl-C ends it sooner.
    """

    page_listen: str = DEFAULT_LISTEN
    page_token_file: Path | None = None
    page_certificate: Path | None = None
    page_key: Path | None = None
    page_stay: Annotated[float, Range(least=0, below=1e9)] = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        host, _ = self.address
        if self.page_certificate is not None and self.page_key is None:
            raise MissingError("page_key", "given together with page_certificate")
        if self.page_key is not None and self.page_certificate is None:
            raise MissingError("page_certificate", "given together with page_key")
        for name, value in vars(self).items():
            if value is None and not is_loopback(host):
                raise MissingError(name, f"given if the page listens beyond this machine ({host})")
        if self.page_certificate is not None and self.page_key is not None:
            try:
                # Without a password function OpenSSL would ask for that of an encrypted key on the terminal.
                ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
                    self.page_certificate, self.page_key, password=lambda: b""
                )
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or error
                allowed = f"a PEM file that fits the key {self.page_key} ({reason})"
                raise InputError("page_certificate", self.page_certificate, allowed) from None
        self.token()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port where the page is served."""
        try:
            return listen_address(self.page_listen)
        except InputError as error:
            raise InputError("page_listen", error.value, error.allowed) from None

    @property
    def is_encrypted(self) -> bool:
        """Return whether the page is served with TLS."""
        return self.page_certificate is not None

    def token(self) -> str | None:
        """Return the token in the file, None without a file, or raise an InputError."""
        path = self.page_token_file
        if path is None:
            return None
        try:
            text = path.read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "not a text"
            raise InputError("page_token_file", path, f"a file that can be read ({reason})") from None
        if len(text) < SHORTEST_TOKEN or not text.isascii() or not text.isprintable() or " " in text:
            allowed = f"a file with one line of at least {SHORTEST_TOKEN} letters, digits or signs"
            raise InputError("page_token_file", path, allowed)
        return text


class LivePage(LiveObserver):
    """Takes snapshots of a live run in its event loop; the web server reads the last one in its own thread.

    The run never waits for the page: a snapshot takes at most a small share of its time, and requests are
    answered elsewhere.
    """

    def __init__(self) -> None:
        # Snapshots never change and are replaced as a whole, so another thread reads them without a lock.
        self.snapshot: LiveSnapshot | None = None
        self.readers = 0  # open streams, as the web server says
        self._campaign: CampaignStatus | None = None
        self._maker: SnapshotMaker | None = None
        self._following: asyncio.Task[None] | None = None
        self._tell: Any = lambda: None

    def publish_with(self, tell: Any) -> None:
        """Call ``tell`` after each snapshot."""
        self._tell = tell

    def live_started(self, view: LiveView) -> None:
        """Begin to take snapshots."""
        self._maker = SnapshotMaker(view)
        self._publish(self._maker.make())
        self._following = asyncio.get_running_loop().create_task(self._follow(self._maker))

    def message_rejected(self, topic: str, reason: str) -> None:
        """Count a rejected message."""
        if self._maker is not None:
            self._maker.note_rejection(topic, reason)

    def status_changed(self, status: LiveStatus) -> None:
        """Take the last snapshot when the run ends."""
        if self._maker is None or self._following is None:
            return  # the run has not begun
        if status.phase not in ("waiting for devices", "running"):
            self._following.cancel()
            self._publish(self._maker.make(status))

    def campaign_changed(self, status: CampaignStatus) -> None:
        """Show what a campaign does, also between two runs."""
        self._campaign = status
        if self.snapshot is not None:
            self._publish(self.snapshot)

    async def _follow(self, maker: SnapshotMaker) -> None:
        """Take snapshots without end; less often without a reader, or if they take long."""
        while True:
            began = time.perf_counter()
            self._publish(maker.make())
            took = time.perf_counter() - began
            usual = INTERVAL if self.readers else INTERVAL_UNWATCHED
            await asyncio.sleep(max(usual, took / LARGEST_SHARE))

    def _publish(self, snapshot: LiveSnapshot) -> None:
        self.snapshot = replace(snapshot, campaign=self._campaign)
        self._tell()


@contextmanager
def live_page(
    options: PageOptions | None = None, *, notices: BaseObserver | None = None
) -> Iterator[LivePage]:
    """Serve the page of a live run while the block runs; pass what it yields as an observer to `serve`.

    Args:
        options: Where to listen, token and TLS; by default on this machine only.
        notices: Is told the address of the page.

    Raises:
        UserError: an option is wrong, the port is taken, or the extra ``web`` is not installed.
    """
    require_web()
    from slotwise.web.live_app import LiveApp  # noqa: PLC0415  (needs the extra)

    options = options or PageOptions()
    host, port = options.address
    try:
        # Only the default may fall back to another port; an address that was asked for is used or refused.
        listener = listening(host, None if options.page_listen == DEFAULT_LISTEN else port, PORT)
    except InputError as error:
        raise InputError("page_listen", options.page_listen, error.allowed) from None
    page = LivePage()
    token = options.token()
    tls = {"ssl_certfile": options.page_certificate, "ssl_keyfile": options.page_key}
    with listener:
        started = threading.Event()
        app = LiveApp(page, token=token, any_host=not is_loopback(host))
        server = make_server(app.app, started.set, **(tls if options.is_encrypted else {}))
        thread = threading.Thread(
            target=server.run, kwargs={"sockets": [listener]}, name="live page", daemon=True
        )
        thread.start()
        started.wait(10)
        if notices is not None:
            scheme = "https" if options.is_encrypted else "http"
            shown = f"[{host}]" if ":" in host else host
            address = f"{scheme}://{shown}:{listener.getsockname()[1]}/"
            hint = "" if token is None else f"?token=… (the token in {options.page_token_file})"
            notices.notice(f"live page at {address}{hint}")
        try:
            yield page
            _stay(options.page_stay, BaseObserver.of(notices))
        finally:
            server.should_exit = True
            thread.join(10)


def _stay(seconds: float, observer: BaseObserver) -> None:
    """Wait for so long, or until ``observer`` asks to stop."""
    until = time.monotonic() + seconds
    if seconds and not observer.wants_stop():
        observer.notice(f"the page stays for {seconds:g} s; Ctrl-C ends it")
    while time.monotonic() < until and not observer.wants_stop():
        time.sleep(STAY_POLL)
