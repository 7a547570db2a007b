import pytest

from slotwise import Scenario, simulate
from slotwise.errors import InputError
from slotwise.experiments.energy import Powers, joules_at

ONE_DEVICE = Scenario(devices=1, group_size=1, compute_slots=3, link_slots=2, deadline=14)


def test_a_device_alone_computes_sends_and_receives_in_turns() -> None:
    timeline = simulate(ONE_DEVICE)  # slots 0-2 compute, 3-4 send, 5-6 receive, and once more
    powers = Powers(computing=100.0, sending=10.0, receiving=1.0, idle=1000.0)
    spent = joules_at(timeline, powers, [0, 1, 3, 4, 5, 7, 8, 14])
    assert spent.tolist() == [0, 100, 300, 310, 320, 322, 422, 644]


def test_a_slot_has_seconds() -> None:
    powers = Powers(computing=1.0, sending=1.0, receiving=1.0, idle=1.0, slot_seconds=0.5)
    scenario = Scenario(devices=6, group_size=2, compute_slots=2, deadline=50)
    timeline = simulate(scenario)
    assert joules_at(timeline, powers, [timeline.last_slot]) == [6 * timeline.last_slot / 2]


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), True, "much"])
def test_a_wrong_power_is_refused(value: float) -> None:
    with pytest.raises(InputError, match="sending"):
        Powers(computing=1, sending=value, receiving=1)
