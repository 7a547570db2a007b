"""The application of the explorer: its page, and JSON, pictures and event streams for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from slotwise.base.errors import UserError
from slotwise.web.answers import PICTURES, UPLINKS, USE_COMMANDS, Answer, Answers, as_json, refusal
from slotwise.web.controls import controls
from slotwise.web.guard import EventStreams, Guard
from slotwise.web.page_files import looks, page, static_file
from slotwise.web.trainings import Trainings
from slotwise.workers import ProcessWorker, Terms, WorkerLost

MOST_SECONDS = 10.0  # of the processor, for one answer
MOST_MEMORY = 3 << 30  # bytes, beyond what the process has when it starts
MOST_SILENCE = 300.0  # seconds of the clock: the process hangs
MOST_WAITING = 32  # requests that wait for one process
FAILED = "slotwise failed to answer; please report this"


class AnswerProcess:
    """Computes one answer at a time.

    Args:
        root: folder of runs to browse.
        seconds: the most seconds of the processor that an answer may take.
    """

    def __init__(self, root: Path, seconds: float = MOST_SECONDS) -> None:
        self._root, self._seconds = root, seconds
        self._worker: ProcessWorker | None = None
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def answer(self, call: str, given: Mapping[str, Any]) -> Answer:
        """Return the answer to a call of `Answers`, or a refusal if it takes too long."""
        if self._waiting >= MOST_WAITING:
            return refusal("too many requests at once")
        # A caller that is cancelled leaves an answer behind, which has to be read before the next one.
        return await asyncio.shield(self._exchange(call, given))

    async def _exchange(self, call: str, given: Mapping[str, Any]) -> Answer:
        self._waiting += 1
        try:
            async with self._turn:
                asked = asyncio.create_task(asyncio.to_thread(self._ask, call, dict(given)))
                done, _ = await asyncio.wait([asked], timeout=MOST_SILENCE)
                if not done and self._worker is not None:
                    self._worker.kill()  # which ends the call
                return await asked
        except WorkerLost as lost:
            return refusal(self._reason(lost))
        except UserError as error:  # a mistake in slotwise: one request fails, and not the process
            return as_json({"message": f"{FAILED}: {error}", "parameter": None}, 500)
        finally:
            self._waiting -= 1

    def _ask(self, call: str, given: dict[str, Any]) -> Answer:
        """Ask the process, which is started if there is none."""
        worker = self._worker
        try:
            if worker is None:
                terms = Terms(seconds=self._seconds, memory=MOST_MEMORY)
                worker = self._worker = ProcessWorker(Answers, self._root, shown="explorer", terms=terms)
                worker.load()
            answer: Answer = worker.call("answer", call, given)
        except WorkerLost:
            self._worker = None
            if worker is not None:
                worker.close()
            raise
        return answer

    def _reason(self, lost: WorkerLost) -> str:
        """Return why there is no answer."""
        if lost.limit == "memory":
            return f"this takes more memory than the explorer has; {USE_COMMANDS}"
        if lost.limit == "seconds":
            return f"this takes longer than {self._seconds:g} s; {USE_COMMANDS}"
        return f"there is no answer: {lost}; try again"

    async def start(self) -> None:
        """Start the process before it is needed."""
        await self.answer("ready", {})

    async def close(self) -> None:
        """End the process if there is one, and what it computes."""
        if self._worker is not None:
            self._worker.kill()
        async with self._turn:
            if self._worker is not None:
                self._worker.close()
            self._worker = None


LONGEST_BODY = 64 << 10  # bytes
MOST_SWEEP_SECONDS = 60.0  # for the curves over group sizes


class Explorer:
    """The explorer as an ASGI application.

    Args:
        runs: folder of runs to browse; None for none.
        new_runs: folder of runs that are started in the page.
        seconds: the most seconds of the processor that an answer may take.
    """

    def __init__(self, runs: Path | None, new_runs: Path, seconds: float = MOST_SECONDS) -> None:
        self._trainings, self._root = Trainings(new_runs), runs or new_runs
        # The curves over group sizes take longest; the chart does not wait for them.
        self._charts, self._sweeps = (AnswerProcess(self._root, seconds) for _ in range(2))
        self._streams = EventStreams(self._trainings.changes, lambda: json.dumps(self._trainings.as_dicts()))
        self._begins_with_results = runs is not None
        routes = [
            Route("/", self._page),
            Route("/static/{name}", static_file),
            Route("/api/view", self._answer),
            Route("/api/part", self._answer),
            Route("/api/cell", self._answer),
            Route("/api/access", self._answer),
            Route("/api/runs", self._answer),
            Route("/api/curves", self._answer),
            Route("/api/sizes", self._sizes),
            Route("/api/download/{name}", self._download),
            Route("/api/training", self._start, methods=["POST"]),
            Route("/api/training/stop", self._stop, methods=["POST"]),
            Route("/api/training/events", self._events),
        ]
        self.app = Starlette(routes=routes, middleware=[Middleware(Guard)], lifespan=self._lifespan)

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:  # noqa: ARG002
        starting = asyncio.create_task(self._charts.start())  # while the browser opens
        yield
        starting.cancel()
        await self._charts.close()
        await self._sweeps.close()
        await self._trainings.close()

    async def _page(self, request: Request) -> Response:  # noqa: ARG002
        return page("explorer.html", self._boot())

    def _boot(self) -> dict[str, Any]:
        """Return what the page has to know before its first request."""
        return {
            "version": version("slotwise"),
            "controls": [asdict(control) for control in controls()],
            "results": self._begins_with_results,
            "folder": str(self._root),
            "new_runs": str(self._trainings.root),
            **looks(),
        }

    async def _answer(self, request: Request) -> Response:
        """Return what the worker answers to the call that the path names."""
        given = {**request.query_params, "runs": request.query_params.getlist("run")}
        call = request.url.path.rsplit("/", 1)[1]
        if call != "curves":
            del given["runs"]
        return _response(await self._charts.answer(call, given))

    async def _sizes(self, request: Request) -> Response:
        """Stream the rows of all group sizes as they are computed."""
        given = dict(request.query_params)
        first = await self._sweeps.answer("sizes", given)
        if first.status != 200:
            return _response(first)
        found = json.loads(first.content)

        async def lines() -> AsyncIterator[str]:
            yield json.dumps({"wanted": len(found["rows"]) + sum(map(len, found["missing"]))}) + "\n"
            if found["rows"]:
                yield json.dumps(found["rows"]) + "\n"
            until = asyncio.get_running_loop().time() + MOST_SWEEP_SECONDS
            for sizes in found["missing"]:
                if asyncio.get_running_loop().time() > until:  # the most telling sizes came first
                    yield (
                        json.dumps({"message": f"the others take more than {MOST_SWEEP_SECONDS:g} s"}) + "\n"
                    )
                    return
                answer = await self._sweeps.answer("rows", {"options": given, "sizes": sizes})
                yield answer.content.decode() + "\n"
                if answer.status != 200:
                    return

        return StreamingResponse(lines(), media_type="application/x-ndjson")

    async def _download(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in (*PICTURES, UPLINKS):
            return Response("not found\n", 404, media_type="text/plain")
        response = _response(await self._charts.answer("download", {**request.query_params, "name": name}))
        if response.status_code == 200:
            response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
        return response

    async def _start(self, request: Request) -> Response:
        try:
            # The worker process checks the options; this one only starts what was accepted.
            answer = await self._charts.answer("training", await _body(request))
            if answer.status != 200:
                return _response(answer)
            training = self._trainings.start(json.loads(answer.content))
        except UserError as error:
            return _response(refusal(str(error)))
        return _response(as_json(training.as_dict()))

    async def _stop(self, request: Request) -> Response:
        try:
            # The body is not used, but it has to be JSON, which another site cannot send.
            await _body(request)
        except UserError as error:
            return _response(refusal(str(error)))
        self._trainings.stop()
        return _response(as_json({}))

    async def _events(self, request: Request) -> Response:  # noqa: ARG002
        return self._streams.response()


def _response(answer: Answer) -> Response:
    headers = {"Cache-Control": "no-store"}
    return Response(answer.content, answer.status, media_type=answer.media_type, headers=headers)


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
