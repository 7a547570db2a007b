"""Devices that send in groups, and broadcasts beside uplinks, against a loop over slots."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_fleets import lost_rows, scenarios, uplink_rows
from random_groups import Case, group_cases

from slotwise import InputError, Noma, Ofdma, Scenario, Timeline, UserError, simulate
from slotwise.fleet import Fleet
from slotwise.radio import RateAdaptive
from slotwise.radio.channel import ChannelModel
from slotwise.radio.fading import NoFading
from slotwise.radio.placement import ListedPlacement
from slotwise.schedule import Transmission
from slotwise.schedule.battery_balance import nanojoules
from slotwise.schedule.costs import Costs, Powers, spared, spared_until, usage


def in_order(rows: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return sorted(rows, key=lambda row: (row[0], row[3], row[1]))


@settings(max_examples=1000)
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
    rows = sorted((row[1], row[3]) for row in [*expected.uplinks, *expected.lost])
    powers = {(n, start): part for n, start, _, part in timeline.reduced.tolist()}
    assert set(powers) <= set(rows)
    if case.fleet.batteries is not None:
        assert_every_joule_is_accounted_for(timeline)


def assert_every_joule_is_accounted_for(timeline: Timeline) -> None:
    *paid, left = nanojoules(timeline)
    initial, harvested, computing, sending, spilled = (np.array(column) for column in paid)
    assert (initial + harvested - computing - sending - spilled).tolist() == left
    assert min(left) >= 0
    each = [timeline.fleet.batteries.nanojoules("sending", n) for n in range(1, timeline.fleet.devices + 1)]  # type: ignore[union-attr]
    slots = usage(timeline).sending - spared(timeline)
    assert sending == pytest.approx(slots * np.array(each), abs=1_000)


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


class Wrong(Interference):
    def pairing(self, group: Any, waiting: Any) -> Any:
        return group[0]


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


def test_a_pairing_must_choose_a_waiting_update() -> None:
    with pytest.raises(UserError, match=r"pairing .*: returned .* not one of the waiting updates"):
        over(Wrong())


def test_two_equal_devices_share_the_capacity_of_the_sum() -> None:
    """At SNR s the first has log2(1 + s / (1 + s)) and the second log2(1 + s), then the first alone too."""
    places = ListedPlacement(distances_m=(100.0, 100.0))
    quiet = ChannelModel(placement=places, fading=NoFading())
    radio = RateAdaptive(channel=quiet, bits=40_000_000, broadcast_bits=1_000, give_up_slots=10_000)
    link = radio.link(Scenario(devices=2, group_size=2, compute_slots=1))
    first, second = Noma().link(link).uplinks([1, 2], 0, [0, 0])  # type: ignore[attr-defined]
    alone = link.uplink(1, 0, 0).slots
    snr = float(link.conditions.snr(0, 1)[0, 0])
    weak, strong = np.log2(1 + snr / (1 + snr)), np.log2(1 + snr)
    assert second.slots == alone
    assert first.slots == pytest.approx(alone + (1 - weak / strong) * alone, abs=2)


CELL = RateAdaptive(
    channel=ChannelModel(placement=ListedPlacement(distances_m=(120.0,) * 4), fading=NoFading()),
    bits=30_000_000,
    broadcast_bits=1_000,
    give_up_slots=10_000,
)


def test_equal_devices_at_equal_density_take_as_long_as_in_turn_and_as_many_joules() -> None:
    radio, powers = CELL.link(FOUR), Powers(computing=0.0, sending=2.0, receiving=0.0)
    in_turn = simulate(FOUR, "async", link=radio, rounds=1)
    together = simulate(FOUR, "async", link=Ofdma(devices=4, power="shared").link(radio), rounds=1)
    assert len(set(together.end.tolist())) == 1
    assert together.end[-1] == pytest.approx(in_turn.end[-1], abs=4)  # each rounds up to a slot
    both = [Costs.of(timeline, powers).joules for timeline in (in_turn, together)]
    assert both[1] == pytest.approx(both[0], abs=4 * 2.0)


def test_joules_follow_from_power_times_time() -> None:
    link = Ofdma(devices=4, resource_blocks=10, power="shared").link(CELL.link(FOUR))
    timeline = simulate(FOUR, "async", link=link, rounds=3)
    powers = Powers(computing=1.0, sending=2.0, receiving=0.5, slot_seconds=0.1)
    slots = usage(timeline)
    sent = (timeline.end - timeline.start)[:, None] * (timeline.device[:, None] == np.arange(1, 5))
    part = np.array([3, 3, 2, 2]) / 10  # blocks of devices 1 to 4
    expected = (slots.computing + 2.0 * (sent.sum(axis=0) * part) + 0.5 * slots.receiving) * 0.1
    found = Costs.of(timeline, powers)
    assert found.columns()["joules"] == pytest.approx(expected)
    assert found.joules == pytest.approx(expected.sum())
    assert Costs.of(timeline, [powers] * 4).joules == pytest.approx(expected.sum())
    last = timeline.last_slot
    assert spared_until(timeline, [0, last]) == pytest.approx([0.0, spared(timeline).sum()])
    first = timeline.first(1)
    assert spared(first).sum() == pytest.approx(spared_until(timeline, [first.last_slot])[0])


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
