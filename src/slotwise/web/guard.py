"""The guard of both applications, which answers only requests of the page itself, and event streams.

A server on this machine can be reached by any web site that a browser on it shows. So the name of the host is
checked (DNS rebinding), and requests that the browser says come from another site are refused.

An event stream (server-sent events) holds no queue. It waits for a change, reads the state and sends it, so a
client that reads slowly skips states and costs no memory.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator, Callable, Collection
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
COOKIE = "slotwise-token"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
EVENT_INTERVAL = 0.2  # seconds between two events of a stream, at least
HEARTBEAT_INTERVAL = 15.0  # seconds without an event, then a comment: a closed connection is noticed
MOST_STREAMS = 200


class Guard:
    """Refuses requests of other sites, of other host names and, if there is a token, without it.

    Args:
        app: the application.
        hosts: names that a request may address, without the port; None allows all.
        open_paths: paths that need no token.
        token: text that a request has to bring, in the header ``Authorization: Bearer``, in the cookie, or
            once in the address of the page (``?token=``), which sets the cookie.
    """

    def __init__(
        self,
        app: ASGIApp,
        hosts: Collection[str] | None = LOOPBACK,
        token: str | None = None,
        open_paths: Collection[str] = (),
    ) -> None:
        self._app, self._hosts, self._token, self._open = app, hosts, token, open_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    sent[name] = value
            await send(message)

        refused = self._refusal(headers)
        if refused is not None:
            await PlainTextResponse(f"{refused}\n", 403)(scope, receive, send_with_headers)
        elif self._token is not None and scope["path"] not in self._open and not self._has_token(headers):
            await self._ask_for_token(scope, receive, send_with_headers)
        else:
            await self._app(scope, receive, send_with_headers)

    def _refusal(self, headers: Headers) -> str | None:
        # The last colon may be part of an IPv6 address and not in front of a port.
        host = headers.get("host", "").rsplit(":", 1)
        name = host[0] if len(host) == 2 and host[1].isdigit() else ":".join(host)
        if self._hosts is not None and name not in self._hosts:
            return f"this server answers at {', '.join(self._hosts)} only"
        # Browsers send this header, and a page cannot change it. Other clients may leave it out.
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return "requests of other sites are refused"
        return None

    def _has_token(self, headers: Headers) -> bool:
        given = [headers.get("authorization", "").removeprefix("Bearer ")]
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
            given += [cookie.value] if cookie else []
        except CookieError:
            pass
        # Compared in constant time, so that response times do not reveal how much of a guess is right.
        return any(hmac.compare_digest(text.encode(), (self._token or "").encode()) for text in given)

    async def _ask_for_token(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = QueryParams(scope.get("query_string", b"")).get("token", "")
        if not hmac.compare_digest(given.encode(), (self._token or "").encode()):
            answer = PlainTextResponse("a token is required: open the address that the server printed\n", 401)
            await answer(scope, receive, send)
            return
        # So that the token is not kept in the history. What begins with // is the address of another host.
        redirect = RedirectResponse("/" + scope["path"].lstrip("/\\"), 303)
        secure = scope.get("scheme") == "https"
        redirect.set_cookie(COOKIE, given, httponly=True, samesite="strict", secure=secure)
        await redirect(scope, receive, send)


class Changes:
    """Counts changes of a state, and lets any number of streams wait for the next one."""

    def __init__(self) -> None:
        self.count = 0
        self._changed = asyncio.Event()

    def notify(self) -> None:
        """Note a change; call it in the event loop."""
        self.count += 1
        # A new event and not clear(): all who wait are woken, and those who come later have to wait.
        self._changed.set()
        self._changed = asyncio.Event()

    async def after(self, count: int, seconds: float) -> bool:
        """Wait for a change after ``count``; False if there is none for so many seconds."""
        if self.count == count:
            try:
                await asyncio.wait_for(self._changed.wait(), seconds)
            except TimeoutError:
                return False
        return True


class EventStreams:
    """Streams of one state, which ``state`` returns as JSON; beyond a number of them, more are refused."""

    def __init__(self, changes: Changes, state: Callable[[], str]) -> None:
        self._changes, self._state, self.open = changes, state, 0

    def response(self) -> Response:
        """Return the response of a new stream, which begins with the state as it is."""
        if self.open >= MOST_STREAMS:
            return PlainTextResponse("too many event streams\n", 503)
        # The second header keeps a proxy from collecting events before it passes them on.
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(self._events(), media_type="text/event-stream", headers=headers)

    async def _events(self) -> AsyncIterator[str]:
        # Not in `response`: a stream that never starts would never be subtracted.
        self.open += 1
        try:
            while True:
                # Before the state is read: a change in between is sent twice, but never missed.
                seen = self._changes.count
                yield f"data: {self._state()}\n\n"
                await asyncio.sleep(EVENT_INTERVAL)
                while not await self._changes.after(seen, HEARTBEAT_INTERVAL):
                    yield ": still here\n\n"
        finally:
            self.open -= 1
