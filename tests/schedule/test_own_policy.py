"""Policies and selections of the user's own: the example in docs/own-policy.md, and what holds for any."""

import doctest
import re
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_fleets import DEADLINE, MANY, fleets, lost_rows, policies, scenarios, selections, uplink_rows
from slot_by_slot import SlotBySlot

from slotwise import InputError, Scenario, Timeline, UserError, simulate
from slotwise.fleet import Fleet
from slotwise.options import choose
from slotwise.runs import RunConfig
from slotwise.schedule import (
    POLICIES,
    POLICY,
    Asynchronous,
    Delivery,
    IntentionalDelay,
    Policy,
    RandomSelection,
    Waiting,
    ready_policy,
    scheduler_for,
)
from slotwise.schedule.events import Drive
from slotwise.schedule.link import FleetLink
from slotwise.schedule.policy import Booking

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "own-policy.md"
HALF_DELAYED = "examples.own_policy.half_delayed:make_policy"
FRESHEST_FIRST = "examples.own_policy.freshest_first:freshest_first"
EXAMPLE = Scenario(devices=6, group_size=2, compute_slots=2)


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize("name", ["half_delayed", "freshest_first"])
def test_the_page_shows_the_example_files(name: str) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert (ROOT / "examples" / "own_policy" / f"{name}.py").read_text(encoding="utf-8") in blocks


def test_the_examples_of_the_page_print_what_it_says() -> None:
    result = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert result.attempted > 0
    assert result.failed == 0


def test_policies_and_selections_are_named_and_imported_when_needed() -> None:
    config = RunConfig.from_options({"schedule": HALF_DELAYED, "deadline": 2_000})
    timeline = config.simulate()
    assert timeline.schedule == "half-delayed"
    assert timeline == simulate(config.channel, HALF_DELAYED)
    assert not ready_policy(config.policy).depends_on_seed
    config = RunConfig.from_options({"schedule": "async", "selection": FRESHEST_FIRST, "deadline": 2_000})
    assert config.simulate() == simulate(config.channel, "async", selection=FRESHEST_FIRST)
    assert config.simulate() != simulate(config.channel, "async")
    RunConfig.from_options({"schedule": "no_such_module:make_policy"})
    RunConfig.from_options({"selection": "no_such_module:choose"})


@pytest.mark.parametrize(
    ("options", "depends"),
    [
        ({"schedule": "sync"}, False),
        ({"schedule": "sync", "participation": "random"}, True),
        ({"schedule": "async"}, False),
        ({"schedule": "async", "selection": "round-robin"}, False),
        ({"schedule": "idfl", "selection": "random"}, True),
        ({"schedule": "async", "selection": FRESHEST_FIRST}, False),
    ],
)
def test_a_configuration_tells_whether_the_seed_matters(options: dict[str, Any], depends: bool) -> None:
    policy = choose(POLICY, options)
    assert policy.depends_on_seed == depends
    every = [simulate(EXAMPLE, ready_policy(policy, seed), rounds=20) for seed in range(5)]
    shown = {str(timeline.device.tolist()) for timeline in every}
    assert (len(shown) > 1) == depends


@pytest.mark.parametrize(
    ("function", "error"),
    [
        ("no_such_function", InputError),
        ("not_a_policy", UserError),
        ("fails", UserError),
    ],
)
def test_a_function_that_makes_no_policy_is_a_users_mistake(
    function: str, error: type[UserError], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "def not_a_policy(seed):\n    return 3\n\n\ndef fails(seed):\n    raise ValueError(seed)\n"
    (tmp_path / "faulty_policies.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(error, match=function):
        simulate(EXAMPLE, f"faulty_policies:{function}", rounds=1)


@pytest.mark.parametrize("name", ["delay", "participation", "selection"])
def test_options_of_short_names_are_refused_beside_a_policy_of_ones_own(name: str) -> None:
    values = {"delay": 1, "participation": "random", "selection": "random"}
    with pytest.raises(InputError) as caught:
        simulate(EXAMPLE, HALF_DELAYED, rounds=1, **{name: values[name]})  # type: ignore[arg-type]
    assert caught.value.parameter == name


def test_every_short_name_is_that_of_its_policy() -> None:
    assert {name: policy.name for name, policy in POLICIES.items()} == {n: n for n in POLICIES}
    assert set(POLICIES) == {"sync", "async", "idfl"}


# --- what holds for any selection and any policy ---


def played(scenario: Scenario, policy: Policy, fleet: Fleet) -> Timeline | None:
    try:
        return simulate(scenario, policy, fleet=fleet)
    except InputError:
        return None


@MANY
@given(scenario=scenarios(), policy=policies, data=st.data())
def test_any_policy_is_driven_as_the_dumb_loop_over_slots_drives_it(
    scenario: Scenario, policy: Policy, data: st.DataObject
) -> None:
    fleet = data.draw(fleets(scenario))
    timeline, delivery = played(scenario, policy, fleet), policy.delivery(scenario, fleet, None)
    expected = SlotBySlot(scenario, fleet, delivery=delivery, selection=policy.selection).run(DEADLINE)
    if timeline is None:
        assert expected.broadcasts == []
        return
    slots = zip(timeline.broadcast_start.tolist(), timeline.broadcast_end.tolist(), strict=True)
    assert uplink_rows(timeline) == expected.uplinks
    assert lost_rows(timeline) == expected.lost
    assert list(slots) == expected.broadcasts
    assert [timeline.receivers(v).tolist() for v in range(timeline.models)] == expected.receivers


@given(scenario=scenarios(), selection=selections, data=st.data())
def test_just_in_time_moves_no_uplink_of_any_selection_and_makes_no_update_older(
    scenario: Scenario, selection: Any, data: st.DataObject
) -> None:
    fleet = replace(data.draw(fleets(scenario)), jitter=0.0, uplink_loss=0.0, absences=(), compute_changes=())
    policy = IntentionalDelay(selection=selection).for_planned_slots()
    plain, planned = (
        played(scenario, Asynchronous(selection=selection), fleet),
        played(scenario, policy, fleet),
    )
    if plain is None or planned is None:
        assert plain is planned
        return
    columns = ("round", "device", "start", "end", "broadcast_start", "broadcast_end")
    assert all(getattr(plain, name).tolist() == getattr(planned, name).tolist() for name in columns)
    assert (planned.staleness <= plain.staleness).all()
    assert planned == simulate(scenario, policy, fleet=fleet, event_by_event=True)


@given(
    scenario=scenarios(), policy=policies | st.builds(IntentionalDelay, selection=selections), data=st.data()
)
def test_a_scheduler_for_a_network_does_what_is_simulated(
    scenario: Scenario, policy: Policy, data: st.DataObject
) -> None:
    fleet = data.draw(fleets(scenario))
    timeline = played(scenario, policy, fleet)
    how = {"retransmission": fleet.retransmission, "absent": fleet.absent_at_first}
    scheduler = scheduler_for(scenario, policy, fleet=fleet, **how)
    record = Drive(scheduler, fleet, FleetLink(fleet, scenario.link_slots)).play(None, scenario.deadline)
    assert ([] if timeline is None else uplink_rows(timeline)) == record.uplinks


@given(scenario=scenarios(), policy=policies, data=st.data())
def test_a_restored_scheduler_continues_as_the_first_would(
    scenario: Scenario, policy: Policy, data: st.DataObject
) -> None:
    fleet = data.draw(fleets(scenario))

    class Restored(Drive):
        """Goes on with a new Scheduler after every step."""

        def _transmit(self, grant: Any, slot: int) -> None:
            fresh = scheduler_for(scenario, policy, fleet=fleet, absent=fleet.absent_at_first)
            fresh.restore(self._scheduler.state)
            self._scheduler = fresh
            super()._transmit(grant, slot)

    first, second = (scheduler_for(scenario, policy, fleet=fleet, absent=fleet.absent_at_first) for _ in "12")
    record = Drive(first, fleet, FleetLink(fleet, scenario.link_slots)).play(None, scenario.deadline)
    assert (
        Restored(second, fleet, FleetLink(fleet, scenario.link_slots)).play(None, scenario.deadline) == record
    )


def test_selections_serve_in_turn_or_fairly() -> None:
    fleet = Fleet(compute_slots=(1, 1, 1, 9), link_slots=(1,) * 4)
    scenario = Scenario(devices=4, group_size=1, compute_slots=1)
    devices = simulate(scenario, "async", fleet=fleet, selection="round-robin", rounds=8).device.tolist()
    assert devices == [1, 2, 3, 1, 2, 3, 4, 1]
    scenario = Scenario(devices=5, group_size=1, compute_slots=1)
    devices = simulate(scenario, Asynchronous(selection=RandomSelection(3)), rounds=2_000).device.tolist()
    assert all(300 < devices.count(n) < 500 for n in range(1, 6))


@dataclass(frozen=True)
class Books(Delivery):
    """Books what it is told, whatever happens."""

    first: Sequence[Booking]
    then: Sequence[Booking]

    def initial(self, absent: Set[int]) -> Iterable[Booking]:
        return self.first

    def after(self, round_number: int, senders: Sequence[int], absent: Set[int]) -> Iterable[Booking]:
        return self.then


@dataclass(frozen=True, kw_only=True)
class BookingPolicy(Policy):
    name = "booking"
    first: Sequence[Booking] = ((0, (1, 2, 3)),)
    then: Sequence[Booking] = ()

    def delivery(self, scenario: Scenario, fleet: Fleet | None, rounds: int | None) -> Delivery:
        return Books(self.first, self.then)


@pytest.mark.parametrize(
    "options",
    [
        {"first": [(-1, [1])]},
        {"first": [(0, [1, 1])]},
        {"first": [(0, [0, 1])]},
        {"first": [(0, [1, 2, 3, 4])]},
        {"then": [(0, [1])]},
        {"then": [(1, [3])]},  # it has not sent yet
        {"then": [(1, [1, 1])]},
        {"selection": lambda waiting, k, last: Waiting(0, 9, 9)},
        {"selection": lambda waiting, k, last: None},
    ],
)
def test_impossible_bookings_and_choices_are_refused(options: dict[str, Any]) -> None:
    scenario = Scenario(devices=3, group_size=1, compute_slots=2)
    with pytest.raises(UserError, match=r"^(policy:|selection .*:) "):
        simulate(scenario, BookingPolicy(**options), rounds=3)


class _Unbound(Asynchronous):
    def delivery(self, scenario, fleet, rounds):  # type: ignore[no-untyped-def]
        return None


class _OtherArguments(Asynchronous):
    def delivery(self, scenario):  # type: ignore[no-untyped-def]
        return None


@pytest.mark.parametrize("policy", [_Unbound(), _OtherArguments()], ids=["none", "arguments"])
@pytest.mark.parametrize("event_by_event", [False, True])
@pytest.mark.parametrize("compute_slots", [(2, 2), (2, 3)], ids=["equal", "unequal"])
def test_a_policy_without_a_delivery_is_a_user_error(
    policy: Asynchronous, event_by_event: bool, compute_slots: tuple[int, int]
) -> None:
    scenario = Scenario(devices=2, group_size=1, compute_slots=2, deadline=30)
    fleet = Fleet(compute_slots=compute_slots, link_slots=(1, 1))
    with pytest.raises(UserError):
        simulate(scenario, policy, fleet=fleet, event_by_event=event_by_event)


class _HalfDelayed(Asynchronous):
    def delivery(self, scenario, fleet, rounds):  # type: ignore[no-untyped-def]
        return Books([(0, [1])], [])


def test_a_built_in_policy_with_another_delivery_follows_it() -> None:
    timeline = simulate(Scenario(devices=2, group_size=1, compute_slots=2), _HalfDelayed(), rounds=3)
    assert timeline.device.tolist() == [1]
