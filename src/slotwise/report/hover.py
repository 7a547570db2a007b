"""What a bar says when it is pointed at."""

from __future__ import annotations

from collections.abc import Iterable

from slotwise.report.activity import BEYOND, UNSENT, Activity, Interval
from slotwise.report.caption import model_name, span
from slotwise.report.channel import Broadcast, Uplink


def interval_words(interval: Interval) -> str:
    """One activity of one device."""
    model, when = model_name(interval.version), span(interval.start, interval.end)
    beginning = f"device {interval.device}, {when}: "
    match interval.kind:
        case Activity.COMPUTING:
            return f"{beginning}computes on {model}; {_sending(interval)}"
        case Activity.WAITING_FOR_CHANNEL:
            return (
                f"{beginning}ready, waits for the channel with its update from {model}; {_sending(interval)}"
            )
        case Activity.SENDING:
            return f"{beginning}sends its update from {model}; {_age(interval.round, interval.version)}"
        case Activity.LOST:
            return f"{beginning}sends its update from {model} in vain, it is lost; round {interval.round}"
        case Activity.AWAY:
            return f"{beginning}away"
        case Activity.RECEIVING:
            return f"{beginning}receives {model} at the end of round {interval.round}"
    awaited = "a model that comes later" if interval.version == BEYOND else model
    return f"{beginning}waits for {awaited}"


def uplink_words(uplink: Uplink) -> str:
    """One uplink on the channel."""
    when = span(uplink.start, uplink.end)
    return (
        f"channel, {when}: device {uplink.device} sends its update from {model_name(uplink.version)}; "
        f"{_age(uplink.round, uplink.version)}"
    )


def lost_uplink_words(uplink: Uplink) -> str:
    """One uplink that took the channel in vain."""
    return (
        f"channel, {span(uplink.start, uplink.end)}: the update of device {uplink.device} "
        f"from {model_name(uplink.version)} is lost; round {uplink.round}"
    )


def broadcast_words(broadcast: Broadcast, receivers: Iterable[int]) -> str:
    """One broadcast on the channel."""
    when, model = span(broadcast.start, broadcast.end), model_name(broadcast.version)
    listed = device_list(receivers)
    to = f"to {listed}" if listed else "which nobody takes"
    return f"channel, {when}: broadcast of {model} {to}; ends round {broadcast.version - 1}"


def device_list(devices: Iterable[int]) -> str:
    """``device 4``, ``devices 1–3, 7``; empty for none."""
    runs: list[list[int]] = []
    for device in sorted(devices):
        if runs and device == runs[-1][1] + 1:
            runs[-1][1] = device
        else:
            runs.append([device, device])
    parts = [f"{first}" if first == last else f"{first}–{last}" for first, last in runs]
    several = len(runs) > 1 or any(first < last for first, last in runs)
    return f"device{'s' if several else ''} {', '.join(parts)}" if runs else ""


def _sending(interval: Interval) -> str:
    if interval.round == BEYOND:
        return "sent after the last round here"
    if interval.round == UNSENT:
        return "never sent, the device leaves"
    return f"sent in {_age(interval.round, interval.version)}"


def _age(round_number: int, version: int) -> str:
    return f"round {round_number}, staleness {round_number - version}"
