"""EventLog: reports what happens in a live run to the observer, as events with a level."""

from __future__ import annotations

from typing import Any

from slotwise.log_event import LogEvent
from slotwise.observer import Observer

MAX_DIFFERENT = 1000  # rejections that are logged; rejections.log has the others


class EventLog:
    """Passes events to an observer; of equal rejections only the first."""

    def __init__(self, observer: Observer | None = None) -> None:
        self._observer = observer or Observer()
        self._rejections: set[tuple[str, str]] = set()

    def debug(self, event: str, **fields: Any) -> None:
        """Report a detail that only helps to find errors."""
        self._observer.logged(LogEvent("debug", event, fields))

    def info(self, event: str, **fields: Any) -> None:
        """Report what an operator may want to follow."""
        self._observer.logged(LogEvent("info", event, fields))

    def warning(self, event: str, **fields: Any) -> None:
        """Report what an operator should look at."""
        self._observer.logged(LogEvent("warning", event, fields))

    def error(self, event: str, **fields: Any) -> None:
        """Report what stops the run or a device."""
        self._observer.logged(LogEvent("error", event, fields))

    def rejected(self, topic: str, reason: str, *, harmless: bool) -> None:
        """Report a rejected message, the first time that it is rejected on this topic for this reason."""
        if (topic, reason) not in self._rejections and len(self._rejections) < MAX_DIFFERENT:
            self._rejections.add((topic, reason))
            (self.debug if harmless else self.warning)("rejected", topic=topic, reason=reason)
