"""Build a link from the options of the radio: conditions, rate, and what uplinks and broadcasts carry."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from pathlib import Path

import numpy as np

from slotwise.errors import InputError, NoEffectError, UserError
from slotwise.radio.cell import make_cell, uplink_hertz
from slotwise.radio.conditions import Conditions, ModelConditions, TraceConditions
from slotwise.radio.fading import Fading, Nakagami, NoFading, Rayleigh, Rician
from slotwise.radio.link_budget import decibels
from slotwise.radio.radio_config import RadioConfig
from slotwise.radio.radio_link import NO_DEADLINE, LinkSettings, RadioLink
from slotwise.radio.rates import Rate, SchemeTable, Shannon, cqi_schemes, snr_for
from slotwise.radio.traces import Trace, file_sha256, read_trace
from slotwise.scenario import Scenario

# Options that turn powers into bits; a trace of bits says what a slot carries, also of a broadcast.
UNUSED_WITH_BITS = (
    *("radio_bandwidth_hz", "radio_band", "radio_noise_figure_db", "radio_device_noise_figure_db"),
    *("radio_power_dbm", "radio_server_power_dbm", "radio_rate", "radio_schemes", "radio_gap_db"),
    "radio_slot_ms",
)
MOST_DEVICES = 100_000  # whose channels are drawn in seconds and kept in a gigabyte
CHECKED_BLOCKS = 256  # in which a device must be able to send something
MOST_DOUBLINGS = 1000  # of an SNR in a float64, which ends at 2^1024
MOST_EFFICIENCY = 100.0  # bits per second and hertz


def fading_of(radio: RadioConfig) -> Fading:
    """Return the distribution of the small-scale fading."""
    if radio.radio_fading == "rayleigh":
        return Rayleigh()
    if radio.radio_fading == "rician":
        return Rician(10 ** (radio.radio_rician_k_db / 10))
    return Nakagami(radio.radio_nakagami_m) if radio.radio_fading == "nakagami" else NoFading()


def rate_of(radio: RadioConfig) -> Rate:
    """Return the rate at an SNR."""
    gap = 10 ** (radio.radio_gap_db / 10)
    if radio.radio_schemes:
        return SchemeTable(radio.radio_schemes)
    return SchemeTable(cqi_schemes(gap)) if radio.radio_rate == "cqi" else Shannon(gap)


def make_link(
    radio: RadioConfig,
    scenario: Scenario,
    *,
    update_bits: int,
    broadcast_bits: int,
    seed: int = 0,
    uplink_slots: int | None = None,
    uplinks_only: bool = False,
    until: int | None = None,
) -> RadioLink:
    """Return the link of a scenario's devices.

    Args:
        radio: the options; ``radio_link`` must be set.
        scenario: devices, group size, sub-channels, and the slots of uplink and broadcast at a fixed rate.
        update_bits: bits of an uplink, unless ``radio_bits`` says them.
        broadcast_bits: bits of a broadcast, unless ``radio_broadcast_bits`` says them.
        seed: seed of the run; ``radio_seed`` replaces it.
        uplink_slots: slots of an uplink at a fixed rate, if not those of a broadcast.
        uplinks_only: accept devices that can hardly ever receive a model.
        until: the deadline of the only schedule that it is for: uplinks are not followed beyond.

    Raises:
        UserError: the trace is malformed or has changed, or a device can never send an update.
    """
    if radio.radio_link is None:
        raise InputError("radio_link", None, "rate-adaptive or fixed-rate")
    if scenario.devices > MOST_DEVICES:
        raise InputError("devices", scenario.devices, f"at most {MOST_DEVICES:,} with a radio link")
    hertz, seconds = uplink_hertz(radio, scenario.sub_channels), radio.radio_slot_ms / 1000
    bits = radio.radio_bits or update_bits
    fixed = (uplink_slots or scenario.link_slots) if radio.radio_link == "fixed-rate" else 0
    # Path loss, fading and antennas are the same both ways: a broadcast differs in transmit power,
    # noise figure and bandwidth, which the noise is proportional to.
    more_power = radio.radio_server_power_dbm - radio.radio_power_dbm
    more_noise = radio.radio_device_noise_figure_db - radio.radio_noise_figure_db
    model = radio.radio_broadcast_bits or broadcast_bits
    if not fixed:
        _refuse_overflow("radio_bits", bits, radio.radio_coherence_slots)
        _refuse_overflow("radio_broadcast_bits", model, radio.radio_coherence_slots)
    settings = LinkSettings(
        fixed_slots=fixed,
        threshold=_threshold(radio, bits, fixed * hertz * seconds),
        update_bits=bits,
        broadcast_bits=model,
        broadcast_slots=scenario.link_slots,
        give_up_slots=radio.radio_give_up_slots,
        uplink_scale=hertz * seconds,
        broadcast_scale=radio.radio_bandwidth_hz * seconds,
        broadcast_gain=10 ** ((more_power - more_noise) / 10) * hertz / radio.radio_bandwidth_hz,
        group_size=scenario.group_size,
        quantile=radio.radio_quantile,
        deadline=NO_DEADLINE if until is None else until,
    )
    conditions = _conditions(radio, scenario, seed, hertz * seconds)
    link = RadioLink(conditions, rate_of(radio), _with_bits_of_trace(settings, conditions))
    _refuse_unreachable(radio, link, uplinks_only=uplinks_only)
    return link


def _with_bits_of_trace(settings: LinkSettings, conditions: Conditions) -> LinkSettings:
    """Return settings in which a trace of bits, if there is one, says what a slot carries, both ways."""
    if not isinstance(conditions, TraceConditions) or conditions.trace.quantity != "bits":
        return settings
    scale = conditions.bits_at_unit_efficiency
    return replace(settings, uplink_scale=scale, broadcast_scale=scale, broadcast_gain=1.0)


def _refuse_overflow(name: str, bits: int, coherence_slots: int) -> None:
    """Refuse a message so long that its bits times the slots of a block do not fit 64 bits."""
    most = (2**63 - 1) // coherence_slots
    if bits > most:
        raise InputError(name, bits, f"at most {most:,} with radio_coherence_slots {coherence_slots}")


def _threshold(radio: RadioConfig, bits: int, symbols: float) -> float:
    """Return the linear SNR that an uplink of ``symbols`` hertz-seconds needs; none at an adaptive rate."""
    if not symbols:
        return inf
    if radio.radio_threshold_db is not None:
        return float(10 ** (radio.radio_threshold_db / 10))
    efficiency = bits / symbols
    if efficiency > MOST_EFFICIENCY:
        allowed = f"fewer: {efficiency:,.0f} bits per second and hertz would be needed"
        raise InputError("radio_bits", bits, allowed)
    return snr_for(efficiency, 10 ** (radio.radio_gap_db / 10))


def _conditions(radio: RadioConfig, scenario: Scenario, seed: int, scale: float) -> Conditions:
    if radio.radio_trace is not None:
        trace = load_trace(radio, scenario.devices)
        if trace.quantity == "bits":
            _check_trace_of_bits(radio)
            # Bits are kept as the SNR 2^(bits / scale), which must not overflow.
            scale = max(scale, float(trace.values.max()) / MOST_DOUBLINGS)
        return TraceConditions(trace, _slots_of_a_row(radio, trace, scenario.deadline), scale)
    cell = make_cell(radio, scenario.devices, seed, scenario.sub_channels)
    seed = seed if radio.radio_seed is None else radio.radio_seed
    return ModelConditions(cell.snr_db, fading_of(radio), radio.radio_coherence_slots, seed)


def _check_trace_of_bits(radio: RadioConfig) -> None:
    """Refuse a trace of bits where an SNR is needed, and options that say how bits follow from one."""
    if radio.radio_link == "fixed-rate":
        raise InputError("radio_trace", radio.radio_trace, "one of snr_db with radio_link fixed-rate")
    for name in UNUSED_WITH_BITS:
        if getattr(radio, name) != getattr(RadioConfig, name):
            raise NoEffectError(name, getattr(radio, name), "with a trace of bits")


def load_trace(radio: RadioConfig, devices: int) -> Trace:
    """Return the trace, which must be the file that it was when the options were made."""
    path = Path(radio.radio_trace or "")
    if file_sha256(path) != radio.radio_trace_sha256:
        raise UserError(f"{path}: the trace has changed since the run began; start a new one")
    return read_trace(path, devices)


def _slots_of_a_row(radio: RadioConfig, trace: Trace, deadline: int | None) -> int:
    """Return the slots for which a row of the trace holds; refuse a trace that ends before the deadline."""
    if trace.time == "slot" and radio.radio_coherence_slots != 1:
        raise InputError("radio_coherence_slots", radio.radio_coherence_slots, "omitted with a trace by slot")
    slots = len(trace) * radio.radio_coherence_slots
    if deadline is not None and slots < deadline and radio.radio_trace_end == "refuse":
        allowed = f"one of at least {deadline:,}, the deadline, or used with radio_trace_end repeat"
        raise InputError("radio_trace", f"{radio.radio_trace} with {slots:,} slots", allowed)
    return radio.radio_coherence_slots


def _refuse_unreachable(radio: RadioConfig, link: RadioLink, *, uplinks_only: bool) -> None:
    """Raise an InputError if a device could hardly ever send an update, or receive a model."""
    # With the draws of plans, not those that will happen: only the distribution of the channel counts.
    snr = link.conditions.snr(0, CHECKED_BLOCKS, planning=True)
    up, down = (bits.mean(axis=0) for bits in (link.uplink_bits(snr), link.broadcast_bits(snr)))
    # A broadcast at a fixed rate is received in any case.
    received = np.ones(link.devices) if link.fixed_slots or uplinks_only else down
    limit = (
        f": the threshold is {float(decibels(np.array(link.settings.threshold))):.1f} dB"
        if link.fixed_slots
        else ""
    )
    for name, bits, verb in (
        ("radio_power_dbm", up, f"send an update{limit}"),
        ("radio_server_power_dbm", received, "receive a model"),
    ):
        silent = np.flatnonzero(bits <= 0)
        if len(silent):
            others = f" (and {len(silent) - 1} more)" if len(silent) > 1 else ""
            mean = 10 * np.log10(max(float(snr[:, silent[0]].mean()), 1e-30))
            what = f"device {silent[0] + 1}{others}, with a mean SNR of {mean:.1f} dB, can hardly ever {verb}"
            if isinstance(link.conditions, TraceConditions):
                if link.conditions.trace.quantity == "bits":  # there is no SNR
                    what = f"device {silent[0] + 1}{others} has no bits in {CHECKED_BLOCKS} rows"
                raise InputError("radio_trace", radio.radio_trace, f"one with better channels: {what}")
            raise InputError(name, f"{getattr(radio, name):g}", f"higher, or devices nearer: {what}")
    slots = link.update_bits / up
    if not link.fixed_slots and slots.max() > link.give_up_slots:
        device = int(slots.argmax())
        what = f"an update of {link.update_bits:,} bits takes device {device + 1} {slots[device]:,.0f} slots"
        raise InputError("radio_give_up_slots", link.give_up_slots, f"larger: {what} on average")
