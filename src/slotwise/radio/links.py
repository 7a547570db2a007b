"""The links that a run can have: fixed slots, a rate that adapts to the radio, a fixed rate, or your own.

Each is a value that describes a link; with a scenario and the bits of its messages it becomes a `RadioLink`,
which the schedule asks. A function of your own is called with the scenario and the seed of the run and
returns a `slotwise.schedule.Link`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Annotated, Any, Literal, Self

import numpy as np

from slotwise.base.errors import InputError, NoEffectError
from slotwise.base.random_streams import Floats
from slotwise.options import Choice, Either, Range, table_of
from slotwise.options.checks import Value
from slotwise.radio.channel import Budget, Channel, ChannelModel, Conditions, TraceConditions, decibels
from slotwise.radio.fading import Slots
from slotwise.radio.radio_link import NO_DEADLINE, RadioLink
from slotwise.radio.rates import (
    RATE,
    USUAL_SLOT_MS,
    Bits,
    Decibels,
    GivenSnr,
    NeededSnr,
    Rate,
    Shannon,
    SlotMs,
    required_bits,
)
from slotwise.scenario import Scenario

PREFIX = "radio_"
MOST_DEVICES = 100_000  # whose channels are drawn in seconds and kept in a gigabyte
CHECKED_BLOCKS = 256  # in which a device must be able to send something
FIRST_BLOCKS = 4  # of them, which mostly suffice
NoiseFigure = Annotated[float, Range(least=0.0, most=100.0)]


class UnreachableError(InputError):
    """A device that can hardly ever send or receive: the option that would help, and which device it is."""

    def __init__(self, parameter: str, value: object, remedy: str, reason: str) -> None:
        super().__init__(parameter, value, f"{remedy}: {reason}")
        self.reason = reason


class NotOfUplinks:
    """Marks an option of broadcasts or of plans: what becomes of an uplink does not depend on it."""


@dataclass(frozen=True)
class FixedSlots:
    """The usual case: uplinks and broadcasts take the slots that channel and fleet say."""


@dataclass(frozen=True, kw_only=True)
class RadioOptions(Value, ABC):
    """Options of every link over the radio.

    Attributes:
        channel: A model of the channels, or a recorded trace.
        bandwidth_hz: Bandwidth in Hz.
        band: With several sub-channels: each has the bandwidth of its own, or it is divided among them.
        noise_figure_db: Noise figure of the server's receiver in dB.
        power_dbm: Transmit power of a device in dBm.
    """

    channel: Channel = ChannelModel()  # noqa: RUF009
    bandwidth_hz: Annotated[float, Range(least=1.0, most=1e12)] = 1e6
    band: Literal["own", "divided"] = "own"
    noise_figure_db: NoiseFigure = 5.0
    power_dbm: Decibels = 23.0

    @property
    @abstractmethod
    def rate(self) -> Rate:
        """Bits per second and hertz at an SNR."""

    @property
    @abstractmethod
    def slot_ms(self) -> float:
        """Duration of a slot in milliseconds."""

    @property
    @abstractmethod
    def needs_slot(self) -> bool:
        """True if uplinks depend on the duration of a slot."""

    @property
    @abstractmethod
    def lacks_bits(self) -> bool:
        """True if the size of a message is needed and not given."""

    @abstractmethod
    def with_bits(self, update_bits: int, model_bits: int) -> Self:
        """Return the link with the bits of an uplink and of a broadcast, unless they are given."""

    def link(
        self,
        scenario: Scenario,
        *,
        seed: int = 0,
        uplink_slots: int | None = None,
        uplinks_only: bool = False,
        until: int | None = None,
    ) -> RadioLink:
        """Return the link of a scenario's devices.

        Args:
            scenario: devices, group size, sub-channels, and slots of uplink and broadcast at a fixed rate.
            seed: seed of the run; that of the channel replaces it.
            uplink_slots: slots of an uplink at a fixed rate, if not those of a broadcast.
            uplinks_only: accept devices that can hardly ever receive a model.
            until: the deadline of the only schedule that it is for: uplinks are not followed beyond.

        Raises:
            UserError: the trace is malformed or has changed, or a device can never send an update.
        """
        if scenario.devices > MOST_DEVICES:
            raise InputError("devices", scenario.devices, f"at most {MOST_DEVICES:,} with a radio link")
        hertz = self.bandwidth_hz / (scenario.sub_channels if self.band == "divided" else 1)
        budget = Budget(hertz, self.slot_ms / 1000, self.power_dbm, self.noise_figure_db)
        conditions = self.channel.conditions(budget, scenario.devices, scenario.deadline, seed)
        link = self._link(conditions, scenario, budget, uplink_slots or scenario.link_slots)
        link.deadline = NO_DEADLINE if until is None else until
        if isinstance(conditions, TraceConditions) and conditions.trace.quantity == "bits":
            self._refuse_trace_of_bits()
            # The trace says what a slot carries, both ways.
            link.uplink_scale = link.broadcast_scale = conditions.bits_at_unit_efficiency
            link.broadcast_gain = 1.0
        _refuse_unreachable(self, link, uplinks_only=uplinks_only)
        return link

    @abstractmethod
    def _link(self, conditions: Conditions, scenario: Scenario, budget: Budget, slots: int) -> RadioLink:
        """Return the link without a deadline; ``slots`` are those of an uplink at a fixed rate."""

    def _refuse_trace_of_bits(self) -> None:
        """Refuse a trace of bits where an SNR is needed, and options that say how bits follow from one."""
        path = getattr(self.channel, "path", None)
        raise InputError("radio_trace", path, "one of snr_db with radio_link fixed-rate")


@dataclass(frozen=True, kw_only=True)
class RateAdaptive(RadioOptions):
    """An uplink takes the slots until its bits are through, at the rate that the channel allows.

    Attributes:
        rate: Rate at an SNR: shannon, or the schemes of 3GPP's cqi table.
        slot_ms: Duration of a slot in milliseconds, also for joules. Follows --cpu-slot-ms if that is
            given. Refused with a --radio-threshold-db, where only joules would depend on it: --slot-seconds.
        bits: Bits of an uplink. Default: those of the model's update.
        broadcast_bits: Bits of a broadcast. Default: 32 for each number of the model.
        device_noise_figure_db: Noise figure of a device's receiver in dB.
        server_power_dbm: Transmit power of the server in dBm.
        give_up_slots: Slots after which an uplink of rate-adaptive is lost.
        quantile: Quantile of the random slots of an uplink that plans assume: just-in-time delivery,
            batteries, and the choice of the shortest uplink.
    """

    rate: Annotated[Rate, RATE] = Shannon()  # noqa: RUF009
    slot_ms: SlotMs = USUAL_SLOT_MS
    bits: Bits | None = None
    broadcast_bits: Annotated[Bits, NotOfUplinks()] | None = None
    device_noise_figure_db: Annotated[NoiseFigure, NotOfUplinks()] = 9.0
    server_power_dbm: Annotated[Decibels, NotOfUplinks()] = 43.0
    give_up_slots: Slots = 10_000
    quantile: Annotated[float, Range(least=0.01, most=0.99), NotOfUplinks()] = 0.25

    @property
    def needs_slot(self) -> bool:
        """True: the slots of an uplink depend on how long one lasts."""
        return True

    @property
    def lacks_bits(self) -> bool:
        """True if the size of a message is not given."""
        return self.bits is None or self.broadcast_bits is None

    def with_bits(self, update_bits: int, model_bits: int) -> RateAdaptive:
        """Return the link with the bits of an uplink and of a broadcast, unless they are given."""
        bits, broadcast = self.bits or update_bits, self.broadcast_bits or model_bits
        return replace(self, bits=bits, broadcast_bits=broadcast)

    def _link(self, conditions: Conditions, scenario: Scenario, budget: Budget, slots: int) -> RadioLink:  # noqa: ARG002
        # Path loss, fading and antennas are the same both ways: a broadcast differs in transmit power,
        # noise figure and bandwidth, which the noise is proportional to.
        more_power = self.server_power_dbm - self.power_dbm
        more_noise = self.device_noise_figure_db - self.noise_figure_db
        coherence = self.channel.coherence_slots
        return RadioLink(
            conditions=conditions,
            rate=self.rate,
            fixed_slots=0,
            threshold=inf,
            update_bits=required_bits("radio_bits", self.bits, coherence),
            model_bits=required_bits("radio_broadcast_bits", self.broadcast_bits, coherence),
            broadcast_slots=scenario.link_slots,
            give_up_slots=self.give_up_slots,
            uplink_scale=budget.hertz * budget.seconds,
            broadcast_scale=self.bandwidth_hz * budget.seconds,
            broadcast_gain=10 ** ((more_power - more_noise) / 10) * budget.hertz / self.bandwidth_hz,
            group_size=scenario.group_size,
            quantile=self.quantile,
        )

    def _refuse_trace_of_bits(self) -> None:
        needed = RateAdaptive(
            channel=self.channel,
            bits=self.bits,
            broadcast_bits=self.broadcast_bits,
            give_up_slots=self.give_up_slots,
            quantile=self.quantile,
        )
        usual = table_of(needed, PREFIX)
        for name, value in table_of(self, PREFIX).items():
            if value != usual.get(name):
                raise NoEffectError(name, value, "with a trace of bits")


@dataclass(frozen=True, kw_only=True)
class FixedRate(RadioOptions):
    """An uplink takes fixed slots, and is lost if the SNR is below a threshold in any of them.

    Broadcasts take fixed slots and always arrive.

    Attributes:
        threshold: The SNR below which an uplink is lost: given, or the one that its bits need.
    """

    threshold: Annotated[NeededSnr | GivenSnr, Either((NeededSnr, GivenSnr))] = NeededSnr()  # noqa: RUF009

    @property
    def rate(self) -> Rate:
        """Shannon's formula, of which the threshold is all that matters."""
        return Shannon()

    @property
    def slot_ms(self) -> float:
        """Duration of a slot in milliseconds."""
        return self.threshold.slot_ms

    @property
    def needs_slot(self) -> bool:
        """False if the threshold is given."""
        return isinstance(self.threshold, NeededSnr)

    @property
    def lacks_bits(self) -> bool:
        """True if the threshold follows from the bits of an uplink, and they are not given."""
        return isinstance(self.threshold, NeededSnr) and self.threshold.bits is None

    def with_bits(self, update_bits: int, model_bits: int) -> FixedRate:  # noqa: ARG002
        """Return the link with the bits of an uplink, unless they are given or do not matter."""
        if not isinstance(self.threshold, NeededSnr):
            return self
        return replace(self, threshold=replace(self.threshold, bits=self.threshold.bits or update_bits))

    def _link(self, conditions: Conditions, scenario: Scenario, budget: Budget, slots: int) -> RadioLink:
        return RadioLink(
            conditions=conditions,
            rate=self.rate,
            fixed_slots=slots,
            threshold=self.threshold.snr(slots * budget.hertz * budget.seconds),
            update_bits=self.threshold.bits or slots,  # with a given threshold any will do
            broadcast_slots=scenario.link_slots,
            uplink_scale=budget.hertz * budget.seconds,
        )


def _refuse_unreachable(radio: RadioOptions, link: RadioLink, *, uplinks_only: bool) -> None:
    """Raise an InputError if a device could hardly ever send an update, or receive a model."""
    # With the draws of plans, not those that will happen: only the distribution of the channel counts.
    if _is_reachable(link, link.conditions.snr(0, FIRST_BLOCKS, planning=True)):
        return
    snr = link.conditions.snr(0, CHECKED_BLOCKS, planning=True)
    up = link.uplink_bits(snr).mean(axis=0)
    limit = f": the threshold is {float(decibels(np.array(link.threshold))):.1f} dB"
    verb = f"send an update{limit if link.fixed_slots else ''}"
    _refuse_silent(radio, link, snr, up, verb, ("radio_power_dbm", radio.power_dbm))
    if not isinstance(radio, RateAdaptive):  # a broadcast at a fixed rate is received in any case
        return
    if not uplinks_only:
        down, power = link.broadcast_bits(snr).mean(axis=0), radio.server_power_dbm
        _refuse_silent(radio, link, snr, down, "receive a model", ("radio_server_power_dbm", power))
    slots = link.update_bits / up
    if slots.max() > link.give_up_slots:
        device = int(slots.argmax())
        takes = f"takes device {device + 1} {slots[device]:,.0f} slots on average"
        reason = f"an update of {link.update_bits:,} bits {takes}"
        raise UnreachableError("radio_give_up_slots", link.give_up_slots, "larger", reason)


def _is_reachable(link: RadioLink, snr: Floats) -> bool:
    """Return whether some blocks already show that every device can send and receive.

    In all blocks that are checked together it can only send more.
    """
    up = link.uplink_bits(snr).sum(axis=0, dtype=np.float64).min()
    if link.fixed_slots:
        return bool(up > 0)
    heard = link.broadcast_bits(snr.max(axis=0)).min() > 0
    return bool(heard and up * link.give_up_slots >= link.update_bits * CHECKED_BLOCKS)


def _refuse_silent(
    radio: RadioOptions, link: RadioLink, snr: Floats, bits: Floats, verb: str, power: tuple[str, float]
) -> None:
    """Raise an InputError if there is a device without bits in all blocks."""
    silent = np.flatnonzero(bits <= 0)
    if not len(silent):
        return
    others = f" (and {len(silent) - 1} more)" if len(silent) > 1 else ""
    mean = 10 * np.log10(max(float(snr[:, silent[0]].mean()), 1e-30))
    what = f"device {silent[0] + 1}{others}, with a mean SNR of {mean:.1f} dB, can hardly ever {verb}"
    if isinstance(radio.channel, ChannelModel):
        longer = ", link_slots larger, or" if link.fixed_slots and radio.needs_slot else ", or"
        raise UnreachableError(power[0], f"{power[1]:g}", f"higher{longer} devices nearer", what)
    if isinstance(link.conditions, TraceConditions) and link.conditions.trace.quantity == "bits":
        what = f"device {silent[0] + 1}{others} has no bits in {CHECKED_BLOCKS} rows"  # there is no SNR
    raise InputError("radio_trace", radio.channel.path, f"one with better channels: {what}")


LINKS: Mapping[str, Any] = {"": FixedSlots, "rate-adaptive": RateAdaptive, "fixed-rate": FixedRate}
LINK = Choice("radio_link", LINKS, prefix=PREFIX, own=(2,))
LinkChoice = Annotated[Any, LINK]
"""The link of a run: a value of one of the classes above, a function, or a `UserFunction`."""
