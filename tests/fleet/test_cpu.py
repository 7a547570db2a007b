import pytest

from slotwise.base.errors import InputError
from slotwise.fleet.cpu import cpu_training

USUAL = {"samples": 320, "cycles_per_sample": 2e6, "hertz": 1e9, "kappa": 1e-28, "slot_seconds": 0.1}


def test_time_and_energy_follow_exactly_from_cycles_and_speed() -> None:
    found = cpu_training(**USUAL)  # 6.4e8 cycles: 0.64 s, and 1e-28 · 1e18 J each
    assert found.slots == 7
    assert found.joules == pytest.approx(0.064)
    assert found.joules_per_slot == pytest.approx(0.064 / 7)
    slow, fast = (cpu_training(**USUAL | {"hertz": hertz}) for hertz in (1e9, 2e9))
    assert fast.slots == 4
    assert fast.joules == pytest.approx(4 * slow.joules)
    assert cpu_training(**USUAL | {"samples": 7, "cycles_per_sample": 1e7, "slot_seconds": 0.07}).slots == 1


@pytest.mark.parametrize("name", ["cycles_per_sample", "hertz", "kappa", "slot_seconds", "samples"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), True, "1"])
def test_nonsense_is_refused(name: str, value: object) -> None:
    with pytest.raises(InputError) as caught:
        cpu_training(**USUAL | {name: value})
    assert caught.value.parameter == name
