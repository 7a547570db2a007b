"""Devices that send in groups, and broadcasts beside uplinks, against a loop over slots."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_access import Blocks, NaiveGroups, NaiveOfdma, equal_blocks, inverse_blocks, min_max_blocks
from random_fleets import DEADLINE, fleets, lost_rows, scenarios, uplink_rows
from random_links import batteries
from slot_by_slot import SlotBySlot

from slotwise import (
    Asynchronous,
    InputError,
    IntentionalDelay,
    Ofdma,
    Scenario,
    Synchronous,
    Timeline,
    UserError,
    simulate,
)
from slotwise.fleet import Fleet
from slotwise.radio import ALLOCATIONS, Cqi, RateAdaptive, Shannon
from slotwise.radio.channel import ChannelModel
from slotwise.radio.fading import NoFading, Rayleigh
from slotwise.radio.placement import ListedPlacement
from slotwise.schedule import SELECTIONS, Link, Transmission
from slotwise.schedule.policies import Participants

DIVIDED: Mapping[str, Blocks] = {
    "equal": equal_blocks,
    "inverse-rate": inverse_blocks,
    "min-max": min_max_blocks,
}
Chosen = Asynchronous | Synchronous | IntentionalDelay


class Case(NamedTuple):
    scenario: Scenario
    fleet: Fleet
    policy: Chosen
    link: Link
    naive: NaiveGroups

    def play(self, **changes: Any) -> Timeline | None:
        try:
            return simulate(self.scenario, self.policy, fleet=self.fleet, link=self.link, **changes)
        except InputError:
            return None

    def slot_by_slot(self) -> SlotBySlot:
        scenario, policy = self.scenario, self.policy
        loop = SlotBySlot(scenario, self.fleet, selection=policy.selection, link=self.naive)
        if isinstance(policy, Synchronous):
            loop.synchronous = Participants(scenario.devices, scenario.group_size)
        elif isinstance(policy, IntentionalDelay) and isinstance(policy.delay, int):
            loop.delay = policy.delay
        return loop.run(DEADLINE)


@st.composite
def radios(draw: st.DrawFn, devices: int) -> RateAdaptive:
    """Cells so small that an uplink takes some slots, and now and then many."""
    distances = tuple(draw(st.sampled_from([30.0, 80.0, 150.0, 300.0])) for _ in range(devices))
    coherence = draw(st.integers(1, 6))
    fading = draw(st.sampled_from([Rayleigh(coherence_slots=coherence), NoFading()]))
    seed = draw(st.integers(0, 9)) if isinstance(fading, Rayleigh) else None
    return RateAdaptive(
        channel=ChannelModel(placement=ListedPlacement(distances_m=distances), fading=fading, seed=seed),
        rate=draw(st.sampled_from([Shannon(), Shannon(gap_db=3.0), Cqi()])),
        bits=draw(st.sampled_from([200_000, 1_000_000, 4_000_000])),
        broadcast_bits=1_000_000,
        give_up_slots=draw(st.sampled_from([4, 30, 200])),
    )


@st.composite
def group_cases(draw: st.DrawFn) -> Case:
    scenario = replace(draw(scenarios()), duplex=draw(st.sampled_from(["tdd", "tdd", "fdd"])))
    try:
        radio = draw(radios(scenario.devices)).link(scenario, until=DEADLINE)
    except InputError:  # a device can hardly ever send with so few slots
        radio = RateAdaptive(bits=500_000, broadcast_bits=500_000).link(scenario, until=DEADLINE)
    most, name = draw(st.integers(1, 4)), draw(st.sampled_from(sorted(DIVIDED)))
    blocks = draw(st.integers(most, 8))
    link = Ofdma(devices=most, resource_blocks=blocks, allocation=ALLOCATIONS[name]).link(radio)
    naive = NaiveOfdma(radio, link.planned_slots, min(most, scenario.devices), blocks, DIVIDED[name])
    fleet = replace(draw(fleets(scenario)), uplink_loss=0.0)
    fleet = replace(fleet, retransmission=draw(st.sampled_from(["next-turn", "at-once", "erasure"])))
    if draw(st.booleans()):
        fleet = replace(fleet, batteries=draw(batteries(fleet, link.planned_slots)))
    selection = draw(st.sampled_from(list(SELECTIONS.values())))
    delays = st.integers(0, scenario.largest_delay)
    policy: Chosen = draw(
        st.sampled_from([Asynchronous(selection=selection), Synchronous(selection=selection)])
        | st.builds(IntentionalDelay, selection=st.just(selection), delay=delays)
    )
    return Case(scenario, fleet, policy, link, naive)


def in_order(rows: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return sorted(rows, key=lambda row: (row[0], row[3], row[1]))


@settings(max_examples=200)
@given(group_cases())
def test_every_uplink_of_a_group_is_that_of_the_loop_over_slots(case: Case) -> None:
    expected, timeline = case.slot_by_slot(), case.play()
    if timeline is None:
        assert expected.broadcasts == []
        return
    assert in_order(uplink_rows(timeline)) == in_order(expected.uplinks)
    assert in_order(lost_rows(timeline)) == in_order(expected.lost)
    assert list(zip(timeline.broadcast_start, timeline.broadcast_end, strict=True)) == expected.broadcasts
    assert [timeline.receivers(v).tolist() for v in range(timeline.models)] == expected.receivers
    assert Timeline.from_json(timeline.to_json()) == timeline


class Interference:
    """An own link: every device that sends takes a slot from all."""

    planned_slots, planned_broadcast_slots, most_senders = (2,) * 4, 1, 3

    def uplinks(self, devices: Any, slot: int, attempts: Any) -> list[Any]:
        return [Transmission(1 + len(devices)) for _ in devices]

    def broadcast(self, receivers: Any, slot: int) -> int:
        return 1

    def snr_db(self, slot: int) -> Any:
        return np.zeros(4)


class TooFew(Interference):
    def uplinks(self, devices: Any, slot: int, attempts: Any) -> list[Any]:
        return [Transmission(1)]


FOUR = Scenario(devices=4, group_size=4, compute_slots=2)


def over(link: Any, scenario: Scenario = FOUR) -> Timeline:
    return simulate(scenario, "async", link=link, rounds=1)


def test_devices_of_a_group_begin_together_and_the_next_group_when_all_have_ended() -> None:
    timeline = over(Interference())
    rows = list(zip(timeline.device, timeline.start, timeline.end, strict=True))
    assert rows == [(1, 2, 6), (2, 2, 6), (3, 2, 6), (4, 6, 8)]


def test_an_own_link_of_groups_is_checked() -> None:
    with pytest.raises(UserError, match="uplinks must be 3 Transmissions"):
        over(TooFew())


def test_groups_and_sub_channels_exclude_each_other() -> None:
    with pytest.raises(InputError, match="sub_channels"):
        over(Interference(), replace(FOUR, sub_channels=2))


def test_uplinks_go_on_beside_a_broadcast() -> None:
    scenario = Scenario(devices=4, group_size=2, compute_slots=4, link_slots=3, duplex="fdd")
    timeline = simulate(scenario, "async", rounds=2)
    assert list(zip(timeline.device, timeline.start, strict=True)) == [(1, 4), (2, 7), (3, 10), (4, 13)]
    assert timeline.broadcast_start.tolist() == [10, 16]  # without its own band the second begins in 19


def test_a_second_broadcast_waits_for_the_first() -> None:
    scenario = Scenario(devices=3, group_size=1, compute_slots=1, link_slots=5, duplex="fdd")
    fleet = Fleet(compute_slots=(1,) * 3, link_slots=(1,) * 3)
    timeline = simulate(scenario, "async", fleet=fleet, rounds=3)
    assert timeline.broadcast_start.tolist() == [2, 7, 12]
    assert timeline.start.tolist() == [1, 2, 7]


@given(scenario=scenarios(), compute=st.lists(st.integers(1, 30), min_size=7, max_size=7))
def test_just_in_time_delivery_costs_nothing_beside_broadcasts(
    scenario: Scenario, compute: list[int]
) -> None:
    two_bands, devices = replace(scenario, duplex="fdd", deadline=300), scenario.devices
    fleet = Fleet(compute_slots=tuple(compute[:devices]), link_slots=(scenario.link_slots,) * devices)
    plain, timely = (simulate(two_bands, name, fleet=fleet) for name in ("async", "idfl"))
    assert timely.rounds >= plain.rounds
    assert timely.mean_staleness() <= plain.mean_staleness()
