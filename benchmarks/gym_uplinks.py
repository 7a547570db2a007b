"""How many steps slotwise/Uplink-v0 takes in a second: 100 devices, group size 10, one environment.

The agent lets the first device send that waits. Over fixed slots and over a fading link.

    python benchmarks/gym_uplinks.py [--json] [--repeats 5]

Needs the extra gym. Fails (exit code 1) if there are fewer than 20,000 steps a second of processor time over
fixed slots.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Mapping
from typing import Any

COMMON = {"devices": 100, "group_size": 10, "compute_slots": 50, "schedule": "async", "deadline": 20_000}
RADIO = {"radio_link": "rate-adaptive", "radio_bits": 200_000, "radio_broadcast_bits": 200_000}
REQUIRED = 20_000  # steps a second


def speed(options: Mapping[str, Any], seed: int) -> float:
    """Return the steps in a second of one episode."""
    from slotwise.gym import UplinkEnv

    env = UplinkEnv(options)
    _, info = env.reset(seed=seed)
    steps, ended, began = 0, False, time.process_time()
    while not ended:
        _, _, _, ended, info = env.step(info["action_mask"].argmax())
        steps += 1
    return steps / (time.process_time() - began)


def main() -> int:
    """Measure, print, and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    cases = {"fixed slots": COMMON, "fading": COMMON | RADIO}
    speeds = {
        name: round(statistics.median(speed(options, seed) for seed in range(arguments.repeats)))
        for name, options in cases.items()
    }
    print(json.dumps(speeds) if arguments.json else "\n".join(f"{k:12} {v:>8,}/s" for k, v in speeds.items()))
    return 0 if speeds["fixed slots"] >= REQUIRED else 1


if __name__ == "__main__":
    sys.exit(main())
