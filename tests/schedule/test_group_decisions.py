"""Blocks and powers of groups that an Episode decides: as an allocation gives them, and what is refused."""

import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from deciding import LikePolicy, arbitrary, decided, rows
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_access import NaiveNoma
from random_fleets import lost_rows, uplink_rows
from random_groups import Case, group_cases

from slotwise import (
    Episode,
    InputError,
    Noma,
    Ofdma,
    OverTheAir,
    Scenario,
    Synchronous,
    Tdma,
    simulate,
)
from slotwise.radio import ALLOCATIONS, ChannelModel, Group, NoFading, RateAdaptive, equal_blocks, min_max
from slotwise.radio.group_links import OfdmaLink
from slotwise.radio.placement import ListedPlacement
from slotwise.schedule.costs import Costs, Powers
from slotwise.schedule.decisions import DecisionKind
from slotwise.schedule.learning_state import answers_in, arrays_of_answers

CELL = Scenario(devices=4, group_size=4, compute_slots=5, deadline=400)
PLACES = ListedPlacement(distances_m=(80.0, 80.0, 160.0, 320.0))
RADIO = RateAdaptive(
    channel=ChannelModel(placement=PLACES, fading=NoFading()), bits=4_000_000, broadcast_bits=700_000
).link(CELL)


def more_kinds(case: Case) -> st.SearchStrategy[list[DecisionKind]]:
    kinds: list[DecisionKind] = ["sender", "group_size"]
    kinds.append("participants" if isinstance(case.policy, Synchronous) else "delay")
    return st.lists(st.sampled_from(kinds), max_size=2, unique=True)


class Graded:
    """An own allocation: the blocks of another one, and powers that follow from all that a group shows."""

    def __init__(self, blocks: Callable[[Group], Any]) -> None:
        self.blocks = blocks

    def __call__(self, group: Group) -> tuple[Any, Any]:
        blocks = self.blocks(group)
        return blocks, (1 + np.floor(1000 * group.snr + blocks) % 4) / 4


def told(case: Case, allocation: Any, *, full_power: bool) -> Case:
    """The same case with another allocation."""
    link = case.link
    assert isinstance(link, OfdmaLink)
    other = OfdmaLink(link.radio, link.most_senders, allocation, link.blocks, full_power=full_power)
    return case._replace(link=other)


def assert_same(case: Case, episode: Episode, agent: Any) -> None:
    """Answers of an agent give the timeline of a case."""
    expected, timeline = case.play(), episode.play(agent)
    if expected is None:
        assert timeline.rounds == 0
    else:
        assert rows(timeline) == rows(expected)


@settings(max_examples=300)
@given(case=group_cases(["ofdma"]), data=st.data())
def test_blocks_like_those_of_an_allocation_give_its_timeline(case: Case, data: st.DataObject) -> None:
    assert isinstance(case.link, OfdmaLink)
    without = told(case, equal_blocks, full_power=case.link.full_power)
    episode = decided(without, ["blocks", *data.draw(more_kinds(case))])
    assert_same(case, episode, LikePolicy(case, case.link.allocation))


@settings(max_examples=200)
@given(case=group_cases(["ofdma"]), blocks=st.booleans(), data=st.data())
def test_powers_like_those_of_an_own_allocation_give_its_timeline(
    case: Case, blocks: bool, data: st.DataObject
) -> None:
    assert isinstance(case.link, OfdmaLink)
    allocation = Graded(case.link.allocation)
    expected = told(case, allocation, full_power=True)
    without = told(case, equal_blocks if blocks else case.link.allocation, full_power=True)
    kinds: list[DecisionKind] = ["power", "blocks"] if blocks else ["power"]
    episode = decided(without, [*kinds, *data.draw(more_kinds(case))])
    assert_same(expected, episode, LikePolicy(case, allocation))


def quarters(device: int, slot: int) -> float:
    """The part of its power that a device sends with."""
    return (1 + (device + slot) % 4) / 4


@settings(max_examples=200)
@given(case=group_cases(["noma"]), data=st.data())
def test_powers_of_noma_give_the_uplinks_of_the_loop_over_slots(case: Case, data: st.DataObject) -> None:
    assert isinstance(case.naive, NaiveNoma)
    case.naive.part = quarters
    expected = case.slot_by_slot()
    episode = decided(case, ["power", *data.draw(more_kinds(case))])
    timeline = episode.play(LikePolicy(case, part=quarters))
    in_order = lambda rows: sorted(rows, key=lambda row: (row[0], row[3], row[1]))  # noqa: E731
    assert in_order(uplink_rows(timeline)) == in_order(expected.uplinks)
    assert in_order(lost_rows(timeline)) == in_order(expected.lost)
    for device, start, _, part in timeline.reduced.tolist():
        assert part == quarters(int(device), int(start)) < 1


@settings(max_examples=100)
@given(case=group_cases(), data=st.data())
def test_any_answers_can_be_replayed_pickled_and_kept_in_arrays(case: Case, data: st.DataObject) -> None:
    kinds: list[DecisionKind] = ["power", *data.draw(more_kinds(case))]
    if isinstance(case.link, OfdmaLink):
        case = told(case, equal_blocks, full_power=True)
        kinds.append("blocks")
    first, again = decided(case, kinds), decided(case, kinds)
    timeline = first.play(arbitrary)
    kept = list(answers_in(arrays_of_answers(first.answers)))
    cut = data.draw(st.integers(0, len(kept)))
    again.replay(kept[:cut])
    assert again.answers == first.answers[:cut]
    copy = pickle.loads(pickle.dumps(again))
    for episode in (again, copy):
        assert episode.play(arbitrary) == timeline
        assert episode.answers == first.answers


def access_of(access: Any) -> Any:
    return access.link(RADIO)


def test_they_show_what_an_allocation_sees_and_what_a_selection_sees() -> None:
    link = access_of(Ofdma(devices=3, resource_blocks=10))
    episode = Episode(CELL, "async", decide=("sender", "blocks", "power"), link=link)
    for device in (4, 1, 3):
        episode.answer(device)
    decision = episode.decision
    assert decision is not None
    assert (decision.kind, decision.slot, decision.round) == ("blocks", 5, 0)
    assert (decision.allowed, decision.count, decision.blocks) == ((4, 1, 3), 10, ())
    assert decision.group.devices == (4, 1, 3)
    assert decision.group.snr.tolist() == [float(RADIO.conditions.snr(0, 1)[0, n - 1]) for n in (4, 1, 3)]
    assert [one.device for one in decision.waiting] == [4, 1, 3]
    assert [one.planned_slots for one in decision.waiting] == [link.planned_slots[n - 1] for n in (4, 1, 3)]
    episode.answer(np.array([5, 2, 3]))
    assert episode.decision is not None
    assert (episode.decision.kind, episode.decision.blocks) == ("power", (5, 2, 3))
    episode.answer([0.5, 1, np.float32(0.25)])
    assert episode.answers == (4, 1, 3, (5, 2, 3), (0.5, 1.0, 0.25))
    timeline = episode.play(lambda one: one.allowed[0] if one.kind == "sender" else [1] * len(one.allowed))
    assert timeline.reduced[:2, [0, 1, 3]].tolist() == [[4, 5, 0.5], [3, 5, 0.25]]


def test_less_power_takes_longer_and_fewer_joules() -> None:
    powers = Powers(computing=0.0, sending=1.0, receiving=0.0)
    ends, joules = [], []
    for part in (1.0, 0.25):
        episode = Episode(CELL, "async", decide="power", rounds=1, link=access_of(Noma(devices=1)))
        timeline = episode.play(lambda _, part=part: [part])  # type: ignore[misc]
        ends.append(timeline.end[-1])
        joules.append(Costs.of(timeline, powers).joules)
    assert ends[1] > ends[0]
    assert joules[1] < joules[0]


def test_one_device_and_one_block_are_tdma_with_power() -> None:
    link = access_of(Ofdma(devices=1, resource_blocks=1))
    whole = Episode(CELL, "async", decide="power", link=link).play(lambda _: [1.0])
    assert rows(whole) == rows(simulate(CELL, "async", link=RADIO))


@pytest.mark.parametrize(
    ("decide", "wrong"),
    [
        ("blocks", [[1], [1, 1, 1, 1], [0, 1, 1], [4, 4, 3], [1.0, 1, 1], "123", 3, None, {1, 2, 3}]),
        ("blocks", [np.array(3), [True, 1, 1], np.ones((3, 3), dtype=int), range(10**12), [10**400] * 3]),
        ("power", [[1.0], [0.5] * 4, [0, 1, 1], [1.5, 1, 1], [float("nan"), 1, 1], "abc", 0.5, None]),
        ("power", [[True, 1, 1], [10**400, 1, 1], [-0.1, 1, 1], [None, 1, 1], {0.1, 0.2, 0.3}]),
    ],
)
def test_answers_that_are_not_allowed_leave_the_decision_open(
    decide: DecisionKind, wrong: Sequence[Any]
) -> None:
    episode = Episode(CELL, decide=decide, link=access_of(Ofdma(devices=3, resource_blocks=10)))
    decision = episode.decision
    for answer in wrong:
        with pytest.raises(InputError) as caught:
            episode.answer(answer)
        assert caught.value.parameter == decide
        assert episode.decision is decision
    assert episode.answers == ()


def test_a_refusal_says_what_is_allowed() -> None:
    episode = Episode(CELL, decide=("blocks", "power"), link=access_of(Ofdma(devices=3, resource_blocks=10)))
    each = "a list of 3 numbers, one for each of decision.allowed"
    with pytest.raises(InputError) as caught:
        episode.answer(0)
    assert (
        str(caught.value)
        == f"blocks = 0: must be {each}, whole, at least 1 and together at most 10, in slot 5"
    )
    episode.answer([1, 1, 1])
    with pytest.raises(InputError) as caught:
        episode.answer([2, 1, 1])
    assert str(caught.value) == f"power = [2, 1, 1]: must be {each}, above 0 and at most 1, in slot 5"


@pytest.mark.parametrize(
    ("decide", "link", "parameter"),
    [
        ("blocks", None, "decide"),
        ("power", None, "decide"),
        ("blocks", access_of(Tdma()), "decide"),
        ("power", access_of(Tdma()), "decide"),
        ("blocks", access_of(Noma()), "decide"),
        ("blocks", access_of(OverTheAir()), "decide"),
        ("power", access_of(OverTheAir()), "decide"),
        ("blocks", access_of(Ofdma(devices=3, allocation=min_max)), "allocation"),
        ("blocks", access_of(Ofdma(devices=3, allocation=lambda group: [1])), "allocation"),
        ("power", access_of(Ofdma(devices=3, allocation=lambda group: [1])), "allocation"),
        ("power", access_of(Ofdma(devices=3, power="shared")), "ofdma_power"),
    ],
)
def test_what_has_no_effect_or_would_be_decided_twice_is_refused(
    decide: DecisionKind, link: Any, parameter: str
) -> None:
    with pytest.raises(InputError) as caught:
        Episode(CELL, decide=decide, link=link)
    assert caught.value.parameter == parameter


def test_every_built_in_allocation_may_be_left_with_decided_powers() -> None:
    for allocation in ALLOCATIONS.values():
        link = access_of(Ofdma(devices=3, allocation=allocation))
        episode = Episode(CELL, decide="power", link=link)
        assert rows(episode.play(lambda one: [1.0] * len(one.allowed))) == rows(
            simulate(CELL, "async", link=link)
        )


def test_a_pairing_chooses_all_but_the_first_of_a_group() -> None:
    link = access_of(Noma(devices=2, pairing=lambda group, waiting: max(waiting)))
    episode = Episode(CELL, "async", decide="sender", link=link, rounds=1)
    timeline = episode.play(lambda decision: decision.allowed[0])
    assert uplink_rows(timeline)[0][:2] == (0, 1)
    assert episode.answers == (1, 2)
    assert {device for _, device, _, start, _ in uplink_rows(timeline) if start == 5} == {1, 4}
