"""What was planned and what was measured, side by side."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import Any

from slotwise.live.state import Late, LiveState
from slotwise.runs import RunConfig
from slotwise.schedule import Timeline


@dataclass(frozen=True)
class Figures:
    """Of one timeline.

    Attributes:
        rounds: completed.
        updates: applied.
        lost: uplinks that took the channel in vain.
        mean_staleness: of the updates, in rounds.
        max_staleness: likewise.
        slots: until the last round was complete.
        slots_per_round: mean.
        channel_use: the share of slots in which somebody sends or the server broadcasts.
    """

    rounds: int
    updates: int
    lost: int
    mean_staleness: float
    max_staleness: int
    slots: int
    slots_per_round: float
    channel_use: float

    @classmethod
    def of(cls, timeline: Timeline) -> Figures:
        """Count."""
        lost = timeline.lost
        taken = int((timeline.end - timeline.start).sum() + (lost[:, 4] - lost[:, 3]).sum())
        taken += int((timeline.broadcast_end - timeline.broadcast_start).sum())
        return cls(
            timeline.rounds,
            len(timeline),
            len(lost),
            timeline.mean_staleness(),
            timeline.max_staleness(),
            timeline.last_slot,
            timeline.last_slot / timeline.rounds,
            taken / timeline.last_slot,
        )


@dataclass(frozen=True)
class Comparison:
    """Plan and reality.

    Attributes:
        planned: what `slotwise timeline` shows.
        measured: what happened.
        as_planned: updates of a planned device in its planned round, with the planned staleness.
        first_difference: the first update that was not, in words; None if all were.
        late: how often each device did not keep pace.
        seconds: from the first slot to the last.
        rejected: messages that did not count, by reason.
        slot_ms: milliseconds of a slot; None where a slot takes as long as what happens in it.
    """

    planned: Figures
    measured: Figures
    as_planned: int
    first_difference: str | None
    late: dict[int, int]
    seconds: float
    rejected: dict[str, int]
    slot_ms: float | None = None

    @property
    def round_ms(self) -> tuple[float | None, float]:
        """Milliseconds of a round, planned (if slots have a length) and measured."""
        planned = None if self.slot_ms is None else self.slot_ms * self.planned.slots_per_round
        return planned, 1000 * self.seconds / self.measured.rounds

    def as_dict(self) -> dict[str, Any]:
        """As JSON shows it."""
        return asdict(self)


def measured_timeline(parameters: RunConfig, plan: Timeline, state: LiveState) -> Timeline:
    """What happened on the channel, in the form of a plan."""
    return Timeline.of(parameters.channel, plan.schedule, plan.delay, state.record, plan.fleet)


def compared(
    plan: Timeline, measured: Timeline, state: LiveState, slot_ms: float | None = None
) -> Comparison:
    """Hold what happened against the plan, as far as it went."""
    plan = plan.first(measured.rounds)
    differences = [
        (expected, actual)
        for expected, actual in zip_longest(_updates(plan), _updates(measured))
        if expected != actual
    ]
    late: dict[int, int] = {}
    for entry in state.late:
        late[entry.device] = late.get(entry.device, 0) + 1
    return Comparison(
        Figures.of(plan),
        Figures.of(measured),
        len(set(_updates(plan)) & set(_updates(measured))),
        _in_words(*differences[0], state.late) if differences else None,
        dict(sorted(late.items())),
        state.seconds,
        dict(state.rejected.most_common()),
        slot_ms,
    )


def _updates(timeline: Timeline) -> list[tuple[int, int, int]]:
    columns = (timeline.round, timeline.device, timeline.staleness)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _in_words(
    expected: tuple[int, int, int] | None, actual: tuple[int, int, int] | None, late: list[Late]
) -> str:
    def told(update: tuple[int, int, int] | None) -> str:
        return "nobody" if update is None else f"device {update[1]} with staleness {update[2]}"

    round_number = (expected or actual or (0, 0, 0))[0]
    before = [entry for entry in late if entry.round <= round_number]
    cause = f"; device {before[-1].device} was late with its {before[-1].what}" if before else ""
    return f"round {round_number}: {told(actual)} instead of {told(expected)}{cause}"
