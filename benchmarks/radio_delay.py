"""Measure what just-in-time delivery keeps over fading channels, where durations are not known in advance.

Without radio the plan is exact: no round is lost, and no update gets older. Over a radio link it assumes a
quantile of the random durations. For each quantile this prints the rounds that are left, in per cent of those
without delay, and the mean staleness; "known" is the staleness of a server that knew all durations before.
A second table has selections by channel, which need devices that wait: rounds and mean staleness of fixed
delays, and of just-in-time delivery.

    python benchmarks/radio_delay.py
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np

from slotwise.runs import RunConfig
from slotwise.schedule import Timeline
from slotwise.schedule.just_in_time import just_in_time

CASES = {
    "fading by slot": {},
    "blocks of 10 slots": {"radio_coherence_slots": 10},
    "blocks of 100 slots": {"radio_coherence_slots": 100},
    "Rician, K = 6 dB": {"radio_fading": "rician"},
    "shadowing of 8 dB": {"radio_shadowing_db": 8.0},
    "no fading": {"radio_fading": "none"},
}
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
SELECTED, DELAYS = ("first-ready", "proportional-fair", "best-channel"), (0, 2, 4, 6, 7, 8, "auto")
SEEDS = range(3)
COMMON = {"deadline": 20_000, "group_size": 10, "radio_link": "rate-adaptive"}


def timelines(case: dict[str, object], schedule: str, **more: object) -> Iterator[Timeline]:
    """Yield the timeline of each seed."""
    for seed in SEEDS:
        options = {**COMMON, **case, "schedule": schedule, "seed": seed, **more}
        yield RunConfig.from_options(options).simulate()


def mean_figures(found: Iterator[Timeline]) -> tuple[float, float]:
    """Return the rounds and the staleness, each the mean of the seeds."""
    rounds, staleness = zip(*((one.rounds, one.mean_staleness()) for one in found), strict=True)
    return float(np.mean(rounds)), float(np.mean(staleness))


def known(plain: Timeline) -> float:
    """Return the mean staleness of just-in-time delivery on the schedule that happens."""
    slots = [plain.scenario.compute_slots] * plain.scenario.devices
    # Receivers of the last rounds have not sent yet, so nobody knows when they need a model.
    whole = just_in_time(plain, slots, plain.rounds)
    return whole.first(plain.rounds - 2 * plain.scenario.groups).mean_staleness()


def print_quantiles() -> None:
    """Print what just-in-time delivery keeps, by quantile."""
    heads = "".join(f"{f'q = {q}':>16}" for q in QUANTILES)
    print(f"{'':22}{'async':>14}{'known':>8}{heads}")
    print(f"{'':22}{'rounds  stale':>14}{'stale':>8}{'rounds  stale'.rjust(16) * len(QUANTILES)}")
    for name, case in CASES.items():
        plain = list(timelines(case, "async"))
        rounds, stale = mean_figures(iter(plain))
        line = f"{name:22}{rounds:>7,.0f}{stale:>7.2f}{np.mean([*map(known, plain)]):>8.2f}"
        for quantile in QUANTILES:
            kept, stale = mean_figures(timelines(case, "idfl", radio_quantile=quantile))
            line += f"{kept / rounds:>9.1%}{stale:>7.2f}"
        print(line, flush=True)


def print_selections() -> None:
    """Print rounds and staleness of selections, by delay, in blocks of 10 slots."""
    print(f"{'':22}" + "".join(f"{f'delay {delay}':>16}" for delay in DELAYS))
    for selection in SELECTED:
        line = f"{selection:22}"
        for delay in DELAYS:
            options = {"selection": selection, "delay": delay, "radio_coherence_slots": 10}
            rounds, stale = mean_figures(timelines(options, "idfl"))
            line += f"{rounds:>9,.0f}{stale:>7.2f}"
        print(line, flush=True)


def main() -> None:
    """Print both tables."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    print_quantiles()
    print()
    print_selections()


if __name__ == "__main__":
    main()
