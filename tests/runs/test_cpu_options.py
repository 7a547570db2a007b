"""Options of a CPU: what they stand for, and what is refused next to them."""

from typing import Any

import pytest

from slotwise.base.errors import InputError
from slotwise.runs import RunConfig

CPU: dict[str, Any] = {"cycles_per_sample": 2e6, "cpu_ghz": 1.0, "cpu_slot_ms": 100.0}
BATTERY: dict[str, Any] = {"battery_joules": 5.0, "sending_joules": 0.1}


def test_cycles_stand_for_compute_slots_and_joules() -> None:
    config = RunConfig.from_options(CPU)  # 5 · 64 samples: 0.64 s
    assert config.channel.compute_slots == 7
    assert RunConfig.from_options({**CPU, "local_steps": 10}).channel.compute_slots == 13
    assert RunConfig.from_saved(config.options()) == config
    config = RunConfig.from_options({**CPU, **BATTERY, "cpu_kappa": 1e-28})
    assert config.options()["computing_joules"] == pytest.approx(0.064 / 7)


@pytest.mark.parametrize(
    ("ghz", "slot_ms", "cycles"), [(1, 4.1, 4_100_000), (1.1, 10, 11_000_000), (0.3, 0.7, 210_000)]
)
def test_decimal_fractions_give_no_slot_more_than_they_say(ghz: float, slot_ms: float, cycles: float) -> None:
    options = {"cycles_per_sample": cycles, "cpu_ghz": ghz, "cpu_slot_ms": slot_ms}
    config = RunConfig.from_options({**options, "local_steps": 1, "batch_size": 1})
    assert config.channel.compute_slots == 1


@pytest.mark.parametrize(
    ("options", "parameter"),
    [
        ({"cpu_ghz": 1.0}, "cpu_ghz"),
        ({**CPU, "local_steps": "5"}, "local_steps"),
        ({**CPU, "batch_size": None}, "batch_size"),
        ({"cpu_kappa": 1e-28}, "cpu_kappa"),
        ({"cycles_per_sample": 2e6, "cpu_ghz": 1.0}, "cpu_slot_ms"),
        ({**CPU, "cpu_ghz": 1e308}, "cpu_ghz"),
        ({**CPU, "compute_slots": 5}, "cycles_per_sample"),
        ({**CPU, "cpu_kappa": 1e-28}, "cpu_kappa"),
        ({**CPU, **BATTERY, "cpu_kappa": 1e-28, "computing_joules": 1.0}, "cpu_kappa"),
    ],
)
def test_what_has_no_effect_or_sense_is_refused(options: dict[str, Any], parameter: str) -> None:
    with pytest.raises(InputError) as caught:
        RunConfig.from_options(options)
    assert caught.value.parameter == parameter
