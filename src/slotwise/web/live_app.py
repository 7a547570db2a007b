"""The application of the live page: the page, its event stream, metrics for Prometheus, and health."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from math import isfinite
from typing import Any, get_args

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from slotwise.live.server.live_status import NO_REPORT, DeviceState, LiveStatus, Phase
from slotwise.web.guard import LOOPBACK, Changes, EventStreams, Guard
from slotwise.web.live_page import LivePage
from slotwise.web.live_snapshot import LiveSnapshot
from slotwise.web.page_files import looks, page, static_file

STALE_SECONDS = 30.0  # without a snapshot of a running server: it hangs
HEALTH = "/healthz"  # answered without a token, for probes
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


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
        if phase == "diverged" or (running and age >= STALE_SECONDS):
            return {"status": f"{phase}, last heard {age:.0f} s ago"}, False
        if snapshot.campaign is not None and snapshot.campaign.refused:
            return {"status": f"{phase}, and the next plan of the campaign is refused"}, False
        if phase == "running" and snapshot.stalled_for:
            devices = f"{snapshot.status.connected} devices connected"
            return {"status": f"no round for {snapshot.stalled_for:.0f} s, {devices}"}, False
        return {"status": phase}, True


def metrics(snapshot: LiveSnapshot, age: float) -> str:
    """Return all metrics of a moment; ``age`` is how many seconds ago that was."""
    return "".join(_lines(snapshot, age))


def _lines(snapshot: LiveSnapshot, age: float) -> Iterator[str]:
    status = snapshot.status
    states = Counter(device.state for device in status.devices)
    gauges = {
        "status_age_seconds": ("Seconds since the server has reported its state.", age),
        "rounds_planned": ("Rounds of the plan.", status.rounds),
        "slot": ("Last slot in which something happened.", status.slot),
        "stalled_seconds": ("Seconds without a round, if unusually many, else 0.", snapshot.stalled_for),
        "devices_late": ("Devices that are late in this moment.", len(snapshot.overdue)),
    }
    if snapshot.campaign is not None:
        refused = int(bool(snapshot.campaign.refused))
        gauges |= {
            "campaign_run": ("Number of the run of the campaign.", snapshot.campaign.number),
            "campaign_plan_refused": ("1 if the next plan cannot be played, else 0.", refused),
        }
    counters = {
        "rounds_total": ("Completed rounds.", status.round),
        "updates_total": ("Updates applied.", status.updates),
        "uplinks_lost_total": ("Uplinks without a good update.", status.lost),
        "updates_clipped_total": ("Updates that were scaled down.", status.clipped),
        "rollbacks_total": ("Models that repeat an earlier one.", status.rollbacks),
    }
    for kind, found in (("gauge", gauges), ("counter", counters)):
        for name, (text, number) in found.items():
            yield from _metric(name, kind, text, {"": number})
    phases = {phase: int(phase == status.phase) for phase in get_args(Phase)}
    yield from _metric("phase", "gauge", "1 for what the server does, else 0.", phases, "phase")
    by_state = {state: states[state] for state in get_args(DeviceState)}
    yield from _metric("devices", "gauge", "Devices by what they do.", by_state, "state")
    rejected = status.rejected
    yield from _metric("messages_rejected_total", "counter", "Rejected messages.", rejected, "reason")
    if snapshot.points:
        _, _, loss, accuracy = snapshot.points[-1]
        yield from _metric("train_loss", "gauge", "Training loss of the last evaluated model.", {"": loss})
        yield from _metric("test_accuracy", "gauge", "Its test accuracy, 0 to 1.", {"": accuracy})
    updates = {str(device.device): device.updates for device in status.devices}
    yield from _metric("device_updates_total", "counter", "Updates of each device.", updates, "device")
    yield from _reported(status)
    heard = {str(device): seconds for device, seconds in snapshot.heard.items()}
    text = "Seconds since a message of each device."
    yield from _metric("device_last_seen_seconds", "gauge", text, heard, "device")


def _reported(status: LiveStatus) -> Iterator[str]:
    """Yield what devices say about themselves, as far as they have said anything."""
    reports = {device.device: device.report for device in status.devices if device.report != NO_REPORT}
    builds: Mapping[str, float] = Counter(report.slotwise or "unknown" for report in reports.values())
    yield from _metric("devices_by_version", "gauge", "Devices by their slotwise.", builds, "version")
    memory = {str(n): 1e6 * report.memory_mb for n, report in reports.items() if report.memory_mb}
    text = "Memory of the process of each device."
    yield from _metric("device_memory_bytes", "gauge", text, memory, "device")
    days = {str(n): report.certificate_days for n, report in reports.items() if report.certificate_days}
    text = "Days until the certificate of each device ends, as it has reported."
    yield from _metric("device_certificate_days", "gauge", text, days, "device")
    errors = {str(n): report.error_age for n, report in reports.items() if report.error}
    text = "Seconds since the last error of each device when it reported it."
    yield from _metric("device_error_age_seconds", "gauge", text, errors, "device")


def _metric(
    name: str, kind: str, text: str, values: Mapping[str, float | None], label: str = ""
) -> Iterator[str]:
    """Yield the lines of one metric; ``values`` by the word of its label, if it has one."""
    known = {word: value for word, value in values.items() if value is not None and isfinite(value)}
    if not known:
        return
    yield f"# HELP slotwise_{name} {text}\n# TYPE slotwise_{name} {kind}\n"
    for word, value in known.items():
        labels = f'{{{label}="{_escaped(word)}"}}' if label else ""
        yield f"slotwise_{name}{labels} {value:.12g}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
