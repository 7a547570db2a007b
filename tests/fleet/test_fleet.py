from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotwise import InputError, Scenario
from slotwise.base.random_streams import chance
from slotwise.fleet import Absence, Fleet


def fleet(**options: Any) -> Fleet:
    return Fleet(**{"compute_slots": (4, 6, 8), "link_slots": (1, 1, 2)} | options)


def test_the_devices_of_the_paper_are_all_alike() -> None:
    scenario = Scenario(devices=3, group_size=1, compute_slots=5, link_slots=2)
    equal = Fleet.equal(scenario)
    assert (equal.compute_slots, equal.link_slots, equal.devices) == ((5, 5, 5), (2, 2, 2), 3)
    assert equal.faultless
    assert equal.is_equal_to(scenario)


@pytest.mark.parametrize(
    "changes",
    [
        {"compute_slots": (5, 5, 6)},
        {"link_slots": (2, 2, 1)},
        {"jitter": 0.1},
        {"uplink_loss": 0.1},
        {"absences": (Absence(1, 5),)},
    ],
)
def test_other_devices_are_not(changes: dict[str, Any]) -> None:
    scenario = Scenario(devices=3, group_size=1, compute_slots=5, link_slots=2)
    alike = {"compute_slots": (5, 5, 5), "link_slots": (2, 2, 2)}
    assert not Fleet(**alike | changes).is_equal_to(scenario)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"compute_slots": ()}, "compute_slots = empty: must be a number for each device, and at least one"),
        ({"compute_slots": (1, 0, 3)}, "compute_slots = 0: must be a whole number of at least 1"),
        ({"compute_slots": (1, 2.5, 3)}, "compute_slots = 2.5: must be a whole number of at least 1"),
        ({"compute_slots": (1, True, 3)}, "compute_slots = True: must be a whole number of at least 1"),
        ({"link_slots": (1, -1, 3)}, "link_slots = -1: must be a whole number of at least 1"),
        ({"link_slots": (1, 2)}, "link_slots = 2 numbers: must be as many as compute_slots, 3"),
        ({"jitter": -0.1}, "jitter = -0.1: must be a number from 0 to below 1"),
        ({"jitter": float("nan")}, "jitter = nan: must be a number from 0 to below 1"),
        ({"uplink_loss": 1}, "uplink_loss = 1: must be a probability from 0 to below 1"),
        ({"uplink_loss": -0.5}, "uplink_loss = -0.5: must be a probability from 0 to below 1"),
        ({"retransmission": "never"}, "retransmission = never: must be next-turn, at-once or erasure"),
        ({"seed": -1}, "seed = -1: must be a whole number from 0 to 18446744073709551615"),
        ({"absences": [(4, 1)]}, "absences = device 4: must be devices from 1 to 3"),
        (
            {"absences": [(0, 1)]},
            "absences = [0, 1]: must be such that device is a whole number of at least 1",
        ),
        (
            {"absences": [(1.5, 1)]},
            "absences = [1.5, 1]: must be such that device is a whole number of at least 1",
        ),
        (
            {"absences": [(1, -1)]},
            "absences = [1, -1]: must be such that leaves is a whole number of at least 0",
        ),
        (
            {"absences": [(1, 5, 5)]},
            "absences = [1, 5, 5]: must be such that returns is a whole number of at least 6",
        ),
        (
            {"absences": [(1, 5, "never")]},
            "absences = [1, 5, 'never']: must be such that returns is a whole number of at least 6",
        ),
    ],
)
def test_what_is_out_of_range_is_refused_in_one_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        fleet(**options)
    assert str(caught.value) == message


@pytest.mark.parametrize("name", ["compute_slots", "link_slots", "device_uplink_loss"])
@pytest.mark.parametrize("number", [10, 0.5, np.int64(1)])
def test_one_number_for_all_devices_is_refused(name: str, number: Any) -> None:
    with pytest.raises(InputError, match="for each device") as caught:
        fleet(**{name: number})
    assert caught.value.parameter == name


@pytest.mark.parametrize("second", [(1, 7, 12), (1, 9, 12), (1, 10)])
def test_absences_of_one_device_have_a_slot_between_them(second: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"^absences = device 1, slots .*: must be one after another"):
        fleet(absences=[(1, 5, 10), second])


def test_absences_are_kept_in_order_and_split_no_slot() -> None:
    with pytest.raises(InputError, match="one after another"):
        fleet(absences=[(1, 5), (1, 20, 30)])
    given_so = [(2, 9, 12), (1, 5), (2, 0, 3)]
    assert fleet(absences=given_so).absences == (Absence(2, 0, 3), Absence(1, 5), Absence(2, 9, 12))
    assert fleet(absences=given_so).absence_table.by_device[2] == [Absence(2, 0, 3), Absence(2, 9, 12)]
    assert fleet(absences=given_so).absent_at_first == {2}
    leaving = fleet(absences=[(1, 5, 8)])
    spans = [(2, 5), (5, 9), (4, 6), (2, 9)]
    assert [leaving.leaves_within(1, *span) for span in spans] == [False, False, True, True]
    assert not leaving.leaves_within(2, 4, 6)


def test_numpy_integers_will_do_and_a_dictionary_gives_the_fleet_back() -> None:
    slots = np.array([4, 6, 8])
    assert fleet(compute_slots=slots) == fleet()
    assert {type(number) for number in fleet(compute_slots=slots).compute_slots} == {int}
    assert [fleet().slots_of_training(2, training) for training in range(5)] == [6] * 5
    whole = fleet(jitter=0.2, uplink_loss=0.1, retransmission="at-once", absences=[(1, 0, 4), (2, 9)], seed=7)
    assert Fleet.from_dict(whole.as_dict()) == whole
    assert Fleet.from_dict({"compute_slots": [4, 6, 8], "link_slots": [1, 1, 2]}) == fleet()


@given(jitter=st.floats(0.01, 0.99), seed=st.integers(0, 99), slots=st.integers(1, 1000))
def test_jitter_stays_within_its_share_and_above_nothing(jitter: float, seed: int, slots: int) -> None:
    jittery = Fleet(compute_slots=(slots,), link_slots=(1,), jitter=jitter, seed=seed)
    drawn = [jittery.slots_of_training(1, training) for training in range(50)]
    assert all(max(1, round(slots * (1 - jitter))) <= number for number in drawn)
    assert max(drawn) <= jittery.without_faults().compute_slots[0]


def test_chance_is_even_and_a_function_of_seed_device_and_number() -> None:
    lossy = fleet(uplink_loss=0.2, seed=5)
    lost = sum(lossy.loses(device, attempt) for device in (1, 2, 3) for attempt in range(10_000))
    assert abs(lost / 30_000 - 0.2) < 0.01
    assert not any(fleet().loses(1, attempt) for attempt in range(100))
    one, other = fleet(uplink_loss=0.5, jitter=0.9, seed=1), fleet(uplink_loss=0.5, jitter=0.9, seed=2)

    def drawn(of: Fleet) -> list[tuple[bool, int]]:
        return [(of.loses(n, i), of.slots_of_training(n, i)) for n in (1, 2, 3) for i in range(50)]

    assert drawn(one) == drawn(one)
    assert drawn(one) != drawn(other)
    assert len({tuple(drawn(one)[i : i + 50]) for i in (0, 50, 100)}) == 3
    tenths = Counter(int(10 * chance(3, 1, device, i)) for device in range(100) for i in range(100))
    assert set(tenths) == set(range(10))
    assert all(abs(count - 1000) < 150 for count in tenths.values())
