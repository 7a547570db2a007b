"""ServerConfig: the options of a live server; and the plan and the Scheduler of a run's configuration."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import inf
from typing import Any

from slotwise.errors import InputError
from slotwise.live.protocol.topics import DEFAULT_NAME, Topics
from slotwise.live.transport.broker import DEFAULT_LISTEN, listen_address
from slotwise.runs import RunConfig
from slotwise.runs.execution import SECONDS_BETWEEN_CHECKPOINTS, check_interval
from slotwise.schedule import Scheduler, Timeline, scheduler_for

SIMULATED_FAULTS = ("jitter", "loss", "absences", "mean_present")
KEPT = ("name", "timeout", "clip_norm", "slot_ms")  # options that a resumed run keeps


@dataclass(frozen=True, kw_only=True)
class ServerConfig:
    """Options of a live server that do not change the plan.

    Attributes:
        name: Name of the channel on the broker; server and devices must use the same. Default: that of the
            credentials, or trial.
        listen: HOST:PORT where the embedded broker listens if no other broker is given.
        slot_ms: Milliseconds of a slot. Default: a slot lasts until its events have happened.
        wait: Seconds to wait for all devices; then the run starts with those that are connected, at least
            one. A resumed run waits 300 seconds for the devices it had.
        timeout: Seconds after which a device that still computes is asked to confirm it, and counts as
            disconnected if it does not; so does a device that does not send what it was granted.
        clip_norm: Scale down updates with a larger L2 norm than this.
        checkpoint_every: Seconds between checkpoints, the most work a crash can lose; 0: after every round.
    """

    name: str = DEFAULT_NAME
    listen: str = DEFAULT_LISTEN
    slot_ms: float | None = None
    wait: float = 3600.0
    timeout: float = 60.0
    clip_norm: float | None = None
    checkpoint_every: float = SECONDS_BETWEEN_CHECKPOINTS

    def __post_init__(self) -> None:
        Topics(self.name)
        listen_address(self.listen)
        check_interval(self.checkpoint_every)
        if self.slot_ms is not None and not 0 < self.slot_ms < 1e9:
            raise InputError("slot_ms", self.slot_ms, "a number of milliseconds above 0 and below a billion")
        for name in ("timeout", "wait", "clip_norm"):
            value = getattr(self, name)
            if value is not None and not 0 < value < inf:
                raise InputError(name, value, "a finite number above 0")

    def kept(self) -> dict[str, Any]:
        """Return the options that a resumed run keeps, as run.json has them."""
        return {name: getattr(self, name) for name in KEPT}


def live_plan(config: RunConfig) -> Timeline:
    """Return the plan of a live run.

    Raises:
        InputError: the configuration simulates faults.
    """
    options = config.options()
    for name in SIMULATED_FAULTS:
        if options[name]:
            raise InputError(name, options[name], "omitted: in a live run, faults are real")
    return config.simulate()


def live_scheduler(config: RunConfig, absent: Collection[int] = ()) -> Scheduler:
    """Return the Scheduler of the plan; the run may begin without some of the devices."""
    return scheduler_for(
        config.channel,
        config.policy.policy(config.seed),
        fleet=config.make_fleet(),
        absent=absent,
    )
