"""Events and actions of the Scheduler: what has happened, and what the channel does next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Ready(NamedTuple):
    """A device has finished computing, in ``slot``, an update made from model ``version``.

    Slot and version are part of the event: the order of arrival means nothing, and an update that a device
    has left from before an absence is distinguished from the one it was asked for.
    """

    device: int
    slot: int
    version: int


class Sent(NamedTuple):
    """The granted device's update has arrived."""

    device: int


class Lost(NamedTuple):
    """The granted device's slots have passed, in ``slot``, and no intact update has arrived.

    If it is to be sent again and the device has to wait first, for energy, another Ready event follows.
    """

    device: int
    slot: int
    waits: bool = False


class Delivered(NamedTuple):
    """The broadcast of a model has ended (w_0 takes none); its receivers now compute."""

    version: int


class Left(NamedTuple):
    """A device has left. If it was sending, its sub-channel stays busy until a Lost event frees it."""

    device: int


class Joined(NamedTuple):
    """A device has joined, or joined again."""

    device: int


class Opened(NamedTuple):
    """The window of a device that waits for one may have opened: the Scheduler looks by itself."""


Event = Ready | Sent | Lost | Delivered | Left | Joined | Opened


class Grant(NamedTuple):
    """Let ``device`` send its update, trained on model ``version``, in round ``round``."""

    device: int
    round: int
    version: int


class Deliver(NamedTuple):
    """Broadcast model ``version`` to ``receivers``. Version 0 is known from the start and takes no slot."""

    version: int
    receivers: Sequence[int]


class Repeat(NamedTuple):
    """Broadcast the newest model once more, to devices that were out of their windows before."""

    version: int
    receivers: Sequence[int]


Action = Grant | Deliver | Repeat
