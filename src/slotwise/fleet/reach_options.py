"""When devices can send and receive: always, in windows, or in slots that they own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from slotwise.base.errors import ConflictError, InputError
from slotwise.fleet.slotframe import MOST_FRAME_SLOTS, OwnedSlot, Slotframe
from slotwise.fleet.windows import Window, Windows
from slotwise.options import Either, NoFlag, Range
from slotwise.options.checks import LARGEST, Value
from slotwise.scenario import Scenario


@dataclass(frozen=True, kw_only=True)
class NoWindows(Value):
    """Devices can always send and receive."""

    def reach_of(self, scenario: Scenario) -> None:
        """Return None: there are no windows."""


@dataclass(frozen=True, kw_only=True)
class PeriodicWindows(Value):
    """Each device can send and receive in one window of every period, and computes at any time.

    Attributes:
        window_period: Slots from one window of a device to its next one, if devices can send and receive only
            in windows.
        window_length: Slots of a window.
        window_stagger: Slots from the opening of a device's window to that of the next device. The first one
            opens in slot 0.
        window_offsets: Slots in which the first windows of devices 1 to N open, one by one.
    """

    window_period: Annotated[int, Range(least=2, most=LARGEST)]
    window_length: Annotated[int, Range(least=1, most=LARGEST)]
    window_stagger: Annotated[int, Range(least=0, most=LARGEST)] = 0
    window_offsets: Annotated[tuple[int, ...], Range(least=0, most=LARGEST), NoFlag()] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window_length >= self.window_period:
            allowed = f"below window_period, {self.window_period}"
            raise InputError("window_length", self.window_length, allowed)
        if self.window_offsets and self.window_stagger:
            raise ConflictError("window_stagger", "window_offsets")

    def reach_of(self, scenario: Scenario) -> Windows:
        """Return the windows of all devices."""
        devices = scenario.devices
        offsets = self.window_offsets or tuple(n * self.window_stagger % LARGEST for n in range(devices))
        if len(offsets) != devices:
            raise InputError("window_offsets", f"{len(offsets)} numbers", f"{devices}, one for each device")
        return Windows.periodic(self.window_period, self.window_length, offsets)


@dataclass(frozen=True, kw_only=True)
class ListedWindows(Value):
    """Devices can send and receive in the windows that are listed; one without any always can.

    Attributes:
        windows: (device, opens, closes) of each window.
    """

    windows: Annotated[tuple[tuple[int, int, int], ...], NoFlag()]

    def __post_init__(self) -> None:
        super().__post_init__()
        checked = Windows(tuple(self.windows))  # type: ignore[arg-type]  # rows are checked there
        object.__setattr__(self, "windows", tuple(tuple(window) for window in checked.windows))

    def reach_of(self, scenario: Scenario) -> Windows:  # noqa: ARG002
        """Return the windows as they are listed."""
        return Windows(tuple(Window(*window) for window in self.windows))


@dataclass(frozen=True, kw_only=True)
class OwnedSlots(Value):
    """Each device sends only in slots of a repeated frame that it owns; it receives and computes at any time.

    Attributes:
        frame_slots: Slots of a frame, if devices send only in slots of it that they own.
        frame_offset: Slots at the beginning of a frame without an owner. Devices 1 to N own the others, one
            after another and again from device 1 on.
        owned_slots: (slot, device) for each slot of the frame that a device owns, slots from 0 on.
    """

    frame_slots: Annotated[int, Range(least=1, most=MOST_FRAME_SLOTS)]
    frame_offset: Annotated[int, Range(least=0, most=LARGEST)] = 0
    owned_slots: Annotated[tuple[tuple[int, int], ...], NoFlag()] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.owned_slots and self.frame_offset:
            raise ConflictError("frame_offset", "owned_slots")
        if self.frame_offset >= self.frame_slots:
            raise InputError("frame_offset", self.frame_offset, f"below frame_slots, {self.frame_slots}")
        if self.owned_slots:
            checked = Slotframe(self.frame_slots, tuple(self.owned_slots))  # type: ignore[arg-type]
            object.__setattr__(self, "owned_slots", tuple(tuple(owned) for owned in checked.owned_slots))

    def reach_of(self, scenario: Scenario) -> Slotframe:
        """Return the frame of all devices."""
        if self.owned_slots:
            frame = Slotframe(self.frame_slots, tuple(OwnedSlot(*owned) for owned in self.owned_slots))
        else:
            frame = Slotframe.in_turn(self.frame_slots, scenario.devices, self.frame_offset)
        frame.check(scenario.devices, scenario.sub_channels)
        return frame


ReachOptions = Annotated[
    NoWindows | PeriodicWindows | ListedWindows | OwnedSlots,
    Either((NoWindows, PeriodicWindows, ListedWindows, OwnedSlots)),
]
