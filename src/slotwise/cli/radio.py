"""The radio command: show the cell of a radio model, and export its channels as a trace."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import App

from slotwise.cli.flags import AsJson, Flag, command, output, refuse_idle_seed, run_flags
from slotwise.errors import InputError
from slotwise.files import check_writable
from slotwise.radio import RadioLink, make_link
from slotwise.radio.cell_report import cell_columns, cell_summary
from slotwise.radio.traces import MOST_VALUES, write_trace
from slotwise.report.tables import columns_table, table_console
from slotwise.runs.config import RunConfig

radio = App(name="radio", help="Show the cell of a radio model, or export its channels as a trace.")

# Options of broadcasts and of plans: these commands look at uplinks only.
UNSEEN = ("radio_server_power_dbm", "radio_device_noise_figure_db", "radio_broadcast_bits", "radio_quantile")
SHOWN: tuple[Flag, ...] = (
    *run_flags("channel", only=("devices", "link_slots", "sub_channels")),
    *run_flags("fleet", only=("uplink_slots",)),
    *(flag for flag in run_flags("radio") if flag.name not in (*UNSEEN, "radio_trace_end")),
    *run_flags("training", only=("seed",)),
)
UNTIL = (*run_flags("channel", only=("deadline",)), *run_flags("radio", only=("radio_trace_end",)))


@command(*SHOWN)
def show(options: dict[str, Any], *, as_json: AsJson = False) -> None:
    """Show distance, path loss, mean SNR and the slots of an uplink of every device.

    The update is that of the paper's MNIST model, unless --radio-bits is given.
    """
    config = _config(options)
    link = _link(config, until=None)
    columns = cell_columns(config.radio, config.channel, link, config.seed)
    if as_json:
        print(json.dumps({name: column.tolist() for name, column in columns.items()}))
        return
    console = table_console()
    console.print(columns_table(columns, f"{config.channel.devices:,} devices, uplink"))
    console.print(cell_summary(columns))


@command(*SHOWN, *UNTIL)
def export(
    options: dict[str, Any],
    *,
    out: Annotated[Path, output("CSV file to write.")],
    bits: Annotated[bool, output("Write the bits of a slot instead of the SNR in dB.")] = False,
) -> None:
    """Write the channels of a radio model until the deadline as a trace, which --radio-trace reads."""
    check_writable(out)
    config = _config(options)
    blocks = -(-config.deadline // config.radio.radio_coherence_slots)
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
    return config


def _link(config: RunConfig, until: int | None) -> RadioLink:
    """Return the link, whatever becomes of broadcasts; a trace must reach ``until``, if that is a slot."""
    update, model = config.message_bits()
    return make_link(
        config.radio,
        replace(config.channel, deadline=until),
        update_bits=update,
        broadcast_bits=model,
        seed=config.seed,
        uplink_slots=config.fleet.uplink_slots,
        uplinks_only=True,
    )


for function in (show, export):
    radio.command(function)
