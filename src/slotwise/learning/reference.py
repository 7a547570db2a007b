"""Reference implementation: Algorithms 1 and 2 as the paper writes them, one device at a time.

It has no slots and no timeline, but follows the sets of the pseudocode. The engine, which follows a Timeline,
must give the same models to the bit, unless the step size decays with the slots.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from slotwise.aggregation import NO_STATE, Aggregation, Contribution, Reception, Vector, mean, next_model
from slotwise.learning.checked_task import CheckedTask
from slotwise.learning.task import Task, TrainingStart, update_of
from slotwise.scenario import Scenario


def asynchronous(
    scenario: Scenario,
    task: Task,
    rounds: int,
    delay: int = 0,
    aggregation: Aggregation = mean,
    uplinks: Callable[[int, int], Reception] = lambda *_: Reception(),
) -> Iterator[Vector]:
    """Yield w_0, w_1, …, w_rounds of Algorithm 2. With delay 0 it is Algorithm 1.

    ``uplinks(k, n)`` is what the radio says of the uplink of device n in round k.
    """
    size, groups = scenario.group_size, scenario.groups
    everyone = range(1, scenario.devices + 1)
    # Line 1: S_{−delay−1} starts from w_0, and S_{k−delay−1} receives w_k for k = 1..delay.
    senders = {-delay - 1: [n for n in everyone if n <= (groups - delay) * size]}
    for k in range(1, delay + 1):
        first = (k + groups - delay - 1) * size
        senders[k - delay - 1] = [n for n in everyone if first < n <= first + size]
    checked = CheckedTask.of(task)
    model, state = checked.initial_model(), NO_STATE
    yield model
    started: dict[int, int] = {}
    trainings: Counter[int] = Counter()
    starts: dict[int, Vector] = {}
    updates: dict[int, Vector] = {}
    for k in range(rounds):  # line 2
        for n in senders.pop(k - delay - 1):  # lines 3 to 6
            started[n], starts[n] = k, model
            updates[n] = update_of(checked.local_update(model, TrainingStart(n, trainings[n], k)))
            trainings[n] += 1
        # Lines 7 and 8: the S available devices that started earliest; ties go to the lower index.
        senders[k] = sorted(started, key=lambda n: (started[n], n))[:size]
        # Lines 9 to 12.
        sent = []
        for n in senders[k]:
            age, samples = k - started.pop(n), checked.sample_count(n)
            arrived = Contribution(updates.pop(n), age, starts.pop(n), n, k, samples)
            sent.append(arrived._replace(devices=scenario.devices, uplink=uplinks(k, n)))
        model, state = next_model(aggregation, model, sent, state)
        yield model


def synchronous(
    task: Task,
    rounds: int,
    participants: Callable[[int], list[int]],
    aggregation: Aggregation = mean,
    devices: int = 1,
    uplinks: Callable[[int, int], Reception] = lambda *_: Reception(),
) -> Iterator[Vector]:
    """Yield w_0, w_1, …, w_rounds of vanilla FL (eq. 7): every participant of round k trains on w_k."""
    checked = CheckedTask.of(task)
    model, state = checked.initial_model(), NO_STATE
    yield model
    trainings: Counter[int] = Counter()
    for k in range(rounds):
        contributions = []
        for n in participants(k):
            update = update_of(checked.local_update(model, TrainingStart(n, trainings[n], k)))
            sent = Contribution(update, 0, model, n, k, checked.sample_count(n), devices=devices)
            contributions.append(sent._replace(uplink=uplinks(k, n)))
            trainings[n] += 1
        model, state = next_model(aggregation, model, contributions, state)
        yield model
