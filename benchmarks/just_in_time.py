"""What just-in-time delivery is worth on random fleets, with and without faults, against asynchronous FL.

The table in docs/just-in-time.md.

    python benchmarks/just_in_time.py [--fleets 24]
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.table import Table

from slotwise import Scenario, simulate
from slotwise.fleet import Fleet
from slotwise.fleet.distributions import random_absences

DEADLINE = 3_000
FAULTS: dict[str, Callable[[int, int], dict[str, Any]]] = {
    "no faults": lambda devices, seed: {},  # noqa: ARG005
    "jitter 30 %": lambda devices, seed: {"jitter": 0.3},  # noqa: ARG005
    "uplink losses 10 %": lambda devices, seed: {"uplink_loss": 0.1},  # noqa: ARG005
    "absences, a quarter of the time": lambda devices, seed: {
        "absences": random_absences(devices, DEADLINE, mean_present=600, mean_away=200, seed=seed)
    },
}


def case(seed: int) -> tuple[Scenario, Fleet]:
    draw = random.Random(seed)
    devices, size = draw.choice([8, 20, 50]), draw.choice([1, 2, 5])
    speeds = tuple(max(1, int(draw.lognormvariate(2.3, 0.8))) for _ in range(devices))
    scenario = Scenario(devices=devices, group_size=size, compute_slots=10, deadline=DEADLINE)
    return scenario, Fleet(compute_slots=speeds, link_slots=(1,) * devices)


def shares(seed: int, faults: Callable[[int, int], dict[str, Any]]) -> tuple[float, float]:
    """Rounds and mean staleness of just-in-time delivery, as shares of asynchronous FL's."""
    scenario, fleet = case(seed)
    fleet = replace(fleet, **faults(scenario.devices, seed))
    plain, planned = (simulate(scenario, schedule, fleet=fleet) for schedule in ("async", "idfl"))
    return planned.rounds / plain.rounds, planned.mean_staleness() / (plain.mean_staleness() or 1)


def words(numbers: Sequence[float], worst: Callable[[Sequence[float]], float]) -> str:
    return f"{statistics.mean(numbers):.1%} ({worst(numbers):.1%})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fleets", type=int, default=24, help="random fleets per row (default 24)")
    fleets = parser.parse_args().fleets
    shown = Table("", "rounds kept, mean (worst)", "mean staleness, mean (worst)")
    for name, faults in FAULTS.items():
        rounds, staleness = zip(*(shares(seed, faults) for seed in range(fleets)), strict=True)
        shown.add_row(name, words(rounds, min), words(staleness, max))
    Console().print(shown)


if __name__ == "__main__":
    main()
