"""The radio command: show the cell of a radio model, and export its channels as a trace."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import App
from numpy.typing import NDArray

from slotwise.base.errors import InputError
from slotwise.base.files import check_writable
from slotwise.base.random_streams import Floats
from slotwise.cli.flags import (
    AsJson,
    Flag,
    assumed_bits,
    command,
    output,
    refuse_idle_seed,
    refuse_idle_task,
    run_flags,
    size_flags,
)
from slotwise.options import declared
from slotwise.options.declarations import mark_of
from slotwise.radio import LINK, ChannelModel, RadioLink
from slotwise.radio.links import NotOfUplinks
from slotwise.radio.radio_link import quantile_of, uplink_durations
from slotwise.radio.traces import MOST_VALUES, write_trace
from slotwise.report.tables import columns_table, table_console
from slotwise.runs.config import RunConfig

radio = App(name="radio", help="Show the cell of a radio model, or export its channels as a trace.")

# These commands look at uplinks only, and know nothing of a link of one's own.
UNTIL = (*run_flags("channel", only=("deadline",)), *run_flags("link", only=("radio_trace_end",)))
UNSEEN = {
    *(flag.name for flag in UNTIL),
    *(
        name
        for name, option in declared(LINK).items()
        if mark_of(option.marks, NotOfUplinks) or option.hint is dict
    ),
}
SHOWN: tuple[Flag, ...] = (
    *run_flags("channel", only=("devices", "link_slots", "sub_channels")),
    *run_flags("fleet", only=("uplink_slots",)),
    *(flag for flag in run_flags("link") if flag.name not in UNSEEN),
    *run_flags("seed"),
    *size_flags(),
)
BLOCKS = 1_000  # in which means and losses are counted
TOGETHER = 10_000  # devices whose blocks are drawn at once


@command(*SHOWN)
def show(options: dict[str, Any], *, as_json: AsJson = False) -> None:
    """Show distance, path loss, mean SNR and the slots of an uplink of every device.

    The update is that of the paper's MNIST model, of --task, or of --radio-bits.
    """
    config = _config(options)
    link = _link(config, until=None)
    columns = cell_columns(config, link)
    if as_json:
        print(json.dumps({name: column.tolist() for name, column in columns.items()}))
        return
    console = table_console()
    console.print(columns_table(columns, f"{config.channel.devices:,} devices, uplink"))
    console.print(cell_summary(columns))
    if note := assumed_bits(options, config, uplinks_only=True):
        console.print(note)


@command(*SHOWN, *UNTIL)
def export(
    options: dict[str, Any],
    *,
    out: Annotated[Path, output("CSV file to write.")],
    bits: Annotated[bool, output("Write the bits of a slot instead of the SNR in dB.")] = False,
) -> None:
    """Write the channels of a radio model until the deadline as a trace, which --radio-trace reads."""
    if out.suffix.lower() != ".csv":
        raise InputError("out", out, "a file name that ends in .csv")
    check_writable(out)
    config = _config(options)
    blocks = -(-config.deadline // config.radio().channel.coherence_slots)
    values = blocks * config.channel.devices
    if values > MOST_VALUES:  # before the link is made, which takes long for as many devices
        allowed = f"shorter: {values:,} values, and {MOST_VALUES:,} are the most"
        raise InputError("deadline", config.deadline, allowed)
    link = _link(config, until=config.deadline)
    quantity = "bits" if bits else "snr_db"
    snr, carried = link.tables(0, blocks)
    write_trace(out, carried.astype(np.float64) if bits else snr, quantity=quantity)
    each = f"of {link.coherence_slots:,} slots " if link.coherence_slots > 1 else ""
    print(f"wrote {out}: {quantity} of {link.devices:,} devices in {blocks:,} blocks {each}".rstrip())


def _config(options: dict[str, Any]) -> RunConfig:
    """Return the configuration of a run with these options: rate-adaptive unless they name another link."""
    config = RunConfig.from_options({"radio_link": "rate-adaptive", "group_size": 1, **options})
    refuse_idle_seed(options, config)
    refuse_idle_task(options, config)
    return config


def _link(config: RunConfig, until: int | None) -> RadioLink:
    """Return the link, whatever becomes of broadcasts; a trace must reach ``until``, if that is a slot."""
    scenario, slots = replace(config.channel, deadline=until), config.fleet.uplinks.uplink_slots
    return config.radio().link(scenario, seed=config.seed, uplink_slots=slots, uplinks_only=True)


def cell_columns(config: RunConfig, link: RadioLink) -> dict[str, NDArray[Any]]:
    """Return one array per quantity, with an entry for each device.

    Distance and losses are those of the model; the rest is counted in the first 1,000 blocks: the mean SNR,
    the share of blocks in which a slot carries nothing and, at an adaptive rate, the mean bits of a slot and
    the 10th, 50th and 90th percentile of the slots of an uplink.
    """
    columns: dict[str, NDArray[Any]] = {"device": np.arange(1, link.devices + 1)}
    if isinstance(channel := config.radio().channel, ChannelModel):
        cell = channel.cell(config.channel.devices, config.seed)
        columns["distance_m"] = cell.distance_m
        columns["path_loss_db"] = cell.path_loss_db + cell.shadowing_db
    snr, outage, bits = _means(link)
    columns["snr_db"] = 10 * np.log10(np.maximum(snr, 1e-30))
    columns["outage"] = outage
    if not link.fixed_slots:
        durations = uplink_durations(link)
        columns["bits_per_slot"] = bits
        for percent in (10, 50, 90):
            columns[f"slots_{percent}%"] = quantile_of(durations, percent / 100)
    return columns


def _means(link: RadioLink) -> list[Floats]:
    """Return the mean SNR, the share of blocks without bits and the mean bits of a slot of every device."""
    parts = []
    for first in range(0, link.devices, TOGETHER):  # all at once would take gigabytes
        places = np.arange(first, min(first + TOGETHER, link.devices))
        snr = link.conditions.snr(0, BLOCKS, places=places)
        bits = link.uplink_bits(snr)
        parts.append((snr.mean(axis=0), (bits == 0).mean(axis=0), bits.mean(axis=0)))
    return [np.concatenate(columns) for columns in zip(*parts, strict=True)]


def cell_summary(columns: dict[str, NDArray[Any]]) -> str:
    """Return the mean over the devices in one line of text."""
    parts = [f"mean SNR {columns['snr_db'].mean():.1f} dB", f"outage {columns['outage'].mean():.1%}"]
    if "slots_50%" in columns:
        slots = columns["slots_50%"]
        span = f"{slots.min():,}" + (f" to {slots.max():,}" if slots.max() > slots.min() else "")
        parts.append(f"median slots of an uplink {span}")
    count = len(columns["device"])
    return f"{count:,} device{'s' * (count != 1)}: " + ", ".join(parts)


for function in (show, export):
    radio.command(function)
