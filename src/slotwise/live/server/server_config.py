"""ServerConfig: the options of a live server; LivePlan: what a configuration gives for a live run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any

from slotwise.aggregation import device_half
from slotwise.aggregation.norm_bound import ClipNorm, check_clip_norm
from slotwise.base.errors import InputError, MissingError, NoEffectError, UserError
from slotwise.fleet import Retransmission
from slotwise.learning.compression import NoCompression
from slotwise.learning.course import evaluation_rounds
from slotwise.learning.local_training import LocalTraining
from slotwise.live.protocol import DEFAULT_NAME, MAX_DEVICES, TRAINED, Topics
from slotwise.live.slots.frames import SMALLEST_FRAME
from slotwise.live.transport.broker import DEFAULT_LISTEN, listen_address
from slotwise.live.transport.udp_login import parse_group
from slotwise.live.udp.datagrams import BEACON_BYTES, LARGEST_DATAGRAM, SMALLEST_DATAGRAM
from slotwise.options import Range, declared, names_of
from slotwise.options.checks import Value, option_names
from slotwise.options.declarations import declarations, mark_of
from slotwise.runs import RunConfig
from slotwise.runs.decided_run import PolicyAgent
from slotwise.runs.session import SECONDS_BETWEEN_CHECKPOINTS
from slotwise.schedule import Scheduler, Timeline, scheduler_for

SMALLEST_PACKET, LARGEST_PACKET = 16, 256 << 10  # KiB; MQTT allows no larger ones


class Once:
    """Marks an option that a resumed run does not keep."""


class OverUdp:
    """Marks an option that has an effect only with a server on udp://."""


@dataclass(frozen=True, kw_only=True)
class ServerConfig(Value):
    """Options of a live server that do not change the plan.

    Attributes:
        name: Name of the channel on the broker; server and devices must use the same. Default: that of the
            credentials, or trial.
        listen: HOST:PORT where the embedded broker listens if no other broker is given.
        slot_ms: Milliseconds of a slot. Default: a slot lasts until its events have happened.
        wait: Seconds to wait for all devices; then the run starts with those that are connected, at least
            one. A resumed run waits 300 seconds for the devices it had. A broker that cannot be reached is
            waited for as long, and for 60 seconds at most.
        timeout: Seconds after which a device that still computes is asked to confirm it, and counts as
            disconnected if it does not; so does a device that does not send what it was granted.
        longest_training: Seconds after which a training is given up though the device confirms that it
            computes. Default: 10 times the median of its trainings, at least 5 timeouts; for its first, 10
            times that of the other devices, at least a timeout. Not with slot_ms, where a device is given up
            after the timeout.
        cool_down: Seconds in which one penalty point expires; a bad update costs a point, a long wait one
            for each timeout, and a device is excluded while it has 3, until it has 2. Default: 20 timeouts.
        clip_norm: Largest L2 norm of an update; longer ones are scaled down to it: a number, off, or auto,
            which is 4 times the median of the updates of this round and the 10 before, and less for a device
            whose updates together push harder than those of others, or against devices that agree.
        retransmission: When an update that did not arrive is sent again: next-turn, at-once, or never
            (erasure).
        checkpoint_every: Seconds between checkpoints, the most work a crash can lose; 0: after every round.
        packet_kib: Largest packet that the broker accepts, in KiB. Longer models and updates are sent in
            parts, and a transfer that is interrupted goes on where it was.
        frame_bytes: Bytes of a datagram over udp://.
        multicast: Multicast group, ADDRESS[:PORT], to which models are sent over udp:// once for all devices
            that hear it; an address of 239.0.0.0/8, as in 239.255.0.1. Default: a copy for each device.
        grants_ahead: Announce the coming slots in beacons over udp://: devices send in their slots by a slot
            counter, without being asked. Needs slot_ms.
        guard_ms: Guard time with grants_ahead, in milliseconds: how early the first datagram of an update may
            come. Default: a tenth of slot_ms.
    """

    name: str = DEFAULT_NAME
    listen: Annotated[str, Once()] = DEFAULT_LISTEN
    slot_ms: Annotated[float | None, Range(above=0, below=1e9)] = None
    wait: Annotated[float, Range(above=0), Once()] = 3600.0
    timeout: Annotated[float, Range(above=0)] = 60.0
    longest_training: Annotated[float | None, Range(above=0)] = None
    cool_down: Annotated[float | None, Range(above=0)] = None
    clip_norm: ClipNorm = "auto"
    retransmission: Retransmission = "next-turn"
    checkpoint_every: Annotated[float, Range(least=0), Once()] = SECONDS_BETWEEN_CHECKPOINTS
    packet_kib: Annotated[int, Range(SMALLEST_PACKET, LARGEST_PACKET)] = 1024  # EMQX; mosquitto has no limit
    frame_bytes: Annotated[int, Range(SMALLEST_DATAGRAM, LARGEST_DATAGRAM), OverUdp()] = 220
    multicast: Annotated[str | None, OverUdp()] = None
    grants_ahead: Annotated[bool, OverUdp()] = False
    guard_ms: Annotated[float | None, Range(least=0, below=1e9)] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        Topics(self.name)
        listen_address(self.listen)
        check_clip_norm(self.clip_norm)
        if self.multicast is not None:
            parse_group(self.multicast)
        if self.longest_training is not None and self.slot_ms is not None:
            reason = "with slot_ms: a device that is late for the timeout is given up"
            raise NoEffectError("longest_training", self.longest_training, reason)

        self._check_slots()

    def _check_slots(self) -> None:
        """Check the options of grants ahead of time."""
        if not self.grants_ahead:
            if self.guard_ms is not None:
                raise NoEffectError("guard_ms", self.guard_ms, "without grants_ahead")
            return
        if self.slot_ms is None:
            raise MissingError("slot_ms", "the milliseconds of a slot with grants_ahead")
        least = BEACON_BYTES + SMALLEST_FRAME
        if self.frame_bytes < least:
            raise InputError("frame_bytes", self.frame_bytes, f"at least {least} with grants_ahead")

    @property
    def guard(self) -> float:
        """Milliseconds of the guard time of a run with grants ahead."""
        return (self.slot_ms or 0.0) / 10 if self.guard_ms is None else self.guard_ms

    def kept(self) -> dict[str, Any]:
        """Return the options that a resumed run keeps, as run.json has them."""
        once = self.marked(Once)
        return {name: getattr(self, name) for name in option_names(type(self)) if name not in once}

    @classmethod
    def marked(cls, mark: type) -> list[str]:
        """Return the names of the options with a mark."""
        return [known.name for known in declarations(cls) if mark_of(known.marks, mark) is not None]


@dataclass(frozen=True)
class LivePlan:
    """The run that a live server plays: a configuration without simulated faults, and its timeline.

    Attributes:
        config: The configuration.
        timeline: The plan; of a schedule that is decided by what is learned, the one without that.
        agent: Takes the decisions by what is learned, if there are any.
    """

    config: RunConfig
    timeline: Timeline
    agent: PolicyAgent | None = None

    @classmethod
    def of(cls, config: RunConfig) -> LivePlan:
        """Simulate the plan; raise an InputError if the configuration cannot be run on devices."""
        _refuse_faults(config)
        refuse_what_is_only_simulated(config)
        timeline = config.without_learning().simulate()
        if len(timeline.lost):
            lost = f"{len(timeline.lost):,} uplinks would be lost"
            allowed = f"a link that loses none: {lost}, and in a live run losses are real"
            raise InputError("radio_link", config.options()["radio_link"], allowed)
        return cls(config, timeline, PolicyAgent(config) if config.decides_by_learning else None)

    @property
    def wants_losses(self) -> bool:
        """True if decisions may depend on losses, so that devices have to report them."""
        return self.agent is not None and self.agent.sees_losses

    def due(self) -> Collection[int] | int:
        """Return the models to evaluate, or the slots between evaluations if the timeline is not known."""
        every = self.config.slots_between_evaluations
        return evaluation_rounds(self.timeline, every) if self.agent is None else every

    def scheduler(
        self, retransmission: Retransmission = "next-turn", absent: Collection[int] = ()
    ) -> Scheduler:
        """Return the Scheduler of the plan; the run may begin without some of the devices."""
        policy, fleet, link = self.config.ready_parts()
        return scheduler_for(
            self.config.channel,
            policy,
            fleet=fleet,
            link=link,
            retransmission=retransmission,
            absent=absent,
        )

    def options_for_devices(self) -> dict[str, Any]:
        """Return the options of the run that devices are told: those that decide what they train.

        Of the channel and the local training, what differs from the defaults is among them: a device of an
        earlier version does not know later options, and need not as long as they are not used. Devices take
        no code from the network, so ``task`` has no value; the parameters of functions are values.
        """
        options, channel = self.config.options(), self.config.channel
        told = {f.name for f in fields(channel) if getattr(channel, f.name) != f.default}
        told |= {"bits", *names_of(RunConfig, *TRAINED)}
        usual = {name: option.default for name, option in declared(LocalTraining).items() if name != "seed"}
        told -= {name for name, default in usual.items() if options.get(name) == default}
        return {name: value for name, value in options.items() if name in told} | {"task": None}


def refuse_what_is_only_simulated(config: RunConfig) -> None:
    """Raise an InputError for what a server and its devices do not have, on whatever channel."""
    model, scenario, options = config.model, config.channel, config.options()
    if model.not_live:
        raise InputError(model.chosen_by, options[model.chosen_by], model.not_live)
    if scenario.devices > MAX_DEVICES:
        raise InputError("devices", scenario.devices, f"at most {MAX_DEVICES:,} if they are not simulated")
    if scenario.sub_channels > 1:
        raise InputError("sub_channels", scenario.sub_channels, "1: a server has one channel")
    if scenario.has_full_duplex:
        raise InputError("duplex", scenario.duplex, "tdd: a server has one channel")
    if config.access.in_groups:
        raise InputError("access", options["access"], "tdma: a server has one channel")
    if not isinstance(config.compressor, NoCompression):
        allowed = "none: devices of a live run send whole updates, quantised with bits"
        raise InputError("compressor", options["compressor"], allowed)
    if device_half(config.rule) is not None:
        allowed = "a rule of the server alone: devices of a live run keep nothing between trainings"
        raise InputError("aggregation", options["aggregation"], allowed)
    if config.attackers():
        raise InputError("attack", options["attack"], "none: only a simulation has attackers")
    if config.end.target is not None:
        raise InputError("stop_at", str(config.end.target), "omitted: a live run ends at its deadline")


def clip_key(description: Mapping[str, Any]) -> int:
    """Return the secret of the bound on updates from run.json; 0 for runs of earlier builds."""
    return int(description.get("live_key", 0))


def _refuse_faults(config: RunConfig) -> None:
    """Refuse faults of devices, which only a simulation has."""
    fleet = config.make_fleet()
    # Compute slots are the longest there.
    compute, changes = fleet.compute_slots, fleet.compute_changes
    usual = replace(fleet.without_faults(), windows=None, compute_slots=compute, compute_changes=changes)
    options = config.options()
    for name in (f.name for f in fields(fleet) if getattr(fleet, f.name) != getattr(usual, f.name)):
        if options.get(name):
            raise InputError(name, options[name], "omitted: in a live run, faults are real")
        # Drawn or made from other options, such as absences from their mean lengths.
        called = fleet.windows.called if name == "windows" and fleet.windows is not None else name
        raise UserError(
            f"{called} cannot be simulated in a live run, where faults are real: omit their options"
        )
