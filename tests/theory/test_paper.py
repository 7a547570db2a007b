"""The figures the paper prints, from the closed forms."""

from fractions import Fraction

import pytest

from slotwise import InputError, Scenario, theory

TABLE_1 = [
    *(
        (100, 50, 50_000, *cell)
        for cell in [(1, 24976), (5, 8326), (10, 4541), (25, 1922), (50, 980), (100, 332)]
    ),
    *((20, 4, 100_000, *cell) for cell in [(1, 49999), (2, 33333), (5, 16667), (10, 9091), (20, 4001)]),
]


@pytest.mark.parametrize(("devices", "compute", "deadline", "size", "models"), TABLE_1)
def test_rounds_by_the_deadline_are_one_less_than_the_models_of_table_1(
    devices: int, compute: int, deadline: int, size: int, models: int
) -> None:
    scenario = Scenario(devices=devices, group_size=size, compute_slots=compute)
    assert theory.rounds_within(scenario, deadline) == models - 1


@pytest.mark.parametrize(("compute", "age", "delay"), [(50, 25, 74), (10, 5, 94), (2, 1, 98)])
@pytest.mark.parametrize("link", [1, 3])
def test_the_free_delay_depends_on_the_ratio_of_computing_to_link(
    compute: int, age: int, delay: int, link: int
) -> None:
    scenario = Scenario(devices=100, group_size=1, compute_slots=compute * link, link_slots=link)
    assert theory.effective_staleness(scenario) == age
    assert theory.free_delay(scenario) == delay


@pytest.mark.parametrize(
    ("size", "asynchronous", "delayed"),
    [(1, 99, 25), (5, 19, 9), (10, 9, 5), (25, 3, 2), (50, 1, 1), (100, 0, 0)],
)
def test_the_mnist_case_settles_at_these_ages(size: int, asynchronous: int, delayed: int) -> None:
    scenario = Scenario(devices=100, group_size=size, compute_slots=50)
    assert theory.staleness(scenario, 1000) == asynchronous
    assert theory.staleness(scenario, 1000, theory.free_delay(scenario)) == delayed


def test_staleness_follows_the_round_number_algorithm_2_and_the_group_size() -> None:
    scenario = Scenario(devices=6, group_size=2, compute_slots=2)
    assert [theory.staleness(scenario, k) for k in range(5)] == [0, 1, 2, 2, 2]
    assert [theory.version(scenario, k) for k in range(5)] == [0, 0, 0, 1, 2]
    assert [theory.staleness(scenario, k, delay=1) for k in range(5)] == [0, 1, 1, 1, 1]
    assert [theory.version(scenario, k, delay=1) for k in range(5)] == [0, 0, 1, 2, 3]
    scenario = Scenario(devices=100, group_size=100, compute_slots=50)
    assert theory.staleness(scenario, 7) == 0
    assert theory.round_slots(scenario) == theory.sync_round_slots(scenario) == 151
    assert theory.rounds_within(scenario, 50_000) == theory.sync_rounds(scenario, 50_000) == 331


@pytest.mark.parametrize(
    ("compute", "average"),
    [
        (5, Fraction(3)),  # communication bound: r(S+1)
        (6, Fraction(3)),  # the boundary, r(G−1)(S+1): both cases of eq. 10 agree
        (7, Fraction(10, 3)),  # computation bound: (tau_comp + r(S+1))/G
    ],
)
def test_the_average_round_has_the_two_cases_of_the_paper(compute: int, average: Fraction) -> None:
    assert theory.round_slots(Scenario(devices=6, group_size=2, compute_slots=compute)) == average


@pytest.mark.parametrize("compute", [6, 7, 1000])
def test_no_delay_is_free_where_computing_is_the_bottleneck(compute: int) -> None:
    assert theory.free_delay(Scenario(devices=6, group_size=2, compute_slots=compute)) == 0


@pytest.mark.parametrize("deadline", [0, 1, 4])
def test_no_round_ends_before_the_first_training_and_its_communication(deadline: int) -> None:
    scenario = Scenario(devices=6, group_size=2, compute_slots=2)
    assert theory.round_end(scenario, 0) == 5
    assert theory.rounds_within(scenario, deadline) == 0


@pytest.mark.parametrize("delay", [-1, 3])
@pytest.mark.parametrize("function", [theory.cycle_slots, theory.round_slots])
def test_a_delay_that_leaves_nobody_to_send_is_refused(function: object, delay: int) -> None:
    scenario = Scenario(devices=6, group_size=2, compute_slots=2)
    with pytest.raises(InputError, match=rf"^delay = {delay}: must be a whole number from 0 to 2$"):
        function(scenario, delay)  # type: ignore[operator]


@pytest.mark.parametrize(
    "closed_form",
    [
        theory.cycle_slots,
        *(
            lambda s, f=f: f(s, 10)
            for f in (theory.round_end, theory.rounds_within, theory.staleness, theory.version)
        ),
    ],
    ids=["cycle_slots", "round_end", "rounds_within", "staleness", "version"],
)
def test_single_rounds_have_no_closed_form_where_the_group_size_does_not_divide(closed_form: object) -> None:
    scenario = Scenario(devices=7, group_size=2, compute_slots=2)
    with pytest.raises(InputError, match=r"^group_size = 2: must be a divisor of 7"):
        closed_form(scenario)  # type: ignore[operator]
