"""Files and colours of the pages: served one by one by a server, or all in one file for a notebook."""

from __future__ import annotations

import hashlib
import json
import re
from functools import cache
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from slotwise.report.colours import DASHES, SCHEDULE_COLOURS, page_strokes
from slotwise.report.gantt.chart import Activity
from slotwise.report.gantt.drawing import LOOKS

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
PLACE = "BOOT"  # in a page: replaced by the values that it begins with


@cache
def read(name: str) -> str:
    """Return the text of a file of the pages."""
    return files("slotwise.web").joinpath("static", name).read_text(encoding="utf-8")


def file_names() -> tuple[str, ...]:
    """Return the names of all files."""
    return tuple(sorted(path.name for path in files("slotwise.web").joinpath("static").iterdir()))


def filled(name: str, boot: Any) -> str:
    """Return the text of a page with the values it begins with."""
    # In a script element only "</" could end the values too early.
    return read(name).replace(PLACE, json.dumps(boot, separators=(",", ":")).replace("<", "\\u003c"), 1)


def single_file(name: str, boot: Any, title: str) -> str:
    """Return a page as one file that needs no other: styles and scripts are inside."""
    text = filled(name, boot)
    text = re.sub(r"<title>.*?</title>", lambda _: f"<title>{escape(title)}</title>", text)
    text = re.sub(
        r'<link rel="stylesheet" href="static/([\w.-]+)">', lambda m: f"<style>\n{read(m[1])}</style>", text
    )
    return re.sub(
        r'<script defer src="static/([\w.-]+)"></script>', lambda m: f"<script>\n{read(m[1])}</script>", text
    )


def page(name: str, boot: Any) -> Response:
    """Return the response with a page."""
    from starlette.responses import HTMLResponse  # noqa: PLC0415  (of the extra "web")

    return HTMLResponse(filled(name, boot), headers={"Cache-Control": "no-store"})


async def static_file(request: Request) -> Response:
    """Return a style sheet, script or picture; a browser that has it already gets no content."""
    from starlette.responses import PlainTextResponse, Response  # noqa: PLC0415

    name = request.path_params["name"]
    suffix = name[name.rfind(".") :]
    if suffix not in TYPES or name not in file_names():
        return PlainTextResponse("not found\n", 404)
    content = read(name).encode()
    tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=TYPES[suffix], headers=headers)


def looks() -> dict[str, Any]:
    """Return names and colours; a pair of colours is for light and for dark pages."""
    activities = [
        {
            "kind": int(kind),
            "name": kind.name.lower().replace("_", "-"),
            "title": look.title,
            "colours": [look.colour, look.dark_colour],
            "inks": [look.ink, look.dark_ink],
            "thickness": look.thickness,
            "rare": kind in (Activity.LOST, Activity.AWAY, Activity.CHARGING),
        }
        for kind, look in LOOKS.items()
    ]
    schedules = {name: list(colour) for name, colour in SCHEDULE_COLOURS.items()}
    dashes = [" ".join(map(str, page_strokes(dash))) for dash in DASHES]  # as in an SVG
    return {"activities": activities, "schedules": schedules, "dashes": dashes}
