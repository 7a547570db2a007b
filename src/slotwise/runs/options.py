"""Options by name, as a file or a command line has them, and the RunParameters they come to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from slotwise.errors import InputError, UserError
from slotwise.fleet.options import options_of_file
from slotwise.learning.quantised import UNQUANTISED, link_slots_of
from slotwise.runs.parameters import RunParameters
from slotwise.scenario import compute_slots, whole

# The paper's experiments: what differs from the defaults for each data set.
PAPER_CASES: Mapping[str, Mapping[str, Any]] = {
    "mnist": {},
    "cifar10": {
        "devices": 20,
        "group_size": 5,
        "compute_slots": 4,
        "deadline": 100_000,
        "local_steps": 8,
    },
}
# Options that stand in for parameters: a device's speed, the rate of the link, and a table of the devices.
STANDS_IN_FOR: Mapping[str, tuple[str, ...]] = {
    "samples_per_slot": ("compute_slots",),
    "bits_per_slot": ("link_slots", "uplink_slots", "link_distribution", "device_link_slots"),
    "fleet_file": (
        *("devices", "device_compute_slots", "device_link_slots", "absences"),
        *("compute_distribution", "link_distribution", "mean_present", "mean_away"),
    ),
}
STAND_INS = tuple(STANDS_IN_FOR)


def run_parameters(options: Mapping[str, Any]) -> RunParameters:
    """The paper's case for the data set, with ``options`` on top.

    ``samples_per_slot`` (a device's speed q) may stand in for ``compute_slots``, ``bits_per_slot`` (the rate
    of the link) for ``link_slots`` and ``uplink_slots``, and ``fleet_file`` (a CSV file) for ``devices`` and
    what is said of each. The file is read here and never again.
    """
    chosen = {name: value for name, value in options.items() if name not in STAND_INS}
    refuse_unknown(chosen)
    case = PAPER_CASES.get(str(chosen.get("data", RunParameters.data)), {})
    chosen |= _slots_of_link(options, {**case, **chosen})
    chosen |= _devices_of_file(options, chosen)
    parameters = replace(RunParameters(), **{**case, **chosen})
    speed = options.get("samples_per_slot")
    if speed is None:
        return parameters
    if "compute_slots" in chosen:
        raise InputError("samples_per_slot", speed, "left out where --compute-slots is given")
    slots = compute_slots(parameters.local_steps, parameters.batch_size, speed)
    return replace(parameters, compute_slots=slots)


def _slots_of_link(options: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, int]:
    """The slots of a broadcast in 32 bits and of an uplink in fewer, from the rate of the link."""
    rate = options.get("bits_per_slot")
    if rate is None:
        return {}
    for name in STANDS_IN_FOR["bits_per_slot"]:
        if name in options:
            raise InputError("bits_per_slot", rate, f"left out where {name} is given")
    if options.get("task") is not None:
        raise InputError("bits_per_slot", rate, "left out where --task is given (--link-slots instead)")
    names = ("data", "channels", "hidden", "bits")
    own = RunParameters(**{name: chosen[name] for name in names if name in chosen})
    size, arrays = own.network().parameters, len(own.network().parameter_shapes)
    slots = {"link_slots": link_slots_of(size, UNQUANTISED, rate)}
    if own.bits != UNQUANTISED:
        slots["uplink_slots"] = link_slots_of(size, own.bits, rate, arrays)
    return slots


def _devices_of_file(options: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """What the fleet's CSV file says, device by device."""
    path = options.get("fleet_file")
    if path is None:
        return {}
    if not isinstance(path, str | Path):
        raise InputError("fleet_file", path, "the name of a CSV file")
    for name in ("compute_distribution", "link_distribution", "mean_present", "samples_per_slot"):
        if name in options:
            raise InputError(name, options[name], "left out where fleet_file is given")
    for name in ("device_compute_slots", "device_link_slots", "absences"):
        if name in options:
            raise InputError("fleet_file", path, f"left out where {name} is given")
    known = "link_slots" if chosen.get("uplink_slots") is None else "uplink_slots"
    usual = whole(known, chosen.get(known, RunParameters.link_slots))
    found = options_of_file(Path(path), link_slots=usual, devices=chosen.get("devices"))
    if found["device_link_slots"] and "bits_per_slot" in options:
        allowed = "left out where the fleet's file has link slots"
        raise InputError("bits_per_slot", options["bits_per_slot"], allowed)
    return found


def refuse_unknown(options: Mapping[str, Any]) -> None:
    """A UserError for the first name that is no parameter of a run."""
    known = {field.name for field in fields(RunParameters)}
    for name in options:
        if name not in known:
            allowed = ", ".join(sorted({*known, *STAND_INS}))
            raise UserError(f"unknown option {name}: allowed are {allowed}")
