"""A queue gives the answers of its selection, whatever is pushed, removed and popped."""

from collections.abc import Callable

import numpy as np
import pytest

from slotwise import Scenario
from slotwise.fleet import Fleet
from slotwise.schedule.link import FEW, FleetLink, Link
from slotwise.schedule.ready_queue import AT_ONCE, Instant, ReadyQueue, Update, queue_of
from slotwise.schedule.selections import SELECTIONS, RandomSelection, Selection, Waiting

DEVICES = FEW + 7


class Channel:
    """SNRs and planned slots that often tie."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.planned_slots = np.random.default_rng(seed).integers(1, 4, DEVICES).tolist()

    def snr_db(self, slot: int):
        draw = np.random.default_rng([self._seed, slot])
        return draw.integers(-3, 9, DEVICES).astype(float) * (1 if slot % 3 else 1.7)


def link_of(kind: str, seed: int) -> Link:
    scenario = Scenario(devices=DEVICES, group_size=5, compute_slots=9)
    return Channel(seed) if kind == "channel" else FleetLink.of(scenario, Fleet.equal(scenario))  # type: ignore[return-value]


class Naive:
    """Asks the selection about everything that waits."""

    def __init__(self, selection: Selection, seen: Callable[[list[Update], int], list[Waiting]]) -> None:
        self.selection, self.seen, self.updates = selection, seen, []

    def pop(self, now: Instant) -> Update:
        at_once = [update for update in self.updates if update[0] == AT_ONCE]
        if at_once:
            chosen = min(at_once)
        else:
            waiting = self.seen(sorted(self.updates), now.lost_in_round)
            chosen = tuple(self.selection(waiting, now.round, now.last_sender)[:3])
        self.updates.remove(chosen)
        return chosen


@pytest.mark.parametrize("kind", ["channel", "fixed slots"])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", SELECTIONS)
def test_answers_are_those_of_the_selection(name: str, seed: int, kind: str) -> None:
    selection = RandomSelection(seed) if name == "random" else SELECTIONS[name]
    link, draw, arrived = link_of(kind, seed), np.random.default_rng(seed), {}
    now = Instant(slot=0, round=0, last_sender=0, lost_in_round=0)

    def seen(updates: list[Update], lost: int) -> list[Waiting]:
        snr, found = link.snr_db(now.slot).tolist(), []
        for turn, device, version in updates:
            count, last = arrived.get(device, (0, -1))
            planned = link.planned_slots[device - 1]
            age = now.round - last
            found.append(Waiting(turn, device, version, age, count, snr[device - 1], planned, lost))
        return found

    queue, naive = queue_of(selection, link, seen), Naive(selection, seen)
    assert (type(queue) is ReadyQueue) == (name == "first-ready")
    for step in range(1_500):
        waiting = {update[1] for update in naive.updates}
        idle = [device for device in range(1, DEVICES + 1) if device not in waiting]
        what = draw.random()
        if (what < 0.5 and idle) or not waiting:
            device = int(draw.choice(idle))
            turn = AT_ONCE if draw.random() < 0.05 else step // 3
            update = (turn, device, step)
            queue.push(update, *arrived.get(device, (0, -1)))
            naive.updates.append(update)
        elif what < 0.6:
            device = int(draw.integers(1, DEVICES + 1))
            assert queue.remove(device) == (device in waiting)
            naive.updates = [update for update in naive.updates if update[1] != device]
        else:
            chosen = naive.pop(now)
            assert queue.pop(now) == chosen
            count, _ = arrived.get(chosen[1], (0, -1))
            if draw.random() < 0.8:
                arrived[chosen[1]] = (count + 1, now.round)
            now = now._replace(last_sender=chosen[1], lost_in_round=int(draw.integers(0, 2)))
        if step % 5 == 0:
            now = now._replace(slot=now.slot + 1, round=now.round + 1)
        assert len(queue) == len(naive.updates)
        if step % 50 == 0:
            assert list(queue) == sorted(naive.updates)
            assert queue.last_turn == max((turn for turn, _, _ in naive.updates), default=AT_ONCE)
