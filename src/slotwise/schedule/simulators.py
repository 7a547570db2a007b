"""The choice of the simulator that makes the timeline of a case, and limits of sizes.

All make the same timelines as the Scheduler driven event by event; the others are faster where they apply.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from importlib.util import find_spec

from slotwise.base.errors import InputError
from slotwise.fleet import Fleet
from slotwise.fleet.devices import refuse_too_many_devices
from slotwise.options.checks import LARGEST
from slotwise.scenario import Scenario
from slotwise.schedule.link import FEW, FleetLink, Link, has_blocks
from slotwise.schedule.policy import Policy
from slotwise.schedule.selections import Selection, best_channel, proportional_fair

# Limits of a timeline: what can be simulated within a minute or so, and kept in a few gigabytes.
MOST_UPLINKS = 20_000_000  # of a queue of batches
MOST_EVENTS = 3_000_000  # uplinks of all other simulators, lost ones included
MOST_OWNED = 30_000_000  # slots of uplinks that are sent in slots which devices own
MOST_BLOCKS = 30_000_000  # of fading that uplinks of fixed rate are followed through
# Selections that compare all channels at every choice.
BY_CHANNEL: tuple[Selection, ...] = (best_channel, proportional_fair)


class Simulator(Enum):
    """The ways to make a timeline."""

    BATCHES = "queue of batches"  # equal devices in turn: `batches`; closed forms hold for them
    JUST_IN_TIME = "just in time"  # the asynchronous schedule, with later models: `just_in_time`
    ONE_AT_A_TIME = "one at a time"  # unequal devices in turn, on one channel: `one_at_a_time`
    PRESENCE = "presence kernel"  # the same with absences: `presence_simulator`
    FADING = "fading kernel"  # asynchronous over fading links: `fading_simulator`
    EVENTS = "events"  # everything else: `events`


def simulator_of(scenario: Scenario, policy: Policy, fleet: Fleet, link: Link) -> Simulator:
    """Return the fastest simulator of a case; it is decided here alone."""
    if not isinstance(link, FleetLink):
        return Simulator.FADING if _follows_fading(scenario, policy, fleet, link) else Simulator.EVENTS
    alike = policy.in_turn and policy.one_delay and not scenario.group_size_changes
    alike = alike and not scenario.has_full_duplex
    if alike and fleet.is_equal_to(scenario):
        return Simulator.BATCHES
    # Without faults the plan of just-in-time delivery is what happens.
    if policy.wait == "auto" and fleet.is_foreseeable:
        return Simulator.JUST_IN_TIME
    if fleet.absences and fleet.devices >= FEW and find_spec("numba") is not None:
        always = replace(fleet, absences=(), compute_changes=())
        return Simulator.PRESENCE if sends_one_at_a_time(scenario, policy, always) else Simulator.EVENTS
    return Simulator.ONE_AT_A_TIME if sends_one_at_a_time(scenario, policy, fleet) else Simulator.EVENTS


def sends_one_at_a_time(scenario: Scenario, policy: Policy, fleet: Fleet) -> bool:
    """Return whether nothing is decided between two uplinks over fixed slots, whatever the speeds."""
    in_turn = policy.in_turn and not scenario.group_size_changes
    in_turn = in_turn and scenario.sub_channels == 1 and not scenario.has_full_duplex
    return in_turn and not (fleet.absences or fleet.windows or fleet.batteries or fleet.compute_changes)


def _follows_fading(scenario: Scenario, policy: Policy, fleet: Fleet, link: Link) -> bool:
    """Return whether the compiled loop over fading links can follow the case."""
    known = isinstance(policy.wait, int) and policy.selection in BY_CHANNEL
    alone = scenario.sub_channels == 1 and not scenario.group_size_changes
    alone = alone and not scenario.has_full_duplex
    plain = fleet.is_steady and not (fleet.absences or fleet.windows or fleet.batteries)
    return known and alone and plain and has_blocks(link) and find_spec("numba") is not None


def most_uplinks(scenario: Scenario, rounds: int | None, fleet: Fleet) -> int:
    """Return an upper bound of a timeline's uplinks; of given rounds with losses, the expected number."""
    by_rounds = LARGEST if rounds is None else max(scenario.group_sizes) * rounds
    if fleet.retransmission != "erasure":
        # An update takes 1/(1−p) attempts on average; an erased one is not sent again.
        by_rounds = int(min(LARGEST, by_rounds / (1 - fleet.largest_loss)))
    if scenario.deadline is None:
        return by_rounds
    # Rounds may have fewer updates than the group size, or no broadcast between their uplinks.
    if not fleet.is_equal_to(scenario) or scenario.has_full_duplex:
        return min(by_rounds, scenario.sub_channels * (scenario.deadline // min(fleet.link_slots)))
    if not scenario.group_size_changes:
        by_deadline = scenario.group_size * (scenario.deadline // scenario.communication_slots)
        return min(by_rounds, by_deadline)
    # No round fits more uplinks into a slot than those of the best size, which is not always the largest: on
    # four sub-channels a group of 4 takes 2 slots and one of 5 takes 3.
    alone = [scenario.with_group_size(size) for size in set(scenario.group_sizes)]
    return min(by_rounds, max(scenario.deadline * s.group_size // s.communication_slots for s in alone))


def refuse_too_many_uplinks(
    scenario: Scenario, rounds: int | None, fleet: Fleet, simulator: Simulator
) -> None:
    """Raise an InputError if a timeline would take too long to simulate, or too much memory."""
    refuse_too_many_devices(scenario)
    most = MOST_UPLINKS if simulator is Simulator.BATCHES else MOST_EVENTS
    uplinks, loss = most_uplinks(scenario, rounds, fleet), fleet.largest_loss
    if loss and scenario.deadline is not None and uplinks * (1 - loss) < 1:
        allowed = "less: in the slots there are, no update is expected to arrive"
        raise InputError("uplink_loss", loss, allowed)
    slots = uplinks * max(fleet.link_slots) if fleet.windows and fleet.windows.splits_uplinks else 0
    if slots > MOST_OWNED:
        name, value = ("deadline", scenario.deadline) if rounds is None else ("rounds", rounds)
        allowed = f"smaller: uplinks may take {slots:,} owned slots, and {MOST_OWNED:,} are the most"
        raise InputError(name, value, allowed)
    if uplinks <= most:
        return
    if uplinks * (1 - loss) <= most and loss > 0.5:
        allowed = f"less: a timeline has at most {most:,} uplinks, lost ones included"
        raise InputError("uplink_loss", loss, allowed)
    name, value = ("deadline", scenario.deadline) if rounds is None else ("rounds", rounds)
    raise InputError(name, value, f"smaller: this may be {uplinks:,} uplinks, and {most:,} are the most")


def refuse_too_many_blocks(scenario: Scenario, rounds: int | None, link: Link) -> None:
    """Raise an InputError if uplinks of fixed rate would be followed through too many blocks of fading."""
    if not has_blocks(link) or not link.fixed_slots:
        return
    each = -(-link.fixed_slots // link.coherence_slots)
    blocks = LARGEST**2 if rounds is None else max(scenario.group_sizes) * rounds * each
    if scenario.deadline is not None:  # none is followed beyond it
        blocks = min(blocks, scenario.sub_channels * -(-scenario.deadline // link.coherence_slots))
    if blocks > MOST_BLOCKS:
        name, value = ("deadline", scenario.deadline) if rounds is None else ("rounds", rounds)
        allowed = f"smaller: uplinks may take {blocks:,} blocks of fading, and {MOST_BLOCKS:,} are the most"
        raise InputError(name, value, allowed)
