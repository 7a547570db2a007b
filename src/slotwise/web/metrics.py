"""Metrics of a live run in the text format of Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import get_args

from slotwise.live.server.live_status import DeviceState, Phase
from slotwise.web.live_snapshot import LiveSnapshot

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def metrics(snapshot: LiveSnapshot, age: float) -> str:
    """Return all metrics of a moment; ``age`` is how many seconds ago that was."""
    return "".join(_lines(snapshot, age))


def _lines(snapshot: LiveSnapshot, age: float) -> Iterator[str]:
    status = snapshot.status
    states = Counter(device.state for device in status.devices)
    gauges = {
        "status_age_seconds": ("Seconds since the server has reported its state.", age),
        "rounds_planned": ("Rounds of the plan.", status.rounds),
        "slot": ("Last slot in which something happened.", status.slot),
        "devices_late": ("Devices that are late in this moment.", len(snapshot.overdue)),
    }
    counters = {
        "rounds_total": ("Completed rounds.", status.round),
        "updates_total": ("Updates applied.", status.updates),
        "uplinks_lost_total": ("Uplinks without a good update.", status.lost),
        "updates_clipped_total": ("Updates that were scaled down.", status.clipped),
        "rollbacks_total": ("Models that repeat an earlier one.", status.rollbacks),
    }
    for kind, found in (("gauge", gauges), ("counter", counters)):
        for name, (text, number) in found.items():
            yield from _metric(name, kind, text, {"": number})
    phases = {phase: int(phase == status.phase) for phase in get_args(Phase)}
    yield from _metric("phase", "gauge", "1 for what the server does, else 0.", phases, "phase")
    by_state = {state: states[state] for state in get_args(DeviceState)}
    yield from _metric("devices", "gauge", "Devices by what they do.", by_state, "state")
    rejected = status.rejected
    yield from _metric("messages_rejected_total", "counter", "Rejected messages.", rejected, "reason")
    if snapshot.points:
        _, _, loss, accuracy = snapshot.points[-1]
        yield from _metric("train_loss", "gauge", "Training loss of the last evaluated model.", {"": loss})
        yield from _metric("test_accuracy", "gauge", "Its test accuracy, 0 to 1.", {"": accuracy})
    updates = {str(device.device): device.updates for device in status.devices}
    yield from _metric("device_updates_total", "counter", "Updates of each device.", updates, "device")
    heard = {str(device): seconds for device, seconds in snapshot.heard.items()}
    text = "Seconds since a message of each device."
    yield from _metric("device_last_seen_seconds", "gauge", text, heard, "device")


def _metric(
    name: str, kind: str, text: str, values: Mapping[str, float | None], label: str = ""
) -> Iterator[str]:
    """Yield the lines of one metric; ``values`` by the word of its label, if it has one."""
    known = {word: value for word, value in values.items() if value is not None and isfinite(value)}
    if not known:
        return
    yield f"# HELP slotwise_{name} {text}\n# TYPE slotwise_{name} {kind}\n"
    for word, value in known.items():
        labels = f'{{{label}="{_escaped(word)}"}}' if label else ""
        yield f"slotwise_{name}{labels} {value:.12g}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
