"""Over-the-air computation: a group sends analog at once, and the channel adds the signals.

Each device sends two numbers of its update in a complex symbol and inverts its channel, so that all arrive
with the same SNR, the target. A device has only its transmit power: one whose SNR with all of it is below
the target would not arrive like the others, and is left out (truncated channel inversion). See

- Zhu, Wang and Huang, "Broadband Analog Aggregation for Low-Latency Federated Edge Learning", IEEE Trans.
  Wireless Commun. 19(1), 2020, arXiv:1812.11494: truncated channel inversion, the outage it causes, and
  updates scaled alike;
- Amiri and Gündüz, "Federated Learning Over Wireless Fading Channels", IEEE Trans. Wireless Commun. 19(5),
  2020, arXiv:1907.09769: two numbers in a symbol, and a threshold of the gain;
- Shao, Gündüz and Liew, "Federated Edge Learning with Misaligned Over-the-Air Computation", IEEE Trans.
  Wireless Commun. 21(6), 2022, arXiv:2102.13604: errors of phase.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.base.random_streams import Floats
from slotwise.radio.group_links import GroupRadioLink
from slotwise.radio.radio_link import RadioLink
from slotwise.schedule.link import Transmission

Symbols = NDArray[np.complex128]
BITS_OF_A_NUMBER = 32


def symbols_of(bits: int) -> int:
    """Return the symbols of an update of so many bits: numbers of 32 bits, two in a symbol."""
    return ceil(bits / BITS_OF_A_NUMBER / 2)


def amplitudes(snr: Floats, target: float) -> Floats:
    """Return the amplitudes with which signals arrive, 1 if as aligned.

    ``snr`` is linear, with the whole power of a device. Above the target it is inverted; below it the device
    sends with its whole power, and still arrives weaker than the others.
    """
    aligned: Floats = np.sqrt(np.minimum(1.0, snr / target))
    return aligned


def outage(mean_snr: Floats, target: float) -> Floats:
    """Return the probability that a device is left out under Rayleigh fading: P(SNR < target).

    The SNR is exponential, so it is 1 − exp(−target / mean).
    """
    tail: Floats = -np.expm1(-target / mean_snr)
    return tail


class Signal(NamedTuple):
    """How the symbols of a group arrive.

    Attributes:
        amplitudes: Of each device, [devices, pieces]: 1 if it is aligned with the others.
        ends: The symbol after the last one of each piece, ascending.
        phases: Error of the phase of each device in radians.
    """

    amplitudes: Floats
    ends: Sequence[int]
    phases: Floats


class OverTheAirLink(GroupRadioLink):
    """The devices of a group send analog in the same slots, and those below the target are left out.

    Who is left out is decided by the SNR of the first slot. If the channel changes during the update, a
    device follows it as far as its power suffices.

    Attributes:
        target: Linear SNR with which every signal arrives.
        phase_error: Standard deviation of the error of a phase in radians.
    """

    returns_valid_slots: ClassVar[bool] = True

    def __init__(self, radio: RadioLink, most_senders: int, target: float, phase_error: float) -> None:
        super().__init__(radio, most_senders)
        self.target, self.phase_error = target, phase_error
        self.symbols = symbols_of(radio.update_bits)
        self.slots = max(1, ceil(self.symbols / radio.uplink_scale))

    @property
    def planned_slots(self) -> Sequence[int]:
        """The slots of an update, which are those of every group."""
        return (self.slots,) * self.devices

    def uplinks(self, devices: Sequence[int], slot: int, attempts: Sequence[int]) -> list[Transmission]:  # noqa: ARG002
        """Return the slots of an update for each device, and the power that inverting its channel takes.

        A device that is left out sends nothing: its update is lost, and takes no power.
        """
        blocks, slots = self._blocks(slot)
        snr = self.radio.conditions.snr(blocks.start, len(blocks), places=np.array(devices) - 1)
        left_out = snr[0] < self.target
        power = slots @ (self.target / np.maximum(snr, self.target)) / self.slots
        parts = np.where(left_out, 0.0, np.minimum(1.0, power)).tolist()
        return [Transmission(self.slots, *row) for row in zip(left_out.tolist(), parts, strict=True)]

    def _blocks(self, slot: int) -> tuple[range, Floats]:
        """Return the blocks of the slots of an update, and how many of these are in each."""
        each, end = self.radio.coherence_slots, slot + self.slots
        blocks = range(slot // each, (end - 1) // each + 1)
        edges = np.clip(np.arange(blocks.start, blocks.stop + 1) * each, slot, end)
        return blocks, np.diff(edges).astype(np.float64)

    def signal(self, devices: Sequence[int], slot: int, symbols: int, turns: Floats) -> Signal:
        """Return how so many symbols of devices arrive that begin to send in ``slot``.

        ``turns`` are the errors of their phases, in standard deviations.
        """
        scale, (blocks, slots) = self.radio.uplink_scale, self._blocks(slot)
        places = np.array(devices, dtype=np.int64) - 1
        snr = self.radio.conditions.snr(blocks.start, len(blocks), places=places)
        sent = np.minimum(1.0, np.cumsum(slots) * scale / self.symbols).tolist()
        ends = [*(int(part * symbols) for part in sent[:-1]), symbols]
        return Signal(amplitudes(snr.T, self.target), ends, turns * self.phase_error)


def superpose(
    updates: Sequence[NDArray[np.float32]], signal: Signal, noise: Symbols, target: float
) -> Floats:
    """Return the mean of updates as the server receives it.

    The updates are divided by the largest root mean square of a symbol among them, so that the one that is
    largest has its whole power, and all are scaled alike. ``noise`` has a unit variance for each symbol (half
    of it for each number), and is received with 1/target of the power of an aligned signal.
    """
    sent = [_symbols(update) for update in updates]
    scale = max(float(np.sqrt(np.mean(np.abs(symbols) ** 2))) for symbols in sent)
    received = noise * (scale / np.sqrt(target))
    starts = [0, *signal.ends[:-1]]
    for symbols, levels, phase in zip(sent, signal.amplitudes, signal.phases, strict=True):
        turned = complex(np.cos(phase), np.sin(phase))
        for start, end, level in zip(starts, signal.ends, levels.tolist(), strict=True):
            received[start:end] += (level * turned) * symbols[start:end]
    numbers: Floats = received.view(np.float64)[: len(updates[0])] / len(updates)
    return numbers


def _symbols(update: NDArray[np.float32]) -> Symbols:
    """Return two numbers as real and imaginary part of each symbol; the last one may lack a number."""
    padded = np.zeros(2 * ceil(len(update) / 2), dtype=np.float64)
    padded[: len(update)] = update
    symbols: Symbols = padded.view(np.complex128)
    return symbols


def noise_of(draw: np.random.Generator, numbers: int) -> Symbols:
    """Return noise of unit variance for the symbols of so many numbers."""
    parts = draw.standard_normal(2 * ceil(numbers / 2))
    noise: Symbols = (parts * np.sqrt(0.5)).view(np.complex128)
    return noise
