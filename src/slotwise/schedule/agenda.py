"""Agenda: what will happen, instant by instant."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from slotwise.schedule.scheduler import Event


class Agenda:
    """A heap of slots, and the events of each slot. Those of one slot keep no order: none is asked for."""

    def __init__(self) -> None:
        self._slots: list[int] = []
        self._events: dict[int, list[Event]] = {}

    def add(self, slot: int, event: Event) -> None:
        """Note an event."""
        events = self._events.get(slot)
        if events is None:
            heappush(self._slots, slot)
            self._events[slot] = [event]
        else:
            events.append(event)

    @property
    def next_slot(self) -> int | None:
        """The first slot in which something happens, if anything is left."""
        return self._slots[0] if self._slots else None

    def pop(self) -> tuple[int, list[Event]]:
        """Take out that slot and all that happens in it."""
        slot = heappop(self._slots)
        return slot, self._events.pop(slot)

    def __iter__(self) -> Iterator[tuple[int, list[Event]]]:
        """The slots in which something happens, in order, and all that happens in each; more may be added."""
        while self._slots:
            yield self.pop()

    def entries(self) -> list[tuple[int, Event]]:
        """All that is noted, by slot; nothing is taken out."""
        return [(slot, event) for slot in sorted(self._events) for event in self._events[slot]]
