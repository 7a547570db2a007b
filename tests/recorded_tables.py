"""Random tables of options, and what becomes of them: a hash of the timeline, the whole table, or a refusal.

`python tests/recorded_tables.py` writes recorded_tables.json from the code as it is; the file is written only
when results are meant to change.
"""

import hashlib
import json
import random
from pathlib import Path
from typing import Any

import llvmlite.binding

from slotwise.base.errors import UserError
from slotwise.runs import RunConfig
from slotwise.schedule import ready_policy, simulate

FILE = Path(__file__).with_suffix(".json")
SEED = 20_260
COLUMNS = (
    "round",
    "device",
    "version",
    "start",
    "end",
    "broadcast_start",
    "broadcast_end",
    "receiver",
    "lost",
)
SELECTIONS = ("first-ready", "round-robin", "random", "largest-age", "shortest-uplink")
FADING: list[dict[str, Any]] = [
    {"radio_fading": "none"},
    {"radio_fading": "rayleigh", "radio_coherence_slots": 3},
    {"radio_fading": "rician", "radio_rician_k_db": 3.0},
    {"radio_fading": "nakagami", "radio_nakagami_m": 1.5},
]
LINKS: list[dict[str, Any]] = [
    {},
    {"uplink_loss": 0.2},
    {"uplink_loss": 0.3, "retransmission": "at-once"},
    {"uplink_loss": 0.1, "retransmission": "erasure"},
    {"link_distribution": "uniform:1:3"},
    {"radio_link": "rate-adaptive", "radio_bits": 200_000, "radio_broadcast_bits": 400_000},
    {"radio_link": "fixed-rate", "radio_threshold_db": 5.0},
]
FLEETS: list[dict[str, Any]] = [
    {},
    {"compute_distribution": "uniform:2:9"},
    {"compute_distribution": "two-classes:3:12:0.3", "jitter": 0.2},
    {"mean_present": 60.0, "mean_away": 20.0},
    {"battery_joules": 30.0, "computing_joules": 1.0, "sending_joules": 2.0, "harvest_joules": 1.5},
]
LEARNING: list[dict[str, Any]] = [
    {},
    {"aggregation": "fedavgm", "server_momentum": 0.5},
    {"aggregation": "fedasync", "discount": "hinge", "discount_grace": 2.0},
    {"aggregation": "fedadam", "adaptive_rate": 0.1},
    {"attack": "noise", "attack_share": 0.5, "attack_scale": 3.0},
    {"partition": "k-labels", "labels_per_device": 3},
    {"partition": "dirichlet", "concentration": 0.3, "sample_skew": 2.0},
    {"network": "mlp", "hidden": [8]},
    {"network": "cnn-dropout", "channels": [2, 3]},
    {"optimizer": "adam", "beta1": 0.8},
    {"rate_decay": "cosine", "rate_period": 40, "momentum": 0.5},
    {"bits": 8, "gradient_clip": 1.0},
    {"data": "cifar10", "devices": 20},
]
# Values that no option accepts, beside those that only some do.
BAD: tuple[Any, ...] = (-1, 0, 1.5, 10**12, "nonsense", None, True, float("nan"), [], [1.5], {"a": 1})


def case(draw: random.Random) -> dict[str, Any]:
    """Return a small setting; some are impossible, and their refusals are recorded too."""
    devices = draw.randint(2, 12)
    schedule = draw.choice(("sync", "async", "idfl"))
    options: dict[str, Any] = {
        "devices": devices,
        "group_size": draw.randint(1, devices),
        "compute_slots": draw.randint(1, 9),
        "deadline": draw.randint(60, 400),
        "schedule": schedule,
        "seed": draw.randint(0, 5),
        **draw.choice(FLEETS),
        **draw.choice(LINKS),
    }
    if "compute_distribution" in options:
        del options["compute_slots"]
    if "radio_link" in options:
        options |= draw.choice(FADING)
        if draw.random() < 0.3:
            options |= {"radio_placement": "ring", "radio_radius_m": 300.0}
        options["selection"] = draw.choice((*SELECTIONS, "best-channel", "proportional-fair"))
    elif draw.random() < 0.4:
        options["selection"] = draw.choice(SELECTIONS)
    if schedule == "idfl" and draw.random() < 0.4:
        options["delay"] = draw.randint(0, 3)
    if schedule == "sync" and draw.random() < 0.5:
        options["participation"] = draw.choice(("random", "largest-age", "shortest-uplink"))
    if draw.random() < 0.2:
        options["sub_channels"] = draw.randint(2, 3)
    return options


def mistake(draw: random.Random, names: list[str]) -> dict[str, Any]:
    """Return one option with a value that it probably does not accept, in an otherwise small setting."""
    chosen = {
        **draw.choice(LEARNING),
        **draw.choice(({}, {"radio_link": "rate-adaptive"}, {"schedule": "sync"})),
    }
    return {**chosen, draw.choice(names): draw.choice(BAD)}


def outcome(options: dict[str, Any], *, events: bool = False) -> str:
    """Return the sha256 of the timeline of some options, or the type and parameter of the refusal."""

    try:
        config = RunConfig.from_options(options)
        timeline = config.simulate()
        if events:
            policy = _policy(config)
            timeline = simulate(
                config.channel,
                policy,
                fleet=config.make_fleet(),
                link=config.make_link(),
                event_by_event=True,
            )
    except UserError as error:
        return refusal(error)
    digest = hashlib.sha256(f"{timeline.schedule} {timeline.delay}".encode())
    for name in COLUMNS:
        digest.update(getattr(timeline, name).astype("<i8").tobytes())
    return digest.hexdigest()


def _policy(config: RunConfig) -> Any:

    return ready_policy(config.policy, config.seed)


def refusal(error: UserError) -> str:
    """Return the type and the parameter of a refusal."""
    return f"{type(error).__name__} {getattr(error, 'parameter', '')}".strip()


def whole_table(options: dict[str, Any]) -> dict[str, Any] | str:
    """Return the options of the configuration that have an effect, or the refusal."""
    try:
        return json.loads(json.dumps(RunConfig.from_options(options).options()))  # type: ignore[no-any-return]
    except UserError as error:
        return refusal(error)


def record() -> dict[str, Any]:
    """Return everything that the test compares."""
    draw = random.Random(SEED)
    timelines = [case(draw) for _ in range(300)]
    tables = [{**case(draw), **draw.choice(LEARNING)} for _ in range(100)]
    names = sorted(RunConfig().options())
    mistakes = [mistake(draw, names) for _ in range(300)]
    return {
        "cpu": llvmlite.binding.get_host_cpu_name(),
        "timelines": [[options, outcome(options)] for options in timelines],
        "tables": [[options, whole_table(options)] for options in tables],
        "refusals": [[options, outcome(options)] for options in mistakes],
    }


if __name__ == "__main__":
    FILE.write_text(json.dumps(record(), indent=None, separators=(",", ":")).replace("],[{", "],\n[{") + "\n")
