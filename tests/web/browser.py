"""A real browser: headless Chromium, driven through the pipe of its DevTools protocol."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-extensions --disable-dev-shm-usage --mute-audio "
    "--remote-debugging-pipe --force-color-profile=srgb about:blank"
)
TIMEOUT = 60.0  # seconds for anything


class BrowserError(AssertionError):
    """The page or the browser failed."""


class Browser:
    """One Chromium process; `page` opens pages in it."""

    def __init__(self, profile: Path) -> None:
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()
        # Chromium reads from descriptor 3 and writes to 4.
        high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for end in (to_read, to_write)]
        null = os.open(os.devnull, os.O_RDWR)
        copies = [(high[0], 3), (high[1], 4), (null, 0), (null, 1), (null, 2)]
        self._pid = os.posix_spawn(
            str(CHROMIUM),
            [str(CHROMIUM), f"--user-data-dir={profile}", *FLAGS.split()],
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, *copy) for copy in copies],
            setpgroup=0,
        )
        for end in (to_read, to_write, null, *high):
            os.close(end)
        self._buffer, self._count = b"", 0
        self._answers: dict[int, dict[str, Any]] = {}
        self.handlers: dict[str, Callable[[dict[str, Any]], None]] = {}

    def close(self) -> None:
        """End the process and its children."""
        os.killpg(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._to)
        os.close(self._from)

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        self._count += 1
        number = self._count
        message = {"id": number, "method": method, "params": parameters}
        data = json.dumps(message | ({"sessionId": session} if session else {})).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data) :]
        until = time.monotonic() + TIMEOUT
        while number not in self._answers:
            self._receive(until - time.monotonic())
        answer = self._answers.pop(number)
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error']['message']}")
        result: dict[str, Any] = answer["result"]
        return result

    def pump(self) -> None:
        """Handle the events that have come."""
        self.call("Browser.getVersion")

    def wait_for_message(self) -> None:
        """Wait for the next message of the browser."""
        self._receive(TIMEOUT)

    def _receive(self, seconds: float) -> None:
        ready, _, _ = select.select([self._from], [], [], max(0, seconds))
        if not ready:
            raise BrowserError("Chromium does not answer")
        piece = os.read(self._from, 1 << 20)
        if not piece:
            raise BrowserError("Chromium has ended")
        *messages, self._buffer = (self._buffer + piece).split(b"\0")
        for text in messages:
            message = json.loads(text)
            if "id" in message:
                self._answers[message["id"]] = message
            elif handler := self.handlers.get(message.get("sessionId", "")):
                handler(message)

    @contextmanager
    def page(
        self, address: str, width: int = 1280, height: int = 900, *, dark: bool = False
    ) -> Iterator[Page]:
        """Open a page in a context of its own, and check at the end that it was without errors."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session, context)
        self.handlers[session] = page.handle
        try:
            for domain in ("Page", "Runtime", "Network", "Log"):
                page.call(f"{domain}.enable")
            page.resize(width, height, dark=dark)
            page.go(address)
            yield page
            page.check()
        finally:
            del self.handlers[session]
            self.call("Target.disposeBrowserContext", browserContextId=context)


class Page:
    """One page: its errors, its requests, and what it answers."""

    def __init__(self, browser: Browser, session: str, context: str) -> None:
        self._browser, self._session, self.context = browser, session, context
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.size = (0, 0)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.call(method, self._session, **parameters)

    def handle(self, message: dict[str, Any]) -> None:
        kind, found = message["method"], message["params"]
        if kind == "Runtime.exceptionThrown":
            details = found["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif kind == "Runtime.consoleAPICalled" and found["type"] in ("error", "warning", "assert"):
            self.errors.append(str([part.get("value") for part in found["args"]]))
        elif kind == "Log.entryAdded" and found["entry"]["level"] == "error":
            self.errors.append(f"{found['entry']['text']} {found['entry'].get('url', '')}")
        elif kind == "Network.requestWillBeSent":
            self.requests.append(found["request"]["url"])

    def go(self, address: str) -> None:
        self.call("Page.navigate", url=address)
        self.wait("document.readyState === 'complete' && typeof sw !== 'undefined' && Boolean(sw.settled)")
        self.settle()

    def resize(self, width: int, height: int, *, dark: bool = False) -> None:
        self.size = (width, height)
        self._measure(width, height)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def _measure(self, width: int, height: int) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)

    def run(self, script: str) -> Any:
        """Evaluate an expression; a promise is waited for."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description") or details["text"])
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until an expression is true."""
        script = (
            f"new Promise((done, fail) => {{ const end = performance.now() + {TIMEOUT * 900}; "
            f"const look = () => {{ let ok = false; try {{ ok = {condition}; }} catch {{ }} "
            f"if (ok) done(); else if (performance.now() > end) fail(new Error({json.dumps(condition)})); "
            "else setTimeout(look, 20); }; look(); })"
        )
        until = time.monotonic() + TIMEOUT
        while True:
            try:
                self.run(script)
                return
            except BrowserError as error:
                # The page was replaced by the one that is being opened.
                gone = "context was destroyed" in str(error) or "Inspected target navigated" in str(error)
                if not gone or time.monotonic() > until:
                    raise

    def settle(self) -> None:
        """Wait until everything asked for has been drawn."""
        self.run("sw.settled()")

    def check(self) -> None:
        self._browser.pump()
        assert self.errors == []

    def type(self, name: str, text: str) -> None:
        """Type a number into the control of an option."""
        self.run(
            f"(() => {{ const field = document.querySelector('[data-name={name}] input[type=number]'); "
            f"field.focus(); field.value = {json.dumps(text)}; "
            "field.dispatchEvent(new Event('input', {bubbles: true})); field.blur(); })()"
        )
        self.settle()

    def click(self, selector: str) -> None:
        """Click the middle of an element with the mouse."""
        place = self.run(
            f"(() => {{ const found = document.querySelector({json.dumps(selector)}); "
            "found.scrollIntoView({block: 'center'}); const box = found.getBoundingClientRect(); "
            "return [box.left + box.width / 2, box.top + box.height / 2]; })()"
        )
        self.mouse("mouseMoved", *place)
        self.mouse("mousePressed", *place)
        self.mouse("mouseReleased", *place)

    def mouse(self, kind: str, x: float, y: float) -> None:
        button = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **button)

    def key(self, key: str, code: str = "") -> None:
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if len(key) == 1 and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=code or key, **text)

    def text(self, selector: str) -> str:
        return str(self.run(f"document.querySelector({json.dumps(selector)}).textContent"))

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """Save a PNG of the screen, or of the whole page."""
        if whole:
            height = self.run("Math.ceil(document.documentElement.scrollHeight)")
            self._measure(self.size[0], height)
            self.settle()
        data = self.call("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))
        if whole:
            self._measure(*self.size)
