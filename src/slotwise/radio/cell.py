"""Cell: the distance, path loss and mean SNR of every device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slotwise.errors import InputError
from slotwise.fleet.chances import Floats
from slotwise.radio.link_budget import noise_dbm, shadowing_db
from slotwise.radio.path_loss import FARTHEST, NEAREST, URBAN, free_space, log_distance
from slotwise.radio.placement import cell_distances, ring_distances
from slotwise.radio.radio_config import RadioConfig


@dataclass(frozen=True, eq=False)
class Cell:
    """The devices of a radio model, by device: entry n−1 is device n."""

    distance_m: Floats
    path_loss_db: Floats  # without shadowing
    shadowing_db: Floats
    snr_db: Floats  # of the uplink, the mean over fading
    broadcast_snr_db: Floats


def make_cell(radio: RadioConfig, devices: int, seed: int, sub_channels: int = 1) -> Cell:
    """Return the placement and the link budget of devices 1 to N.

    SNR = transmit power + antenna gains − path loss − shadowing − noise, all in dB or dBm. A broadcast takes
    the whole of ``radio_bandwidth_hz``; an uplink too, unless the band is divided.
    """
    seed = seed if radio.radio_seed is None else radio.radio_seed
    distance = _distances(radio, devices, seed)
    loss, shadowing = _path_loss(radio, distance), shadowing_db(devices, radio.radio_shadowing_db, seed)
    gain = radio.radio_antenna_gain_db - loss - shadowing
    density = radio.radio_noise_dbm_hz
    noise = noise_dbm(uplink_hertz(radio, sub_channels), density, radio.radio_noise_figure_db)
    device_noise = noise_dbm(radio.radio_bandwidth_hz, density, radio.radio_device_noise_figure_db)
    return Cell(
        distance_m=distance,
        path_loss_db=loss,
        shadowing_db=shadowing,
        snr_db=radio.radio_power_dbm + gain - noise,
        broadcast_snr_db=radio.radio_server_power_dbm + gain - device_noise,
    )


def uplink_hertz(radio: RadioConfig, sub_channels: int) -> float:
    """Return the bandwidth of one uplink."""
    return radio.radio_bandwidth_hz / (sub_channels if radio.radio_band == "divided" else 1)


def _distances(radio: RadioConfig, devices: int, seed: int) -> Floats:
    if radio.radio_distances_m:
        if len(radio.radio_distances_m) != devices:
            given = f"{len(radio.radio_distances_m)} numbers"
            raise InputError("radio_distances_m", given, f"{devices}, one for each device")
        return np.array(radio.radio_distances_m, dtype=np.float64)
    if radio.radio_placement == "ring":
        return ring_distances(devices, radio.radio_radius_m)
    return cell_distances(devices, radio.radio_radius_m, radio.radio_nearest_m, seed)


def _path_loss(radio: RadioConfig, distance: Floats) -> Floats:
    carrier = radio.radio_carrier_ghz
    if radio.radio_path_loss in URBAN:
        if distance.max() > FARTHEST:
            device = int(distance.argmax()) + 1
            allowed = f"at most {FARTHEST:g} m with radio_path_loss {radio.radio_path_loss}"
            raise InputError("radio_distances_m", f"{distance.max():g} of device {device}", allowed)
        loss, cell = URBAN[radio.radio_path_loss]
        # The formulas begin at 10 m; nearer devices have the loss of 10 m.
        return loss(np.maximum(distance, NEAREST), carrier, cell)
    if radio.radio_path_loss == "free-space":
        return free_space(distance, carrier)
    reference = radio.radio_reference_db
    if reference is None:
        reference = float(free_space(np.ones(1), carrier)[0])
    return log_distance(distance, radio.radio_exponent, reference)
