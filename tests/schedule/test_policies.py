import pytest

from slotwise.schedule.policies import Participants
from slotwise.schedule.policy import FixedDelay


def initial(devices: int, size: int, delay: int) -> list[tuple[int, list[int]]]:
    return [(version, list(group)) for version, group in FixedDelay(devices, size, delay).initial(set())]


@pytest.mark.parametrize(
    ("delay", "expected"),
    [
        (0, [(0, [1, 2, 3, 4, 5, 6])]),
        (1, [(0, [1, 2, 3, 4]), (1, [5, 6])]),
        (2, [(0, [1, 2]), (1, [3, 4]), (2, [5, 6])]),
    ],
)
def test_the_initial_sets_are_those_of_algorithm_2(delay: int, expected: list[tuple[int, list[int]]]) -> None:
    assert initial(6, 2, delay) == expected


def test_senders_are_booked_after_the_delay_and_the_last_initial_set_is_short() -> None:
    assert initial(7, 3, 1) == [(0, [1, 2, 3, 4, 5, 6]), (1, [7])]
    assert list(FixedDelay(6, 2, 1).after(3, [3, 4], set())) == [(5, [3, 4])]


def test_participants_go_around_those_present() -> None:
    policy = Participants(5, 2)
    assert [policy.participants(k) for k in range(5)] == [[1, 2], [3, 4], [1, 5], [2, 3], [4, 5]]
    assert policy.participants(0, {1}) == [2, 3]
    assert policy.participants(1, {4, 5}) == [1, 3]
    assert policy.participants(0, {1, 2, 3, 5}) == [4]
    assert policy.participants(0, {1, 2, 3, 4, 5}) == []


def test_random_participants_are_distinct_present_and_a_function_of_seed_and_round() -> None:
    policy = Participants(9, 4, "random", seed=3)
    for k in range(50):
        chosen = list(policy.participants(k))
        assert chosen == sorted(set(chosen))
        assert set(chosen) <= set(range(1, 10))

    def drawn(seed: int) -> list[list[int]]:
        return [list(Participants(20, 5, "random", seed).participants(k)) for k in range(10)]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert len({tuple(group) for group in drawn(1)}) > 1
    assert set(policy.participants(0, {1, 2, 3})) <= {4, 5, 6, 7, 8, 9}
    assert policy.participants(0, {1, 2, 3, 4, 5, 6, 7}) == [8, 9]
    assert policy.participants(5, set()) == policy.participants(5)
