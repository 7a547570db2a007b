"""Over-the-air aggregation: what the server receives of a group of devices, and which rules can use it.

The server receives the sum of a group's updates, and no single one. It gives the mean of what it received as
the update of every device of the group: a rule that adds updates with equal weights makes the same of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from slotwise.aggregation import (
    NO_STATE,
    RULE,
    Aggregation,
    Contribution,
    Reception,
    UplinkRadio,
    Vector,
    device_half,
    next_model,
)
from slotwise.base.errors import InputError, UserError
from slotwise.learning.checked_task import CheckedTask
from slotwise.learning.randomness import Purpose, generator
from slotwise.radio.over_the_air import OverTheAirLink, noise_of, superpose
from slotwise.schedule import Episode, Synchronous, Timeline

_ROUNDS = 6  # in which a rule is tried
_OTHERS = 2  # devices that are in no group of a round, so that groups differ
_MOST_NUMBERS = 10_000_000  # of the updates of a round in which a rule is tried
_TOLERANCE = 1e-3


def as_received(contributions: Sequence[Contribution], radio: UplinkRadio) -> Sequence[Contribution]:
    """Return the contributions of a round as the server receives them: as they are, unless over the air."""
    link = radio.link
    if not isinstance(link, OverTheAirLink):
        return contributions
    groups: defaultdict[int, list[Contribution]] = defaultdict(list)
    for sent in contributions:
        groups[sent.uplink.slot].append(sent)
    means = {slot: _mean_of(group, link, slot, radio.seed) for slot, group in groups.items()}
    return [sent._replace(update=means[sent.uplink.slot]) for sent in contributions]


def _mean_of(group: Sequence[Contribution], link: OverTheAirLink, slot: int, seed: int) -> Vector:
    """Return the mean of the updates of a group that began in ``slot``."""
    devices, numbers = [sent.device for sent in group], len(group[0].update)
    turns = [generator(seed, Purpose.PHASE_ERROR, n, slot).standard_normal() for n in devices]
    noise = noise_of(generator(seed, Purpose.RECEIVER_NOISE, training=slot), numbers)
    signal = link.signal(devices, slot, len(noise), np.array(turns))
    return superpose([sent.update for sent in group], signal, noise, link.target).astype(np.float32)


def refuse_other_rules(
    rule: Aggregation,
    radio: UplinkRadio,
    timeline: Timeline,
    task: CheckedTask,
    episode: Episode | None = None,
) -> None:
    """Raise an InputError if updates go over the air and a rule needs more than their sum.

    It is tried: from the mean of each group it must make the same models as from the updates themselves, for
    devices with the samples of the task, and groups as large and updates as old as those of the timeline. Of
    an ``episode``, whose timeline is not decided yet, all sizes of groups and, but for sync, all ages.
    """
    if not isinstance(radio.link, OverTheAirLink):
        return
    devices, oldest = timeline.scenario.devices, timeline.max_staleness()
    if episode is not None and timeline.schedule != Synchronous.name:
        oldest = _ROUNDS
    largest = max(timeline.scenario.group_sizes if episode is None else episode.group_sizes)
    if device_half(rule) is not None or not _needs_only_sums(rule, task, devices, largest, oldest):
        allowed = "one that weighs updates equally, such as mean: over the air only a sum is received"
        raise InputError("aggregation", RULE.name_of(rule), allowed)


def _needs_only_sums(rule: Aggregation, task: CheckedTask, everyone: int, largest: int, oldest: int) -> bool:
    """Return whether a rule makes the same of random updates and of their means, round after round.

    ``largest`` is the largest group, and ``oldest`` the age of the oldest update in rounds.
    """
    samples = [task.sample_count(n) for n in range(1, everyone + 1)]
    held, size = (min(samples), max(samples)), task.size
    together = min(largest, max(2, _MOST_NUMBERS // size))
    devices, draw = together + _OTHERS, np.random.default_rng(0)
    states, first = [NO_STATE, NO_STATE], draw.normal(size=size).astype(np.float32)
    models = [[first], [first]]
    for k in range(_ROUNDS):
        group = sorted((1 + draw.choice(devices, together, replace=False)).tolist())
        ages = [(n + k) % (min(oldest, k) + 1) for n in group]
        updates = draw.normal(size=(together, size)).astype(np.float32)
        mean = updates.mean(axis=0, dtype=np.float64).astype(np.float32)
        for i, sent in enumerate(([*updates], [mean] * together)):
            told = [
                Contribution(
                    *(update, age, models[i][k - age], n, k, held[n % 2]),
                    devices=devices,
                    uplink=Reception(k, 1 + n % 3, float(n % 7), 32 * size, float(1 + n % 5)),
                )
                for n, age, update in zip(group, ages, sent, strict=True)
            ]
            try:
                model, states[i] = next_model(rule, models[i][k], told, states[i])
            except UserError:
                return False
            models[i].append(model)
    pairs = zip(models[0], models[1], strict=True)
    return all(np.allclose(one, other, rtol=_TOLERANCE, atol=_TOLERANCE) for one, other in pairs)
