from fractions import Fraction

import pytest

from slotwise import InputError, plan, simulate
from slotwise.planning import divisors

MNIST = {"devices": 100, "compute_slots": 50, "link_slots": 1, "deadline": 50_000}
CIFAR10 = {"devices": 20, "compute_slots": 4, "link_slots": 1, "deadline": 100_000}
FIGURES = [
    "group_size",
    "groups",
    "round_slots",
    "rounds",
    "models",
    "staleness_async",
    "delay",
    "staleness_idfl",
    "sync_round_slots",
    "sync_rounds",
]


def column(name: str, parameters: dict[str, int], sizes: list[int] | None = None) -> list[int]:
    return [row.as_dict()[name] for row in plan(**parameters, group_sizes=sizes)]


@pytest.mark.parametrize(
    ("parameters", "sizes", "models"),
    [
        (MNIST, [1, 5, 10, 25, 50, 100], [24976, 8326, 4541, 1922, 980, 332]),
        (CIFAR10, [1, 2, 5, 10, 20], [49999, 33333, 16667, 9091, 4001]),
    ],
)
def test_models_are_those_of_the_papers_table(
    parameters: dict[str, int], sizes: list[int], models: list[int]
) -> None:
    assert column("models", parameters, sizes) == models


@pytest.mark.parametrize(
    ("figure", "values"),
    [
        ("staleness_async", [99, 19, 9, 3, 1, 0]),
        ("staleness_idfl", [25, 9, 5, 2, 1, 0]),
        ("delay", [74, 10, 4, 1, 0, 0]),
    ],
)
def test_staleness_is_that_of_the_mnist_case(figure: str, values: list[int]) -> None:
    assert column(figure, MNIST, [1, 5, 10, 25, 50, 100]) == values


def test_figures_have_exactly_these_names_in_this_order() -> None:
    (row,) = plan(**MNIST, group_sizes=[10])
    assert list(row.as_dict()) == FIGURES


def test_the_figures_of_one_group_size() -> None:
    (row,) = plan(**MNIST, group_sizes=[10])
    assert list(row.as_dict().values()) == [10, 10, 11, 4540, 4541, 9, 4, 5, 61, 819]


def test_group_sizes_are_all_divisors_unless_given() -> None:
    assert column("group_size", MNIST) == [1, 2, 4, 5, 10, 20, 25, 50, 100]


@pytest.mark.parametrize(
    ("number", "expected"),
    [(1, [1]), (7, [1, 7]), (12, [1, 2, 3, 4, 6, 12]), (36, [1, 2, 3, 4, 6, 9, 12, 18, 36])],
)
def test_divisors_ascend_and_are_complete(number: int, expected: list[int]) -> None:
    assert divisors(number) == expected


def test_group_sizes_keep_their_order() -> None:
    assert column("group_size", MNIST, [10, 1]) == [10, 1]


def test_a_round_of_fractional_length_is_exact_inside_and_a_float_in_figures() -> None:
    (row,) = plan(devices=20, compute_slots=50, deadline=1000, group_sizes=[1])
    assert row.round_slots == Fraction(52, 20)
    assert row.as_dict()["round_slots"] == 2.6


def test_a_round_of_whole_length_is_an_integer_in_figures() -> None:
    assert [type(value) for value in column("round_slots", MNIST)] == [int] * 9


def test_group_sizes_without_a_round_by_the_deadline_are_marked() -> None:
    rows = plan(**MNIST | {"deadline": 61})
    assert [row.scenario.group_size for row in rows if row.fits] == [1, 2, 4, 5, 10]
    assert {row.rounds for row in rows if not row.fits} == {0}


@pytest.mark.parametrize("size", [3, 7, 30, 60])
def test_a_group_size_that_does_not_divide_is_read_off_the_exact_schedule(size: int) -> None:
    (row,) = plan(**MNIST | {"deadline": 2_000}, group_sizes=[size])
    asynchronous = simulate(row.scenario, "async")
    delayed = simulate(row.scenario, "idfl")
    assert (row.rounds, row.delay) == (asynchronous.rounds, delayed.delay)
    assert row.as_dict()["staleness_async"] == asynchronous.max_staleness()
    assert row.as_dict()["staleness_idfl"] == delayed.max_staleness()


@pytest.mark.parametrize(
    ("name", "value"),
    [("devices", 0), ("devices", 2.5), ("compute_slots", -1), ("link_slots", 0), ("deadline", 0)],
)
def test_parameters_out_of_range_are_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(InputError, match=rf"^{name} = {value}: "):
        plan(**MNIST | {name: value})


def test_a_group_size_above_the_number_of_devices_is_refused() -> None:
    with pytest.raises(InputError, match=r"^group_size = 101: must be from 1 to 100"):
        plan(**MNIST, group_sizes=[1, 101])
