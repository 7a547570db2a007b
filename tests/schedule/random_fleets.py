"""Random scenarios, fleets and schedules, and what their timelines say in plain rows."""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from hypothesis import settings
from hypothesis import strategies as st

from slotwise import InputError, Scenario, Timeline, simulate
from slotwise.base.random_streams import chance
from slotwise.fleet import Absence, Fleet
from slotwise.schedule import (
    Asynchronous,
    Delivery,
    FleetLink,
    Policy,
    RandomSelection,
    Record,
    Scheduler,
    Synchronous,
    Waiting,
    first_ready,
    round_robin,
)
from slotwise.schedule.events import Drive
from slotwise.schedule.policy import Booking

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
def later_speeds(draw: st.DrawFn, devices: int) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Compute slots that change once or twice."""
    slots = sorted(draw(st.sets(st.integers(1, 60), min_size=1, max_size=2)))
    speeds = st.lists(st.integers(1, 25), min_size=devices, max_size=devices)
    return tuple((slot, tuple(draw(speeds))) for slot in slots)


@st.composite
def fleets(draw: st.DrawFn, scenario: Scenario) -> Fleet:
    return replace(
        draw(faultless_fleets(scenario)),
        jitter=draw(st.sampled_from([0.0, 0.3, 0.9])),
        uplink_loss=draw(st.sampled_from([0.0, 0.1, 0.7])),
        retransmission=draw(st.sampled_from(["next-turn", "at-once"])),
        absences=draw(st.just(()) | absences(scenario.devices)),
        seed=draw(st.integers(0, 5)),
        compute_changes=draw(st.just(()) | later_speeds(scenario.devices)),
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


def last_ready(waiting: Sequence[Waiting], round_number: int, last_sender: int) -> Waiting:
    return max(waiting)


def arbitrary(waiting: Sequence[Waiting], round_number: int, last_sender: int) -> Waiting:
    """As good as random: it depends on everything it is given."""
    key = [number for update in waiting for number in update[:3]]
    return waiting[int(chance(round_number, last_sender, *key) * len(waiting))]


@dataclass(frozen=True)
class ArbitraryBookings(Delivery):
    """Every device waits another number of rounds, also at the beginning, and after joining."""

    devices: int
    seed: int
    waits_for_all: bool

    def initial(self, absent: Set[int]) -> Iterable[Booking]:
        return [(self._wait(n, 0), [n]) for n in range(1, self.devices + 1)]

    def after(self, round_number: int, senders: Sequence[int], absent: Set[int]) -> Iterable[Booking]:
        return [(round_number + 1 + self._wait(n, round_number), [n]) for n in senders]

    def joining(self, round_number: int) -> int:
        return round_number + 1 + self._wait(0, round_number)

    def _wait(self, device: int, round_number: int) -> int:
        return int(4 * chance(self.seed, device, round_number))


@dataclass(frozen=True, kw_only=True)
class ArbitraryPolicy(Policy):
    name = "arbitrary"
    seed: int = 0
    waits_for_all: bool = False

    def delivery(self, scenario: Scenario, fleet: Fleet | None, rounds: int | None) -> Delivery:
        return ArbitraryBookings(scenario.devices, self.seed, self.waits_for_all)


selections = st.sampled_from([first_ready, round_robin, last_ready, arbitrary]) | st.builds(
    RandomSelection, st.integers(0, 9)
)
policies = st.one_of(
    st.builds(ArbitraryPolicy, selection=selections, seed=st.integers(0, 99), waits_for_all=st.booleans()),
    st.builds(Asynchronous, selection=selections),
    st.builds(Synchronous, selection=selections, participation=st.sampled_from(["round-robin", "random"])),
)


class Case(NamedTuple):
    scenario: Scenario
    fleet: Fleet
    options: dict[str, Any]

    @property
    def waits_for_all(self) -> bool:
        policy = self.options["policy"]
        return policy == "sync" or getattr(policy, "waits_for_all", isinstance(policy, Synchronous))

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


@st.composite
def own_cases(draw: st.DrawFn) -> Case:
    """Policies and selections that are not built in."""
    scenario = draw(scenarios())
    return Case(scenario, draw(fleets(scenario)), {"policy": draw(policies)})


def uplink_rows(timeline: Timeline) -> list[tuple[int, ...]]:
    columns = (timeline.round, timeline.device, timeline.version, timeline.start, timeline.end)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def lost_rows(timeline: Timeline) -> list[tuple[int, ...]]:
    return [tuple(row) for row in timeline.lost.tolist()]


def driven(scenario: Scenario, fleet: Fleet, delivery: Delivery, kind: type[Scheduler] = Scheduler) -> Record:
    scheduler = kind(
        scenario.group_size,
        delivery,
        retransmission=fleet.retransmission,
        absent=fleet.absent_at_first,
        changes=scenario.group_size_changes,
    )
    return Drive(scheduler, fleet, FleetLink.of(scenario, fleet)).play(
        rounds=None, deadline=scenario.deadline
    )
