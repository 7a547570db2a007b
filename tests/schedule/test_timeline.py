import copy
import hashlib
import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotwise import Asynchronous, InputError, Scenario, Timeline, UserError, simulate
from slotwise.fleet import Absence, Fleet
from slotwise.schedule import case_of, timeline_of
from slotwise.schedule.timeline import COLUMNS, NEVER, NONE, Trainings

EXAMPLE = Scenario(devices=6, group_size=2, compute_slots=2)


def example(**options: Any) -> Timeline:
    return simulate(EXAMPLE, **{"policy": "idfl", "rounds": 5} | options)


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("event_by_event", [False, True])
def test_no_column_can_be_written_to(name: str, event_by_event: bool) -> None:
    column = getattr(example(event_by_event=event_by_event), name)
    with pytest.raises(ValueError, match="read-only"):
        column[0] = 7


def test_columns_and_receivers_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        example().device = np.zeros(10)  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        example().receivers(0)[0] = 7


def test_what_the_worked_example_says_of_itself() -> None:
    timeline = example()
    assert (len(timeline), timeline.rounds, timeline.models, timeline.last_slot) == (10, 5, 6, 17)
    assert timeline.totals() == (5, 10, 0, 0.8, 1, 17)
    assert timeline.device.tolist() == [1, 2, 3, 4, 5, 6, 1, 2, 3, 4]
    assert timeline.training.tolist() == [0, 0, 0, 0, 0, 0, 1, 1, 1, 1]
    assert timeline.device[timeline.uplinks(2)].tolist() == [5, 6]
    assert timeline.received_at(np.array([0, 1, 2])).tolist() == [0, 5, 8]
    receivers = [timeline.receivers(v).tolist() for v in range(6)]
    assert receivers == [[1, 2, 3, 4], [5, 6], [1, 2], [3, 4], [5, 6], [1, 2]]


def test_a_timeline_may_have_no_round() -> None:
    short = replace(EXAMPLE, deadline=4)
    timeline = timeline_of(short, Asynchronous(), *case_of(short, None, None))
    assert timeline.totals() == (0, 0, 0, 0.0, 0, 0)
    assert Timeline.from_json(timeline.to_json()) == timeline


@given(size=st.integers(1, 9), rounds=st.integers(1, 30))
def test_training_counts_are_those_of_counting(size: int, rounds: int) -> None:
    timeline = simulate(Scenario(devices=9, group_size=size, compute_slots=5), rounds=rounds)
    seen: dict[int, int] = {}
    for device, count in zip(timeline.device.tolist(), timeline.training.tolist(), strict=True):
        assert count == seen.get(device, 0)
        seen[device] = count + 1


def test_timelines_are_compared_by_what_happens_and_shown_in_short() -> None:
    assert example() == example() != "timeline"
    for other in ({"rounds": 4}, {"delay": 0}, {"policy": "async"}, {"policy": "sync"}):
        assert example() != example(**other)
    assert repr(example()) == f"Timeline(scenario={EXAMPLE!r}, schedule='idfl', delay=1)"


def test_json_lists_rounds_as_a_person_would() -> None:
    document = json.loads(example(rounds=1).to_json())
    assert document == {
        "scenario": EXAMPLE.as_dict(),
        "schedule": "idfl",
        "delay": 1,
        "starters": [1, 2, 3, 4],
        "rounds": [
            {
                "round": 0,
                "uplinks": [
                    {"device": 1, "version": 0, "staleness": 0, "start": 2, "end": 3},
                    {"device": 2, "version": 0, "staleness": 0, "start": 3, "end": 4},
                ],
                "broadcast": {"start": 4, "end": 5, "version": 1, "receivers": [5, 6]},
            }
        ],
    }


@given(
    devices=st.integers(1, 20),
    data=st.data(),
    schedule=st.sampled_from(["sync", "async", "idfl"]),
    deadline=st.none() | st.integers(1_000, 2_000),
)
def test_json_gives_the_timeline_back(
    devices: int, data: st.DataObject, schedule: Any, deadline: int
) -> None:
    size = data.draw(st.integers(1, devices))
    scenario = Scenario(devices=devices, group_size=size, compute_slots=9, deadline=deadline)
    timeline = simulate(scenario, schedule, rounds=12)
    again = Timeline.from_json(timeline.to_json())
    assert again == timeline
    assert [getattr(again, name).dtype for name in COLUMNS] == [
        getattr(timeline, name).dtype for name in COLUMNS
    ]


@pytest.mark.parametrize("text", ["", "{", "timeline", "[]", "3", "null", '"text"', "{}", '{"rounds": 3}'])
def test_another_text_is_a_users_mistake(text: str) -> None:
    with pytest.raises(UserError, match=r"^timeline: (not JSON|malformed): "):
        Timeline.from_json(text)


@pytest.mark.parametrize("name", ["scenario", "schedule", "delay", "starters", "rounds"])
def test_a_missing_part_is_named(name: str) -> None:
    document = example().as_dict()
    del document[name]
    with pytest.raises(UserError, match=rf"^timeline: malformed: .*{name}"):
        Timeline.from_dict(document)


@pytest.mark.parametrize("value", ["one", None, [1], 2**70])
@pytest.mark.parametrize("name", ["device", "version", "start", "end"])
def test_an_uplink_that_is_not_of_integers_is_a_users_mistake(name: str, value: object) -> None:
    document = example().as_dict()
    document["rounds"][1]["uplinks"][0][name] = value
    with pytest.raises(UserError, match=r"^timeline: malformed: "):
        Timeline.from_dict(document)


@pytest.mark.parametrize("value", ["one", None, [[1, 2], [3]], 3])
def test_receivers_that_are_not_a_list_of_integers_are_a_users_mistake(value: object) -> None:
    document = example().as_dict()
    document["rounds"][1]["broadcast"]["receivers"] = value
    with pytest.raises(UserError, match=r"^timeline: malformed: "):
        Timeline.from_dict(document)


def test_a_scenario_out_of_range_keeps_its_own_message() -> None:
    document = example().as_dict()
    document["scenario"]["group_size"] = 7
    with pytest.raises(InputError, match=r"^group_size = 7: must be from 1 to 6"):
        Timeline.from_dict(document)


LOSSY = Fleet(
    compute_slots=(1, 2, 3), link_slots=(1, 2, 1), uplink_loss=0.5, seed=1, absences=(Absence(2, 3, 9),)
)


def unequal() -> Timeline:
    scenario = Scenario(devices=3, group_size=2, compute_slots=2)
    return simulate(scenario, "idfl", fleet=LOSSY, rounds=12)


def test_json_of_a_fleet_says_what_it_is_like_and_what_was_lost() -> None:
    document = json.loads(unequal().to_json())
    assert document["delay"] is None
    assert document["fleet"] == LOSSY.as_dict()
    assert document["fleet"]["absences"] == [{"device": 2, "leaves": 3, "returns": 9}]
    assert list(document) == ["scenario", "fleet", "schedule", "delay", "starters", "rounds"]
    keys = {tuple(entry) for entry in document["rounds"]}
    assert keys == {("round", "uplinks", "broadcast"), ("round", "uplinks", "lost", "broadcast")}
    for entry in document["rounds"]:
        for uplink in (*entry["uplinks"], *entry.get("lost", ())):
            assert list(uplink) == ["device", "version", "staleness", "start", "end"]
            assert uplink["staleness"] == entry["round"] - uplink["version"]


def test_rounds_without_uplinks_come_back_from_json() -> None:
    scenario = Scenario(devices=2, group_size=1, compute_slots=2)
    fleet = Fleet(compute_slots=(2, 2), link_slots=(1, 1), absences=(Absence(1, 0, 5), Absence(2, 0, 5)))
    timeline = simulate(scenario, fleet=fleet, rounds=1)
    assert (timeline.rounds, len(timeline)) == (1, 0)
    assert (timeline.max_staleness(), timeline.mean_staleness()) == (0, 0.0)
    assert Timeline.from_json(timeline.to_json()) == timeline


def test_json_of_equal_devices_is_what_it_was_before_there_were_fleets() -> None:
    scenario = Scenario(devices=10, group_size=3, compute_slots=7, link_slots=2, deadline=300)
    text = "".join(simulate(scenario, schedule).to_json() for schedule in ("sync", "async", "idfl"))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "573779449c58360b"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fleet": 3}, r"^timeline: malformed: "),
        ({"fleet": {}}, r"^timeline: malformed: .*compute_slots"),
        ({"fleet": LOSSY.as_dict() | {"colour": "red"}}, r"^timeline: malformed: .*colour"),
        ({"fleet": LOSSY.as_dict() | {"jitter": "much"}}, r"^timeline: malformed: "),
        ({"fleet": LOSSY.as_dict() | {"absences": [3]}}, r"^timeline: malformed: "),
        (
            {"fleet": LOSSY.as_dict() | {"uplink_loss": 1.0}},
            r"^uplink_loss = 1.0: must be a probability from 0 to below 1$",
        ),
        (
            {"fleet": LOSSY.as_dict() | {"compute_slots": [1, 2], "link_slots": [1, 1]}},
            r"^fleet = of 2 devices",
        ),
    ],
)
def test_a_malformed_fleet_is_a_users_mistake(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Timeline.from_dict(unequal().as_dict() | change)


@pytest.mark.parametrize("lost", [3, [3], [{}], [{"device": 1, "version": 0, "start": "x", "end": 3}]])
def test_malformed_losses_are_a_users_mistake(lost: object) -> None:
    document = unequal().as_dict()
    document["rounds"][0]["lost"] = lost
    with pytest.raises(UserError, match=r"^timeline: malformed: "):
        Timeline.from_dict(document)


@given(kept=st.integers(1, 7), loss=st.sampled_from([0.0, 0.4]))
def test_its_first_rounds_are_what_a_shorter_simulation_shows(kept: int, loss: float) -> None:
    fleet = Fleet(compute_slots=(2, 3, 4, 2, 3, 4), link_slots=(1, 2, 1, 2, 1, 2), uplink_loss=loss)
    shorter = simulate(EXAMPLE, "async", rounds=min(kept, 5), fleet=fleet)
    assert simulate(EXAMPLE, "async", rounds=5, fleet=fleet).first(kept) == shorter


def test_an_erased_training_counts_for_jitter_and_not_for_batches() -> None:
    losses, slots = (0.9, 0.0), {"compute_slots": (10, 10), "link_slots": (1, 1)}
    fleet = Fleet(**slots, jitter=0.5, device_uplink_loss=losses, retransmission="erasure", seed=2)
    scenario = Scenario(devices=2, group_size=1, compute_slots=10)
    timeline = simulate(scenario, "async", fleet=fleet, rounds=40)
    assert timeline.lost[0, 1] == 1
    assert timeline.training[timeline.device == 1].tolist() == list(range(sum(timeline.device == 1)))
    trainings = Trainings.of(timeline)
    mine = trainings.device == 1
    durations = (trainings.ready - trainings.start)[mine].tolist()
    assert durations == [fleet.slots_of_training(1, number) for number in range(sum(mine))]


def test_trainings_say_what_became_of_each_model() -> None:
    scenario = Scenario(devices=2, group_size=1, compute_slots=2)
    fleet = Fleet(compute_slots=(2, 3), link_slots=(1, 1), absences=(Absence(2, 6, 9),))
    timeline = simulate(scenario, "async", fleet=fleet, rounds=3)
    rows = zip(*(column.tolist() for column in Trainings.of(timeline)), strict=True)
    assert list(rows) == [
        (1, 0, 0, 0, 0, 2, NEVER, 0),
        (1, 1, 3, 4, 4, 6, NEVER, 2),
        (1, 3, 7, 8, 8, 10, NEVER, NONE),
        (2, 0, 0, 0, 0, 3, 6, 1),
        (2, 2, 5, 6, 6, 9, 6, NONE),
    ]


def test_the_first_round_that_differs() -> None:
    scenario = Scenario(devices=6, group_size=2, compute_slots=2)
    one = simulate(scenario, "async", rounds=9)
    assert one.first_difference(simulate(scenario, "async", rounds=12), 9) is None
    assert one.first_difference(simulate(replace(scenario, group_size=3), "async", rounds=9), 9) == 0
    late = replace(one, end=one.end + (one.round == 5))
    assert one.first_difference(late, 9) == 5
    assert one.first_difference(late, 5) is None
    changed = simulate(replace(scenario, group_size_changes=((14, 1),)), "async", rounds=9)
    first = int(np.flatnonzero(np.diff(changed.round_offsets) == 1)[0])
    assert one.first_difference(changed, 9) == first > 0


@pytest.mark.parametrize(
    "make_copy", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))]
)
def test_a_copy_is_read_only(make_copy: Callable[[Timeline], Timeline]) -> None:
    one = simulate(Scenario(devices=6, group_size=2, compute_slots=2), "async", rounds=3)
    one.staleness  # noqa: B018  (cached from now on)
    made = make_copy(one)
    assert made == one
    for name in (*COLUMNS, "staleness", "training", "round_offsets"):
        assert not getattr(made, name).flags.writeable
