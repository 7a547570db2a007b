"""Errors in code of the user's own: shown from where that code begins, without the way that leads there."""

from __future__ import annotations

import sysconfig
import traceback
from itertools import takewhile
from pathlib import Path

import slotwise

_SLOTWISE = str(Path(slotwise.__file__).parent)
_LIBRARIES = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))


def error_in_own_code(error: BaseException) -> str | None:
    """The end of the traceback, if it is in code that is neither slotwise's nor a library's; else None."""
    frames = traceback.extract_tb(error.__traceback__)
    called = list(takewhile(lambda frame: not frame.filename.startswith(_SLOTWISE), reversed(frames)))[::-1]
    if len(called) == len(frames) or all(frame.filename.startswith(_LIBRARIES) for frame in called):
        return None
    first = next(i for i, frame in enumerate(called) if not frame.filename.startswith(_LIBRARIES))
    lines = [*traceback.format_list(called[first:]), *traceback.format_exception_only(error)]
    return "".join(lines)
