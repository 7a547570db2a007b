"""ModelDownload: a model that a device receives in parts."""

from __future__ import annotations

from slotwise.live.parts import Assembly, Place
from slotwise.live.protocol import Work


class ModelDownload:
    """Puts the parts of a model together; parts of another model replace what there is."""

    def __init__(self) -> None:
        self._assembly: Assembly | None = None

    def add(self, work: Work, place: Place, piece: bytes) -> tuple[bytes | None, bool]:
        """Add a part; return the whole model after the last one, and whether the transfer is broken.

        It is broken if parts before this one are missing, which is reported once, or if the whole has the
        wrong checksum and has to be sent again from the start.
        """
        if self._assembly is None or not self._assembly.is_of(work, place):
            self._assembly = Assembly(work, place)
        assembly = self._assembly
        if not assembly.add(place, piece):
            return None, assembly.is_new_gap(place)
        if assembly.received < place.total:
            return None, False
        self._assembly = None
        return assembly.complete, assembly.complete is None

    def drop(self) -> None:
        """Forget the parts that have come."""
        self._assembly = None

    def __str__(self) -> str:
        """Return the text with which a device says what it has; empty if there is none."""
        return "" if self._assembly is None else str(self._assembly)
