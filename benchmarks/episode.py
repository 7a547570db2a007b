"""How many decisions an Episode takes in a second, without training.

Agents that look at more and more of what is known: only who waits; ages and channel as arrays; all that a
selection sees. An async episode of 100 devices, group size 10, over fixed slots and over a fading link.

    python benchmarks/episode.py [--json] [--repeats 5]

Fails (exit code 1) if an agent that reads who waits, ages and channel takes fewer than 20,000 decisions a
second of processor time over fixed slots.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np

from slotwise import Episode, Scenario, Setting
from slotwise.schedule import Link

SCENARIO, ROUNDS = Scenario(devices=100, group_size=10, compute_slots=50), 1_000
REQUIRED = 20_000  # decisions a second

Agent = Callable[[Episode], int]


def first(episode: Episode) -> int:
    """Name the first that waits."""
    assert episode.decision is not None
    return episode.decision.allowed[0]


def by_arrays(episode: Episode) -> int:
    """Name the oldest, and of equally old ones the one with the best channel."""
    assert episode.decision is not None
    waiting = np.array(episode.decision.allowed)
    score = 1_000 * episode.ages + episode.snr_db
    return int(waiting[score[waiting - 1].argmax()])


def by_waiting(episode: Episode) -> int:
    """Name the oldest, from what a selection sees."""
    assert episode.decision is not None
    return max(episode.decision.waiting, key=lambda one: (one.age, one.snr_db)).device


AGENTS: dict[str, Agent] = {"who waits": first, "arrays": by_arrays, "selection": by_waiting}


def seconds(agent: Agent, link: Link | None) -> float:
    """Return the processor time of one episode."""
    began = time.process_time()
    episode = Episode(SCENARIO, "async", rounds=ROUNDS, link=link)
    while episode.decision is not None:
        episode.answer(agent(episode))
    assert len(episode.answers) == ROUNDS * SCENARIO.group_size
    return time.process_time() - began


def main() -> int:
    """Measure, print, and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    radio = {"radio_link": "rate-adaptive", "radio_bits": 200_000, "radio_broadcast_bits": 200_000}
    fading = Setting.from_options({"devices": SCENARIO.devices, **radio}).make_link()
    links: dict[str, Link | None] = {"fixed slots": None, "fading": fading}
    speeds: dict[str, int] = {}
    for channel, link in links.items():
        for name, agent in AGENTS.items():
            each = statistics.median(seconds(agent, link) for _ in range(arguments.repeats))
            speeds[f"{channel}, {name}"] = round(ROUNDS * SCENARIO.group_size / each)
    print(json.dumps(speeds) if arguments.json else "\n".join(f"{k:25} {v:>9,}/s" for k, v in speeds.items()))
    return 0 if speeds["fixed slots, arrays"] >= REQUIRED else 1


if __name__ == "__main__":
    sys.exit(main())
