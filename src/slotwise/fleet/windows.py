"""Windows: when a device can send and receive, while it computes at any time (coverage, duty cycles).

A window is a span of slots [opens, closes) of one device. Windows may repeat for ever, with a period.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.base.errors import InputError
from slotwise.options.checks import LARGEST, whole

FOR_EVER = 2**61  # the end of a window that does not close
Spans = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]  # device, start, end of each


class Window(NamedTuple):
    """One window of a device: it can send and receive in slots [opens, closes)."""

    device: int
    opens: int
    closes: int


class Reach(ABC):
    """When devices can send and receive, while they compute at any time."""

    called: ClassVar[str]
    always_receives: ClassVar[bool]  # whether every broadcast reaches every device
    splits_uplinks: ClassVar[bool]  # whether other slots lie between those of an uplink

    @abstractmethod
    def uplink_starts(self, device: int, slot: int, slots: int) -> tuple[int, int] | None:
        """Return the first slot from ``slot`` on in which an uplink of ``slots`` may start; None if none.

        Also return the last one up to which it may start in every slot.
        """

    @abstractmethod
    def uplink(self, device: int, start: int, slots: int) -> tuple[int, bool]:
        """Return the slots from the start of an uplink to its end, and whether all of it is sent by then."""

    @abstractmethod
    def reception_starts(self, device: int, slot: int, slots: int) -> tuple[int, int] | None:
        """Return the same as `uplink_starts`, of a broadcast that reaches the device."""

    @abstractmethod
    def receives(self, device: int, start: int, end: int) -> bool:
        """Return whether a broadcast in slots [start, end) reaches a device."""

    @abstractmethod
    def uplinks_at_once(self, sub_channels: int, devices: int) -> int:
        """Return how many uplinks may be under way at once."""

    @abstractmethod
    def on_air(self, device: NDArray[Any], start: NDArray[Any], end: NDArray[Any]) -> Spans:
        """Return the slots in which uplinks, from start to end, are on the air, as spans without a gap."""

    @abstractmethod
    def check(self, devices: int, sub_channels: int | None = None) -> None:
        """Raise an InputError if it does not fit so many devices, or sub-channels."""

    @abstractmethod
    def refuse_unfit(self, uplinks: Iterable[int], broadcast: int, *, known: bool) -> None:
        """Raise an InputError if uplinks or broadcasts of so many slots can never be sent.

        ``uplinks`` are those of the devices, which are exact if they are ``known`` in advance.
        """

    @abstractmethod
    def as_dict(self) -> dict[str, Any]:
        """Return the fields by name, for JSON."""


@dataclass(frozen=True)
class Windows(Reach):
    """The windows of a fleet; a device without any is always in reach.

    Attributes:
        windows: (device, opens, closes) of each, in any order.
        period: Slots after which all windows repeat, before and after those listed; None if they do not.
    """

    called: ClassVar[str] = "windows"
    always_receives: ClassVar[bool] = False
    splits_uplinks: ClassVar[bool] = False
    windows: tuple[Window, ...]
    period: int | None = None

    def __post_init__(self) -> None:
        if self.period is not None:
            whole("window_period", self.period, 2)
        object.__setattr__(self, "windows", tuple(sorted(_checked(window) for window in self.windows)))
        if not self.windows:
            raise InputError("windows", "none", "at least one (device, opens, closes)")
        for device, spans in self._spans.items():
            self._check_order(device, spans)

    @classmethod
    def periodic(cls, period: int, length: int, offsets: Iterable[int]) -> Windows:
        """Return one window of ``length`` slots in every period; device n's opens in slot offsets[n−1]."""
        whole("window_period", period, 2)
        whole("window_length", length, 1, period - 1)
        opens = (whole("window_offsets", offset, 0, LARGEST) % period for offset in offsets)
        return cls(tuple(Window(n, slot, slot + length) for n, slot in enumerate(opens, 1)), period)

    def _check_order(self, device: int, spans: list[tuple[int, int]]) -> None:
        if self.period is not None and not 0 <= spans[0][0] <= spans[-1][0] < self.period:
            raise InputError("windows", _shown(device, spans[-1]), f"opened in slots 0 to {self.period - 1}")
        again = [] if self.period is None else [(spans[0][0] + self.period, spans[0][1] + self.period)]
        for (_, closes), following in pairwise([*spans, *again]):
            # With a slot in between no transmission fits into two windows together.
            if following[0] <= closes:
                allowed = "one after another for each device, with a slot in between"
                raise InputError("windows", _shown(device, following), allowed)

    @cached_property
    def _spans(self) -> Mapping[int, list[tuple[int, int]]]:
        """The windows by device, in order of time."""
        spans: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        for device, opens, closes in self.windows:
            spans[device].append((opens, closes))
        return dict(spans)

    @cached_property
    def _closes(self) -> Mapping[int, list[int]]:
        return {device: [closes for _, closes in spans] for device, spans in self._spans.items()}

    def next_window(self, device: int, slot: int) -> tuple[int, int] | None:
        """Return (opens, closes) of the first window that closes after ``slot``; None if there is none."""
        spans = self._spans.get(device)
        if spans is None:
            return 0, FOR_EVER
        if self.period is None:
            place = bisect_right(self._closes[device], slot)
            return spans[place] if place < len(spans) else None
        before, phase = divmod(slot, self.period)
        opens, closes = spans[-1]
        if closes - self.period > phase:  # the last window of the period before
            shift = (before - 1) * self.period
            return opens + shift, closes + shift
        place = bisect_right(self._closes[device], phase)
        shift = (before + place // len(spans)) * self.period
        opens, closes = spans[place % len(spans)]
        return opens + shift, closes + shift

    def starts(self, device: int, slot: int, slots: int) -> tuple[int, int] | None:
        """Return first and last start, in one window and from ``slot`` on, of what takes ``slots``.

        None if no later window is long enough.
        """
        for _ in range(len(self._spans.get(device, ())) + 2):
            window = self.next_window(device, slot)
            if window is None:
                return None
            slot = max(slot, window[0])
            if slot + slots <= window[1]:
                return slot, window[1] - slots
            slot = window[1]
        return None

    uplink_starts = starts
    reception_starts = starts

    def uplink(self, device: int, start: int, slots: int) -> tuple[int, bool]:
        """Return the slots of an uplink, which is broken off if it takes longer than its window is open."""
        window = self.next_window(device, start)
        left = slots if window is None else window[1] - start
        return min(slots, left), slots <= left

    def receives(self, device: int, start: int, end: int) -> bool:
        """Return whether slots [start, end) lie within one window of a device."""
        window = self.next_window(device, start)
        return window is not None and window[0] <= start and end <= window[1]

    def uplinks_at_once(self, sub_channels: int, devices: int) -> int:  # noqa: ARG002
        """Return the number of sub-channels."""
        return sub_channels

    def on_air(self, device: NDArray[Any], start: NDArray[Any], end: NDArray[Any]) -> Spans:
        """Return the uplinks: each is on the air from start to end."""
        return device, start, end

    def check(self, devices: int, sub_channels: int | None = None) -> None:  # noqa: ARG002
        """Raise an InputError if windows are those of other devices than 1 to ``devices``."""
        last = self.windows[-1].device
        if last > devices:
            raise InputError("windows", f"device {last}", f"devices from 1 to {devices}")

    def refuse_unfit(self, uplinks: Iterable[int], broadcast: int, *, known: bool) -> None:  # noqa: ARG002
        """Raise an InputError if a device has windows, and none is as long as an uplink or a broadcast."""
        for device, slots in enumerate(uplinks, 1):
            self._refuse_shorter(device, slots, "the slots of an uplink")
            self._refuse_shorter(device, broadcast, "the slots of a broadcast")

    def _refuse_shorter(self, device: int, slots: int, what: str) -> None:
        longest = max((closes - opens for opens, closes in self._spans.get(device, ())), default=slots)
        if longest < slots:
            name = "window_length" if self.period is not None else "windows"
            raise InputError(name, longest, f"at least {slots}, {what} of device {device}")

    def as_dict(self) -> dict[str, Any]:
        """Return the fields by name, for JSON."""
        return {"windows": [list(window) for window in self.windows], "period": self.period}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Windows:
        """Return what `as_dict` describes."""
        return cls(tuple(Window(*window) for window in document["windows"]), document["period"])


def _shown(device: int, window: tuple[int, int]) -> str:
    return f"device {device}, slots {window[0]} to {window[1]}"


def _checked(window: Any) -> Window:
    try:
        device, opens, closes = window
    except (TypeError, ValueError):
        raise InputError("windows", window, "lists of device, opens and closes") from None
    try:
        whole("device", device)
        whole("opens", opens, 0)
        return Window(device, opens, whole("closes", closes, opens + 1))
    except InputError as error:
        allowed = f"such that {error.parameter} is {error.allowed}"
        raise InputError("windows", list(window), allowed) from None
