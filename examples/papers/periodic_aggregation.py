"""Asynchronous FL with periodic aggregation, as the code of Hu, Chen and Larsson (arXiv 2212.07356) has it.

In every period the server hears some of the devices whose training has ended. Its next model is the mean of
their models, and all devices that were ready train on it. Here the schedule is made first, as a `Timeline`,
and then trained along. See asynchronous-age-channel.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import slotwise as sw
from slotwise.fleet import Fleet
from slotwise.learning import StepDecay, TaskWrapper
from slotwise.schedule.timeline import Record, Timeline

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]

DEVICES, SCHEDULED, ROUNDS, SLOWEST = 40, 8, 35, 4  # a training takes up to so many periods
SNR, SYMBOLS, LEVELS, TRIALS = 20.0, 300_000, 4, 30
SLOTS = 3  # of a period in the timeline: the last two are uplinks and broadcast


class Ready(NamedTuple):
    """What a rule sees in one period: the devices that are ready, from 0, and what is known of each."""

    devices: Numbers
    gains: Floats  # |h|² of the channel
    heard: Numbers  # how often so far
    labels: Numbers  # samples of each label, [device, label]


Rule = Callable[[Ready, np.random.Generator], Numbers]


def random(ready: Ready, draw: np.random.Generator) -> Numbers:
    """Return positions of devices drawn at random."""
    return draw.choice(len(ready.devices), _number(ready), replace=False)


def best_channel(ready: Ready, draw: np.random.Generator) -> Numbers:  # noqa: ARG001
    """Return the devices with the best channels."""
    return np.argsort(ready.gains)[-_number(ready) :]


def rarely_heard(ready: Ready, draw: np.random.Generator) -> Numbers:  # noqa: ARG001
    """Return the devices that were heard least, of the twenty with the best channels."""
    good = _good_channels(ready)
    return good[np.argsort(ready.heard[good], kind="stable")[: _number(ready)]]


def channel_and_data(ready: Ready, draw: np.random.Generator) -> Numbers:
    """Return, of some random groups of the twenty best channels, the one with the most even labels."""
    good, number = _good_channels(ready), _number(ready)
    trials = min(TRIALS, comb(len(good), number))
    groups = [good[draw.choice(len(good), number, replace=False)] for _ in range(trials)]
    return min(groups, key=lambda group: float(ready.labels[group].sum(axis=0).var()))


RULES: Mapping[str, Rule] = {
    "random": random,
    "best-channel": best_channel,
    "rarely-heard": rarely_heard,
    "channel-and-data": channel_and_data,
}


def _number(ready: Ready) -> int:
    return min(SCHEDULED, len(ready.devices))


def _good_channels(ready: Ready) -> Numbers:
    return np.argsort(ready.gains)[-DEVICES // 2 :]


class Schedule(NamedTuple):
    """Who is heard when, and the bits that the channel carries of each uplink of the timeline."""

    timeline: sw.Timeline
    bits: Floats


def draw_schedule(rule: Rule, labels: Numbers, seed: int, *, is_periodic: bool) -> Schedule:
    """Draw compute times and channels and apply the rule; if it is not periodic, a round waits for all."""
    draw = np.random.default_rng([seed, 2212])
    tiers, rounds, symbols = np.ones(DEVICES, dtype=np.int64), ROUNDS, SYMBOLS * SLOWEST
    if is_periodic:
        tiers = np.ceil(SLOWEST * draw.random(DEVICES)).astype(np.int64)
        rounds, symbols = ROUNDS * SLOWEST, SYMBOLS
    server = _Server(rule, labels, draw)
    for devices in _ready_sets(tiers, rounds):
        server.hear(devices, symbols)
    scenario = sw.Scenario(
        devices=DEVICES,
        group_size=SCHEDULED,
        sub_channels=SCHEDULED,
        compute_slots=1,
        deadline=SLOTS * rounds,
    )
    fleet = Fleet(compute_slots=tuple((SLOTS * tiers - 2).tolist()), link_slots=(1,) * DEVICES)
    name = "periodic" if is_periodic else "sync"
    return Schedule(Timeline.of(scenario, name, None, server.record(), fleet), np.array(server.bits))


class _Server:
    """What the server remembers from period to period."""

    def __init__(self, rule: Rule, labels: Numbers, draw: np.random.Generator) -> None:
        self._rule, self._labels, self._draw = rule, labels, draw
        self._version, self._heard = np.zeros(DEVICES, int), np.zeros(DEVICES, int)
        self._uplinks: list[tuple[int, int, int, int, int]] = []
        self._receivers = [list(range(1, DEVICES + 1))]
        self.bits: list[float] = []

    def hear(self, devices: Numbers, symbols: int) -> None:
        """Choose among the devices that are ready; all of them get the next model."""
        k, gains = len(self._receivers) - 1, self._draw.exponential(size=len(devices))
        ready = Ready(devices, gains, self._heard[devices], self._labels[devices])
        chosen = np.sort(self._rule(ready, self._draw))  # by device, as in a timeline
        start = SLOTS * (k + 1) - 2
        for device in devices[chosen].tolist():
            self._uplinks.append((k, device + 1, int(self._version[device]), start, start + 1))
        self.bits += [_fair_bits(gains[chosen], symbols)] * len(chosen)
        self._heard[devices[chosen]] += 1
        self._version[devices] = k + 1
        self._receivers.append((devices + 1).tolist())

    def record(self) -> Record:
        """Return uplinks and broadcasts: one in the last slot of each period."""
        broadcasts = [(SLOTS * k - 1, SLOTS * k) for k in range(1, len(self._receivers))]
        return Record(self._uplinks, [], broadcasts, self._receivers)


def _ready_sets(tiers: Numbers, rounds: int) -> Iterator[Numbers]:
    """Yield the devices that are ready at the end of each period, if there are any."""
    for period in range(1, rounds + 1):
        if len(ready := np.flatnonzero(period % tiers == 0)):
            yield ready


def _fair_bits(gains: Floats, symbols: int) -> float:
    """Return the bits b of each uplink if all get equally many: Σ b/log2(1 + SNR·gain) is all symbols."""
    return float(symbols / (1 / np.log2(1 + SNR * gains)).sum())


class Compressed(TaskWrapper):
    """Updates as the channel carries them: some numbers, chosen at random, each in a few levels.

    With b bits for d numbers, q of them are sent, as many as log2 of (d over q) + q·(1 + log2 levels) allows.
    Each is rounded at random to a multiple of their norm over the levels (Alistarh et al. 2017, "QSGD").
    The numbers that are not sent count as 0.
    """

    def __init__(self, task: sw.Task, schedule: Schedule, seed: int) -> None:
        super().__init__(task)
        timeline, size = schedule.timeline, len(self.initial_model())
        uplinks = zip(timeline.device.tolist(), timeline.training.tolist(), strict=True)
        kept = np.searchsorted(_bits_of(size), schedule.bits - 32, side="right")
        self._kept, self._seed = dict(zip(uplinks, kept.tolist(), strict=True)), seed

    def sent(self, update: sw.Vector, start: sw.TrainingStart) -> sw.Vector:
        """Return the update as it arrives."""
        draw = np.random.default_rng([self._seed, 2213, start.device, start.training])
        arrived, kept = np.zeros_like(update), self._kept[start.device, start.training]
        chosen = draw.choice(len(update), kept, replace=False)
        values = update[chosen]
        if (level := float(np.linalg.norm(values)) / LEVELS) > 0:
            steps = np.floor(np.abs(values) / level + draw.random(kept))
            arrived[chosen] = np.sign(values) * steps * level
        return arrived


def _bits_of(size: int) -> Floats:
    """Return the bits that 1, 2, … of ``size`` numbers take, each number's share rounded up."""
    count = np.arange(1, size + 1)
    return np.cumsum(np.ceil(np.log2((size - count + 1) / count)) + 1 + np.log2(LEVELS))


class TestSetOnly(sw.CnnTask):
    """A task whose evaluations read the test set, and not the samples of the devices."""

    def evaluate(self, model: sw.Vector) -> sw.Evaluation:
        """Return test loss and test accuracy."""
        data = self.samples.dataset
        loss, correct = self._sums(
            model, data.test_inputs, data.test_targets, np.arange(len(data.test_targets))
        )
        return sw.Evaluation(loss / len(data.test_targets), correct / len(data.test_targets))


def accuracies(
    rule: Rule, *, is_iid: bool, is_periodic: bool, seed: int, evaluations: int = 35, workers: int = 1
) -> Sequence[tuple[int, float]]:
    """Train along the schedule of a rule; return the rounds that were evaluated and their test accuracy."""
    data, draw = sw.load_mnist(), np.random.default_rng([seed, 2214])
    sizes = sw.data.EqualSizes(samples_per_device=len(data.train_targets) // DEVICES)
    partition = sw.data.Iid(sizes=sizes) if is_iid else sw.data.Shards(shards_per_device=5)
    samples = sw.DeviceSamples(data, partition(data, DEVICES, draw))
    schedule = draw_schedule(rule, samples.label_counts().counts, seed, is_periodic=is_periodic)
    timeline = schedule.timeline
    training = sw.LocalTraining(
        local_epochs=3,
        batch_size=50,
        learning_rate=0.01,
        rate_decay=StepDecay(rate_period=timeline.rounds // 2),
        seed=seed,
    )
    network = sw.learning.Architecture(
        input_shape=(1, 28, 28), convolutions=((10, 5), (20, 5)), hidden=(50,), classes=10, dropout=0.5
    )
    task = Compressed(TestSetOnly(samples, network, training), schedule, seed)
    every = SLOTS * timeline.rounds // evaluations
    history = sw.train(timeline, task, aggregation="model-average", workers=workers, evaluate_every=every)
    return [(point.round, point.accuracy) for point in history.points]
