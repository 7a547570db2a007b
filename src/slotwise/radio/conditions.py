"""Channel conditions: the SNR of every device in every block, from a model or from a trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from slotwise.radio.draws import FADING, PLANNING, Floats, States, device_states, mixed_all
from slotwise.radio.fading import Fading
from slotwise.radio.link_budget import linear
from slotwise.radio.traces import Trace


class Conditions(Protocol):
    """The SNR of the uplink of N devices, constant in blocks of slots."""

    @property
    def coherence_slots(self) -> int:
        """Slots of a block."""
        ...

    @property
    def devices(self) -> int:
        """The number of devices N."""
        ...

    def snr(self, first_block: int, blocks: int, *, planning: bool = False) -> Floats:
        """Return linear SNRs [blocks, N].

        With ``planning`` they have the same distribution, but are not those that will happen.
        """
        ...


class ModelConditions:
    """A mean SNR for each device times block fading."""

    def __init__(self, mean_snr_db: Floats, fading: Fading, coherence_slots: int, seed: int) -> None:
        self.mean_snr_db, self.fading, self.coherence_slots = mean_snr_db, fading, coherence_slots
        self.devices = len(mean_snr_db)
        self._mean = linear(mean_snr_db)
        self._states: dict[bool, States] = {
            planning: device_states(seed, PLANNING if planning else FADING, self.devices)
            for planning in (False, True)
        }

    def snr(self, first_block: int, blocks: int, *, planning: bool = False) -> Floats:
        """Return linear SNRs [blocks, N]."""
        numbers = np.arange(first_block, first_block + blocks, dtype=np.uint64)[:, None]
        return self._mean * self.fading.gains(mixed_all(self._states[planning][None, :], numbers))


@dataclass(frozen=True, eq=False)
class TraceConditions:
    """The SNRs of a trace; a trace of bits is turned into the SNRs at which Shannon's formula gives them."""

    trace: Trace
    coherence_slots: int
    bits_at_unit_efficiency: float  # hertz times seconds of a slot

    @property
    def devices(self) -> int:
        """The number of devices N."""
        return self.trace.devices

    def snr(self, first_block: int, blocks: int, *, planning: bool = False) -> Floats:  # noqa: ARG002
        """Return linear SNRs [blocks, N]; plans know the trace itself, as it is all there is."""
        values = self.trace.rows(first_block, blocks)
        if self.trace.quantity == "snr_db":
            return linear(values)
        # Half a bit more than the trace has, so that rounding down gives its bits exactly.
        return np.exp2((values + 0.5) / self.bits_at_unit_efficiency) - 1
