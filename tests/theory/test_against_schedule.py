"""The closed forms against the exact schedule, on random scenarios."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slotwise import Scenario, simulate, theory
from slotwise.schedule import automatic_delay
from slotwise.schedule.batches import round_ends as each_round_end


def round_ends(scenario: Scenario, delay: int = 0, rounds: int | None = None) -> list[int]:
    return list(each_round_end(scenario, delay, rounds))


@st.composite
def dividing(draw: st.DrawFn) -> Scenario:
    """N up to 200, S a divisor of it."""
    devices = draw(st.integers(1, 200))
    size = draw(st.sampled_from([s for s in range(1, devices + 1) if devices % s == 0]))
    return Scenario(
        devices=devices,
        group_size=size,
        compute_slots=draw(st.integers(1, 500)),
        link_slots=draw(st.integers(1, 5)),
    )


@st.composite
def uneven(draw: st.DrawFn, most_groups: int = 200, longest: int = 500) -> Scenario:
    """N up to 200, S not a divisor of it."""
    size = draw(st.integers(2, 66))
    devices = draw(st.integers(size + 1, min(200, size * most_groups)).filter(lambda n: n % size))
    return Scenario(
        devices=devices,
        group_size=size,
        compute_slots=draw(st.integers(1, longest)),
        link_slots=draw(st.integers(1, 5)),
    )


def delays(scenario: Scenario) -> st.SearchStrategy[int]:
    """None, Proposition 1's, its neighbours, the largest, and any other."""
    free, largest = theory.free_delay(scenario), scenario.largest_delay
    kinds = {0, max(0, free - 1), free, min(free + 1, largest), largest}
    return st.sampled_from(sorted(kinds)) | st.integers(0, largest)


def horizon(scenario: Scenario) -> int:
    return 3 * scenario.groups + 2


@given(scenario=dividing(), data=st.data())
def test_every_round_has_the_staleness_and_the_end_of_the_closed_form(
    scenario: Scenario, data: st.DataObject
) -> None:
    delay = data.draw(delays(scenario))
    timeline = simulate(scenario, "idfl", delay=delay, rounds=horizon(scenario))
    expected = [theory.staleness(scenario, k, delay) for k in range(timeline.rounds)]
    assert timeline.staleness.tolist() == np.repeat(expected, scenario.group_size).tolist()
    expected = [theory.round_end(scenario, k, delay) for k in range(timeline.rounds)]
    assert timeline.broadcast_end.tolist() == expected


@given(scenario=dividing())
def test_asynchronous_rounds_have_the_closed_forms_of_delay_0(scenario: Scenario) -> None:
    timeline = simulate(scenario, "async", rounds=horizon(scenario))
    rounds = range(timeline.rounds)
    assert timeline.broadcast_end.tolist() == [theory.round_end(scenario, k) for k in rounds]
    assert timeline.version[:: scenario.group_size].tolist() == [theory.version(scenario, k) for k in rounds]


@given(scenario=dividing() | uneven(), rounds=st.integers(1, 30))
def test_synchronous_rounds_are_equally_long_and_never_stale(scenario: Scenario, rounds: int) -> None:
    timeline = simulate(scenario, "sync", rounds=rounds)
    length = theory.sync_round_slots(scenario)
    assert timeline.broadcast_end.tolist() == [length * (k + 1) for k in range(rounds)]
    assert timeline.max_staleness() == 0


@given(scenario=dividing(), deadline=st.integers(1, 5_000), data=st.data())
def test_as_many_rounds_end_by_the_deadline_as_the_closed_form_says(
    scenario: Scenario, deadline: int, data: st.DataObject
) -> None:
    delay = data.draw(delays(scenario))
    limited = Scenario(**scenario.as_dict() | {"deadline": deadline})
    assert len(round_ends(limited, delay)) == theory.rounds_within(scenario, deadline, delay)


@given(scenario=dividing(), data=st.data())
def test_the_average_round_is_a_cycle_shared_by_its_rounds(scenario: Scenario, data: st.DataObject) -> None:
    delay = data.draw(delays(scenario))
    rounds = scenario.groups - delay
    ends = round_ends(scenario, delay, 2 * rounds)
    assert ends[-1] - ends[rounds - 1] == theory.cycle_slots(scenario, delay)
    assert theory.cycle_slots(scenario, delay) == rounds * theory.round_slots(scenario, delay)


@given(scenario=dividing() | uneven())
def test_the_free_delay_ends_every_round_in_the_slot_it_ends_in_without_delay(scenario: Scenario) -> None:
    rounds = 5 * scenario.groups
    free = theory.free_delay(scenario)
    assert round_ends(scenario, free, rounds) == round_ends(scenario, 0, rounds)


@given(scenario=dividing() | uneven())
def test_one_more_than_the_free_delay_ends_rounds_later(scenario: Scenario) -> None:
    more = theory.free_delay(scenario) + 1
    if more > scenario.largest_delay:
        return
    rounds = 5 * scenario.groups
    with_delay, without = round_ends(scenario, more, rounds), round_ends(scenario, 0, rounds)
    assert all(late >= early for late, early in zip(with_delay, without, strict=True))
    assert with_delay[-1] > without[-1]


@given(scenario=dividing() | uneven())
def test_the_delay_found_by_search_is_the_free_delay(scenario: Scenario) -> None:
    assert automatic_delay(scenario) == theory.free_delay(scenario)


@given(scenario=dividing(), deadline=st.integers(1, 5_000))
def test_a_deadline_does_not_move_proposition_1(scenario: Scenario, deadline: int) -> None:
    limited = Scenario(**scenario.as_dict() | {"deadline": deadline})
    assert automatic_delay(limited) == theory.free_delay(scenario)


@given(scenario=uneven(most_groups=6, longest=60), data=st.data())
def test_uneven_rounds_grow_by_the_promised_average_in_the_long_run(
    scenario: Scenario, data: st.DataObject
) -> None:
    delay = data.draw(st.integers(0, scenario.largest_delay))
    age = scenario.groups - 1 - delay
    period, transient = age * (age + 1), 4_000
    ends = round_ends(scenario, delay, transient + 2 * period + 1)
    growth = period * theory.round_slots(scenario, delay)
    assert ends[transient + period] - ends[transient] == growth
    assert ends[transient + 2 * period] - ends[transient + period] == growth


@given(scenario=uneven(), data=st.data())
def test_uneven_updates_get_as_old_as_the_groups_less_the_delay_allow(
    scenario: Scenario, data: st.DataObject
) -> None:
    delay = data.draw(st.integers(0, scenario.largest_delay))
    timeline = simulate(scenario, "idfl", delay=delay, rounds=horizon(scenario))
    assert timeline.max_staleness() == scenario.groups - 1 - delay


@given(scenario=uneven())
def test_a_larger_delay_never_ends_a_round_earlier(scenario: Scenario) -> None:
    runs = [round_ends(scenario, a, horizon(scenario)) for a in range(min(scenario.largest_delay, 20) + 1)]
    assert all(np.all(np.subtract(later, sooner) >= 0) for sooner, later in pairwise(runs))


@given(scenario=dividing().filter(lambda scenario: scenario.groups <= 20), data=st.data())
def test_every_chain_of_averaged_models_is_fed_by_that_many_groups(
    scenario: Scenario, data: st.DataObject
) -> None:
    delay = data.draw(delays(scenario))
    chains = scenario.groups - delay
    timeline = simulate(scenario, "idfl", delay=delay, rounds=2 * scenario.groups * chains)
    fed: dict[int, set[int]] = {}
    chain_of_round: list[int] = []
    for k in range(timeline.rounds):
        row = timeline.uplinks(k).start
        version = int(timeline.version[row])
        # A round on w_0 begins a chain; any other belongs to that of the round which made its model.
        chain_of_round.append(chain_of_round[version - 1] if version else k)
        fed.setdefault(chain_of_round[k], set()).add(int(timeline.device[row]) // scenario.group_size)
    assert len(fed) == chains
    assert {len(groups) for groups in fed.values()} == {theory.groups_per_chain(scenario, delay)}
