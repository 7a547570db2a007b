from dataclasses import FrozenInstanceError
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from slotwise import InputError, Scenario, UserError
from slotwise.scenario import parse_sizes
from slotwise.schedule import compute_slots

VALID = {"devices": 6, "group_size": 2, "compute_slots": 2, "link_slots": 1, "deadline": 100}


def test_an_input_error_keeps_its_parts_and_quotes_text() -> None:
    with pytest.raises(InputError, match="'20'"):
        Scenario(**VALID | {"devices": "20"})
    error = InputError("group_size", 7, "from 1 to 6")
    assert (error.parameter, error.value, error.allowed) == ("group_size", 7, "from 1 to 6")
    assert isinstance(error, UserError)
    assert isinstance(error, ValueError)
    assert Scenario(**VALID | {"group_size": 6}).groups == 1
    with pytest.raises(InputError) as caught:
        Scenario(**VALID | {"group_size": 7})
    assert str(caught.value) == "group_size = 7: must be from 1 to 6, the number of devices"


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint8])
def test_numpy_integers_become_plain_integers(kind: type[np.integer]) -> None:
    scenario = Scenario(**{name: kind(value) for name, value in VALID.items()})
    assert scenario == Scenario(**VALID)
    assert {type(value) for value in scenario.as_dict().values()} == {int}


def test_a_scenario_is_a_value_with_named_parameters() -> None:
    with pytest.raises(TypeError):
        Scenario(6, 2, 2)  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        Scenario(**VALID).devices = 7  # type: ignore[misc]
    scenario = Scenario(**VALID)
    assert scenario.as_dict() == VALID
    assert Scenario(**scenario.as_dict()) == scenario
    assert Scenario(devices=6, group_size=2, compute_slots=2, link_slots=5).communication_slots == 15


@pytest.mark.parametrize(
    ("size", "groups", "divides", "largest"), [(1, 6, True, 5), (4, 2, False, 0), (5, 2, False, 0)]
)
def test_groups_are_rounded_up_and_delays_leave_a_full_group(
    size: int, groups: int, divides: bool, largest: int
) -> None:
    scenario = Scenario(**VALID | {"group_size": size})
    assert (scenario.groups, scenario.divides, scenario.largest_delay) == (groups, divides, largest)


@pytest.mark.parametrize(
    ("steps", "batch", "speed", "slots"),
    [
        (5, 64, 6.4, 50),  # the paper's MNIST case
        (8, 64, 128, 4),  # the paper's CIFAR-10 case
        (1, 7, 0.7, 10),  # in binary floating point 7/0.7 rounds up to 11
        (1, 7, np.float64(0.7), 10),
        (1, 7, Decimal("0.7"), 10),
        (1, 7, Fraction(7, 10), 10),
        (3, 1, 0.1, 30),
        (1, 1, 1e-3, 1000),
        (1, 65, 64, 2),
        (1, 1, 1000, 1),
        (np.int64(5), np.int64(64), np.int64(64), 5),
    ],
)
def test_compute_slots_are_exact(steps: int, batch: int, speed: float, slots: int) -> None:
    result = compute_slots(steps, batch, speed)
    assert result == slots
    assert type(result) is int


@pytest.mark.parametrize(
    "speed", [0, -1, 0.0, float("nan"), float("inf"), True, None, "fast", "1e99999999", Decimal("1e99999999")]
)
def test_a_speed_must_be_a_number_above_zero(speed: object) -> None:
    with pytest.raises(InputError) as caught:
        compute_slots(5, 64, speed)  # type: ignore[arg-type]
    assert str(caught.value) == f"samples_per_slot = {speed}: must be a number above 0"


@pytest.mark.parametrize(("name", "arguments"), [("local_steps", (0, 64, 1)), ("batch_size", (5, 1.5, 1))])
def test_steps_and_batches_must_be_whole(name: str, arguments: tuple[int, int, int]) -> None:
    with pytest.raises(InputError, match=rf"^{name} = .*: must be a whole number of at least 1$"):
        compute_slots(*arguments)


@pytest.mark.parametrize(("text", "reason"), [("2@5", "from slot 0 on"), ("2@", "whole number")])
def test_group_sizes_by_slot_start_at_slot_0(text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as error:
        parse_sizes("group_size", text)
    assert error.value.parameter == "group_size"
