"""Make a trace for --radio-trace with the channel models of Sionna (nvlabs.github.io/sionna).

The devices are dropped in a sector of an urban micro cell (3GPP TR 38.901) with path loss and shadow fading;
the SNR of a block is transmit power times the power of all paths, over the noise. It needs
``pip install sionna`` and is written against the documentation of Sionna 2; our tests run only `to_snr_db`.

    python examples/radio/from_sionna.py trace.csv --devices 20 --blocks 500 --block-ms 100
    slotwise timeline --devices 20 --deadline 500 --radio-link rate-adaptive --radio-trace trace.csv
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from slotwise.radio import write_trace
from slotwise.radio.channel import noise_dbm

CARRIER_HZ = 3.5e9


def channel(devices: int, blocks: int, block_seconds: float) -> np.ndarray:
    """Return the coefficients of all paths, [batch, rx, rx antennas, tx, tx antennas, paths, times]."""
    from sionna.phy.channel import gen_single_sector_topology  # noqa: PLC0415
    from sionna.phy.channel.tr38901 import PanelArray, UMi  # noqa: PLC0415

    array = PanelArray(
        num_rows_per_panel=1,
        num_cols_per_panel=1,
        polarization="single",
        polarization_type="V",
        antenna_pattern="omni",
        carrier_frequency=CARRIER_HZ,
    )
    model = UMi(
        carrier_frequency=CARRIER_HZ, o2i_model="low", ut_array=array, bs_array=array, direction="uplink"
    )
    model.set_topology(*gen_single_sector_topology(batch_size=1, num_ut=devices, scenario="umi"))
    coefficients, _ = model(num_time_samples=blocks, sampling_frequency=1 / block_seconds)
    return np.asarray(coefficients)


def to_snr_db(
    coefficients: np.ndarray, power_dbm: float, bandwidth_hz: float, figure_db: float
) -> np.ndarray:
    """Return the SNR in dB [blocks, devices] of the first receiver; powers of paths and antennas add up."""
    gain = (np.abs(coefficients[0, 0]) ** 2).sum(axis=-2)  # over paths
    gain = gain.mean(axis=(0, 2))  # over antennas; [devices, blocks] is left
    return power_dbm + 10 * np.log10(gain.T) - noise_dbm(bandwidth_hz, -174.0, figure_db)


def main() -> None:
    """Write a trace."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace", type=Path, help="CSV file to write")
    parser.add_argument("--devices", type=int, default=20)
    parser.add_argument("--blocks", type=int, default=500)
    parser.add_argument("--block-ms", type=float, default=100.0)
    parser.add_argument("--power-dbm", type=float, default=23.0)
    parser.add_argument("--bandwidth-hz", type=float, default=1e6)
    parser.add_argument("--noise-figure-db", type=float, default=5.0)
    options = parser.parse_args()
    coefficients = channel(options.devices, options.blocks, options.block_ms / 1000)
    values = to_snr_db(coefficients, options.power_dbm, options.bandwidth_hz, options.noise_figure_db)
    write_trace(options.trace, values)
    print(f"wrote {options.trace}: {values.shape[1]} devices, {values.shape[0]} blocks")


if __name__ == "__main__":
    main()
