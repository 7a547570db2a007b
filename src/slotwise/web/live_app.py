"""The application of the live page: the page, its event stream, metrics and health."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from slotwise.web.event_stream import Changes, EventStreams
from slotwise.web.guard import LOOPBACK, Guard
from slotwise.web.live_page import LivePage
from slotwise.web.live_snapshot import LiveSnapshot
from slotwise.web.looks import looks
from slotwise.web.metrics import CONTENT_TYPE, metrics
from slotwise.web.page_files import page, static_file

STALE_SECONDS = 30.0  # without a snapshot of a running server: it hangs
HEALTH = "/healthz"  # answered without a token, for probes


class LiveApp:
    """The live page as an ASGI application; it only reads what `LivePage` publishes."""

    def __init__(self, live: LivePage, *, token: str | None = None, any_host: bool = False) -> None:
        self._live = live
        self._text: tuple[LiveSnapshot | None, str] = (None, "null")
        routes = [
            Route("/", self._page),
            Route("/static/{name}", static_file),
            Route("/events", self._events),
            Route("/metrics", self._metrics),
            Route(HEALTH, self._health),
        ]
        hosts = None if any_host else LOOPBACK
        guard = Middleware(Guard, hosts=hosts, token=token, open_paths=(HEALTH,))
        self.app = Starlette(routes=routes, middleware=[guard], lifespan=self._lifespan)

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:  # noqa: ARG002
        loop, changes = asyncio.get_running_loop(), Changes()
        self._streams = EventStreams(changes, self._state)

        def tell() -> None:  # in the thread of the run, after each snapshot
            # The run takes fewer snapshots while nobody watches. Not when a stream sends: after the last
            # stream has closed, none does.
            self._live.readers = self._streams.open
            with suppress(RuntimeError):  # this loop has ended
                loop.call_soon_threadsafe(changes.notify)

        self._live.publish_with(tell)
        yield
        self._live.publish_with(lambda: None)

    def _state(self) -> str:
        """Return the last snapshot as JSON, which is made once for all streams."""
        snapshot = self._live.snapshot
        if snapshot is not self._text[0]:
            self._text = (snapshot, "null" if snapshot is None else snapshot.as_json())
        return self._text[1]

    async def _page(self, request: Request) -> Response:  # noqa: ARG002
        return page("live.html", looks())

    async def _events(self, request: Request) -> Response:  # noqa: ARG002
        return self._streams.response()

    async def _metrics(self, request: Request) -> Response:  # noqa: ARG002
        snapshot = self._live.snapshot
        if snapshot is None:
            return PlainTextResponse("# the run has not begun yet\n", headers={"Content-Type": CONTENT_TYPE})
        text = metrics(snapshot, time.monotonic() - snapshot.moment)
        return PlainTextResponse(text, headers={"Content-Type": CONTENT_TYPE})

    async def _health(self, request: Request) -> Response:  # noqa: ARG002
        document, healthy = self._health_of(self._live.snapshot)
        return JSONResponse(document, 200 if healthy else 503)

    def _health_of(self, snapshot: LiveSnapshot | None) -> tuple[dict[str, Any], bool]:
        if snapshot is None:
            return {"status": "starting"}, True
        age, phase = time.monotonic() - snapshot.moment, snapshot.status.phase
        running = phase in ("waiting for devices", "running")
        # After the end there are no new snapshots, so their age says nothing.
        healthy = phase != "diverged" and (not running or age < STALE_SECONDS)
        return {"status": phase if healthy else f"{phase}, last heard {age:.0f} s ago"}, healthy
