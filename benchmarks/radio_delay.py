"""Measure what just-in-time delivery keeps over fading channels, where durations are not known in advance.

Without radio the plan is exact: no round is lost, and no update gets older. Over a radio link it assumes a
quantile of the random durations. For each quantile this prints the rounds that are left, in per cent of those
without delay, and the mean staleness; "known" is the staleness of a server that knew all durations before.

    python benchmarks/radio_delay.py
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from slotwise.runs import RunConfig
from slotwise.schedule import Timeline
from slotwise.schedule.policies.intentional_delay import just_in_time

CASES = {
    "fading by slot": {},
    "blocks of 10 slots": {"radio_coherence_slots": 10},
    "blocks of 100 slots": {"radio_coherence_slots": 100},
    "Rician, K = 6 dB": {"radio_fading": "rician"},
    "shadowing of 8 dB": {"radio_shadowing_db": 8.0},
    "no fading": {"radio_fading": "none"},
}
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
SEEDS = range(3)
COMMON = {"deadline": 20_000, "group_size": 10, "radio_link": "rate-adaptive"}


def timelines(case: dict[str, object], schedule: str, quantile: float = 0.1) -> Iterator[Timeline]:
    """Yield the timeline of each seed."""
    for seed in SEEDS:
        options = {**COMMON, **case, "schedule": schedule, "seed": seed, "radio_quantile": quantile}
        yield RunConfig.from_options(options).simulate()


def known(plain: Timeline) -> float:
    """Return the mean staleness of just-in-time delivery on the schedule that happens."""
    slots = [plain.scenario.compute_slots] * plain.scenario.devices
    # Receivers of the last rounds have not sent yet, so nobody knows when they need a model.
    whole = just_in_time(plain, slots, plain.rounds)
    return whole.first(plain.rounds - 2 * plain.scenario.groups).mean_staleness()


def main() -> None:
    """Print the table."""
    heads = "".join(f"{f'q = {q}':>16}" for q in QUANTILES)
    print(f"{'':22}{'async':>14}{'known':>8}{heads}")
    print(f"{'':22}{'rounds  stale':>14}{'stale':>8}{'rounds  stale'.rjust(16) * len(QUANTILES)}")
    for name, case in CASES.items():
        plain = list(timelines(case, "async"))
        rounds = np.mean([timeline.rounds for timeline in plain])
        stale = np.mean([timeline.mean_staleness() for timeline in plain])
        line = f"{name:22}{rounds:>7,.0f}{stale:>7.2f}{np.mean([*map(known, plain)]):>8.2f}"
        for quantile in QUANTILES:
            delayed = list(timelines(case, "idfl", quantile))
            kept = np.mean([timeline.rounds for timeline in delayed]) / rounds
            stale = np.mean([timeline.mean_staleness() for timeline in delayed])
            line += f"{kept:>9.1%}{stale:>7.2f}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
