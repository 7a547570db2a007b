"""Fast simulation of asynchronous FL over fading links with a selection that looks at the channel.

It makes the timeline that a Scheduler makes, to the bit, for equal or unequal devices without jitter,
absences and batteries on one channel. Every choice looks at all ready devices, in a compiled loop; broadcasts
and bookings are Python, once a round.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from slotwise.fleet import Fleet
from slotwise.scenario import Scenario
from slotwise.schedule.link import BlockLink, FadingDraws, Integers
from slotwise.schedule.policy import FixedDelay, Policy
from slotwise.schedule.selections import proportional_fair, spectral_efficiency
from slotwise.schedule.timeline import Record, Timeline

_TABLE = 65_536  # entries of the table of a link that is asked for at once; they fit the cache
_ROWS = 4096  # rows that are made room for at first
_NO_LIMIT = 2**62
_NUMBERS = np.empty(0)
_NO_DRAWS = FadingDraws(np.empty(0, np.uint64), _NUMBERS, _NUMBERS, np.empty(0, np.int64), 1.0, 1.0)


def fading_timeline(
    scenario: Scenario, policy: Policy, fleet: Fleet, rounds: int | None, link: BlockLink
) -> Timeline | None:
    """Return the timeline, empty if no round fits; None if a rule of the Scheduler for rare cases applies."""
    delivery = FixedDelay(scenario.devices, scenario.group_size, scenario.checked_delay(policy.wait))
    played = _Simulation(scenario, policy, fleet, link).play(delivery, rounds)
    if played is None:
        return None
    # There may be millions of uplinks: they stay arrays, and are not put into the lists of a Record.
    # The copies below let go of buffers that are up to twice as large.
    timeline = Timeline.of(scenario, policy.name, delivery.delay, played.record, fleet)
    k, device, version, start, end = played.uplinks.T
    narrow = {"round": k, "device": device, "version": version}
    columns = {name: column.astype(np.int32) for name, column in narrow.items()}
    return replace(timeline, **columns, start=start.copy(), end=end.copy(), lost=played.lost.copy())


class Played(NamedTuple):
    """A run: its broadcasts and receivers, and tables of uplinks and lost uplinks."""

    record: Record
    uplinks: Integers
    lost: Integers


class _Simulation:
    """State of one run: arrays for the compiled loop, and the tables of the link around the present slot."""

    def __init__(self, scenario: Scenario, policy: Policy, fleet: Fleet, link: BlockLink) -> None:
        # Imported here: compiled code takes time to load, and few runs need it.
        from slotwise.schedule import fading_kernel  # noqa: PLC0415
        from slotwise.schedule.drawing_kernel import NEVER, by_mean  # noqa: PLC0415

        self.kernel, self.scenario, self.link = fading_kernel, scenario, link
        count, self.deadline = scenario.devices, scenario.deadline or _NO_LIMIT
        self.fair = policy.selection is proportional_fair
        again, self.erasure = fleet.retransmission, fleet.retransmission == "erasure"
        bits = (link.coherence_slots, link.fixed_slots, link.update_bits, link.give_up_slots)
        self.limits = np.array([self.deadline, *bits, self.fair, self.erasure, again == "at-once"])
        self.compute = np.array(fleet.compute_slots, dtype=np.int64)
        draws: FadingDraws | None = getattr(link, "draws", None)
        self.drawn = draws is not None
        everyone: Integers = np.arange(count)
        self.order, self.draws = (everyone, _NO_DRAWS) if draws is None else by_mean(draws)
        self.rank = np.argsort(self.order)
        self.devices = np.zeros((5, count), dtype=np.int64)
        self.devices[fading_kernel.NUMBER] = self.order + 1
        self.devices[fading_kernel.NEEDED] = NEVER
        # Weights of devices that are ready, and the places of those that compute.
        self.weight, self.pending = np.full(count, -1.0), np.empty(count, dtype=np.int64)
        # The level of `best_channel`, room for it, and the place whose uplink is followed.
        self.room = np.zeros(2), np.empty(count), np.zeros(1, dtype=np.int64)
        self.rows, self.lost = (np.empty((_ROWS, 5), dtype=np.int64) for _ in range(2))
        # In the order SLOT, ROUND, FIRST_BLOCK, …; −1 is no block or no device.
        self.state = np.array([0, 0, -1 if self.drawn else 0, 0, -1, -1, 0, 0, 0], dtype=np.int64)
        self.scores, self.bits = np.zeros((int(self.drawn), count)), np.empty((0, count), dtype=np.int64)

    def play(self, delivery: FixedDelay, rounds: int | None) -> Played | None:
        """Play until ``rounds`` are done or the next round would end after the deadline; None if stuck."""
        booked: defaultdict[int, list[int]] = defaultdict(list)
        for version, devices in delivery.initial(frozenset()):
            booked[version].extend(devices)
        kernel, state = self.kernel, self.state
        broadcasts, receivers = [], [booked.pop(0)]
        self._hand_out(receivers[0], 0, 0)
        k = uplinks = lost = 0
        while k != rounds:
            state[kernel.MISSING] = self.scenario.group_size
            outcome, slot = self._play_round(), int(state[kernel.SLOT])
            if outcome == kernel.OVER:
                break
            booked[k + 1 + delivery.delay] += self._senders(uplinks, lost)
            following = sorted(booked.pop(k + 1, ()))
            # Rounds that end early and models without receivers follow rules of the Scheduler: it plays them.
            if outcome == kernel.NOBODY or (k + 1 > delivery.delay and not following):
                return None
            end = slot + self.link.broadcast(following, slot)
            if end > self.deadline:
                break
            k, uplinks, lost = k + 1, int(state[kernel.ROWS]), int(state[kernel.LOST])
            broadcasts.append((slot, end))
            receivers.append(following)
            self._hand_out(following, k, end)
            state[kernel.ROUND], state[kernel.SLOT] = k, end
        return Played(Record([], [], broadcasts, list(receivers)), self.rows[:uplinks], self.lost[:lost])

    def _play_round(self) -> int:
        """Run the compiled loop, and give it what it lacks, until the round is full or the run is over."""
        kernel, given = self.kernel, 0
        while True:
            channel = (self.scores, self.bits, self.draws)
            arrays = (self.devices, self.weight, self.pending, *self.room, self.rows, self.lost)
            outcome = kernel.play_round(self.state, self.limits, *channel, *arrays, given)
            given = 0
            if outcome == kernel.NEEDS_TABLE:
                self._load_table(int(self.state[kernel.SLOT]))
            elif outcome == kernel.NEEDS_ROOM:
                self.rows = np.concatenate([self.rows, np.empty_like(self.rows)])
                self.lost = np.concatenate([self.lost, np.empty_like(self.lost)])
            elif outcome == kernel.NEEDS_UPLINK:  # it ends after the table, or rounding decides its bits
                place, slot = int(self.state[kernel.CHOSEN]), int(self.state[kernel.SLOT])
                # The tables of a BlockLink know no attempts, so their number does not matter.
                slots, lost, _ = self.link.uplink(int(self.order[place]) + 1, slot, 0)
                given = -slots if lost else slots
            else:
                return int(outcome)

    def _load_table(self, slot: int) -> None:
        """Ask the link for the blocks from that of ``slot`` on; for this one only, if they are drawn."""
        first, blocks = slot // self.link.coherence_slots, max(4, _TABLE // self.scenario.devices)
        # Blocks after the deadline are not drawn: an uplink that reaches beyond is asked of the link.
        if self.deadline < _NO_LIMIT:
            blocks = min(blocks, self.deadline // self.link.coherence_slots + 1 - first)
        snr_db, bits = self.link.tables(first, 1 if self.drawn else max(1, blocks))
        scores = spectral_efficiency(snr_db) if self.fair else snr_db
        self.state[self.kernel.FIRST_BLOCK] = first
        if self.drawn:
            scores, bits = scores[:, self.order], bits[:, self.order]
        self.scores = np.ascontiguousarray(scores, dtype=np.float64)
        self.bits = np.ascontiguousarray(bits, dtype=np.int64)

    def _senders(self, uplinks: int, lost: int) -> list[int]:
        """Return the devices of the uplinks since those numbers of rows; those of erased ones, too."""
        senders: list[int] = self.rows[uplinks : self.state[self.kernel.ROWS], 1].tolist()
        if self.erasure:
            senders += self.lost[lost : self.state[self.kernel.LOST], 1].tolist()
        return senders

    def _hand_out(self, receivers: Sequence[int], version: int, slot: int) -> None:
        devices = np.array(receivers, dtype=np.int64) - 1
        places = self.rank[devices]
        self.devices[self.kernel.READY_AT, places] = slot + self.compute[devices]
        self.devices[self.kernel.VERSION, places] = version
        before = self.state[self.kernel.PENDING]
        self.pending[before : before + len(places)] = places
        self.state[self.kernel.PENDING] += len(places)
