"""Channel conditions: the SNR of every device in every block, from a model or from a trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from slotwise.fleet.chances import Floats, States, mixed_all
from slotwise.radio.draws import FADING, PLANNING, device_states
from slotwise.radio.fading import Fading, Rayleigh
from slotwise.radio.link_budget import linear
from slotwise.radio.traces import Trace

Integers = NDArray[np.int64]


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

    def snr(
        self, first_block: int, blocks: int, *, places: Integers | None = None, planning: bool = False
    ) -> Floats:
        """Return linear SNRs [blocks, N], or [blocks, P] of the devices at ``places`` (device n is at n−1).

        With ``planning`` they have the same distribution, but are not those that will happen.
        """
        ...


class ModelConditions:
    """A mean SNR for each device times block fading."""

    def __init__(self, mean_snr_db: Floats, fading: Fading, coherence_slots: int, seed: int) -> None:
        self.mean_snr_db, self.fading, self.coherence_slots = mean_snr_db, fading, coherence_slots
        self.devices = len(mean_snr_db)
        self.mean_snr = linear(mean_snr_db)
        # The states after (seed, purpose, device): a block then costs one step of the generator.
        self._states: dict[bool, States] = {
            planning: device_states(seed, PLANNING if planning else FADING, self.devices)
            for planning in (False, True)
        }

    @property
    def rayleigh_states(self) -> States | None:
        """The states of SplitMix64 from which blocks of Rayleigh fading are drawn; None if it is another."""
        return self._states[False] if isinstance(self.fading, Rayleigh) else None

    def snr(
        self, first_block: int, blocks: int, *, places: Integers | None = None, planning: bool = False
    ) -> Floats:
        """Return linear SNRs [blocks, N], or of the devices at ``places``."""
        numbers = np.arange(first_block, first_block + blocks, dtype=np.uint64)[:, None]
        states, mean = self._states[planning], self.mean_snr
        if places is not None:
            states, mean = states[places], mean[places]
        return mean * self.fading.gains(mixed_all(states[None, :], numbers))


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

    def snr(
        self,
        first_block: int,
        blocks: int,
        *,
        places: Integers | None = None,
        planning: bool = False,  # noqa: ARG002
    ) -> Floats:
        """Return linear SNRs [blocks, N]; plans know the trace itself, as it is all there is."""
        values = self.trace.rows(first_block, blocks)
        values = values if places is None else values[:, places]
        if self.trace.quantity == "snr_db":
            return linear(values)
        # Half a bit more than the trace has, so that rounding down gives its bits exactly.
        return np.exp2((values + 0.5) / self.bits_at_unit_efficiency) - 1
