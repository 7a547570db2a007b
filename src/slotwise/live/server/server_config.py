"""ServerConfig: the options of a live server; and the plan that a configuration gives for a live run."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import inf
from typing import Any

from slotwise.aggregation.norm_bound import ClipNorm, check_clip_norm
from slotwise.errors import InputError, NoEffectError
from slotwise.fleet import Retransmission
from slotwise.live.protocol import DEFAULT_NAME, MAX_DEVICES, Topics
from slotwise.live.transport.broker import DEFAULT_LISTEN, listen_address
from slotwise.options import names_of
from slotwise.runs import RunConfig
from slotwise.runs.session import SECONDS_BETWEEN_CHECKPOINTS, check_interval
from slotwise.scenario import checked, whole
from slotwise.schedule import Scheduler, Timeline, ready_policy, scheduler_for

SIMULATED_FAULTS = (
    *("jitter", "uplink_loss", "device_uplink_loss", "absences", "mean_present", "mean_away"),
    *("battery_joules", "device_battery_joules"),
)
# Options that a resumed run keeps.
KEPT = (
    "name",
    "timeout",
    "longest_training",
    "cool_down",
    "clip_norm",
    "slot_ms",
    "retransmission",
    "packet_kib",
)
# Groups of options that decide what a device trains; and the options that devices of protocol 1 know.
TRAINED_GROUPS = ("dataset", "model", "training")
FIRST_OPTIONS = frozenset(
    (
        *("devices", "group_size", "compute_slots", "link_slots", "deadline", "bits"),
        *("data", "partition", "samples_per_device", "sample_skew", "device_samples", "labels_per_device"),
        *("concentration", "input_scale", "data_seed", "data_folder", "folder_shape", "folder_classes"),
        *("task", "network", "channels", "hidden", "backend", "model_seed"),
        *("local_steps", "batch_size", "learning_rate", "update", "optimizer", "momentum", "beta1", "beta2"),
        *("epsilon", "weight_decay", "gradient_clip", "proximal", "rate_decay", "rate_unit", "rate_period"),
        *("local_step", "seed"),
    )
)
SMALLEST_PACKET, LARGEST_PACKET = 16, 256 << 10  # KiB; MQTT allows no larger ones


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
        longest_training: Seconds after which a training is given up though the device confirms that it
            computes. Default: 10 times the median of its trainings, at least 5 timeouts; 20 timeouts for
            its first. Not with slot_ms, where a device is given up after the timeout.
        cool_down: Seconds in which one penalty point expires; a bad update costs a point, a long wait one
            for each timeout, and a device is excluded while it has 3, until it has 2. Default: 20 timeouts.
        clip_norm: Largest L2 norm of an update; longer ones are scaled down to it: a number, off, or auto,
            which is 3 times the median of the updates of this round and the 10 before, or twice for a device
            that has just sent a long one.
        retransmission: When an update that did not arrive is sent again: next-turn, at-once, or never
            (erasure).
        checkpoint_every: Seconds between checkpoints, the most work a crash can lose; 0: after every round.
        packet_kib: Largest packet that the broker accepts, in KiB. Longer models and updates are sent in
            parts, and a transfer that is interrupted goes on where it was.
    """

    name: str = DEFAULT_NAME
    listen: str = DEFAULT_LISTEN
    slot_ms: float | None = None
    wait: float = 3600.0
    timeout: float = 60.0
    longest_training: float | None = None
    cool_down: float | None = None
    clip_norm: ClipNorm = "auto"
    retransmission: Retransmission = "next-turn"
    checkpoint_every: float = SECONDS_BETWEEN_CHECKPOINTS
    packet_kib: int = 1024  # the default of EMQX; mosquitto has no limit of its own

    def __post_init__(self) -> None:
        Topics(self.name)
        listen_address(self.listen)
        check_interval(self.checkpoint_every)
        check_clip_norm(self.clip_norm)
        whole("packet_kib", self.packet_kib, SMALLEST_PACKET, LARGEST_PACKET)
        checked("retransmission", self.retransmission, Retransmission)
        if self.slot_ms is not None and not 0 < self.slot_ms < 1e9:
            raise InputError("slot_ms", self.slot_ms, "a number of milliseconds above 0 and below a billion")
        for name in ("timeout", "wait", "longest_training", "cool_down"):
            value = getattr(self, name)
            if value is not None and not 0 < value < inf:
                raise InputError(name, value, "a finite number above 0")
        if self.longest_training is not None and self.slot_ms is not None:
            reason = "with slot_ms: a device that is late for the timeout is given up"
            raise NoEffectError("longest_training", self.longest_training, reason)

    def kept(self) -> dict[str, Any]:
        """Return the options that a resumed run keeps, as run.json has them."""
        return {name: getattr(self, name) for name in KEPT}


def live_plan(config: RunConfig) -> Timeline:
    """Return the plan of a live run, or raise an InputError if the configuration simulates faults."""
    options = config.options()
    for name in SIMULATED_FAULTS:
        if options[name]:
            raise InputError(name, options[name], "omitted: in a live run, faults are real")
    if config.model.not_live:
        raise InputError(config.model.chosen_by, options[config.model.chosen_by], config.model.not_live)
    if config.channel.devices > MAX_DEVICES:
        raise InputError("devices", config.channel.devices, f"at most {MAX_DEVICES:,} in a live run")
    if config.channel.sub_channels > 1:
        raise InputError("sub_channels", config.channel.sub_channels, "1: a live server has one channel")
    if config.attackers():
        raise InputError("attack", options["attack"], "none: only a simulation has attackers")
    if config.radio.radio_link == "fixed-rate":
        raise InputError("radio_link", "fixed-rate", "rate-adaptive: in a live run, losses are real")
    plan = config.simulate()
    if config.radio.radio_link is not None and len(plan.lost):
        given, lost = config.radio.radio_give_up_slots, f"{len(plan.lost):,} uplinks would be given up"
        raise InputError("radio_give_up_slots", given, f"larger: {lost}, and in a live run losses are real")
    return plan


def live_scheduler(
    config: RunConfig, retransmission: Retransmission = "next-turn", absent: Collection[int] = ()
) -> Scheduler:
    """Return the Scheduler of the plan; the run may begin without some of the devices."""
    policy, fleet = ready_policy(config.policy, config.seed), config.make_fleet()
    return scheduler_for(
        config.channel,
        policy,
        fleet=fleet,
        link=config.make_link(),
        retransmission=retransmission,
        absent=absent,
    )


def options_for_devices(config: RunConfig) -> dict[str, Any]:
    """Return the options of a run that devices are told: those that decide what they train.

    The options of the first protocol are always among them, later ones only if they are not at their
    defaults: a device of an earlier version does not know them, and need not as long as they are not used.
    Devices take no code from the network, so ``task`` has no value.
    """
    options, changed = config.options(), config.changed_options()
    concerned = names_of(RunConfig, *TRAINED_GROUPS)
    told = {*FIRST_OPTIONS, *(name for name in changed if name in concerned)}
    kept = {name: value for name, value in options.items() if name in told and not isinstance(value, dict)}
    return kept | {"task": None}
