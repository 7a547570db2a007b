"""Time and energy of a training from the cycles of a CPU.

The energy of a cycle is kappa·f², with the effective switched capacitance kappa of the chip (Burd and
Brodersen, 1996), as in most work on energy in federated learning (for example Chen et al., 2021).
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from slotwise.base.errors import InputError
from slotwise.options.checks import LARGEST, LARGEST_NUMBER, whole


class CpuTraining(NamedTuple):
    """One local training on a CPU."""

    slots: int  # whole slots, rounded up
    joules: float  # of the whole training: the CPU computes only for the cycles it needs
    joules_per_slot: float  # what `Batteries` and options take


def cpu_training(
    *,
    samples: int,
    cycles_per_sample: float,
    hertz: float | Fraction,
    kappa: float,
    slot_seconds: float | Fraction,
) -> CpuTraining:
    """Return the slots and the energy of a training.

    Args:
        samples: samples of one training, H·B.
        cycles_per_sample: CPU cycles of one sample, forward and backward.
        hertz: the frequency f of the CPU.
        kappa: effective switched capacitance in joules per cycle and hertz squared, such as 1e-28.
        slot_seconds: seconds of one slot.
    """
    given = {"cycles_per_sample": cycles_per_sample, "hertz": hertz, "slot_seconds": slot_seconds}
    for name, value in {**given, "kappa": kappa}.items():
        number = isinstance(value, int | float | Fraction) and not isinstance(value, bool)
        if not number or not 0 < value <= LARGEST_NUMBER:
            raise InputError(name, value, f"a number above 0 and at most {LARGEST_NUMBER:g}")
    # Decimal fractions as they were written: a binary rounding error could add a slot.
    cycles = whole("samples", samples) * Fraction(str(cycles_per_sample))
    slots = -(-cycles // (Fraction(str(hertz)) * Fraction(str(slot_seconds))))
    if slots > LARGEST:
        allowed = f"less, or the CPU faster: a training would take more than {LARGEST:,} slots"
        raise InputError("cycles_per_sample", cycles_per_sample, allowed)
    joules = kappa * float(hertz) ** 2 * float(cycles)
    return CpuTraining(slots, joules, joules / slots)
