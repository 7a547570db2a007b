"""Random scenarios, fleets and schedules, and what their timelines say in plain rows."""

from dataclasses import replace
from typing import Any, NamedTuple

from hypothesis import settings
from hypothesis import strategies as st

from slotwise import InputError, Scenario, Scheduler, Timeline, simulate
from slotwise.fleet import Absence, Fleet
from slotwise.schedule import Delivery, Record
from slotwise.schedule.events import Drive

MANY = settings(max_examples=300)
DEADLINE = 120


@st.composite
def absences(draw: st.DrawFn, devices: int) -> tuple[Absence, ...]:
    """Some devices come late, some leave for good, some come and go."""
    found = []
    for device in draw(st.sets(st.integers(1, devices), max_size=devices)):
        cuts = sorted(draw(st.sets(st.integers(0, DEADLINE + 10), min_size=1, max_size=5)))
        pairs = zip(cuts[::2], [*cuts[1::2], None], strict=False)
        found += [Absence(device, leaves, returns) for leaves, returns in pairs]
    return tuple(found)


@st.composite
def scenarios(draw: st.DrawFn, deadline: int | None = DEADLINE) -> Scenario:
    devices = draw(st.integers(1, 7))
    return Scenario(
        devices=devices,
        group_size=draw(st.integers(1, devices)),
        compute_slots=draw(st.integers(1, 9)),
        link_slots=draw(st.integers(1, 3)),
        deadline=deadline,
    )


@st.composite
def faultless_fleets(draw: st.DrawFn, scenario: Scenario, slowest: int = 25) -> Fleet:
    n = scenario.devices
    return Fleet(
        compute_slots=tuple(draw(st.lists(st.integers(1, slowest), min_size=n, max_size=n))),
        link_slots=tuple(draw(st.lists(st.integers(1, 5), min_size=n, max_size=n))),
    )


@st.composite
def fleets(draw: st.DrawFn, scenario: Scenario) -> Fleet:
    return replace(
        draw(faultless_fleets(scenario)),
        jitter=draw(st.sampled_from([0.0, 0.3, 0.9])),
        loss=draw(st.sampled_from([0.0, 0.1, 0.7])),
        retransmission=draw(st.sampled_from(["next-turn", "at-once"])),
        absences=draw(st.just(()) | absences(scenario.devices)),
        seed=draw(st.integers(0, 5)),
    )


@st.composite
def schedules(draw: st.DrawFn, scenario: Scenario) -> dict[str, Any]:
    """A schedule and its options, as simulate takes them."""
    schedule = draw(st.sampled_from(["sync", "async", "idfl"]))
    if schedule == "idfl":
        return {"policy": schedule, "delay": draw(st.integers(0, scenario.largest_delay))}
    if schedule == "sync":
        ways = st.sampled_from(["round-robin", "random"])
        return {"policy": schedule, "participation": draw(ways), "seed": draw(st.integers(0, 9))}
    return {"policy": schedule}


class Case(NamedTuple):
    scenario: Scenario
    fleet: Fleet
    options: dict[str, Any]

    def play(self, **changes: Any) -> Timeline | None:
        """The timeline; None where no round fits."""
        try:
            return simulate(self.scenario, fleet=self.fleet, **self.options | changes)
        except InputError:
            return None


@st.composite
def cases(draw: st.DrawFn, *, planned: bool = True) -> Case:
    scenario = draw(scenarios())
    just_in_time = st.just({"policy": "idfl", "delay": "auto"})
    options = draw(schedules(scenario) | just_in_time if planned else schedules(scenario))
    return Case(scenario, draw(fleets(scenario)), options)


def uplink_rows(timeline: Timeline) -> list[tuple[int, ...]]:
    columns = (timeline.round, timeline.device, timeline.version, timeline.start, timeline.end)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def lost_rows(timeline: Timeline) -> list[tuple[int, ...]]:
    return [tuple(row) for row in timeline.lost.tolist()]


def driven(scenario: Scenario, fleet: Fleet, delivery: Delivery, kind: type[Scheduler] = Scheduler) -> Record:
    scheduler = kind(
        scenario.group_size, delivery, retransmission=fleet.retransmission, absent=fleet.absent_at_first
    )
    return Drive(scheduler, fleet, scenario.link_slots).play(rounds=None, deadline=scenario.deadline)
