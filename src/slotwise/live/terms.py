"""What a server keeps to, and whom it tells."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from slotwise.aggregation import Aggregation
from slotwise.fleet import Fleet
from slotwise.live.state import LiveState


class NotFinite(Exception):
    """A model is not finite any more."""


class NobodyLeft(Exception):
    """Every device is out for the rest of the run."""


class Onlooker(Protocol):
    """Is told how a run goes on."""

    def waiting(self, present: int, wanted: int) -> None:
        """So many of the devices are there."""

    def round_done(self, state: LiveState) -> None:
        """A round is complete: its model is on its way."""


@dataclass(frozen=True)
class Terms:
    """What a server has to know of a run and keeps to.

    Attributes:
        run: its identity.
        rounds: how many.
        fleet: the slots of every device's training and uplink.
        broadcast_slots: r.
        aggregation: how updates combine.
        patience: seconds for which a device may stay silent before it counts as gone.
        announcement: what devices are told about the run.
    """

    run: str
    rounds: int
    fleet: Fleet
    broadcast_slots: int
    aggregation: Aggregation
    patience: float = 60.0
    announcement: dict[str, str] = field(default_factory=dict)
