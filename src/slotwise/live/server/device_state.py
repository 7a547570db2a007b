"""Facts about devices, each with one owner: who is connected or excluded, computes what, and may send."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from math import nan
from typing import NamedTuple

from slotwise.aggregation import Vector
from slotwise.live.protocol import Label, Work
from slotwise.schedule import Joined, Left

Change = Joined | Left
LIMIT = 3.0  # points that exclude a device
RETURN = 2.0  # points at which it may return: one more fault excludes it again
COOL_DOWN = 20.0  # timeouts in which a point expires


class Presence:
    """Owner of who is connected.

    A device identifies each of its starts by a random ``boot`` text. A last will says that a connection is
    lost, not that the device is: a broker that is stopped in order publishes the last wills of all clients,
    and a link may break for a moment. So a last will only counts when the device does not return in time.

    Attributes:
        connected: devices.
        changes: Joined and Left events that the Scheduler has not been told yet.
        boots: of the devices that have sent ``here`` to this server.
        protocols: versions of the protocol that these devices speak.
    """

    def __init__(self, connected: Iterable[int] = (), changes: Iterable[Change] = ()) -> None:
        self.connected, self.changes = set(connected), list(changes)
        self.boots: dict[int, str] = {}
        self.protocols: dict[int, int] = {}
        self._wills: dict[int, float] = {}  # when the last will of a device came

    def take_changes(self) -> list[Change]:
        """Return `changes` and forget them."""
        changes, self.changes = self.changes, []
        return changes

    def connect(self, device: int, boot: str, protocol: int = 1) -> None:
        """Note that a device has said that it is here."""
        self._wills.pop(device, None)
        self.boots[device], self.protocols[device] = boot, protocol
        if device not in self.connected:
            self.connected.add(device)
            self.changes.append(Joined(device))

    def disconnect(self, device: int) -> None:
        """Count a device as disconnected."""
        self._wills.pop(device, None)
        if device in self.connected:
            self.connected.discard(device)
            self.changes.append(Left(device))

    def has_restarted(self, device: int, boot: str) -> bool:
        """Return whether a device whose last will came is back as another process, without its work."""
        return device in self._wills and self.boots.get(device) != boot

    def note_last_will(self, device: int, boot: str | None, now: float) -> bool:
        """Note the last will of a device; False if it is that of an earlier connection."""
        if device not in self.connected or boot != self.boots.get(device):
            return False
        # The first one counts: a device that connects again and again without saying ``here`` gains no time.
        self._wills.setdefault(device, now)
        return True

    def restart_last_wills(self, now: float) -> None:
        """Give all devices with a last will the full time to return, as after a reconnect of the server."""
        self._wills = dict.fromkeys(self._wills, now)

    def expired(self, before: float) -> list[int]:
        """Return the devices whose last will came before a moment and that have not returned."""
        return [device for device, since in self._wills.items() if since <= before]


class Assignments:
    """Owner of which device computes on which model, who is ready, and the updates each has delivered.

    Attributes:
        work: what a device computes, or has computed and not delivered.
        delivered: updates by device, and so the number of its next training.
    """

    def __init__(self, work: Mapping[int, Work] | None = None, delivered: Mapping[int, int] | None = None):
        self.work, self.delivered = dict(work or {}), Counter(delivered or {})
        self._ready: dict[int, Work] = {}

    def assign(self, device: int, version: int) -> None:
        """Let a device compute on a model."""
        self.work[device] = Work(version, self.delivered[device])

    def set_ready(self, device: int, work: Work) -> bool:
        """Note that a device has finished its work; False if that is known already."""
        known = self._ready.get(device) == work
        self._ready[device] = work
        return not known

    def is_ready(self, device: int) -> bool:
        """Return whether a device has finished what it was assigned."""
        # An old entry cannot match: after each delivery the training has another number.
        return device in self.work and self._ready.get(device) == self.work[device]

    def deliver(self, device: int) -> None:
        """Note that the update of a device has been applied."""
        self.delivered[device] += 1
        self.work.pop(device, None)

    def drop(self, device: int) -> None:
        """Forget the work of a device that left."""
        self.work.pop(device, None)
        self._ready.pop(device, None)


class Grant(NamedTuple):
    """A grant of the channel: for which update, its number in the run, and its first slot."""

    label: Label
    number: str
    slot: int


class EndedGrant(NamedTuple):
    """A grant whose slots are over; what came was an update, a bad one (spoiled), or nothing (silent).

    ``finite`` is False if the bad one was a vector with numbers that are not finite.
    """

    grant: Grant
    update: Vector | None
    spoiled: bool
    silent: bool
    finite: bool = True
    loss: float = nan  # that the device reports
    begun: float | None = None  # when the first byte of the update came


class ChannelGrant:
    """Owner of who holds the channel, and of the update that came.

    The Scheduler decides who is granted the channel; this is the only place that remembers the grant while
    its slots last. The slots stay taken if the device leaves, but then no update is awaited any more.
    ``count`` is the number of grants so far.
    """

    def __init__(self, count: int = 0) -> None:
        self.count = count
        self.update: Vector | None = None
        self._grant: Grant | None = None
        self._awaited = self._spoiled = False
        self._finite, self._loss = True, nan
        self._begun: float | None = None

    def begin(self, label: Label, slot: int, *, awaited: bool) -> Grant:
        """Grant the channel; no update is ``awaited`` if the device has left meanwhile."""
        self.count += 1
        self._grant = Grant(label, str(self.count), slot)
        self._awaited, self._spoiled, self._finite, self.update = awaited, False, True, None
        self._begun = None
        return self._grant

    def for_device(self, device: int) -> Grant | None:
        """Return the grant if this device holds the channel and has not left since."""
        granted = self._grant is not None and self._grant.label.device == device and self._awaited
        return self._grant if granted else None

    @property
    def is_waiting(self) -> bool:
        """True while the granted update may still come."""
        return self._grant is not None and self._awaited and self.update is None and not self._spoiled

    def receive(self, update: Vector, loss: float = nan, begun: float | None = None) -> None:
        """Take the update that was granted, the loss that its device reports, and when it began to come."""
        self.update, self._loss, self._begun = update, loss, begun

    def spoil(self, *, finite: bool = True) -> None:
        """Note that the granted device has sent a bad update."""
        self._spoiled, self._finite = True, self._finite and finite

    def abandon(self, device: int) -> None:
        """Stop waiting for the update of a device that left, unless it has come."""
        if self.for_device(device) is not None and self.update is None:
            self._awaited = False

    def end(self) -> EndedGrant:
        """Release the channel and return what came."""
        assert self._grant is not None
        # A good update counts even if a bad one came before it.
        spoiled = self._awaited and self._spoiled and self.update is None
        how = (spoiled, self.is_waiting, self._finite, self._loss, self._begun)
        ended = EndedGrant(self._grant, self.update, *how)
        self._grant, self.update, self._awaited = None, None, False
        return ended


class Penalties:
    """Owner of the penalty points, and of who is excluded.

    A bad or missing update costs one point, and a wait without result one point for each
    timeout. One point expires every ``cool_down`` seconds, whether the device sends good updates or not. So
    in T seconds no device can make the server wait for longer than `LIMIT` timeouts and T / `COOL_DOWN`
    seconds, apart from the wait that excludes it.

    Attributes:
        points: by device, those that have not expired.
        excluded: devices with too many points.
    """

    def __init__(self, points: Mapping[int, float] | None = None, excluded: Iterable[int] = ()) -> None:
        self.points, self.excluded = dict(points or {}), set(excluded)
        self._expired_at: float | None = None

    def add(self, device: int, points: float = 1.0) -> bool:
        """Add points; return whether the device is excluded by them now."""
        # At least one point, so that many short waits are not free.
        self.points[device] = self.points.get(device, 0.0) + max(1.0, points)
        if self.points[device] < LIMIT or device in self.excluded:
            return False
        self.excluded.add(device)
        return True

    def refund(self, device: int, points: float) -> None:
        """Take points back that the device was not to blame for."""
        self.points[device] = max(0.0, self.points.get(device, 0.0) - points)

    def expire(self, now: float, cool_down: float) -> list[int]:
        """Let points expire; return the devices that are no longer excluded."""
        # The time in which no server was running does not count.
        passed = 0.0 if self._expired_at is None else (now - self._expired_at) / cool_down
        self._expired_at = now
        self.points = {n: left - passed for n, left in self.points.items() if left > passed}
        returning = sorted(n for n in self.excluded if self.points.get(n, 0.0) <= RETURN)
        self.excluded.difference_update(returning)
        return returning

    def seconds_left(self, device: int, cool_down: float) -> float:
        """Return how long a device remains excluded."""
        return max(0.0, self.points.get(device, 0.0) - RETURN) * cool_down
