"""Options of a CPU that stand for compute slots and, with batteries, for the joules of computing."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from slotwise.errors import ConflictError, InputError, MissingError, NoEffectError
from slotwise.fleet.battery import MOST_JOULES
from slotwise.fleet.cpu import cpu_training
from slotwise.learning.local_training import LocalTraining
from slotwise.runs.slot_duration import link_has_slot
from slotwise.scenario import LARGEST, whole

SPEEDS = ("compute_slots", "samples_per_slot", "compute_distribution", "device_compute_slots", "fleet_file")


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
    _refuse_conflicts(options, chosen)
    steps = whole("local_steps", chosen.get("local_steps", LocalTraining.local_steps))
    samples = steps * whole("batch_size", chosen.get("batch_size", LocalTraining.batch_size))
    try:
        found = cpu_training(
            samples=samples,
            cycles_per_sample=cycles,
            hertz=_scaled("cpu_ghz", given["cpu_ghz"], Fraction(10**9)),
            kappa=1e-28 if kappa is None else kappa,
            slot_seconds=_scaled("cpu_slot_ms", given["cpu_slot_ms"], Fraction(1, 1000)),
        )
    except InputError as error:
        name = "cpu_kappa" if error.parameter == "kappa" else error.parameter
        raise InputError(name, options.get(name), error.allowed) from None
    stands_for: dict[str, Any] = {"compute_slots": found.slots}
    if kappa is not None:
        if found.joules_per_slot > MOST_JOULES:
            allowed = (
                f"smaller: {found.joules_per_slot:.3g} joules in a slot, and {MOST_JOULES:,.0f} are the most"
            )
            raise InputError("cpu_kappa", kappa, allowed)
        stands_for["computing_joules"] = found.joules_per_slot
    # Otherwise radio_slot_ms says the same.
    if not link_has_slot(chosen):
        stands_for["slot_ms"] = given["cpu_slot_ms"]
    return stands_for


def _refuse_conflicts(options: Mapping[str, Any], chosen: Mapping[str, Any]) -> None:
    """Raise an InputError for options that say the same as a CPU, and for those that it lacks."""
    kappa = options.get("cpu_kappa")
    for name in SPEEDS:
        if options.get(name):
            raise ConflictError("cycles_per_sample", name)
    for name in ("cpu_ghz", "cpu_slot_ms"):
        if options.get(name) is None:
            raise MissingError(name, "given together with cycles_per_sample")
    if kappa is not None:
        for name in ("computing_joules", "device_computing_joules"):
            if options.get(name):
                raise ConflictError("cpu_kappa", name)
        if not (chosen.get("battery_joules") or chosen.get("device_battery_joules")):
            raise NoEffectError("cpu_kappa", kappa, "without batteries")


def _scaled(name: str, value: Any, factor: Fraction) -> Fraction:
    """Return a number in another unit, exactly as its decimal digits say: a product of floats is rounded."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < LARGEST:
        raise InputError(name, value, f"a number above 0 and below {LARGEST:,}")
    return Fraction(str(value)) * factor
