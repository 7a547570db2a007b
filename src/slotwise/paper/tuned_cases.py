"""The methods of the tuned study: what is compared, in parts that can be trained one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

from slotwise.base.errors import InputError
from slotwise.batch.job import free_delay
from slotwise.runs import RunConfig

Options = Mapping[str, Any]


@dataclass(frozen=True)
class Method:
    """A method that is compared: a schedule with a group size, and what else is not the paper's case.

    Attributes:
        name: Name in tables, figures and files.
        family: Methods that differ only in the group size, as in "idfl".
        group_size: S.
        others: Further options, as pairs.
        part: Part of the study that it belongs to.
    """

    name: str
    family: str
    group_size: int
    others: tuple[tuple[str, Any], ...] = ()
    part: str = "schedules"

    @property
    def options(self) -> dict[str, Any]:
        """Options of a run with this method."""
        return {"group_size": self.group_size, **dict(self.others)}

    @cached_property
    def staleness(self) -> int:
        """Rounds between the model that an update was computed from and the one it is applied to."""
        config = RunConfig.from_options(self.options)
        if config.schedule == "sync":
            return 0
        delay = config.options().get("delay", 0)
        known = free_delay(config.channel) if delay == "auto" else delay
        return config.channel.groups - 1 - int(known)


def between_schedules(group_size: int, staleness: Iterable[int], devices: int = 100) -> Iterator[Method]:
    """Yield a method for each staleness: devices wait for a later model by as many rounds as that needs."""
    for rounds in staleness:
        delay = -(-devices // group_size) - 1 - rounds
        others = (("schedule", "idfl"), ("delay", delay))
        yield Method(f"d={rounds} S={group_size}", f"d={rounds}", group_size, others, "delays")


def _schedules(
    schedules: Iterable[str], group_sizes: Iterable[int], part: str = "schedules", **others: Any
) -> Iterator[Method]:
    suffix = "" if part == "schedules" else f" {part}"
    for size, schedule in product(group_sizes, schedules):
        options = (("schedule", schedule), *others.items())
        yield Method(f"{schedule} S={size}{suffix}", schedule, size, options, part)


# What the server does in place of the mean. Momentum lengthens a steady step by 1/(1 - 0.9), which its rate
# undoes; averaged models are evaluated every 503 slots, so that no part of their chains is missed.
RULES: Mapping[str, Options] = {
    "model-average": {"aggregation": "model-average", "evaluate_every": 503},
    "fedavgm": {"aggregation": "fedavgm", "server_rate": 0.1},
    "fedasync": {"aggregation": "fedasync"},
    "fedbuff": {"aggregation": "fedbuff"},
    "steps-over-d": {"aggregation": "delay-adaptive", "delay_threshold": 1.0},
    "delay-compensated": {"aggregation": "delay-compensated"},
    "mifa": {"aggregation": "mifa"},
    "ca2fl": {"aggregation": "ca2fl"},
}


def _remedies(schedules: Iterable[str], group_sizes: Iterable[int]) -> Iterator[Method]:
    for size, schedule, (rule, options) in product(group_sizes, schedules, RULES.items()):
        others = (("schedule", schedule), *options.items())
        yield Method(f"{schedule} S={size} {rule}", f"{schedule} {rule}", size, others, "remedies")


ALL_SCHEDULES, STALE = ("sync", "idfl", "async"), ("idfl", "async")
# In the order of training. At S=50 no delay is free, so idfl is async; at S=100 both are sync.
MAIN_METHODS: tuple[Method, ...] = (
    *_schedules(ALL_SCHEDULES, (5, 10, 1)),
    *_schedules(("sync", "async"), (50,)),
    *_schedules(ALL_SCHEDULES, (25,)),
    *_schedules(("sync",), (100,)),
)
PARTS: Mapping[str, tuple[Method, ...]] = {
    "schedules": MAIN_METHODS,
    "delays": (
        *between_schedules(5, (2, 5, 14)),
        *between_schedules(10, (1, 3, 7)),
        *between_schedules(1, (5, 12, 50)),
    ),
    "remedies": tuple(_remedies(STALE, (5, 10))),
    "iid": tuple(_schedules(ALL_SCHEDULES, (5, 10, 1), "iid", partition="iid")),
    "fast-devices": tuple(_schedules(ALL_SCHEDULES, (5, 10, 1), "fast-devices", compute_slots=2)),
}
USUAL_PARTS = ("schedules", "delays")
METHODS = tuple(method for part in USUAL_PARTS for method in PARTS[part])


def chosen_methods(
    parts: Sequence[str] | None = None, group_sizes: Sequence[int] | None = None
) -> tuple[Method, ...]:
    """Return the methods of some parts and group sizes, in the order given; by default the usual ones.

    Raises:
        InputError: A part that does not exist, or a group size that none of the parts has.
    """
    for part in parts or ():
        if part not in PARTS:
            raise InputError("parts", part, " or ".join(PARTS))
    methods = [method for part in parts or USUAL_PARTS for method in PARTS[part]]
    if group_sizes is None:
        return tuple(methods)
    known = sorted({method.group_size for method in methods})
    for size in group_sizes:
        if size not in known:
            raise InputError("group_sizes", size, " or ".join(map(str, known)))
    places = {part: place for place, part in enumerate(parts or USUAL_PARTS)}
    wanted = (method for method in methods if method.group_size in group_sizes)
    return tuple(sorted(wanted, key=lambda one: (places[one.part], group_sizes.index(one.group_size))))
