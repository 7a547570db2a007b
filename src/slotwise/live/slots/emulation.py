"""run_on_medium: execute the plan of a run on an emulated shared medium, in virtual time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from slotwise.aggregation import Vector
from slotwise.base.errors import InputError, UserError
from slotwise.base.files import write_document
from slotwise.base.random_streams import SchedulePurpose, chance
from slotwise.learning import Task
from slotwise.learning.checked_task import CheckedTask
from slotwise.learning.quantisation import packing_of
from slotwise.live.server.inbox import UpdateCheck
from slotwise.live.server.server_config import refuse_what_is_only_simulated
from slotwise.live.slots.announcing import BEACON_EVERY
from slotwise.live.slots.fitting import fitting_layout, frames_needed, longest_messages
from slotwise.live.slots.frames import LARGEST_FRAME, MOST_PIECES, SMALLEST_FRAME, pieces_of
from slotwise.live.slots.medium import SharedMedium, VirtualTime
from slotwise.live.slots.plan_ahead import SlotPlan
from slotwise.live.slots.slot_counter import DriftingClock
from slotwise.live.slots.slot_device import DeviceClock, SlotDevice
from slotwise.live.slots.slot_layout import SlotLayout
from slotwise.live.slots.slot_server import SlotServer
from slotwise.live.slots.slot_use import SlotUse, layout_figures, use_figures
from slotwise.options import Range, loaded
from slotwise.options.checks import Value
from slotwise.report.gantt import Window
from slotwise.report.gantt.overlay_chart import ChannelUse, overlay_chart
from slotwise.runs import RunConfig
from slotwise.runs.execution import build_task
from slotwise.runs.run_folder import model_sha256
from slotwise.schedule import Timeline

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MICROSECOND = 10**3  # nanoseconds


@dataclass(frozen=True, kw_only=True)
class MediumOptions(Value):
    """The emulated medium, and the clocks of the devices on it.

    Attributes:
        slot_ms: Milliseconds of a slot.
        guard_ms: Guard time at the beginning and at the end of the frames in a slot, in milliseconds.
        frame_bytes: Bytes of a frame.
        bit_rate: Bits per second on the air. Default: the lowest at which updates and models fit.
        frame_loss: Share of the frames that a receiver loses, drawn for each by itself.
        delay_us: Longest delay between a device and the server in microseconds; each device has its own.
        drift_ppm: Largest drift of a device's clock in parts per million, slow or fast.
        beacon_every: Slots between two beacons. There are more if few announced grants are left, or the
            plan has changed.
        estimate_drift: Whether devices estimate their drift from beacons, or only the offset.
    """

    slot_ms: Annotated[float, Range(above=0, below=1e9)] = 100.0
    guard_ms: Annotated[float, Range(least=0, below=1e9)] = 1.0
    frame_bytes: Annotated[int, Range(SMALLEST_FRAME, LARGEST_FRAME)] = 220
    bit_rate: Annotated[int | None, Range(1, 10**12)] = None
    frame_loss: Annotated[float, Range(least=0, below=1)] = 0.0
    delay_us: Annotated[float, Range(least=0, below=1e6)] = 0.0
    drift_ppm: Annotated[float, Range(least=0, below=1e5)] = 0.0
    beacon_every: Annotated[int, Range(1, 10**6)] = BEACON_EVERY
    estimate_drift: bool = True


@dataclass(frozen=True)
class SlotRun:
    """Result of a plan that was executed on the medium.

    Attributes:
        plan: The timeline of the simulator.
        timeline: The timeline on the medium.
        uses: All granted slots and what became of them, also in a last round that did not end.
        collisions: Frames that overlapped: nanosecond, slot, and the senders (0: the server).
        misplaced: Frames that were heard outside the slots of their device, by device.
        beacons: Beacons that were sent.
        layout: The parts of a slot.
        model: The last model.
    """

    plan: Timeline
    timeline: Timeline
    uses: tuple[SlotUse, ...]
    collisions: tuple[tuple[int, int, tuple[int, ...]], ...]
    misplaced: dict[int, int]
    beacons: int
    layout: SlotLayout
    model: Vector

    @property
    def model_sha256(self) -> str:
        """Identity of the last model, as in run.json."""
        return model_sha256(self.model)

    @property
    def as_planned(self) -> bool:
        """Whether the medium carried the timeline of the simulator."""
        rounds = self.plan.rounds
        return rounds == self.timeline.rounds and self.plan.first_difference(self.timeline, rounds) is None

    @property
    def outcomes(self) -> dict[str, int]:
        """Number of uplinks by outcome."""
        outcomes: dict[str, int] = use_figures(self.uses)["outcomes"]
        return outcomes

    @property
    def largest_offset_ns(self) -> int:
        """The largest deviation of an uplink from its planned moment."""
        largest: int = use_figures(self.uses)["largest_offset_ns"]
        return largest

    def as_dict(self) -> dict[str, Any]:
        """Return the record as plain values."""
        return {
            **layout_figures(self.layout),
            "beacons": self.beacons,
            "rounds": self.timeline.rounds,
            "as_planned": self.as_planned,
            "model_sha256": self.model_sha256,
            **use_figures(self.uses),
            "misplaced": self.misplaced,
            "columns": list(SlotUse._fields),
            "uses": [list(use) for use in self.uses],
            "collisions": [[moment, slot, list(senders)] for moment, slot, senders in self.collisions],
        }

    def plot(self, first: int = 0, end: int = 200) -> Figure:
        """Return a chart of slots [first, end): planned uplinks as outlines, and what became of them."""
        uses = [ChannelUse(use.device, use.first, use.end, use.outcome) for use in self.uses]
        crosses = [(slot, device) for _, slot, senders in self.collisions for device in senders if device]
        return overlay_chart(self.plan, uses, Window(first, end), crosses)

    def write(self, path: Path | str) -> None:
        """Write the record as JSON: the slots that were used, the device of each, and what became of it."""
        write_document(Path(path), self.as_dict())


def run_on_medium(config: RunConfig, task: Task | None = None, **options: Any) -> SlotRun:
    """Execute the plan of a run on an emulated shared medium, in virtual time; ``options``: `MediumOptions`.

    Devices learn their slots from beacons, keep a slot counter by them, and send within the guard time.
    Losses of the run's link (``uplink_loss``, a radio link) are frames that the server does not receive. If
    nothing else is lost, timeline and models are those of the simulator to the bit.

    Raises:
        InputError: an option is out of range, or the run cannot be executed like this.
    """
    medium = MediumOptions(**options)
    refuse_unsupported(config)
    plan = config.simulate()
    checked = CheckedTask.of(build_task(config) if task is None else task)
    return _Emulation(config, plan, checked, medium).run()


def refuse_unsupported(config: RunConfig) -> None:
    """Raise an InputError for what the medium or its devices do not have."""
    refuse_what_is_only_simulated(config)
    fleet = config.make_fleet()
    reach = "windows" if fleet.windows is None else fleet.windows.called
    parts = {"absences": fleet.absences, reach: fleet.windows, "batteries": fleet.batteries}
    for name, part in parts.items():
        if part:
            raise UserError(f"{name} of devices are not emulated on a medium: omit their options")


class _Emulation:
    """One call of `run_on_medium`."""

    def __init__(self, config: RunConfig, plan: Timeline, task: CheckedTask, options: MediumOptions) -> None:
        self._config, self._plan, self._task, self._options = config, plan, task, options
        self._policy, self._fleet, self._link = config.ready_parts()
        self._packing = packing_of(task)
        self._check = UpdateCheck(task.size, self._packing)
        self._devices = range(1, config.channel.devices + 1)
        self._update, self._model = self._message_pieces()
        self._layout = self._make_layout()

    def run(self) -> SlotRun:
        time = VirtualTime()
        medium = SharedMedium(time, self._layout.bit_rate, self._loses)
        deadline = self._config.channel.deadline
        assert deadline is not None  # of every run
        self._server = server = SlotServer(
            SlotPlan.of(self._config.channel, self._policy, self._fleet, self._link),
            self._layout,
            self._task,
            self._check,
            loaded(self._config.rule),
            self._config.uplink_radio(self._task.update_bits),
            time,
            medium,
            last_slot=deadline,
            devices=len(self._devices),
            beacon_every=self._options.beacon_every,
            most_pieces=self._update,
        )
        fleet = [
            SlotDevice(n, self._clock(n), self._layout, self._task, self._packing, self._model, time, medium)
            for n in self._devices
        ]

        def hand_over(message: bytes) -> None:
            for device in fleet:
                device.take_model(message)

        server.begin(hand_over)
        time.run()
        return self._outcome(server, medium)

    def _outcome(self, server: SlotServer, medium: SharedMedium) -> SlotRun:
        plan, slot_ns = self._plan, self._layout.slot_ns
        timeline = Timeline.of(self._config.channel, plan.schedule, plan.delay, server.record, plan.fleet)
        collisions = tuple(
            (one.start, one.start // slot_ns, tuple(sorted({one.sender, *one.with_senders})))
            for one in medium.collisions
        )
        model = server.models[timeline.rounds]
        misplaced, uses = dict(sorted(server.misplaced.items())), tuple(server.uses)
        return SlotRun(plan, timeline, uses, collisions, misplaced, server.beacons, self._layout, model)

    def _clock(self, device: int) -> DeviceClock:
        """Return the clock of a device: when it was started, its drift and its delay."""
        options, seed = self._options, self._config.seed
        share = 2 * chance(seed, SchedulePurpose.CLOCK_DRIFT, device) - 1
        offset = int(chance(seed, SchedulePurpose.CLOCK_OFFSET, device) * 3600 * 10**9)
        delay = int(chance(seed, SchedulePurpose.AIR_DELAY, device) * options.delay_us * MICROSECOND)
        clock = DriftingClock(offset, int(share * options.drift_ppm * 1000))
        return DeviceClock(clock, delay, options.estimate_drift)

    def _loses(self, receiver: int, sender: int, number: int) -> bool:
        """Return whether a frame is lost on the way: by the run's link, or by chance."""
        if sender and sender == self._server.fading:
            return True
        loss = self._options.frame_loss
        return loss > 0 and chance(self._config.seed, SchedulePurpose.FRAME_LOSS, receiver, number) < loss

    def _message_pieces(self) -> tuple[int, int]:
        """Return the frames of the longest update and of the longest model."""
        update, model = longest_messages(self._task.size, self._check.bytes, len(self._devices))
        size = self._options.frame_bytes
        pieces = pieces_of(update, size), pieces_of(model, size)
        if max(pieces) > MOST_PIECES:
            allowed = f"larger: a model has {max(pieces):,} frames, and at most {MOST_PIECES:,} are possible"
            raise InputError("frame_bytes", size, allowed)
        return pieces

    def _make_layout(self) -> SlotLayout:
        """Return the parts of a slot, into which updates and models must fit."""
        options = self._options
        needed = frames_needed(self._fleet, self._link, self._update, self._model)
        return fitting_layout(
            options.slot_ms, options.guard_ms, options.frame_bytes, needed, options.bit_rate
        )
