"""The option that is blamed if no round ends over the radio."""

from typing import Any

import pytest

from slotwise.base.errors import InputError
from slotwise.runs import RunConfig
from slotwise.setting.slow_link import simulate_run

RADIO = {"radio_link": "rate-adaptive", "group_size": 10, "compute_slots": 50, "deadline": 150}


def refused(**options: Any) -> InputError:
    with pytest.raises(InputError) as error:
        simulate_run(RunConfig.from_options({**RADIO, **options}))
    return error.value


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("radio_radius_m", 3_000.0, "smaller"),
        ("radio_noise_figure_db", 50.0, "smaller"),  # so slow that uplinks would be given up
        ("radio_power_dbm", -5.0, "larger"),
        ("radio_bandwidth_hz", 20_000.0, "larger"),
        ("radio_slot_ms", 2.0, "larger"),
    ],
)
def test_the_changed_option_of_the_radio_is_named(name: str, value: float, remedy: str) -> None:
    error = refused(**{name: value})
    assert (error.parameter, error.value) == (name, f"{value:g}")
    assert error.allowed.startswith(remedy)


def test_the_option_of_a_slow_link_that_can_be_changed_is_named() -> None:
    fixed = {"radio_link": "fixed-rate", "link_slots": 5, "radio_radius_m": 5_000.0}
    error = refused(**fixed)
    assert (error.parameter, error.value) == ("radio_radius_m", "5000")
    assert "mean SNR" in error.allowed
    assert refused(**fixed, radio_power_dbm=24.0).parameter == "radio_power_dbm"
    assert refused(radio_radius_m=3_000.0, radio_noise_figure_db=6.0).parameter == "radio_radius_m"
    assert refused(radio_radius_m=3_000.0, radio_give_up_slots=5).parameter == "radio_give_up_slots"
    assert refused(radio_radius_m=600.0, deadline=55).parameter == "deadline"
    with pytest.raises(InputError) as error:
        simulate_run(RunConfig.from_options({"group_size": 10, "compute_slots": 50, "deadline": 20}))
    assert error.value.parameter == "deadline"
    config = RunConfig.from_options(RADIO)
    assert simulate_run(config) == config.simulate()
