"""Options of a CPU that stand for compute slots and, with batteries, for the joules of computing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slotwise.errors import ConflictError, InputError, NoEffectError
from slotwise.fleet.cpu import cpu_training
from slotwise.learning.local_training import LocalTraining

SPEEDS = ("compute_slots", "samples_per_slot", "compute_distribution", "device_compute_slots", "fleet_file")
_NAMES = {"hertz": "cpu_ghz", "kappa": "cpu_kappa", "slot_seconds": "cpu_slot_ms"}


def cpu_options(options: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that ``cycles_per_sample`` and the options of the CPU stand for.

    ``options`` are those that were given, ``chosen`` has defaults as well.
    """
    given = {name: options.get(name) for name in ("cpu_ghz", "cpu_slot_ms", "cpu_kappa")}
    cycles, kappa = options.get("cycles_per_sample"), given["cpu_kappa"]
    if cycles is None:
        for name, value in given.items():
            if value is not None:
                raise NoEffectError(name, value, "without cycles_per_sample")
        return {}
    for name in SPEEDS:
        if options.get(name):
            raise ConflictError("cycles_per_sample", name)
    for name in ("cpu_ghz", "cpu_slot_ms"):
        if given[name] is None:
            raise InputError(name, "missing", "given together with cycles_per_sample")
    if kappa is not None:
        for name in ("computing_joules", "device_computing_joules"):
            if options.get(name):
                raise ConflictError("cpu_kappa", name)
        if not (chosen.get("battery_joules") or chosen.get("device_battery_joules")):
            raise NoEffectError("cpu_kappa", kappa, "without batteries")
    steps = chosen.get("local_steps", LocalTraining.local_steps)
    samples = steps * chosen.get("batch_size", LocalTraining.batch_size)
    try:
        found = cpu_training(
            samples=samples,
            cycles_per_sample=cycles,
            hertz=_scaled("cpu_ghz", given["cpu_ghz"], 1e9),
            kappa=1e-28 if kappa is None else kappa,
            slot_seconds=_scaled("cpu_slot_ms", given["cpu_slot_ms"], 1e-3),
        )
    except InputError as error:
        name = _NAMES.get(error.parameter, error.parameter)
        raise InputError(name, options.get(name), error.allowed) from None
    slots: dict[str, Any] = {"compute_slots": found.slots}
    return slots if kappa is None else slots | {"computing_joules": found.joules_per_slot}


def _scaled(name: str, value: Any, factor: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(name, value, "a number above 0")
    return value * factor
