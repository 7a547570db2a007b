"""SlotDevice: a device that keeps a slot counter and sends in the slots that it was granted in advance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slotwise.aggregation import Vector
from slotwise.learning import TrainingStart
from slotwise.learning.checked_task import CheckedTask
from slotwise.learning.quantisation import Packing
from slotwise.learning.task import update_of
from slotwise.live import protocol
from slotwise.live.protocol import Label, Work
from slotwise.live.slots.frames import MODEL, UPDATE, AheadGrant, Beacon, Piece, Reassembly, decode, split
from slotwise.live.slots.medium import SharedMedium, Transmission, VirtualTime
from slotwise.live.slots.slot_counter import DriftingClock, SlotCounter
from slotwise.live.slots.slot_layout import SlotLayout


@dataclass(frozen=True)
class DeviceClock:
    """Clock of a device, and how long a frame takes to it and from it."""

    clock: DriftingClock
    delay_ns: int
    estimate_drift: bool


class SlotDevice:
    """Device ``number``: trains on the models it hears, and sends at its slots; silent otherwise."""

    def __init__(
        self,
        number: int,
        timing: DeviceClock,
        layout: SlotLayout,
        task: CheckedTask,
        packing: Packing | None,
        most_pieces: int,
        time: VirtualTime,
        medium: SharedMedium,
    ) -> None:
        self.number, self._timing, self._layout = number, timing, layout
        self._task, self._packing = task, packing
        self._time, self._medium = time, medium
        self.counter = SlotCounter(layout.slot_ns, estimate_drift=timing.estimate_drift)
        self._download = Reassembly(most_pieces)
        self._grants: list[AheadGrant] = []
        self._plan = 0  # number of the last beacon: wakes of earlier ones are void
        self._sent_until = 0  # slots before this one are over for this device
        self._work: Work | None = None
        self._training: Callable[[], Vector] | None = None
        self._frames: list[bytes] = []  # of the update, once it is computed
        medium.attach(number, self.hear)

    def hear(self, one: Transmission) -> None:
        """Take a frame of the server."""
        content = decode(one.frame)
        if isinstance(content, Beacon):
            heard = self._timing.clock.local(one.end + self._timing.delay_ns)
            self._take_beacon(content, heard - self._medium.air_ns(len(one.frame)))
        elif isinstance(content, Piece) and content.kind == MODEL:
            message = self._download.add(content)
            if message is not None:
                self.take_model(message)

    def take_model(self, message: bytes) -> None:
        """Train on a model if its receivers name this device; w_0 comes so before the first slot."""
        frame = protocol.decode(message)
        named = dict(one.split(":") for one in frame.fields["receivers"].split(",") if one)
        model = frame.vector
        if str(self.number) not in named or model is None:
            return
        work = Work(frame.label.version, int(named[str(self.number)]))
        start = TrainingStart(self.number, work.training, work.version, int(frame.fields["slot"]))
        self._work, self._frames = work, []
        self._training = lambda: update_of(self._task.local_update(model, start))

    def _take_beacon(self, beacon: Beacon, local: int) -> None:
        """Synchronise, and replace all that was known of the coming grants."""
        if beacon.slot_ns != self._layout.slot_ns:
            return
        self.counter.hear(beacon.slot, local)
        self._plan += 1
        self._grants = [grant for grant in beacon.grants if grant.device == self.number]
        if self._grants:
            self._sleep_until(max(beacon.slot, self._sent_until))

    def _sleep_until(self, slot: int) -> None:
        """Wake for the first slot from ``slot`` on that is this device's."""
        coming = [max(slot, grant.first) for grant in self._grants if grant.end > slot]
        if coming:
            mine, plan = min(coming), self._plan
            local = self.counter.local(mine) + self._layout.send_after_ns
            self._time.at(self._timing.clock.moment(local), lambda: self._wake(mine, plan))

    def _wake(self, slot: int, plan: int) -> None:
        """Send the frames of one slot, if the grant still holds."""
        if plan != self._plan or slot < self._sent_until:
            return
        self._sent_until = slot + 1
        grant = next(grant for grant in self._grants if grant.first <= slot < grant.end)
        if self._work == (grant.version, grant.training):
            each = self._layout.frames
            first = (slot - grant.first) * each
            frames = self._update_frames(grant)[first : first + each]
            self._medium.send(self.number, frames, self._time.now + self._timing.delay_ns)
        self._sleep_until(slot + 1)

    def _update_frames(self, grant: AheadGrant) -> list[bytes]:
        """Return the frames of the update, which is computed when it is needed first."""
        if not self._frames and self._training is not None:
            update = self._training()
            numbers = update if self._packing is None else self._packing.pack(update)
            work = (self.number, grant.version, grant.training)
            message = protocol.encode(Label("", self.number, 0, grant.version, grant.training), numbers)
            self._frames = split(UPDATE, work, message, self._layout.frame_bytes)
        return self._frames
