"""An Episode that answers like a built-in policy gives that policy's timeline; what it shows and refuses."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from deciding import LikePolicy, arbitrary, decided, rows
from hypothesis import given, settings
from hypothesis import strategies as st
from random_fleets import DEADLINE, fleets, scenarios
from random_links import SENDERS, ChannelCase, FadingLink, channel_cases

from slotwise import Episode, InputError, Scenario, UserError, simulate
from slotwise.fleet import Batteries, Fleet
from slotwise.schedule import Asynchronous, Decision, IntentionalDelay, Synchronous
from slotwise.schedule.decisions import KINDS, DecisionKind

THOUSAND = settings(max_examples=1000)
PLAIN = Scenario(devices=4, group_size=2, compute_slots=3, deadline=60)


def kinds_of(case: ChannelCase) -> st.SearchStrategy[list[DecisionKind]]:
    kinds: list[DecisionKind] = ["sender", "group_size"]
    if isinstance(case.policy, Synchronous):
        kinds.append("participants")
    elif "group_size" not in kinds or not case.scenario.group_size_changes:
        kinds.append("delay")
    return st.lists(st.sampled_from(kinds), min_size=1, max_size=3, unique=True)


@THOUSAND
@given(case=channel_cases(), data=st.data())
def test_answering_like_a_policy_gives_its_timeline(case: ChannelCase, data: st.DataObject) -> None:
    kinds = data.draw(kinds_of(case))
    expected = case.play(event_by_event=True)
    episode = decided(case, kinds)
    timeline = episode.play(LikePolicy(case))
    if expected is None:
        assert timeline.rounds == 0
    else:
        assert rows(timeline) == rows(expected)


@settings(max_examples=300)
@given(case=channel_cases(), data=st.data())
def test_any_answers_can_be_replayed(case: ChannelCase, data: st.DataObject) -> None:
    kinds = data.draw(kinds_of(case))
    first, again = decided(case, kinds), decided(case, kinds)
    timeline = first.play(arbitrary)
    cut = data.draw(st.integers(0, len(first.answers)))
    again.replay(first.answers[:cut])
    assert again.rounds <= first.rounds
    assert rows(again.timeline)[:3] == rows(timeline.first(again.rounds))[:3]
    assert again.play(arbitrary) == timeline
    assert again.answers == first.answers
    scenario = timeline.scenario
    for k in range(timeline.rounds):  # sizes that were decided are in the scenario
        begins = int(timeline.broadcast_start[k - 1]) if k else 0
        changes = ((0, scenario.group_size), *scenario.group_size_changes)
        assert len(timeline.device[timeline.uplinks(k)]) <= [s for slot, s in changes if slot <= begins][-1]


@given(scenario=scenarios(), selection=st.sampled_from(SENDERS), data=st.data())
def test_it_ends_after_given_rounds(scenario: Scenario, selection: Any, data: st.DataObject) -> None:
    fleet = data.draw(fleets(scenario))
    policy = Asynchronous(selection=selection)
    link = FadingLink(scenario.devices)
    case = ChannelCase(replace(scenario, deadline=None), replace(fleet, absences=()), link, policy)
    expected = simulate(case.scenario, policy, fleet=case.fleet, link=link, rounds=3)
    episode = decided(case, ["sender"], rounds=3)
    assert rows(episode.play(LikePolicy(case))) == rows(expected)
    with pytest.raises(UserError, match="has ended"):
        episode.answer(1)


def test_it_shows_ages_channel_and_batteries() -> None:
    batteries = Batteries(capacity=(20.0,) * 4, initial=(12.0,) * 4, computing=(1.0,), sending=(2.0,))
    fleet = replace(Fleet.equal(PLAIN), batteries=replace(batteries, harvest=(0.5,)))
    link = FadingLink(4, seed=3, fixed_slots=1, outage_db=-30.0)
    episode = Episode(PLAIN, "async", fleet=fleet, link=link)
    assert episode.decision is not None
    assert (episode.slot, episode.decision.slot, episode.decision.allowed) == (3, 3, [1, 2, 3, 4])
    # 3 slots of computing are paid for in slot 0, and half a joule is harvested in each.
    assert episode.joules.tolist() == [12 - 3 + 1.5] * 4
    assert episode.snr_db.tolist() == [link.block_snr(n, 3) for n in range(1, 5)]
    assert episode.ages.tolist() == [1] * 4
    for device in (2, 4):
        episode.answer(device)
    assert (episode.rounds, episode.decision.round) == (1, 1)
    assert episode.ages.tolist() == [2, 1, 2, 1]
    assert episode.arrived.tolist() == [0, 1, 0, 1]
    assert [one.device for one in episode.decision.waiting] == [1, 3]
    assert np.isinf(Episode(PLAIN).joules).all()


@pytest.mark.parametrize(
    ("arguments", "parameter"),
    [
        ({"decide": "who"}, "decide"),
        ({"decide": ()}, "decide"),
        ({"decide": None}, "decide"),
        ({"decide": 3}, "decide"),
        ({"decide": "participants"}, "decide"),
        ({"policy": "sync", "decide": "delay"}, "decide"),
        ({"policy": "sync", "decide": "participants", "participation": "random"}, "participation"),
        ({"policy": IntentionalDelay(delay=1, selection=max)}, "selection"),
        ({"policy": "idfl", "link": FadingLink(4)}, "delay"),
        ({"policy": "idfl", "decide": "delay", "link": FadingLink(4)}, "decide"),
        ({"scenario": replace(PLAIN, deadline=None)}, "rounds"),
        (
            {"scenario": replace(PLAIN, group_size_changes=((9, 1),)), "decide": "group_size"},
            "group_size_changes",
        ),
    ],
)
def test_what_would_be_decided_twice_is_refused(arguments: dict[str, Any], parameter: str) -> None:
    with pytest.raises(InputError) as caught:
        Episode(**{"scenario": PLAIN, **arguments})
    assert caught.value.parameter == parameter


@pytest.mark.parametrize(
    ("decide", "answers"),
    [
        ("sender", [0, 5, 2.5, None, [1], "1"]),
        ("group_size", [0, 5]),
        ("delay", [-1, 2]),
        ("participants", [1, [], [1, 1], [1, 2, 3], [5], "12", None, [1.5], range(1, 10**12)]),
    ],
)
def test_answers_that_are_not_allowed_leave_the_decision_open(
    decide: DecisionKind, answers: Sequence[Any]
) -> None:
    assert decide in KINDS
    policy = "sync" if decide == "participants" else "async"
    episode = Episode(PLAIN, policy, decide=decide)
    decision = episode.decision
    for answer in answers:
        with pytest.raises(InputError) as caught:
            episode.answer(answer)
        assert caught.value.parameter == decide
        assert episode.decision is decision
    assert episode.answers == ()


@pytest.mark.parametrize(
    ("decide", "allowed"),
    [
        ("sender", "one of 1 to 4 in slot 3"),
        ("group_size", "one of 1 to 4 in slot 5"),
        ("participants", "1 or 2 of the devices 1 to 4, without repetition, in slot 0"),
    ],
)
def test_a_refusal_says_what_is_allowed(decide: DecisionKind, allowed: str) -> None:
    episode = Episode(PLAIN, "sync" if decide == "participants" else "async", decide=decide)
    with pytest.raises(InputError) as caught:
        episode.answer(0)
    assert str(caught.value) == f"{decide} = 0: must be {allowed}"


def test_an_answer_of_text_is_refused_in_quotes() -> None:
    with pytest.raises(InputError, match=r"sender = '1': must be one of 1 to 4"):
        Episode(PLAIN).answer("1")  # type: ignore[arg-type]


def test_an_agent_that_takes_other_arguments_is_refused() -> None:
    with pytest.raises(InputError, match="agent = <lambda>: must be a function of 1 argument, and it has 2"):
        Episode(PLAIN).play(lambda decision, learning: 1)  # type: ignore[arg-type, misc]


@pytest.mark.parametrize("play", [Episode, simulate])
@pytest.mark.parametrize("scenario", [3, None, {"devices": 3}])
def test_what_is_no_scenario_is_refused(play: Any, scenario: Any) -> None:
    with pytest.raises(InputError, match=r"^scenario = (an int|None|a dict): must be a Scenario$"):
        play(scenario, "async")


@pytest.mark.parametrize("play", [Episode, simulate])
def test_what_is_no_fleet_is_refused(play: Any) -> None:
    scenario = Scenario(devices=4, group_size=2, compute_slots=3, deadline=50)
    with pytest.raises(InputError, match=r"^fleet = an int: must be a Fleet$"):
        play(scenario, "async", fleet=3)


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(UserError, match="unknown option dely: did you mean delay"):
        Episode(PLAIN, "idfl", dely=1)


def test_participants_and_delays_are_what_was_answered() -> None:
    episode = Episode(PLAIN, "sync", decide="participants")
    timeline = episode.play(lambda decision: [decision.round % 4 + 1])
    assert timeline.device.tolist()[:5] == [1, 2, 3, 4, 1]
    delays: Callable[[Decision], int] = lambda decision: decision.round % 2  # noqa: E731
    timeline = Episode(replace(PLAIN, deadline=DEADLINE), "idfl", decide="delay", delay=0).play(delays)
    # The senders of an even round receive its model one round later than those of an odd round.
    assert [len(timeline.receivers(v)) for v in range(1, 7)] == [0, 4, 0, 4, 0, 4]
    assert timeline.delay is None
