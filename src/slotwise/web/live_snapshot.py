"""LiveSnapshot: the state of a live run as its page shows it and as metrics; made in the loop of the run."""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite

from slotwise.base.files import finite
from slotwise.learning import Point
from slotwise.live.server.campaign_run import CampaignStatus
from slotwise.live.server.events import Carried, LiveView
from slotwise.live.server.live_status import LiveStatus
from slotwise.report.colours import schedule_colours
from slotwise.report.gantt.chart import SERVER, Activity, Interval, Window, transfers
from slotwise.schedule import Timeline

MOST_POINTS = 1_000  # of the curves
MOST_SLOTS = 240  # of the channel
RECENT = 20  # rejections
RATE_SECONDS = 60.0  # over which throughput is measured


@dataclass(frozen=True)
class LiveSnapshot:
    """One moment of a live run; plain values only, so that another thread may read it.

    Attributes:
        status: The status of the run.
        schedule: Its schedule, which has a colour.
        moment: Seconds of the machine's clock, to tell its age.
        heard: Seconds since the last message of each device.
        overdue: Devices that are late in this moment.
        rejected_by: Rejected messages of each device.
        rejections: The last rejected messages: time, device (None if unknown) and reason.
        points: Evaluations: slot, round, loss and accuracy.
        window: Slots that the channel is shown for.
        carried: What the channel carried in them.
        planned: What it was planned to carry.
        rates: Rounds and updates a minute; None before there are two moments to compare.
        stalled_for: Seconds without a round, if they are unusually many; otherwise 0.
        campaign: The campaign that the run is part of; None without one.
    """

    status: LiveStatus
    schedule: str
    moment: float
    heard: Mapping[int, float]
    overdue: Sequence[int]
    rejected_by: Mapping[int, int]
    rejections: Sequence[tuple[str, int | None, str]]
    points: Sequence[tuple[int, int, float | None, float | None]]
    window: Window
    carried: Sequence[Interval]
    planned: Sequence[Interval]
    rates: tuple[float, float] | None
    stalled_for: float = 0.0
    campaign: CampaignStatus | None = None

    def as_json(self) -> str:
        """Return the content of the page."""
        status = asdict(self.status)
        document = {
            **asdict(self),
            "status": {**status, "evaluation": None},  # the points have it, and without what is not finite
            "colours": schedule_colours([self.schedule])[self.schedule],
            "carried": _columns(self.carried),
            "planned": _columns(self.planned),
        }
        return json.dumps(finite(document), separators=(",", ":"))


class SnapshotMaker:
    """Makes snapshots of one run, and keeps what they need of the past, which is bounded."""

    def __init__(self, view: LiveView) -> None:
        self._view = view
        self._rejected_by: Counter[int] = Counter()
        self._rejections: deque[tuple[str, int | None, str]] = deque(maxlen=RECENT)
        self._done: deque[tuple[float, int, int]] = deque()

    def note_rejection(self, topic: str, reason: str) -> None:
        """Count a rejected message."""
        device = self._view.device_of(topic)
        # Any client may name devices that do not exist; a count for each of them would have no bound.
        if device is not None and device <= self._view.plan.scenario.devices:
            self._rejected_by[device] += 1
        else:
            device = None
        self._rejections.append((time.strftime("%H:%M:%S"), device, reason))

    def make(self, status: LiveStatus | None = None) -> LiveSnapshot:
        """Return the moment as it is; call it in the event loop of the run."""
        view, moment = self._view, time.monotonic()
        status = view.status() if status is None else status
        window = _window(status.slot, view.plan)
        return LiveSnapshot(
            status=status,
            schedule=view.plan.schedule,
            moment=moment,
            heard={device: round(seconds, 1) for device, seconds in view.seconds_since_heard().items()},
            overdue=view.overdue(),
            rejected_by=dict(self._rejected_by),
            rejections=tuple(self._rejections),
            points=_thinned(view.points()),
            window=window,
            carried=tuple(_intervals(view.carried(window.first))),
            planned=tuple(transfers(view.plan, window)),
            rates=self._rates(moment, status),
            stalled_for=round(view.stalled_for(), 1),
        )

    def _rates(self, moment: float, status: LiveStatus) -> tuple[float, float] | None:
        """Return rounds and updates a minute, over the last minute."""
        done = self._done
        # The time before the first round is not part of the rate.
        if status.phase == "waiting for devices":
            done.clear()
            return None
        # At most one entry a second, however often snapshots are made.
        if not done or moment - done[-1][0] >= RATE_SECONDS / 60:
            done.append((moment, status.round, status.updates))
        while done[0][0] < moment - RATE_SECONDS:
            done.popleft()
        began, rounds, updates = done[0]
        if moment - began < 1:
            return None
        minutes = (moment - began) / 60
        return (status.round - rounds) / minutes, (status.updates - updates) / minutes


def _window(slot: int, plan: Timeline) -> Window:
    """Return the last slots and a few of those to come."""
    scenario = plan.scenario
    usual = scenario.compute_slots + scenario.link_slots * (scenario.devices + scenario.groups)
    length = max(20, min(MOST_SLOTS, usual))
    end = max(length, slot + length // 4)
    return Window(end - length, end)


def _intervals(carried: Carried) -> Iterator[Interval]:
    for kind, uplinks in ((Activity.SENDING, carried.uplinks), (Activity.LOST, carried.lost)):
        yield from (Interval(n, kind, start, end, version, k) for k, n, version, start, end in uplinks)
    yield from (
        Interval(SERVER, Activity.RECEIVING, start, end, k + 1, k) for k, start, end in carried.broadcasts
    )


def _columns(intervals: Sequence[Interval]) -> dict[str, list[int]]:
    columns = list(zip(*intervals, strict=True)) or [()] * len(Interval._fields)
    return {
        name: [int(value) for value in column] for name, column in zip(Interval._fields, columns, strict=True)
    }


def _thinned(points: Sequence[Point]) -> tuple[tuple[int, int, float | None, float | None], ...]:
    """Return the evaluations; of very many every second, third and so on, and the last."""
    step = -(-len(points) // MOST_POINTS) or 1
    kept = [*points[:-1:step], *points[-1:]]
    return tuple((p.slot, p.round, _known(p.loss), _known(p.accuracy)) for p in kept)


def _known(value: float) -> float | None:
    return value if isfinite(value) else None
