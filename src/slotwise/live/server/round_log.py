"""RoundLog: the completed rounds of a live run, on disk; in memory are totals and the last few rounds.

The file has one line of JSON for each round and is only appended to, so that neither a round nor a checkpoint
costs more in a run of millions of rounds. A checkpoint has the length of the file and its checksum. What
comes after that length is of rounds that are played again, and is cut off when the run is resumed.
"""

from __future__ import annotations

import io
import json
import os
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from zlib import crc32

from slotwise.base.files import cannot_write
from slotwise.live.slots.slot_use import SlotUse
from slotwise.schedule import Record
from slotwise.schedule.timeline import Uplink

FILE = "rounds.jsonl"
RECENT = 300  # rounds in memory: more than the page of a run shows
TAIL = 1 << 18  # bytes at the end of the file that are read for them
MOST_PENDING = 1 << 16  # bytes that are not written yet
CHUNK = 1 << 20  # bytes read at once


class Late(NamedTuple):
    """A device that was late, in which round, and with what."""

    device: int
    round: int
    what: str


class Round(NamedTuple):
    """One completed round of a live run."""

    start: int  # of its broadcast, and its end
    end: int
    seconds: float  # when it was complete, from the start of the run
    uplinks: list[Uplink]  # those that arrived, in the order of the channel
    lost: list[Uplink]
    receivers: list[int]  # of the model that it made
    late: list[Late]
    uses: Sequence[SlotUse] = ()  # of granted slots, if slots are time

    @property
    def max_staleness(self) -> int:
        """Age of its oldest update in rounds."""
        return max((k - version for k, _, version, _, _ in self.uplinks), default=0)

    def line(self) -> bytes:
        """Return the line of the file."""
        values = self if self.uses else self[:-1]
        return json.dumps(values, separators=(",", ":")).encode() + b"\n"

    @classmethod
    def of_line(cls, line: bytes) -> Round:
        """Read what `line` wrote."""
        start, end, seconds, uplinks, lost, receivers, late, *more = json.loads(line)
        sent, missed = ([(k, n, v, a, b) for k, n, v, a, b in rows] for rows in (uplinks, lost))
        uses = tuple(SlotUse(*use) for rows in more for use in rows)
        return cls(start, end, seconds, sent, missed, receivers, [Late(*entry) for entry in late], uses)


class Position(NamedTuple):
    """A place between two rounds of the log, with the totals up to it."""

    length: int = 0  # bytes
    checksum: int = 0
    rounds: int = 0
    updates: int = 0
    lost: int = 0
    seconds: float = 0.0
    late: Mapping[int, int] = {}  # how often each device was late
    starters: tuple[int, ...] | None = None  # receivers of w_0; None before it is handed out


class RoundLog:
    """Owner of the completed rounds; without a path they stay in memory, as tests and other transports do."""

    def __init__(self, path: Path | None = None) -> None:
        self._path, self._pending, self._written = path, bytearray(), 0
        self._set(Position())

    def _set(self, position: Position) -> None:
        self._length, self._checksum, self.rounds, self.updates, self.lost = position[:5]
        self.seconds, self.late, self.starters = position.seconds, Counter(position.late), position.starters
        self.recent: deque[tuple[int, Round]] = deque(maxlen=RECENT)

    @property
    def position(self) -> Position:
        """The end of the log."""
        totals = (self._length, self._checksum, self.rounds, self.updates, self.lost, self.seconds)
        return Position(*totals, dict(self.late), self.starters)

    def start(self, receivers: Iterable[int]) -> None:
        """Note who has received the first model."""
        self.starters = tuple(receivers)

    def add(self, one: Round) -> None:
        """Append a round to the file."""
        line = one.line()
        self._pending += line
        self._length += len(line)
        self._checksum = crc32(line, self._checksum)
        self.recent.append((self.rounds, one))
        self.rounds, self.seconds = self.rounds + 1, one.seconds
        self.updates, self.lost = self.updates + len(one.uplinks), self.lost + len(one.lost)
        self.late.update(entry.device for entry in one.late)
        if len(self._pending) >= MOST_PENDING:
            self.flush()

    def go_back(self, position: Position) -> None:
        """Forget the rounds after a position, which this log has passed."""
        recent = [entry for entry in self.recent if entry[0] < position.rounds]
        if position.length < self._written:
            self._pending.clear()
            self._write(position.length, b"")
        else:
            del self._pending[position.length - self._written :]
        self._set(position)
        self.recent.extend(recent)

    def resume(self, position: Position) -> bool:
        """Go to a position that another process saw; False if the log is not what it was then."""
        if not self._has(position):
            return False
        if self._path is None:
            del self._pending[position.length :]
        else:
            self._pending.clear()
            self._write(position.length, b"")
        self._set(position)
        self.recent.extend(self._tail())
        return True

    def flush(self) -> None:
        """Pass everything to the operating system; a UserError says why that is not possible."""
        if self._path is not None and self._pending:
            self._write(self._written, bytes(self._pending))
            self._pending.clear()

    def sync(self) -> None:
        """Wait until what was flushed has reached the disk; may be called in another thread."""
        if self._path is not None and self._path.exists():
            with self._path.open("rb") as file:
                os.fsync(file.fileno())

    def _write(self, at: int, data: bytes) -> None:
        """Replace everything from a byte on."""
        if self._path is None:
            return
        try:
            with os.fdopen(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666), "r+b") as file:
                file.seek(at)
                file.write(data)
                file.truncate()
        except OSError as error:
            raise cannot_write(self._path, error) from None
        self._written = at + len(data)

    # Reading

    def __iter__(self) -> Iterator[Round]:
        """Yield all rounds, one after another: they may be too many for the memory."""
        if self._path is not None and self._written:
            with self._path.open("rb") as file:
                left = self._written
                while left > 0 and (line := file.readline()):
                    left -= len(line)
                    yield Round.of_line(line)
        for line in bytes(self._pending).splitlines():
            yield Round.of_line(line)

    @property
    def last(self) -> Round:
        """The last round in the file."""
        return self.recent[-1][1]

    def record(self) -> Record:
        """Return all rounds in plain lists, as a timeline is made of; for runs that fit into the memory."""
        uplinks: list[Uplink] = []
        lost: list[Uplink] = []
        record = Record(uplinks, lost, [], [] if self.starters is None else [list(self.starters)])
        for one in self:
            uplinks += one.uplinks
            lost += one.lost
            record.broadcasts.append((one.start, one.end))
            record.receivers.append(one.receivers)
        return record

    def _has(self, position: Position) -> bool:
        """Return whether the log begins with what it had up to a position."""
        if not position.length or (self._path is not None and not self._path.is_file()):
            return not position.length
        checksum, left = 0, position.length
        with self._reader() as file:
            while left > 0 and (data := file.read(min(CHUNK, left))):
                checksum, left = crc32(data, checksum), left - len(data)
        return not left and checksum == position.checksum

    def _reader(self) -> BinaryIO:
        """Return what is written, or all of a log in memory, as a file."""
        return io.BytesIO(self._pending) if self._path is None else self._path.open("rb")

    def _tail(self) -> list[tuple[int, Round]]:
        """Read the last rounds."""
        begin = max(0, self._length - TAIL)
        if not self._length:
            return []
        with self._reader() as file:
            file.seek(begin)
            lines = file.read(self._length - begin).splitlines()[-RECENT:]
        # The first line may have lost its beginning.
        lines = lines[1:] if begin and len(lines) < RECENT else lines
        first = self.rounds - len(lines)
        return [(first + number, Round.of_line(line)) for number, line in enumerate(lines)]


def as_rounds(document: Mapping[str, Any]) -> Iterator[Round]:
    """Yield the rounds in a checkpoint of an earlier version, which had all of them."""
    uplinks, lost, late = (_by_round(document[name]) for name in ("uplinks", "lost", "late"))
    seconds, receivers = document["round_seconds"], document["receivers"][1:]
    rounds = zip(document["broadcasts"], seconds, receivers, strict=True)
    for k, ((start, end), moment, group) in enumerate(rounds):
        entries = [Late(*entry) for entry in late.get(k, [])]
        yield Round(start, end, moment, uplinks.get(k, []), lost.get(k, []), list(group), entries)


def _by_round(rows: Iterable[Any]) -> dict[int, list[Any]]:
    """Return rows by their round: the first number of an uplink, the second of a late device."""
    found: dict[int, list[Any]] = {}
    for row in rows:
        found.setdefault(row[1] if len(row) == 3 else row[0], []).append(tuple(row))
    return found
