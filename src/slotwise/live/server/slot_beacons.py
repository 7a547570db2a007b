"""SlotBeacons: announces grants ahead of time, and judges when updates come; slots are time."""

from __future__ import annotations

from slotwise.base.errors import InputError
from slotwise.learning.checked_task import CheckedTask
from slotwise.learning.quantisation import packing_of
from slotwise.live.clock import SlotClock
from slotwise.live.server.device_state import EndedGrant
from slotwise.live.server.inbox import UpdateCheck
from slotwise.live.server.monitor import DeviceMonitor, GrantsAhead
from slotwise.live.server.server_config import LivePlan, ServerConfig
from slotwise.live.slots.announcing import GrantAnnouncer
from slotwise.live.slots.fitting import fitting_layout, frames_needed, longest_messages
from slotwise.live.slots.frames import AheadGrant, encode_beacon, grants_in_beacon
from slotwise.live.slots.plan_ahead import SlotPlan, scheduler_maker
from slotwise.live.slots.slot_use import SlotUse
from slotwise.live.transport import BeaconSender
from slotwise.live.udp.datagrams import BEACON_BYTES, LARGEST_MESSAGE, MOST_BEACON_AGE, PIECE_BYTES
from slotwise.report.gantt.overlay_chart import Outcome

TOPIC_BYTES = 1024  # of a message beside its payload, at most: topics of broadcasts name 100 receivers


def slots_of_run(plan: LivePlan, task: CheckedTask, server: ServerConfig) -> GrantsAhead | None:
    """Return the slots of a run with grants ahead; None for one without.

    Raises:
        InputError: messages do not fit into slots or datagrams, or the schedule is not known ahead.
    """
    if not server.grants_ahead or server.slot_ms is None:
        return None
    if plan.agent is not None:
        raise InputError("grants_ahead", True, "omitted: what is learned decides this schedule, slot by slot")
    policy, fleet, link = plan.config.ready_parts()
    packing, devices = packing_of(task), plan.config.channel.devices
    lengths = longest_messages(task.size, UpdateCheck(task.size, packing).bytes, devices)
    if lengths[0] > LARGEST_MESSAGE - TOPIC_BYTES:  # longer models go in parts
        allowed = f"omitted: an update has {lengths[0]:,} bytes, and a message at most {LARGEST_MESSAGE:,}"
        raise InputError("grants_ahead", True, allowed)
    piece = server.frame_bytes - PIECE_BYTES
    update, model = (-(-(length + TOPIC_BYTES) // piece) for length in lengths)
    needed = frames_needed(fleet, link, update, model)
    layout = fitting_layout(server.slot_ms, server.guard, server.frame_bytes, needed)
    most = grants_in_beacon(server.frame_bytes - BEACON_BYTES)
    make = scheduler_maker(plan.config.channel, policy, fleet, link, server.retransmission)
    return GrantsAhead(layout, make, most)


class SlotBeacons:
    """Beacons of one run, from the slot in which it begins or goes on.

    Attributes:
        uses: What became of the granted slots of the current round.
    """

    def __init__(
        self, devices: DeviceMonitor, ahead: GrantsAhead, slots: SlotClock, channel: BeaconSender
    ) -> None:
        self._devices, self._layout, self._slots, self._channel = devices, ahead.layout, slots, channel
        self._spec, self._state, self._make_scheduler = devices.spec, devices.state, ahead.make_scheduler
        first = self._state.slot
        self._announcer = GrantAnnouncer(
            self._plan, self._is_over, ahead.layout.slot_ns, ahead.most, first=first
        )
        self._granted: AheadGrant | None = None
        self.uses: list[SlotUse] = []

    def _plan(self) -> SlotPlan:
        """Return the plan as it is now."""
        state, spec = self._state, self._spec
        now = (state.scheduler.state, state.agenda, state.assignments.delivered)
        return SlotPlan.at(self._make_scheduler, spec.fleet, spec.link, *now)

    def _is_over(self, slot: int, version: int) -> bool:
        del slot  # a run in which updates were lost takes longer than planned
        return version >= self._spec.rounds

    # What comes next

    def announce(self, slot: int, granted: AheadGrant | None = None, *, changed: bool) -> None:
        """Begin a slot, perhaps with a grant; send a beacon if one is due. ``changed``: not as planned."""
        self._granted = granted or self._granted
        if changed:
            self._announcer.renew()
            if granted is not None:
                self._announcer.expect(granted)
        elif granted is not None:
            changed = not self._announcer.expect(granted)
        beacon = self._announcer.beacon(slot, self._granted, changed=changed)
        if beacon is None:
            return
        age = self._slots.ns_since(slot)
        if age <= MOST_BEACON_AGE:  # one that is later tells nothing that is still true
            self._channel.send_beacon(encode_beacon(beacon), age)

    @property
    def seconds_to_beat(self) -> float:
        """The seconds until a beacon is due whatever happens."""
        return self._slots.seconds_until(self._announcer.beat)

    def beat(self) -> None:
        """Send the beacon that is due."""
        self.announce(self._slots.reached(self._announcer.beat), changed=False)

    # What has come

    def judged(self, ended: EndedGrant, slot: int) -> EndedGrant:
        """Return what became of a grant that ended in ``slot``, without an update that came too early."""
        label, first = ended.grant.label, ended.grant.slot
        self._granted = None
        begun = self._channel.arriving_since(label.device) if ended.update is None else ended.begun
        offset = None if begun is None else self._ns_after(first, begun) - self._layout.send_after_ns
        if offset is not None and offset < -self._layout.guard_ns:
            ended = ended._replace(update=None, silent=ended.update is not None or ended.silent)
        outcome = self._outcome(ended, offset)
        self.uses.append(SlotUse(label.round, label.device, label.version, first, slot, outcome, offset))
        return ended

    def _ns_after(self, slot: int, moment: float) -> int:
        """Return the nanoseconds from the beginning of a slot to a moment of the channel's clock."""
        return self._slots.ns_since(slot) - round((self._channel.now() - moment) * 1e9)

    def _outcome(self, ended: EndedGrant, offset: int | None) -> Outcome:
        if ended.update is not None:
            return "arrived"
        if ended.spoiled:
            return "lost"
        before = self._slots.ns_since(ended.grant.slot - 1) / 1e9
        misplaced = self._devices.misplaced_since(
            ended.grant.label.device, self._devices.clock.now() - before
        )
        return "early or late" if offset is not None or misplaced else "silent"

    def take_uses(self) -> list[SlotUse]:
        """Return what became of the granted slots of a round that is complete."""
        uses, self.uses = self.uses, []
        return uses
