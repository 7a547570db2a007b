"""The schedule that a training follows: a timeline, or an episode that is decided meanwhile."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

from slotwise.options.checks import whole
from slotwise.scenario import Scenario
from slotwise.schedule import Episode, Timeline
from slotwise.schedule.timeline import Column, Uplink


class Course(ABC):
    """A schedule as the engine sees it; columns have a row for each uplink, as in a `Timeline`."""

    scenario: Scenario
    device: Column
    version: Column
    training: Column
    start: Column
    end: Column
    broadcast_end: Column
    ended: bool  # no round will come any more

    @property
    def rounds(self) -> int:
        """Complete rounds, as far as they are known."""
        return len(self.broadcast_end)

    def __len__(self) -> int:
        return len(self.device)

    @abstractmethod
    def rows_before(self, round_number: int) -> int:
        """Return the number of uplinks in all rounds before this one."""

    def uplinks(self, round_number: int) -> slice:
        """Return the rows of a round's uplinks."""
        return slice(self.rows_before(round_number), self.rows_before(round_number + 1))

    @abstractmethod
    def power(self, device: int, start: int) -> float:
        """Return the part of its power with which a device sends the uplink that begins in ``start``."""

    @abstractmethod
    def is_due(self, version: int) -> bool:
        """Return whether a model is evaluated: the newest one at each interval, and the last."""

    @abstractmethod
    def unused_after(self, round_number: int, models: Iterable[int]) -> Collection[int]:
        """Return the models that a round uses and no later one does."""

    @abstractmethod
    def last_starts(self) -> Sequence[int]:
        """Return for each model the last uplink whose training starts from it; -1 if there is none.

        Empty if that is not known: then models are dropped when they are unused.
        """

    @property
    @abstractmethod
    def timeline(self) -> Timeline:
        """The timeline, as far as it is known."""


class Planned(Course):
    """A timeline that is known from the start."""

    ended = True

    def __init__(self, timeline: Timeline, evaluate_every: int | None) -> None:
        self._timeline, self.scenario, self.device = timeline, timeline.scenario, timeline.device
        self.version, self.training = timeline.version, timeline.training
        self.start, self.end = timeline.start, timeline.end
        self.broadcast_end = timeline.broadcast_end
        self._due = evaluation_rounds(timeline, evaluate_every)
        # Round k uses model k in any case, because it replaces it; the last model, the result, is kept.
        self._unused: defaultdict[int, list[int]] = defaultdict(list)
        last_use = np.arange(timeline.rounds, dtype=np.int64)
        # A version has many uplinks. `at` compares all of them, where indexing would keep one.
        np.maximum.at(last_use, timeline.version, timeline.round)
        for version, round_number in enumerate(last_use.tolist()):
            self._unused[round_number].append(version)

    def rows_before(self, round_number: int) -> int:
        """Return the number of uplinks in all rounds before this one."""
        return int(self._timeline.round_offsets[round_number])

    def power(self, device: int, start: int) -> float:
        """Return the part of its power with which a device sends."""
        return self._timeline.powers.get((device, start), 1.0)

    def is_due(self, version: int) -> bool:
        """Return whether a model is evaluated."""
        return version in self._due

    def unused_after(self, round_number: int, models: Iterable[int]) -> Collection[int]:  # noqa: ARG002
        """Return the models whose last use is in this round."""
        return self._unused.pop(round_number, ())

    def last_starts(self) -> Sequence[int]:
        """Return for each model the last uplink whose training starts from it."""
        last = np.full(self.rounds, -1, dtype=np.int64)
        np.maximum.at(last, self.version, np.arange(len(self)))
        return last.tolist()

    @property
    def timeline(self) -> Timeline:
        """The timeline."""
        return self._timeline


class Decided(Course):
    """The rounds of an episode so far; `update` adds what has been decided since."""

    def __init__(self, episode: Episode, evaluate_every: int | None) -> None:
        self.episode, self.scenario = episode, episode.scenario
        self._every = None if evaluate_every is None else whole("evaluate_every", evaluate_every)
        self._rows, self._offsets = _Rows(5), [0]  # the columns below; first row of each round
        self._ends = _Rows(1)
        self._partial = 0  # rows of the round that is not complete yet
        self._trainings = [0] * (episode.scenario.devices + 1)
        self._held: dict[int, int] = {}  # device: the model it trains on
        self._powers: dict[tuple[int, int], float] = {}  # below 1, of (device, start)
        self._reduced = 0  # rows of the record that are there
        self.ended = False
        self.update()

    def update(self) -> None:
        """Add the rounds that are complete, and the uplinks of one at whose end a decision is open."""
        record = self.episode.record
        for k in range(self.rounds, len(record.broadcasts)):
            if k == 0:
                self._held.update(dict.fromkeys(record.receivers[0], 0))
            self._add(self.episode.uplinks(k))
            self._offsets.append(len(self))
            self._partial = 0
            self._ends.append((record.broadcasts[k][1],))
            self._hand_out(k)
        self._add(self.episode.uplinks(self.rounds) if self.episode.at_end_of_round else ())
        self._powers |= {(device, start): part for device, start, _, part in record.reduced[self._reduced :]}
        self._reduced = len(record.reduced)
        self._columns()
        self.ended = self.episode.decision is None

    def _columns(self) -> None:
        self.device, self.version, self.training, self.start, self.end = self._rows.columns()
        (self.broadcast_end,) = self._ends.columns()

    def _add(self, uplinks: Sequence[Uplink]) -> None:
        """Add the uplinks of the first round that is not complete; some of them may be there already."""
        for _, device, version, start, end in uplinks[self._partial :]:
            self._rows.append((device, version, self._trainings[device], start, end))
            self._trainings[device] += 1
        self._partial = len(uplinks)

    def _hand_out(self, k: int) -> None:
        """Note who trains on which model when round ``k`` is complete."""
        record, held = self.episode.record, self._held
        for device, version, _, _ in self.episode.repeats_of(k):
            held[device] = version
        for row in range(self._offsets[k], self._offsets[k + 1]):
            device, version = self._rows[row][:2]
            if held.get(device) == version:
                del held[device]
        held.update(dict.fromkeys(record.receivers[k + 1], k + 1))

    @property
    def rounds(self) -> int:
        """Complete rounds so far."""
        return len(self._ends)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def partial(self) -> slice:
        """The rows of the round at whose end a decision is open."""
        return slice(self._offsets[-1], len(self))

    def rows_before(self, round_number: int) -> int:
        """Return the number of uplinks in all rounds before this one."""
        return self._offsets[round_number]

    def power(self, device: int, start: int) -> float:
        """Return the part of its power with which a device sends; in complete rounds."""
        return self._powers.get((device, start), 1.0)

    def is_due(self, version: int) -> bool:
        """Return whether a model is evaluated; not before it is known how long it is the newest."""
        if version == self.rounds:
            return self.ended
        if self._every is None:
            return version == 0
        begin = int(self.broadcast_end[version - 1]) if version else 0
        return has_multiple(begin, int(self.broadcast_end[version]), self._every)

    def unused_after(self, round_number: int, models: Iterable[int]) -> Collection[int]:
        """Return the models that no device has any more."""
        later = self.version[self._offsets[round_number + 1] :].tolist()
        used = {*self._held.values(), *later}
        return [version for version in models if version <= round_number and version not in used]

    def last_starts(self) -> Sequence[int]:
        """Return nothing: it is not known."""
        return ()

    @property
    def timeline(self) -> Timeline:
        """The complete rounds."""
        return self.episode.timeline


class _Rows:
    """Rows of integers that are appended to, and their columns as arrays."""

    def __init__(self, columns: int) -> None:
        self._table, self._count = np.empty((columns, 64), dtype=np.int64), 0

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, row: int) -> list[int]:
        return self._table[:, row].tolist()  # type: ignore[no-any-return]

    def append(self, row: Sequence[int]) -> None:
        """Add a row; the table doubles when it is full."""
        if self._count == self._table.shape[1]:
            self._table = np.concatenate([self._table, np.empty_like(self._table)], axis=1)
        self._table[:, self._count] = row
        self._count += 1

    def columns(self) -> Any:
        """Return the columns; they do not grow."""
        return self._table[:, : self._count]


def has_multiple(begin: int, end: int, every: int) -> bool:
    """Return whether a model is evaluated that is the newest one in slots [begin, end): one is a multiple."""
    return -(-begin // every) * every < end


def evaluation_rounds(timeline: Timeline, every: int | None) -> frozenset[int]:
    """Return the models to evaluate: the newest one at every multiple of ``every`` slots, and the last."""
    if every is None:
        return frozenset({0, timeline.rounds})
    slots = np.arange(0, timeline.last_slot + 1, whole("evaluate_every", every))
    # Model k is complete in slot broadcast_end[k - 1]: the number of ends up to a slot is its newest model.
    newest = np.searchsorted(timeline.broadcast_end, slots, side="right")
    return frozenset({*newest.tolist(), timeline.rounds})
