"""Durations of trainings and transfers of a live run: for `slotwise calibrate`, and to give up in time."""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable
from math import nan
from pathlib import Path
from statistics import median
from typing import NamedTuple

from slotwise.base.files import appending
from slotwise.live.protocol import Label, Work

FILE = "timings.csv"
FILE_LIMIT = 64 << 20  # bytes; further trainings are not recorded
MULTIPLE = 10  # of the median of a device's trainings: the longest that is waited for
LEAST_MULTIPLE = 5  # of the timeout: a device that was busy for once is waited for as long as that
UNKNOWN_MULTIPLE = 20  # of the timeout, if nothing is known of how long trainings take
REMEMBERED = 9  # trainings of a device
RECENT = 99  # trainings of all devices


class Timing(NamedTuple):
    """One turn of a device; seconds are NaN if they are not known.

    Attributes:
        device, round, version, training: those of the update.
        compute_seconds: of the training, as measured by the device.
        ready_seconds: from the broadcast of the model to the message that the training is finished.
        uplink_seconds: from the grant of the channel to the whole update.
        lost: 1 if no good update has come, otherwise 0.
    """

    device: int
    round: int
    version: int
    training: int
    compute_seconds: float
    ready_seconds: float
    uplink_seconds: float
    lost: int

    def row(self) -> str:
        """Return the line of the file."""
        return ",".join(_text(value) for value in self)


class Timings:
    """Stop watch of a live run: it times trainings and turns of devices, and keeps turns until written."""

    def __init__(self, now: Callable[[], float] = lambda: nan) -> None:
        self._now = now
        self._began: dict[int, float] = {}  # trainings that have not ended
        self._took: defaultdict[int, deque[float]] = defaultdict(lambda: deque(maxlen=REMEMBERED))
        self._recent: deque[tuple[int, float]] = deque(maxlen=RECENT)  # devices, and how long they took
        self._resent: Counter[int] = Counter()  # how often the model of a first training was sent again
        self._slow: set[int] = set()  # devices whose first training ended after it had been given up
        self._sent: dict[int, tuple[int, float]] = {}  # version of the model, and when it was sent
        self._ready: dict[int, tuple[Work, float, float]] = {}  # computed what, in how many seconds, by when
        self._granted: dict[str, float] = {}  # when the last grant was made, by its number
        self._received = nan
        self._turns: list[Timing] = []

    def model_sent(self, devices: Iterable[int], version: int) -> None:
        """Note that a model was broadcast, and that these devices train on it from now on."""
        now, receivers = self._now(), tuple(devices)
        self._sent |= dict.fromkeys(receivers, (version, now))
        self._began |= dict.fromkeys(receivers, now)

    def model_sent_again(self, device: int) -> None:
        """Count a first training from now on, because its model had not arrived; not without end."""
        if device in self._began and device not in self._took and self._resent[device] < UNKNOWN_MULTIPLE:
            self._resent[device] += 1
            self._began[device] = self._now()

    def restart(self) -> None:
        """Count all trainings anew, as after a reconnect: no device could have reported anything before."""
        self._began = dict.fromkeys(self._began, self._now())

    def limit(self, device: int, timeout: float, slots: Callable[[int], int] = lambda _: 1) -> float:
        """Return the seconds that a training may take: a multiple of the others, or of the timeout.

        A first training is compared with those of other devices, by the ``slots`` that are planned for them,
        so that the fleet waits for one timeout if it hangs.
        """
        if took := self._took.get(device):
            return max(LEAST_MULTIPLE * timeout, MULTIPLE * median(took))
        if not self.compares(device):
            return UNKNOWN_MULTIPLE * timeout
        a_slot = median(seconds / slots(other) for other, seconds in self._recent)
        return max(timeout, MULTIPLE * a_slot * slots(device))

    def compares(self, device: int) -> bool:
        """Return whether only trainings of other devices say how long one of this device may take."""
        return bool(self._recent) and device not in self._took and device not in self._slow

    def ended_late(self, device: int) -> None:
        """Note that a device, which counts as disconnected, has finished what it was given up for."""
        self._slow.add(device)

    def waited(self, device: int) -> float:
        """Return the seconds since a device was assigned what it trains."""
        # A resumed server does not know when the training began, and counts from now.
        now = self._now()
        return now - self._began.setdefault(device, now)

    def ready(self, device: int, work: Work, seconds: str) -> None:
        """Note that a training is finished; ``seconds`` is what the device says of it."""
        now = self._now()
        if device in self._began:
            took = now - self._began.pop(device)
            self._took[device].append(took)
            self._recent.append((device, took))
        said = float(seconds) if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", seconds) else nan
        self._ready[device] = (work, said, now)

    def granted(self, number: str) -> None:
        """Note that the channel was granted, unless this only repeats it."""
        if number not in self._granted:
            self._granted, self._received = {number: self._now()}, nan

    def received(self) -> None:
        """Note that the granted update is there."""
        self._received = self._now()

    def turn_ended(self, label: Label, number: str, *, lost: bool) -> None:
        """Record the turn of a device that was granted the channel."""
        work, said, by = self._ready.get(label.device, (None, nan, nan))
        version, sent = self._sent.get(label.device, (-1, nan))
        # The last ``ready`` may be of another training, if the device has restarted or missed a message.
        known = work == Work(label.version, label.training)
        self._turns.append(
            Timing(
                label.device,
                label.round,
                label.version,
                label.training,
                said if known else nan,
                by - sent if known and version == label.version else nan,
                nan if lost else self._received - self._granted.get(number, nan),
                int(lost),
            )
        )

    def write(self, folder: Path) -> None:
        """Append the turns since the last call to the file in the folder of a run."""
        turns, self._turns = self._turns, []
        with appending(folder / FILE) as file:
            if not file.tell():
                file.write(",".join(Timing._fields) + "\n")
            if file.tell() < FILE_LIMIT:
                file.writelines(f"{turn.row()}\n" for turn in turns)


def _text(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    return "" if value != value else f"{value:.6f}"  # noqa: PLR0124  (NaN)
