"""The application of the explorer: its page, and JSON, pictures and event streams for it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import anyio
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from slotwise.errors import InputError, UserError
from slotwise.report.gantt import Window
from slotwise.report.gantt.drawing import compose, picture_window
from slotwise.schedule import Timeline
from slotwise.web import exploration
from slotwise.web.controls import TRAINED, controls, effective, parse_options, parse_powers
from slotwise.web.event_stream import EventStreams
from slotwise.web.group_size_sweep import Sweeps
from slotwise.web.guard import Guard
from slotwise.web.looks import looks
from slotwise.web.page_files import page, static_file
from slotwise.web.results_browser import ResultsBrowser
from slotwise.web.trainings import Trainings

Result = TypeVar("Result")
Parameters = Mapping[str, str]
Endpoint = Callable[[Request], Awaitable[Response]]
ENERGY = tuple(control.name for control in controls() if control.section == "energy")
PART = ("from", "to", "first_device", "last_device")  # of a Gantt chart
LONGEST_BODY = 64 << 10  # bytes
COMPUTING = 3  # threads, so that nonsense cannot occupy the machine


class Explorer:
    """The explorer as an ASGI application.

    Args:
        runs: folder of runs to browse; None for none.
        new_runs: folder of runs that are started in the page.
    """

    def __init__(self, runs: Path | None, new_runs: Path) -> None:
        self._timelines, self._sweeps = exploration.Timelines(), Sweeps()
        self._trainings = Trainings(new_runs)
        self._results = ResultsBrowser(runs or new_runs)
        self._streams = EventStreams(self._trainings.changes, lambda: json.dumps(self._trainings.as_dicts()))
        self._limiter = anyio.CapacityLimiter(COMPUTING)
        self._begins_with_results = runs is not None
        routes = [
            Route("/", self._page),
            Route("/static/{name}", static_file),
            Route("/api/view", _answering(self._view)),
            Route("/api/part", _answering(self._part)),
            Route("/api/sizes", _answering(self._sizes)),
            Route("/api/download/{name}", _answering(self._download)),
            Route("/api/runs", _answering(self._runs)),
            Route("/api/curves", _answering(self._curves)),
            Route("/api/training", _answering(self._start), methods=["POST"]),
            Route("/api/training/stop", _answering(self._stop), methods=["POST"]),
            Route("/api/training/events", self._events),
        ]
        self.app = Starlette(routes=routes, middleware=[Middleware(Guard)], lifespan=self._lifespan)

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:  # noqa: ARG002
        yield
        await self._trainings.close()

    async def _page(self, request: Request) -> Response:  # noqa: ARG002
        return page("explorer.html", self._boot())

    def _boot(self) -> dict[str, Any]:
        """Return what the page has to know before its first request."""
        return {
            "version": version("slotwise"),
            "controls": [asdict(control) for control in controls()],
            "results": self._begins_with_results,
            "folder": str(self._results.root),
            "new_runs": str(self._trainings.root),
            **looks(),
        }

    async def _run(self, function: Callable[[], Result]) -> Result:
        return await anyio.to_thread.run_sync(function, limiter=self._limiter)

    async def _view(self, request: Request) -> Response:
        given = dict(request.query_params)
        powers = parse_powers(given)
        options = parse_options(_without(given, *ENERGY, *PART, "brief"))
        window, devices = _part_of(given) if PART[0] in given else (None, range(0))

        def compute() -> Any:
            view = exploration.view(self._timelines, options, powers, brief="brief" in given)
            if window is not None:
                timeline = self._timelines.of(effective(options)[0])
                view["part"] = exploration.part(self._timelines, timeline, window, devices)
            return view

        return _json(await self._run(compute))

    def _timeline(self, given: Parameters) -> Timeline:
        """Return the timeline of a run folder (``run=``) or of options."""
        if "run" in given:
            return self._results.timeline(given["run"])
        options = parse_options(_without(given, *ENERGY))
        return self._timelines.of(effective(options)[0])

    def _update_bits(self, given: Parameters) -> int | None:
        """Return the bits of an uplink of adaptive rate, for the description of a chart."""
        options = parse_options(_without(given, "from", "to", *ENERGY)) if "run" not in given else None
        return None if options is None else effective(options)[0].update_bits

    async def _part(self, request: Request) -> Response:
        given = dict(request.query_params)
        window, devices = _part_of(given)

        def compute() -> Any:
            timeline = self._timeline(_without(given, *PART))
            found = exploration.part(self._timelines, timeline, window, devices)
            return {**found, "frame": exploration.frame(timeline)}

        return _json(await self._run(compute))

    async def _sizes(self, request: Request) -> Response:
        options = parse_options(_without(dict(request.query_params), *ENERGY))
        effective(options)  # an error is an answer of its own, not the end of a stream

        async def lines() -> AsyncIterator[str]:
            try:
                rows = self._sweeps.rows(options)
                while (found := await self._run(lambda: next(rows, None))) is not None:
                    yield json.dumps(found) + "\n"
            except UserError as error:
                yield json.dumps({"error": str(error)}) + "\n"

        return StreamingResponse(lines(), media_type="application/x-ndjson")

    async def _download(self, request: Request) -> Response:
        name, given = request.path_params["name"], dict(request.query_params)
        kinds = {"timeline.svg": "image/svg+xml", "timeline.png": "image/png", "uplinks.csv": "text/csv"}
        if name not in kinds:
            return Response("not found\n", 404, media_type="text/plain")
        first, end = (whole_parameter(given, key) if key in given else None for key in ("from", "to"))

        def compute() -> bytes:
            timeline = self._timeline(_without(given, "from", "to"))
            from slotwise.report.gantt.figure_chart import gantt_file  # noqa: PLC0415  (loads matplotlib)

            if name == "uplinks.csv":
                return exploration.uplinks_csv(timeline).encode()
            window = None
            if first is not None and end is not None:
                window = Window(min(first, timeline.last_slot - 1), min(max(end, 1), timeline.last_slot))
            picture = compose(timeline, picture_window(timeline, window))
            return gantt_file(replace(picture, update_bits=self._update_bits(given)), name[-3:])

        content = await self._run(compute)
        disposition = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Response(content, media_type=kinds[name], headers=disposition)

    async def _runs(self, request: Request) -> Response:  # noqa: ARG002
        return _json(await self._run(self._results.listing))

    async def _curves(self, request: Request) -> Response:
        given, runs = dict(request.query_params), request.query_params.getlist("run")
        powers = parse_powers(_without(given, "run", "across", "up"))
        across, up = given.get("across", "slot"), given.get("up", "loss")
        return _json(await self._run(lambda: self._results.curves(runs, across, up, powers)))

    async def _start(self, request: Request) -> Response:
        body = await _body(request)
        options = parse_options(body, ("plan", "more", "radio", "training"))
        config, kept, unused = await self._run(lambda: effective(options))
        for name in [name for name in TRAINED if name in unused]:  # the page does not switch these off
            raise InputError(name, options[name], unused[name])
        timeline = await self._run(lambda: self._timelines.of(config))
        training = await self._trainings.start(config, kept, timeline)
        return _json(training.as_dict())

    async def _stop(self, request: Request) -> Response:
        await _body(request)
        self._trainings.stop()
        return _json({})

    async def _events(self, request: Request) -> Response:  # noqa: ARG002
        return self._streams.response()


def _answering(
    endpoint: Callable[[Request], Awaitable[Response]],
) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint whose errors of the user are answers with status 422."""

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except InputError as error:
            message = {"message": str(error), "parameter": error.parameter, "allowed": error.allowed}
            return _json(message, 422)
        except UserError as error:
            return _json({"message": str(error), "parameter": None}, 422)
        except ModuleNotFoundError as error:  # matplotlib, for pictures
            return _json({"message": f"{error.name} is not installed", "parameter": None}, 422)
        except MemoryError:
            return _json({"message": "not enough memory for this size", "parameter": None}, 422)

    return answer


def _json(value: Any, status: int = 200) -> Response:
    headers = {"Cache-Control": "no-store"}
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return Response(text, status, media_type="application/json", headers=headers)


def _without(given: Parameters, *names: str) -> dict[str, str]:
    return {name: value for name, value in given.items() if name not in names}


def whole_parameter(given: Parameters, name: str) -> int:
    """Return a whole number of an address, or raise an InputError."""
    text = given.get(name, "")
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise InputError(name, text or "missing", "a whole number of at least 0")
    return int(text)


def _part_of(given: Parameters) -> tuple[Window, range]:
    """Return the slots and devices of a part of a Gantt chart."""
    first, end, low, high = (whole_parameter(given, name) for name in PART)
    return Window(first, end), range(low, high + 1)


async def _body(request: Request) -> dict[str, str]:
    """Return the table of texts in the body of a request; only JSON, which other sites cannot send."""
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise UserError("the content type must be application/json")
    content = b""
    async for piece in request.stream():
        content += piece
        if len(content) > LONGEST_BODY:
            raise UserError(f"the request is longer than {LONGEST_BODY:,} bytes")
    try:
        table = json.loads(content or b"{}")
    except (ValueError, RecursionError):
        raise UserError("the request is not JSON") from None
    if not isinstance(table, dict) or not all(isinstance(value, str) for value in table.values()):
        raise UserError("the request must be a table of texts")
    return table
