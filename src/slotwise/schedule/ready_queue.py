"""Updates that wait for the channel, and which of them is sent next.

A selection looks at everything that waits. A queue gives the answers of a built-in selection and looks at
less: keys that do not change while an update waits are kept in a heap, and values that change with every
choice are compared in compiled code. `queue_of` chooses; a selection of the user's is asked as it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Mapping, Set
from heapq import heapify, heappop, heappush
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.base.errors import UserError
from slotwise.base.random_streams import SchedulePurpose, state_after
from slotwise.base.user_code import described_function, user_errors
from slotwise.schedule.link import FEW, FadingDraws, FleetLink, Link, devices_of, has_blocks
from slotwise.schedule.selections import (
    RandomSelection,
    Selection,
    Waiting,
    best_channel,
    first_ready,
    largest_age,
    proportional_fair,
    round_robin,
    shortest_uplink,
    spectral_efficiency,
)

Update = tuple[int, int, int]
"""(turn, device, version): the beginning of a `Waiting`."""
AT_ONCE = -1
"""A turn before every slot: a retransmission that comes before every choice of the selection."""


class Instant(NamedTuple):
    """The state that a choice depends on beside the updates that wait."""

    slot: int
    round: int
    last_sender: int
    lost_in_round: int


class ReadyQueue:
    """Updates that wait; a device has at most one. The one that was ready first is sent first."""

    def __init__(self) -> None:
        self._waiting: dict[int, Update] = {}
        self._at_once: list[Update] = []
        self._heap: list[Any] = []
        # Updates by their turns, the latest first; only kept once it has been asked for.
        self._latest: list[tuple[int, int, Update]] | None = None
        self._mask: NDArray[np.bool_] | None = None  # the same of `mask`

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Update]:
        return iter(sorted(self._waiting.values()))

    def push(self, update: Update, arrived: int = 0, last_round: int = -1) -> None:
        """Add an update of a device of which so many have arrived, the last one in ``last_round``."""
        turn, device, _ = update
        self._waiting[device] = update
        if self._mask is not None:
            self._mask[device - 1] = True
        if self._latest is not None:
            heappush(self._latest, (-turn, device, update))
        if turn == AT_ONCE:
            heappush(self._at_once, update)
        else:
            self._add(update, arrived, last_round)

    def pop(self, now: Instant) -> Update:
        """Remove and return the update that is sent next."""
        waiting = self._waiting
        while self._at_once:
            update = heappop(self._at_once)
            if waiting.get(update[1]) is update:
                self._forget(update[1])
                return update
        update = self._choose(now)
        self._forget(update[1])
        return update

    def _forget(self, device: int) -> Update | None:
        if self._mask is not None:
            self._mask[device - 1] = False
        return self._waiting.pop(device, None)

    @property
    def sends_at_once(self) -> bool:
        """True if a retransmission comes before every choice."""
        waiting, at_once = self._waiting, self._at_once
        while at_once and waiting.get(at_once[0][1]) is not at_once[0]:
            heappop(at_once)
        return bool(at_once)

    def mask(self, devices: int) -> NDArray[np.bool_]:
        """Return, for each of so many devices, whether its update waits; entry n−1 is device n."""
        if self._mask is None:
            self._mask = np.zeros(devices, dtype=np.bool_)
            self._mask[[device - 1 for device in self._waiting]] = True
        return self._mask

    def take(self, device: int) -> Update:
        """Remove and return the update of a device that waits."""
        update = self._waiting[device]
        self.remove(device)
        return update

    def remove(self, device: int) -> bool:
        """Remove the update of a device; return whether there was one."""
        update = self._forget(device)
        if update is not None and update[0] != AT_ONCE:
            self._drop(device)
        return update is not None

    @property
    def last_turn(self) -> int:
        """The largest turn of all that wait; `AT_ONCE` if nothing does."""
        if self._latest is None:
            self._latest = [(-update[0], update[1], update) for update in self._waiting.values()]
            heapify(self._latest)
        latest = self._latest
        while latest and self._waiting.get(latest[0][1]) is not latest[0][2]:
            heappop(latest)
        return -latest[0][0] if latest else AT_ONCE

    # What queues of other selections do differently. Entries of a heap are dropped when they come up.

    def _add(self, update: Update, arrived: int, last_round: int) -> None:  # noqa: ARG002
        heappush(self._heap, update)

    def _choose(self, now: Instant) -> Update:  # noqa: ARG002
        while True:
            update: Update = heappop(self._heap)
            if self._waiting.get(update[1]) is update:
                return update

    def _drop(self, device: int) -> None:
        """Forget the update of a device that has left."""


class Named(ReadyQueue):
    """The one that is named, by `take`."""

    def _add(self, update: Update, arrived: int, last_round: int) -> None:
        """Nothing is kept beside the updates."""


class _ByKey(ReadyQueue):
    """The smallest key first, which does not change while an update waits."""

    def __init__(self, key: Callable[[Update, int, int], tuple[int, ...]]) -> None:
        super().__init__()
        self._key = key

    def _add(self, update: Update, arrived: int, last_round: int) -> None:
        heappush(self._heap, (self._key(update, arrived, last_round), update))

    def _choose(self, now: Instant) -> Update:  # noqa: ARG002
        while True:
            update: Update = heappop(self._heap)[1]
            if self._waiting.get(update[1]) is update:
                return update


class _RoundRobin(ReadyQueue):
    """The next device after the last sender: the heap is a sorted list of devices."""

    def _add(self, update: Update, arrived: int, last_round: int) -> None:  # noqa: ARG002
        insort(self._heap, update[1])

    def _choose(self, now: Instant) -> Update:
        place = bisect_right(self._heap, now.last_sender)
        return self._waiting[self._heap.pop(place if place < len(self._heap) else 0)]

    def _drop(self, device: int) -> None:
        del self._heap[bisect_left(self._heap, device)]


class _Compared(ReadyQueue, ABC):
    """All that wait are compared at every choice, in compiled code; ties go to the lower index."""

    def __init__(self, devices: int) -> None:
        from slotwise.schedule import ready_kernel  # noqa: PLC0415  (compiled code takes time to load)

        super().__init__()
        self._kernel, self._ready = ready_kernel, np.zeros(devices, dtype=np.bool_)

    def _add(self, update: Update, arrived: int, last_round: int) -> None:  # noqa: ARG002
        self._ready[update[1] - 1] = True

    def _choose(self, now: Instant) -> Update:
        place = self._best(now)
        self._ready[place] = False
        return self._waiting[place + 1]

    def _drop(self, device: int) -> None:
        self._ready[device - 1] = False

    @abstractmethod
    def _best(self, now: Instant) -> int:
        """Return the entry of the device that is chosen."""


class _Random(_Compared):
    """The lowest of a random number for each device."""

    def __init__(self, devices: int, seed: int) -> None:
        super().__init__(devices)
        self._start = state_after((seed, SchedulePurpose.SELECTION))

    def _best(self, now: Instant) -> int:
        key = (now.round, now.last_sender, *((now.lost_in_round,) if now.lost_in_round else ()))
        state = np.uint64(state_after(key, self._start))
        return int(self._kernel.lowest_number(state, self._ready))


class _ByChannel(_Compared):
    """The highest SNR now, or the highest rate relative to the updates that have arrived."""

    def __init__(self, devices: int, link: Link, *, fair: bool) -> None:
        super().__init__(devices)
        self._link, self._fair, self._slot = link, fair, -1
        self._share, self._score = np.ones(devices), np.zeros(devices)

    def _add(self, update: Update, arrived: int, last_round: int) -> None:
        super()._add(update, arrived, last_round)
        if self._fair:
            self._share[update[1] - 1] = 1 / (1 + arrived)

    def _best(self, now: Instant) -> int:
        if now.slot != self._slot:
            self._slot, snr_db = now.slot, self._link.snr_db(now.slot)
            score = spectral_efficiency(snr_db) if self._fair else snr_db
            self._score = np.ascontiguousarray(score, dtype=np.float64)
        return int(self._kernel.highest_score(self._score, self._share, self._ready))


class _ByDrawnChannel(_ByChannel):
    """The same over a link whose SNRs are drawn here: the link is asked only where two are almost equal."""

    def __init__(self, link: Link, draws: FadingDraws, each: int, *, fair: bool) -> None:
        from slotwise.schedule import drawing_kernel  # noqa: PLC0415  (compiled code takes time to load)

        devices = len(draws.states)
        super().__init__(devices, link, fair=fair)
        self._draw, self._each = drawing_kernel, each
        # Beside the entries by device, those in the order of mean SNRs.
        self._order, self._draws = drawing_kernel.by_mean(draws)
        self._rank = np.argsort(self._order).tolist()
        self._weight, self._level = np.full(devices, -1.0), np.zeros(2)
        self._needed = np.full(devices, drawing_kernel.NEVER)
        self._scores = np.empty(devices)

    def _add(self, update: Update, arrived: int, last_round: int) -> None:
        super()._add(update, arrived, last_round)
        place = self._rank[update[1] - 1]
        self._weight[place] = self._share[update[1] - 1]
        self._needed[place] = self._draw.NOT_COMPUTED

    def _choose(self, now: Instant) -> Update:
        update = super()._choose(now)
        self._lower(update[1])
        return update

    def _drop(self, device: int) -> None:
        super()._drop(device)
        self._lower(device)

    def _lower(self, device: int) -> None:
        place = self._rank[device - 1]
        self._weight[place], self._needed[place] = -1.0, self._draw.NEVER

    def _best(self, now: Instant) -> int:
        numbers = (self._weight, self._fair, self._needed, self._level, self._scores)
        place = self._draw.best_channel(self._draws, now.slot // self._each, *numbers)
        return super()._best(now) if place == self._draw.NOT_KNOWN else int(self._order[place])


class _Asked(ReadyQueue):
    """A selection is asked, with all that it sees of the updates."""

    def __init__(
        self, selection: Selection, seen: Callable[[list[Update], int], list[Waiting]], option: str
    ) -> None:
        super().__init__()
        self._selection, self._seen = selection, seen
        self._name = described_function(option, selection)

    def _add(self, update: Update, arrived: int, last_round: int) -> None:
        """Nothing is kept beside the updates."""

    def _choose(self, now: Instant) -> Update:
        waiting = self._seen(sorted(self._waiting.values()), now.lost_in_round)
        with user_errors(self._name, anywhere=False):
            chosen = self._selection(waiting, now.round, now.last_sender)
        if chosen not in waiting:
            raise UserError(f"{self._name}: returned {chosen!r}, which is not one of the waiting updates")
        return self._waiting[chosen.device]


def queue_of(
    selection: Selection,
    link: Link | None,
    seen: Callable[[list[Update], int], list[Waiting]],
    option: str = "selection",
) -> ReadyQueue:
    """Return the queue of a selection, which an option chose; ``seen`` is what it sees of updates."""
    if selection is first_ready:
        return ReadyQueue()
    if selection is round_robin:
        return _RoundRobin()
    if selection is largest_age:
        return _ByKey(lambda update, _, last_round: (last_round, update[1]))
    if link is not None and selection is shortest_uplink:
        planned = link.planned_slots
        return _ByKey(lambda update, *_: (planned[update[1] - 1], *update))
    by_channel, fair = selection in (best_channel, proportional_fair), selection is proportional_fair
    if by_channel and isinstance(link, FleetLink):  # all channels are equally good
        return _ByKey(lambda update, arrived, _: (arrived if fair else 0, update[1]))
    devices = 0 if link is None else devices_of(link)
    if link is not None and devices >= FEW and find_spec("numba") is not None:
        if isinstance(selection, RandomSelection):
            return _Random(devices, selection.seed)
        if by_channel and has_blocks(link) and (draws := getattr(link, "draws", None)) is not None:
            return _ByDrawnChannel(link, draws, link.coherence_slots, fair=fair)
        if by_channel:
            return _ByChannel(devices, link, fair=fair)
    return _Asked(selection, seen, option)


class Candidates:
    """Devices that may take part in a round; what has not changed since the last choice is kept."""

    def __init__(
        self, selection: Selection, link: Link | None, seen: Callable[[list[Update], int], list[Waiting]]
    ) -> None:
        self._queue = queue_of(selection, link, seen, "participation")
        # A selection of the user's sees slot and version of the choice.
        self._is_asked = isinstance(self._queue, _Asked)
        self._changed: dict[int, None] = {}

    def change(self, device: int) -> None:
        """Note that a device has come, left, or sent another update."""
        self._changed[device] = None

    def choose(
        self, count: int, now: Instant, absent: Set[int], arrived: Mapping[int, tuple[int, int]]
    ) -> Iterator[int]:
        """Yield the devices that are chosen, one after another, among those that are not absent."""
        queue = self._queue
        if self._is_asked:
            for _, device, _ in queue:
                self.change(device)
        turn, version = (now.slot, now.round) if self._is_asked else (0, 0)
        for device in self._changed:
            queue.remove(device)
            if device not in absent:
                queue.push((turn, device, version), *arrived.get(device, (0, -1)))
        self._changed, last = {}, 0
        for _ in range(min(count, len(queue))):
            _, last, _ = queue.pop(now._replace(last_sender=last))
            self.change(last)
            yield last
