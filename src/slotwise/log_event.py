"""LogEvent: one line of a structured log, as text or as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from math import isfinite
from typing import Any, Literal, NamedTuple, get_args

Level = Literal["debug", "info", "warning", "error"]


class LogEvent(NamedTuple):
    """Something that has happened in a live run: its level and name, and numbers or texts by name."""

    level: Level
    event: str
    fields: Mapping[str, Any]

    def is_at_least(self, level: Level) -> bool:
        """Return whether the event is as important as ``level`` or more."""
        order = get_args(Level)
        return order.index(self.level) >= order.index(level)

    def json(self, moment: datetime | None = None) -> str:
        """Return one line of JSON."""
        document = {"time": _stamp(moment), "level": self.level, "event": self.event, **self.fields}
        finite = {n: None if isinstance(v, float) and not isfinite(v) else v for n, v in document.items()}
        return json.dumps(finite, allow_nan=False, default=str)

    def text(self, moment: datetime | None = None) -> str:
        """Return one line for a person, with the fields as name=value."""
        pairs = (f"{name}={_text(value)}" for name, value in self.fields.items())
        return " ".join([_stamp(moment), self.level, self.event, *pairs])


def _stamp(moment: datetime | None) -> str:
    return (moment or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value)
    plain = text.isascii() and text.isprintable() and not set(text) & set(' "=')
    return text if plain and text else json.dumps(text)
