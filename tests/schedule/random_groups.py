"""Random cases of devices that send in groups, each with a naive link of the same scheme."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from hypothesis import strategies as st
from naive_access import (
    Blocks,
    NaiveGroups,
    NaiveNoma,
    NaiveOfdma,
    equal_blocks,
    inverse_blocks,
    min_max_blocks,
)
from random_fleets import DEADLINE, fleets, scenarios
from random_links import batteries
from slot_by_slot import SlotBySlot

from slotwise import (
    Asynchronous,
    InputError,
    IntentionalDelay,
    Noma,
    Ofdma,
    Scenario,
    Synchronous,
    Timeline,
    simulate,
)
from slotwise.fleet import Fleet
from slotwise.radio import ALLOCATIONS, Cqi, RateAdaptive, Shannon
from slotwise.radio.channel import ChannelModel
from slotwise.radio.fading import NoFading, Rayleigh
from slotwise.radio.placement import ListedPlacement
from slotwise.schedule import PAIRINGS, SELECTIONS, Link, Waiting
from slotwise.schedule.policies import Participants

DIVIDED: Mapping[str, Blocks] = {
    "equal": equal_blocks,
    "inverse-rate": inverse_blocks,
    "min-max": min_max_blocks,
}
Partner = Callable[[Waiting, Sequence[Waiting]], Waiting]


def farthest(first: Waiting, waiting: Sequence[Waiting]) -> Waiting:
    """The SNR that differs most from that of the first, the lower number of equal ones."""
    differences = [abs(one.snr_db - first.snr_db) for one in waiting]
    found = [one for one, far in zip(waiting, differences, strict=True) if far == max(differences)]
    return min(found, key=lambda one: one.device)


def last_number(group: Sequence[Waiting], waiting: Sequence[Waiting]) -> Waiting:
    return max(waiting, key=lambda one: one.device)


PAIRED: Mapping[str, tuple[Any, Partner | None]] = {
    "as-selected": (PAIRINGS["as-selected"], None),
    "most-distinct": (PAIRINGS["most-distinct"], farthest),
    "own": (last_number, lambda first, waiting: last_number([first], waiting)),
}
Chosen = Asynchronous | Synchronous | IntentionalDelay


class Case(NamedTuple):
    scenario: Scenario
    fleet: Fleet
    policy: Chosen
    link: Link
    naive: NaiveGroups
    partner: Partner | None = None

    def play(self, **changes: Any) -> Timeline | None:
        try:
            return simulate(self.scenario, self.policy, fleet=self.fleet, link=self.link, **changes)
        except InputError:
            return None

    def slot_by_slot(self) -> SlotBySlot:
        scenario, policy = self.scenario, self.policy
        loop = SlotBySlot(scenario, self.fleet, selection=policy.selection, link=self.naive)
        loop.partner = self.partner
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
def group_cases(draw: st.DrawFn, schemes: Sequence[str] = ("ofdma", "noma")) -> Case:
    scenario = replace(draw(scenarios()), duplex=draw(st.sampled_from(["tdd", "tdd", "fdd"])))
    try:
        radio = draw(radios(scenario.devices)).link(scenario, until=DEADLINE)
    except InputError:  # a device can hardly ever send with so few slots
        radio = RateAdaptive(bits=500_000, broadcast_bits=500_000).link(scenario, until=DEADLINE)
    most, noma = draw(st.integers(1, 4)), draw(st.sampled_from(schemes)) == "noma"
    name, partner = draw(st.sampled_from(sorted(DIVIDED))), None
    blocks = draw(st.integers(most, 8))
    together = min(most, scenario.devices)
    if noma:
        pairing, partner = PAIRED[draw(st.sampled_from(sorted(PAIRED)))]
        link = Noma(devices=most, pairing=pairing).link(radio)
        naive: NaiveGroups = NaiveNoma(radio, link.planned_slots, together)
    else:
        power: Literal["full", "shared"] = draw(st.sampled_from(["full", "shared"]))
        access = Ofdma(devices=most, resource_blocks=blocks, allocation=ALLOCATIONS[name], power=power)
        link = access.link(radio)
        full = power == "full"
        naive = NaiveOfdma(radio, link.planned_slots, together, blocks, DIVIDED[name], full)
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
    return Case(scenario, fleet, policy, link, naive, partner)
