from typing import Any

import pytest

from slotwise import InputError, Scenario, simulate
from slotwise.energy import Powers, joules
from slotwise.schedule import usage

POWERS = Powers(computing=4.0, sending=2.0, receiving=1.0, idle=0.25, slot_seconds=0.5)


def test_the_worked_example_in_joules() -> None:
    counted = usage(simulate(Scenario(devices=6, group_size=2, compute_slots=2), "async", rounds=4))
    each = joules(counted, POWERS)
    assert each.tolist() == [0.5 * (4 * 4 + 2 * 2 + 2 * 1 + 6 * 0.25)] * 2 + [0.5 * (16 + 2 + 1 + 2)] * 4
    assert joules(counted.total, POWERS) == each.sum() == 65.5


@pytest.mark.parametrize("name", ["computing", "sending", "receiving", "idle", "slot_seconds"])
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), "much", True])
def test_powers_are_finite_numbers(name: str, value: Any) -> None:
    given = dict.fromkeys(Powers.__dataclass_fields__, 1.0)
    with pytest.raises(InputError, match=rf"^{name} = .*: must be a finite number, at least 0$"):
        Powers(**given | {name: value})


def test_a_slot_takes_time() -> None:
    with pytest.raises(InputError, match=r"^slot_seconds = 0: must be above 0$"):
        Powers(computing=1, sending=1, receiving=1, idle=1, slot_seconds=0)


def test_powers_no_device_has_are_refused_before_their_sum_overflows() -> None:
    with pytest.raises(InputError, match=r"^sending = 1e\+300: must be at most 1,000,000,000$"):
        Powers(computing=1, sending=1e300, receiving=1)
