from fractions import Fraction
from typing import Any

import pytest

from slotwise import InputError, plan, simulate
from slotwise.fleet import Devices, Fleet
from slotwise.schedule.costs import Costs, Powers
from slotwise.setting.planning import FleetPlan, divisors

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


def test_figures_have_these_names_and_values() -> None:
    (row,) = plan(**MNIST, group_sizes=[10])
    assert list(row.as_dict()) == FIGURES
    assert list(row.as_dict().values()) == [10, 10, 11, 4540, 4541, 9, 4, 5, 61, 819]


def test_group_sizes_are_all_divisors_unless_given_and_keep_their_order() -> None:
    assert column("group_size", MNIST) == [1, 2, 4, 5, 10, 20, 25, 50, 100]
    assert column("group_size", MNIST, [10, 1]) == [10, 1]


@pytest.mark.parametrize(
    ("number", "expected"),
    [(1, [1]), (7, [1, 7]), (12, [1, 2, 3, 4, 6, 12]), (36, [1, 2, 3, 4, 6, 9, 12, 18, 36])],
)
def test_divisors_ascend_and_are_complete(number: int, expected: list[int]) -> None:
    assert divisors(number) == expected


def test_the_length_of_a_round_is_exact_inside_and_a_number_in_figures() -> None:
    (row,) = plan(devices=20, compute_slots=50, deadline=1000, group_sizes=[1])
    assert row.round_slots == Fraction(52, 20)
    assert row.as_dict()["round_slots"] == 2.6
    assert [type(value) for value in column("round_slots", MNIST)] == [int] * 9


def test_where_no_round_ends_there_are_marks_and_no_costs() -> None:
    rows = plan(**MNIST | {"deadline": 61})
    assert [row.scenario.group_size for row in rows if row.fits] == [1, 2, 4, 5, 10]
    assert {row.rounds for row in rows if not row.fits} == {0}
    """Synchronous rounds wait for the slow participant; the others do not."""
    fleet = Fleet(compute_slots=(50, 1, 1), link_slots=(1,) * 3)
    (row,) = plan(devices=3, compute_slots=2, deadline=20, group_sizes=[2], fleet=fleet, usage=True)
    assert row.fits
    assert row.costs["sync"] is None
    assert row.as_dict()["usage"]["sync"] is None
    assert row.as_dict()["sync"]["rounds"] == 0


@pytest.mark.parametrize("size", [3, 7, 30, 60])
def test_a_group_size_that_does_not_divide_is_read_off_the_exact_schedule(size: int) -> None:
    (row,) = plan(**MNIST | {"deadline": 2_000}, group_sizes=[size])
    asynchronous = simulate(row.scenario, "async")
    delayed = simulate(row.scenario, "idfl")
    assert (row.rounds, row.delay) == (asynchronous.rounds, delayed.delay)
    assert row.as_dict()["staleness_async"] == asynchronous.max_staleness()
    assert row.as_dict()["staleness_idfl"] == delayed.max_staleness()


def test_group_sizes_must_be_given_and_at_most_the_number_of_devices() -> None:
    with pytest.raises(InputError) as caught:
        plan(**MNIST, group_sizes=[1, 101])
    assert caught.value.parameter == "group_size"
    with pytest.raises(InputError) as caught:
        plan(**MNIST, group_sizes=[])
    assert caught.value.parameter == "group_sizes"


SMALL = {"devices": 6, "compute_slots": 2, "deadline": 60}
POWERS = Powers(computing=1.0, sending=2.0, receiving=0.5)


@pytest.mark.parametrize(
    ("options", "schedules"),
    [
        ({}, []),
        ({"usage": None}, ["idfl"]),
        ({"usage": True}, ["sync", "async", "idfl"]),
        ({"powers": POWERS}, ["sync", "async", "idfl"]),
    ],
)
@pytest.mark.parametrize("fleet", [None, Devices(compute_distribution="uniform:1:9")])
def test_costs_are_computed_if_asked_for(
    options: dict[str, Any], schedules: list[str], fleet: Devices | None
) -> None:
    for row in plan(**SMALL, fleet=fleet, **options):
        assert list(row.costs) == schedules
        assert list(row.as_dict().get("usage", {})) == schedules
        for name, costs in row.costs.items():
            drawn = None if fleet is None else fleet.fleet(row.scenario)
            assert costs is not None
            assert (
                costs.as_dict() == Costs.of(simulate(row.scenario, name, fleet=drawn), costs.powers).as_dict()
            )
            assert costs.powers == options.get("powers")


def test_unequal_devices_are_simulated_schedule_by_schedule() -> None:
    fleet = Fleet(compute_slots=(1, 2, 3, 4, 5, 20), link_slots=(1,) * 6, uplink_loss=0.1, seed=3)
    for row in plan(**SMALL, fleet=fleet):
        for name, outcome in row.schedules.items():
            timeline = simulate(row.scenario, name, fleet=fleet)
            assert (outcome.rounds, outcome.lost) == (timeline.rounds, len(timeline.lost))
            assert row.as_dict()[name]["mean_staleness"] == timeline.mean_staleness()


def test_equal_devices_have_closed_forms_unless_a_selection_decides() -> None:
    equal = Fleet(compute_slots=(2,) * 6, link_slots=(1,) * 6)
    assert plan(**SMALL, fleet=equal) == plan(**SMALL)
    assert plan(**SMALL, fleet=Devices()) == plan(**SMALL)
    row = plan(devices=6, compute_slots=3, deadline=100, group_sizes=[2], selection="largest-age")[0]
    assert isinstance(row, FleetPlan)
    assert row.devices == "devices"
    assert all(not row.costs for row in plan(devices=6, compute_slots=2, deadline=900_000_000, usage=None))


@pytest.mark.parametrize("fleet", [None, Devices(compute_distribution="uniform:40:60")])
def test_a_deadline_in_which_no_group_size_has_a_round_is_refused(fleet: Devices | None) -> None:
    with pytest.raises(InputError) as caught:
        plan(devices=6, compute_slots=50, deadline=40, fleet=fleet)
    assert caught.value.parameter == "deadline"


@pytest.mark.parametrize("options", [{"usage": True}, {"fleet": Devices(uplink_loss=0.1)}])
def test_too_much_to_simulate_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        plan(devices=6, compute_slots=2, deadline=900_000_000, **options)
    assert caught.value.parameter == "deadline"


def test_participants_and_selections_of_ones_own_are_planned_with() -> None:
    def slowest(waiting: Any, _round: int, _last: int, *, shift: int = 0) -> Any:
        return max(waiting, key=lambda one: (one.planned_slots, (one.device + shift) % 4))

    fleet = Fleet(compute_slots=(2,) * 4, link_slots=(1, 1, 1, 9))
    options: Any = {"devices": 4, "compute_slots": 2, "deadline": 240, "group_sizes": [1], "fleet": fleet}
    plain, own, near_first = (
        plan(**options, **changes)[0].as_dict()
        for changes in ({}, {"participation": slowest}, {"selection": "shortest-uplink"})
    )
    assert (plain["sync"]["rounds"], own["sync"]["rounds"]) == (40, 20)  # of 6 slots on average, of 12
    assert near_first["async"] != plain["async"]
