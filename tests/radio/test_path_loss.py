"""Path loss and link budget against values computed by hand from the formulas."""

import numpy as np
import pytest

from slotwise.radio import PATH_LOSSES, FreeSpace, LogDistance, UrbanMacro, UrbanMicro
from slotwise.radio.channel import noise_dbm, shadowing_db


def loss(name, distance, carrier):
    return float(PATH_LOSSES[name](carrier_ghz=carrier).loss_db(np.array([distance]))[0])


def test_losses_and_noise_equal_values_by_hand():
    # 20 log10(4 pi · 100 · 3.5e9 / 299792458) = 20 log10(14670.9)
    assert float(FreeSpace().loss_db(np.array([100.0]))[0]) == pytest.approx(83.329, abs=1e-3)
    # 128.1 + 37.6 log10(d/km) is 15.3 dB at 1 m with the exponent 3.76.
    found = LogDistance(exponent=3.76, reference_db=15.3).loss_db(np.array([100.0, 500.0, 1000.0]))
    assert found == pytest.approx([90.5, 116.7813, 128.1], abs=1e-3)
    assert noise_dbm(1e6, -174.0, 5.0) == pytest.approx(-109.0)
    share = float(UrbanMicro().sight_probability(np.array([100.0]))[0])
    assert share == pytest.approx(0.18 + np.exp(-100 / 36) * 0.82)
    both = share * loss("umi-los", 100.0, 3.5) + (1 - share) * loss("umi-nlos", 100.0, 3.5)
    assert loss("umi", 100.0, 3.5) == pytest.approx(both)
    drawn = shadowing_db(20_000, 8.0, seed=3)
    assert abs(drawn.mean()) <= 5 * 8 / np.sqrt(20_000)
    assert abs(drawn.std() - 8) <= 5 * 8 / np.sqrt(2 * 20_000)
    assert not shadowing_db(5, 0.0, seed=3).any()


@pytest.mark.parametrize(
    ("name", "distance", "carrier", "expected"),
    [
        # d3D = sqrt(100² + 8.5²) = 100.3606, log10 = 2.001563; below the breakpoint 4·9·0.5·f/c = 210.1 m
        ("umi-los", 100.0, 3.5, 32.4 + 21 * 2.001563 + 20 * 0.544068),
        # d3D = sqrt(500² + 8.5²) = 500.0722; beyond: 9.5 log10(210.146² + 8.5²) = 44.1346
        ("umi-los", 500.0, 3.5, 32.4 + 40 * 2.699033 + 20 * 0.544068 - 44.1346),
        ("umi-nlos", 100.0, 3.5, 35.3 * 2.001563 + 22.4 + 21.3 * 0.544068),
        # d3D = sqrt(100² + 23.5²) = 102.7241, log10 = 2.011672; breakpoint 4·24·0.5·3.5e9/c = 560.4 m
        ("uma-los", 100.0, 3.5, 28.0 + 22 * 2.011672 + 20 * 0.544068),
        ("uma-nlos", 100.0, 3.5, 13.54 + 39.08 * 2.011672 + 20 * 0.544068),
    ],
)
def test_urban_cells_equal_values_computed_by_hand(name, distance, carrier, expected):
    assert loss(name, distance, carrier) == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("cell", [UrbanMicro(), UrbanMacro()], ids=["umi", "uma"])
def test_line_of_sight_is_certain_up_to_18_m(cell):
    near, far = cell.sight_probability(np.array([18.0, 1000.0]))
    assert near == pytest.approx(1.0)
    assert far == pytest.approx(0.018, abs=1e-6)


@pytest.mark.parametrize("name", PATH_LOSSES)
def test_loss_grows_with_distance(name):
    losses = PATH_LOSSES[name]().loss_db(np.linspace(10, 5000, 2000))
    assert (np.diff(losses) > -1e-9).all()
