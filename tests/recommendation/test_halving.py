"""Successive halving as pure logic: what it keeps, what it may cost, and that it can be broken off."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotwise.errors import InputError
from slotwise.recommendation.halving import (
    SIXTEENTHS,
    Extent,
    Score,
    extent_within_budget,
    extent_within_quarter,
    halve,
    kept,
    ladder,
    ladders,
    most_steps,
)

Table = list[list[int]]


def cumulative(climbs: list[int]) -> list[int]:
    return [sum(climbs[:i]) for i in range(SIXTEENTHS + 1)]


# Steps of each candidate up to each sixteenth of the deadline.
candidates = st.lists(st.integers(0, 50), min_size=SIXTEENTHS, max_size=SIXTEENTHS).map(cumulative)
tables = st.lists(candidates, min_size=2, max_size=12)


@st.composite
def seeds_of_tables(draw: st.DrawFn) -> list[Table]:
    count = draw(st.integers(2, 8))
    table = st.lists(candidates, min_size=count, max_size=count)
    return draw(st.lists(table, min_size=1, max_size=3))


def scores_by_index(rung: int, alive: Sequence[int]) -> Mapping[int, Score | None]:
    return {candidate: (float(candidate),) for candidate in alive}


def steps_taken(rungs: Sequence[int], table: Table, order: Sequence[int]) -> int:
    """What a search costs in which the candidates always rank in ``order``."""
    found = halve(rungs, range(len(table)), lambda _, alive: {c: (float(order[c]),) for c in alive})
    climbed = {c: rung.sixteenths for rung in found for c, _ in rung.ranking}
    return sum(table[c][rung] for c, rung in climbed.items())


@pytest.mark.parametrize(
    ("first", "last", "rungs"),
    [(1, 16, (1, 2, 4, 8, 16)), (2, 9, (2, 4, 8, 9)), (1, 8, (1, 2, 4, 8)), (8, 9, (8, 9)), (1, 1, (1,))],
)
def test_a_ladder_doubles_from_its_first_rung_to_its_last(
    first: int, last: int, rungs: tuple[int, ...]
) -> None:
    assert ladder(first, last) == rungs


def test_a_late_first_rung_is_better_than_a_late_last_one_if_finalists_get_to_a_half() -> None:
    order = list(ladders())
    assert order.index((2, 4, 8)) < order.index((1, 2, 4, 8, 16))
    assert order.index((1, 2, 4, 8)) < order.index((1, 2, 4, 7))
    assert order[-1] == (1,)
    assert len(order) == len(set(order))


@pytest.mark.parametrize(("count", "left"), [(11, 6), (6, 3), (3, 2), (2, 2), (1, 1), (0, 0)])
def test_the_better_half_is_kept_and_two_as_long_as_there_are(count: int, left: int) -> None:
    assert kept(count) == left


@given(tables, st.sampled_from(list(ladders())), st.randoms())
def test_no_search_costs_more_than_was_foreseen(table: Table, rungs: tuple[int, ...], random: object) -> None:
    order = list(range(len(table)))
    random.shuffle(order)  # type: ignore[attr-defined]
    assert steps_taken(rungs, table, order) <= most_steps(rungs, table)


@given(seeds_of_tables(), st.integers(1, 20_000), st.randoms())
def test_a_budget_is_never_exceeded(by_seed: list[Table], budget: int, random: object) -> None:
    try:
        extent = extent_within_budget(by_seed, budget)
    except InputError:
        assert most_steps((1,), by_seed[0]) > budget
        return
    order = list(range(len(by_seed[0])))
    random.shuffle(order)  # type: ignore[attr-defined]
    spent = sum(steps_taken(extent.rungs, table, order) for table in by_seed[: extent.seeds])
    assert spent <= budget


@given(seeds_of_tables())
def test_a_refused_budget_names_the_smallest_that_is_not(by_seed: list[Table]) -> None:
    smallest = most_steps((1,), by_seed[0])
    if smallest > 0:
        with pytest.raises(InputError, match=f"at least {smallest},"):
            extent_within_budget(by_seed, smallest - 1)
    assert extent_within_budget(by_seed, smallest).seeds >= 1


def test_a_smaller_budget_first_costs_seeds_and_then_rungs() -> None:
    steps = [[10 * k for k in range(SIXTEENTHS + 1)]] * 4
    whole, rungs = most_steps((8, 16), steps), most_steps((1, 2, 4, 8), steps)
    by_seed = [steps] * 3
    assert extent_within_budget(by_seed, 3 * whole) == Extent(3, (8, 16), 3 * whole)
    assert extent_within_budget(by_seed, 3 * rungs).seeds == 3
    assert extent_within_budget(by_seed, 3 * rungs - 1).seeds == 2
    assert extent_within_budget(by_seed, rungs) == Extent(1, (1, 2, 4, 8), rungs)
    assert extent_within_budget(by_seed, rungs - 1).rungs == (1, 2, 4, 7)
    assert extent_within_budget(by_seed, 40).rungs == (1,)


def test_without_a_budget_the_search_stays_below_a_quarter_of_the_grid_with_all_seeds() -> None:
    steps = [[100 * k for k in range(SIXTEENTHS + 1)]] * 12
    grid = 2 * 12 * 1600
    extent = extent_within_quarter([steps, steps], grid)
    assert extent.seeds == 2
    assert 2 * most_steps(extent.rungs, steps) < grid / 4
    better = list(ladders())[: list(ladders()).index(extent.rungs)]
    assert all(2 * most_steps(rungs, steps) >= grid / 4 for rungs in better)


@given(seeds_of_tables(), st.integers(0, 40_000))
def test_a_quarter_of_the_grid_is_never_exceeded(by_seed: list[Table], grid: int) -> None:
    together = [[sum(numbers) for numbers in zip(*of, strict=True)] for of in zip(*by_seed, strict=True)]
    try:
        extent = extent_within_quarter(by_seed, grid)
    except InputError:
        assert 4 * most_steps((1,), together) >= grid
    else:
        assert most_steps(extent.rungs, together) <= extent.limit < grid / 4


def test_where_no_search_is_that_small_a_budget_is_asked_for() -> None:
    at_once = [[[0] + [100] * SIXTEENTHS] * 3] * 2  # everything happens in the first sixteenth
    with pytest.raises(InputError, match="smallest usable value is 300") as error:
        extent_within_quarter(at_once, 600)
    assert error.value.parameter == "budget"
    assert extent_within_budget(at_once, 300).seeds == 1


def test_a_single_candidate_needs_no_trial() -> None:
    alone = [[list(range(SIXTEENTHS + 1))]]
    assert extent_within_quarter(alone, 16).rungs == ()
    assert extent_within_budget(alone, 1).rungs == ()


@given(st.permutations(range(11)), st.integers(1, 16))
def test_the_best_is_found_if_every_rung_shows_the_truth(order: list[int], last: int) -> None:
    found = halve(ladder(1, last), range(11), lambda _, alive: {c: (float(order[c]),) for c in alive})
    assert found[-1].kept == (order.index(0),)


@given(st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=1, max_size=9))
def test_of_equal_scores_the_earlier_candidate_is_the_better_one(values: list[float]) -> None:
    found = halve(ladder(1, 8), range(len(values)), lambda _, alive: {c: (values[c],) for c in alive})
    assert found[-1].kept == (values.index(min(values)),)


def test_rungs_are_climbed_by_ever_fewer() -> None:
    found = halve(ladder(1, 16), range(11), scores_by_index)
    assert [len(rung.ranking) for rung in found] == [11, 6, 3, 2, 2]
    assert [rung.kept for rung in found][-2:] == [(0, 1), (0,)]


def test_who_diverges_is_out_even_if_few_are_left() -> None:
    def measure(rung: int, alive: Sequence[str]) -> Mapping[str, Score | None]:
        return {name: None if name in "abc" and rung >= 2 else (0.0,) for name in alive}

    found = halve(ladder(1, 8), "abcd", measure)
    assert found[1].out == ("a", "b")
    assert found[1].ranking == ()


def test_the_climb_ends_where_one_is_left() -> None:
    found = halve(ladder(1, 8), "ab", lambda rung, alive: {n: (0.0,) if n == "b" else None for n in alive})
    assert [(rung.sixteenths, rung.kept) for rung in found] == [(1, ("b",))]


@given(st.integers(1, 40), st.integers(0, 10**6))
def test_a_search_broken_off_and_begun_anew_finds_the_same_and_tries_nothing_twice(
    breaks_after: int, salt: int
) -> None:
    """Trials are remembered, as pilots are by their folders."""
    tried: list[tuple[int, int]] = []
    known: dict[tuple[int, int], Score] = {}

    class Broken(Exception):
        pass

    def measure(limit: int) -> object:
        def trial(rung: int, alive: Sequence[int]) -> Mapping[int, Score | None]:
            for candidate in alive:
                if (candidate, rung) not in known:
                    if len(tried) >= limit:
                        raise Broken
                    tried.append((candidate, rung))
                    known[candidate, rung] = (float(hash((candidate, rung, salt)) % 1000),)
            return {candidate: known[candidate, rung] for candidate in alive}

        return trial

    with suppress(Broken):
        halve(ladder(1, 16), range(9), measure(breaks_after))  # type: ignore[arg-type]
    resumed = halve(ladder(1, 16), range(9), measure(10**9))  # type: ignore[arg-type]
    assert len(tried) == len(set(tried))
    known.clear()
    tried.clear()
    assert halve(ladder(1, 16), range(9), measure(10**9)) == resumed  # type: ignore[arg-type]
