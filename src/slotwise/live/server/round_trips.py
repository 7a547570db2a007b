"""check_round_trips: whether devices answer within the slots of their uplinks, before a paced run begins."""

from __future__ import annotations

from math import ceil

from slotwise.base.errors import InputError
from slotwise.live.server.monitor import DeviceMonitor

ANSWER_TIMEOUT = 5.0  # seconds that a device is waited for
AGAIN_TIMEOUT = 15.0  # seconds in which slow devices are asked again, one by one
MOST_NAMED = 10  # devices in one message


async def check_round_trips(devices: DeviceMonitor, slot_ms: float) -> None:
    """Warn of devices that answer a call later than their uplinks may end.

    A grant and the update that it asks for need a round trip at least. All devices are called; one that
    answers too late is called again by itself, because many answers at once delay each other.

    Raises:
        InputError: no device answers in time, so that every update would be lost.
    """
    trips = await _measure(devices, slot_ms)
    late = {n: trip for n, trip in trips.items() if trip > _allowed(devices, n, slot_ms)}
    slowest = max(trips.values(), default=0.0)
    devices.log.info("round_trips", slowest_ms=round(1000 * slowest, 1), slot_ms=slot_ms)
    if not late:
        return
    least = max(ceil(slot_ms * trip / _allowed(devices, n, slot_ms)) for n, trip in late.items())
    worst = sorted(late, key=lambda n: -late[n])[:MOST_NAMED]
    named = ", ".join(f"device {n} ({1000 * late[n]:.0f} ms)" for n in worst)
    if len(late) == len(trips):
        reason = f"more than {least}: no device answers within its uplink: {named}"
        raise InputError("slot_ms", slot_ms, reason)
    about = f"they answer later than an uplink may end, so their updates will be lost: {named}"
    devices.log.warning("too_slow", devices=len(late), least_slot_ms=least, reason=about)


async def _measure(devices: DeviceMonitor, slot_ms: float) -> dict[int, float]:
    """Return the shortest round trip of each connected device, in seconds."""
    seconds = min(ANSWER_TIMEOUT, devices.spec.timeout)
    trips = await devices.round_trips(sorted(devices.state.presence.connected), seconds)
    until = devices.clock.now() + AGAIN_TIMEOUT
    for device, trip in trips.items():
        if trip > _allowed(devices, device, slot_ms) and devices.clock.now() < until:
            trips[device] = min(trip, (await devices.round_trips([device], seconds))[device])
    return trips


def _allowed(devices: DeviceMonitor, device: int, slot_ms: float) -> float:
    """Return the seconds that an uplink of a device lasts."""
    return devices.spec.link.uplink(device, 0, 0).slots * slot_ms / 1000
