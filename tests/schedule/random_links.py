"""A fading link for tests, written as simply as possible, and random cases of everything a channel can do."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st
from random_fleets import fleets, scenarios

from slotwise import Scenario, Timeline, simulate
from slotwise.base.errors import InputError
from slotwise.base.random_streams import chance
from slotwise.fleet import Batteries, Fleet
from slotwise.scenario import Duplex
from slotwise.schedule import SELECTIONS, RandomSelection, Transmission
from slotwise.schedule.link import Floats, Integers
from slotwise.schedule.policies import Asynchronous, IntentionalDelay, Synchronous


@dataclass(frozen=True)
class FadingLink:
    """SNR drawn for every device and block; 2 bits a slot below 3 dB, then 5, none below ``outage_db``."""

    devices: int
    seed: int = 0
    coherence_slots: int = 1
    fixed_slots: int = 0
    update_bits: int = 6
    give_up_slots: int = 9
    outage_db: float = -8.0

    @property
    def planned_slots(self) -> Sequence[int]:
        return [self.fixed_slots or 2 + n % 2 for n in range(self.devices)]

    @property
    def planned_broadcast_slots(self) -> int:
        return 2

    def block_snr(self, device: int, block: int) -> float:
        return round(40 * chance(self.seed, 99, device, block) - 20, 1)  # ties are wanted

    def bits(self, device: int, slot: int) -> int:
        snr = self.block_snr(device, slot // self.coherence_slots)
        return 0 if snr < self.outage_db else 2 if snr < 3 else 5

    def uplink(self, device: int, slot: int, attempt: int) -> Transmission:
        if self.fixed_slots:
            slots = range(slot, slot + self.fixed_slots)
            return Transmission(self.fixed_slots, any(self.bits(device, one) == 0 for one in slots))
        done = 0
        for slots in range(1, self.give_up_slots + 1):
            done += self.bits(device, slot + slots - 1)
            if done >= self.update_bits:
                return Transmission(slots)
        return Transmission(self.give_up_slots, lost=True)

    def broadcast(self, receivers: Sequence[int], slot: int) -> int:
        return 1 + (slot + sum(receivers)) % 3

    def snr_db(self, slot: int) -> Floats:
        block = slot // self.coherence_slots
        return np.array([self.block_snr(n, block) for n in range(1, self.devices + 1)])

    def tables(self, first_block: int, blocks: int) -> tuple[Floats, Integers]:
        slots = [block * self.coherence_slots for block in range(first_block, first_block + blocks)]
        bits = [[self.bits(n, slot) for n in range(1, self.devices + 1)] for slot in slots]
        return np.array([self.snr_db(slot) for slot in slots]), np.array(bits, dtype=np.int64)


@st.composite
def links(draw: st.DrawFn, devices: int) -> FadingLink:
    return FadingLink(
        devices,
        draw(st.integers(0, 9)),
        draw(st.integers(1, 5)),
        draw(st.sampled_from([0, 0, 1, 3])),
        outage_db=draw(st.sampled_from([-30.0, -8.0, 5.0])),
    )


@st.composite
def batteries(draw: st.DrawFn, fleet: Fleet, planned: Sequence[int]) -> Batteries:
    """Batteries that hold one training and uplink of every device, and not much more."""
    computing, sending = draw(st.integers(0, 3)), draw(st.integers(0, 4))
    longest = fleet.without_faults().compute_slots
    needed = [computing * a + sending * b for a, b in zip(longest, planned, strict=True)]
    capacity = tuple(one + draw(st.integers(0, 20)) for one in needed)
    harvest: dict[str, Any] = draw(
        st.sampled_from(
            [
                {"harvest": (1.0,)},
                {"harvest": (0.0,)},
                {"harvest": (3.0,), "probability": 0.3},
                {"trace": tuple(chance(5, slot) for slot in range(200))},
            ]
        )
    )
    return Batteries(
        capacity=capacity,
        initial=tuple(one * draw(st.sampled_from([0.0, 0.5, 1.0])) for one in capacity),
        computing=(computing,),
        sending=(sending,),
        seed=draw(st.integers(0, 3)),
        **harvest,
    )


class ChannelCase(NamedTuple):
    scenario: Scenario
    fleet: Fleet
    link: FadingLink | None
    policy: Asynchronous | Synchronous | IntentionalDelay

    def play(self, **changes: Any) -> Timeline | None:
        try:
            return simulate(self.scenario, self.policy, fleet=self.fleet, link=self.link, **changes)
        except InputError:
            return None


SENDERS = [*SELECTIONS.values(), RandomSelection(3)]
PARTICIPATION = [
    "round-robin",
    "random",
    "best-channel",
    "proportional-fair",
    "largest-age",
    "shortest-uplink",
]


@st.composite
def channel_cases(draw: st.DrawFn) -> ChannelCase:
    scenario = draw(scenarios())
    changes = draw(st.sampled_from([(), ((40, 1),), ((30, scenario.devices), (60, 1))]))
    duplex: Duplex = draw(st.sampled_from(["tdd", "tdd", "fdd"]))
    scenario = replace(scenario, sub_channels=draw(st.integers(1, 8)), group_size_changes=changes)
    scenario = replace(scenario, duplex=duplex)
    fleet = draw(fleets(scenario))
    if draw(st.booleans()):
        losses = tuple(draw(st.sampled_from([0.0, 0.2, 0.6])) for _ in fleet.compute_slots)
        fleet = replace(fleet, uplink_loss=0.0, device_uplink_loss=losses)
    fleet = replace(fleet, retransmission=draw(st.sampled_from(["next-turn", "at-once", "erasure"])))
    link = draw(st.none() | links(scenario.devices))
    if draw(st.booleans()):
        planned = fleet.link_slots if link is None else link.planned_slots
        fleet = replace(fleet, batteries=draw(batteries(fleet, planned)))
    senders = draw(st.sampled_from(SENDERS if link else [one for one in SENDERS if "best" not in str(one)]))
    ways = PARTICIPATION if link else [one for one in PARTICIPATION if one != "best-channel"]
    policy = draw(
        st.sampled_from([Asynchronous(selection=senders)])
        | st.builds(
            Synchronous,
            selection=st.just(senders),
            participation=st.sampled_from(ways),
            seed=st.integers(0, 3),
        )
        | st.builds(
            IntentionalDelay, selection=st.just(senders), delay=st.integers(0, scenario.largest_delay)
        )
    )
    return ChannelCase(scenario, fleet, link, policy)
