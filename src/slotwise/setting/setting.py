"""Setting: everything that decides a schedule. A run is a setting with the parts of learning.

The fields of the parts have names of their own, so a setting is also a flat table of options: that is how
run.json, TOML files and the command line write it.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from slotwise.base.errors import (
    ConflictError,
    InputError,
    MissingError,
    NoEffectError,
    UserError,
    refuse_unknown_name,
)
from slotwise.fleet import Devices, Fleet
from slotwise.fleet.battery_options import NoBatteries
from slotwise.fleet.devices import EqualUplinks
from slotwise.fleet.fleet_file import FleetFile
from slotwise.fleet.window_file import FrameFile, WindowFile
from slotwise.options import (
    Found,
    Option,
    Range,
    Shorthand,
    blaming,
    build,
    declared,
    expand,
    nested,
    replaced_options,
    table_of,
)
from slotwise.options.checks import LARGEST_SEED, Value
from slotwise.radio import (
    ACCESS,
    LINK,
    AccessChoice,
    FixedSlots,
    LinkChoice,
    RadioLink,
    RadioOptions,
    RateAdaptive,
    Tdma,
)
from slotwise.radio.allocations import ALLOCATION
from slotwise.radio.placement import read_distances
from slotwise.scenario import Scenario
from slotwise.schedule import (
    POLICY,
    FleetLink,
    IntentionalDelay,
    Policy,
    PolicyChoice,
    Simulator,
    Synchronous,
    Timeline,
    ready_policy,
    refuse_too_many_uplinks,
    refuse_windows_on_two_bands,
    simulate,
    simulator_of,
)
from slotwise.schedule.checked_link import own_link
from slotwise.schedule.coverage import Coverage
from slotwise.schedule.decisions import DecisionKind
from slotwise.schedule.learned import FIXED, GROUP_RULE, LearnedParticipants, UpdateNorm
from slotwise.schedule.learning_state import Agent
from slotwise.schedule.link import Link
from slotwise.schedule.selections import SELECTION, shortest_uplink
from slotwise.schedule.simulation import name_of_agent
from slotwise.setting.shorthands import Cpu, SamplesPerSlot, refuse_other_slot_ms

# Options of earlier versions and their names now: run.json files may have the old ones.
RENAMED: Mapping[str, str] = {"loss": "uplink_loss"}


@dataclass(frozen=True, kw_only=True)
class Setting(Value):
    """Devices, channel, link and schedule. The defaults are the MNIST case of the paper.

    Attributes:
        channel: Devices and channel.
        policy: The schedule: sync, async, idfl, or your own policy as module:function.
        fleet: How devices differ.
        link: Links over a fading channel: rate-adaptive (an uplink takes the slots until its bits are
            through), fixed-rate (it takes --link-slots and is lost below a threshold), or your own as
            module:function. Default: no radio, and uplinks take fixed slots.
        access: How devices share the band of their uplinks: tdma (one sends at a time) or, with radio_link
            rate-adaptive, a group of devices at once: ofdma (each on resource blocks of its own), noma (on
            the whole band, with successive interference cancellation) or over-the-air (analog, so that the
            server receives the sum of their updates).
        seed: Random seed of model, partition, batches, participation and fleet.
        slot_ms: Milliseconds of a slot, found from the options of a CPU. Only joules depend on it.
    """

    shorthands: ClassVar[tuple[type[Shorthand], ...]] = (
        *(FleetFile, WindowFile, FrameFile),
        *(SamplesPerSlot, Cpu),
    )

    channel: Scenario = Scenario(devices=100, group_size=10, compute_slots=50, deadline=50_000)  # noqa: RUF009
    policy: PolicyChoice = IntentionalDelay()  # noqa: RUF009
    fleet: Devices = Devices()  # noqa: RUF009
    link: LinkChoice = FixedSlots()  # noqa: RUF009
    access: AccessChoice = Tdma()  # noqa: RUF009
    seed: Annotated[int, Range(least=0, most=LARGEST_SEED)] = 0
    slot_ms: Annotated[float, Range(above=0), Found()] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        fleet = self.make_fleet()  # what cannot be built is refused here
        if fleet.windows is not None and isinstance(self.link, FixedSlots):
            Coverage(fleet.windows, FleetLink.of(self.channel, fleet))  # so are windows that are too short
        elif fleet.windows is not None:
            fleet.windows.refuse_unfit((), 0, known=False)
        self._check_link()
        self._check_participants()
        self._check_group_rule()
        self._check_access(fleet)

    def without_effect(self) -> dict[str, str]:
        """Return the options that exist but have no effect beside the others, each with the reason.

        They are refused where they are given, or differ from their defaults.
        """
        idle: dict[str, str] = {}
        if isinstance(self.link, FixedSlots) and not self.fleet.has_losses:
            idle["retransmission"] = "without uplink losses"
        if isinstance(self.link, RadioOptions) and self.channel.sub_channels == 1:
            idle["radio_band"] = "with one sub-channel"
        if self.access.is_analog:
            idle["radio_give_up_slots"] = "over the air"
        if isinstance(self.link, RateAdaptive):
            idle |= dict.fromkeys(("link_slots", "uplink_slots"), "with radio_link rate-adaptive")
        elif LINK.is_own(self.link):
            idle["uplink_slots"] = "with a link of your own"
        return idle

    def without_effect_here(self) -> dict[str, str]:
        """Return the options without effect with this schedule and group size, each with the reason.

        They are refused only where they are given: a search tries other schedules with the same options.
        """
        idle = replaced_options(self)
        everyone = min(self.channel.group_sizes) == self.channel.devices
        if isinstance(self.policy, Synchronous) and everyone:
            idle["participation"] = "if group_size is the number of devices"
        if isinstance(self.link, RateAdaptive) and not self._plans_uplinks:
            planners = "just-in-time delivery, batteries or shortest-uplink"
            idle["radio_quantile"] = f"unless {planners} plan with it"
        return idle

    @property
    def _plans_uplinks(self) -> bool:
        """True if anything depends on the slots that an uplink typically takes."""
        policy = self.policy
        if not isinstance(policy, Policy) or SELECTION.is_own(policy.selection):
            return True
        just_in_time = isinstance(policy, IntentionalDelay) and policy.delay == "auto"
        by_length = shortest_uplink in (policy.selection, getattr(policy, "participation", None))
        return just_in_time or by_length or self.fleet.pays_for_sending

    def _check_link(self) -> None:
        """Refuse options that say in another way what the link says, or have no effect with it."""
        if not isinstance(self.link, FixedSlots):
            uplinks = self.fleet.uplinks
            own = {} if isinstance(uplinks, EqualUplinks) else table_of(uplinks)
            for name, value in (own | table_of(self.fleet.losses)).items():
                if value:
                    raise ConflictError(name, "radio_link")
        if isinstance(self.link, RadioOptions) and self.link.needs_slot:
            refuse_other_slot_ms(self.slot_ms, self.link.slot_ms)
        self._refuse_idle(self.without_effect())

    def _check_participants(self) -> None:
        """Refuse fewer candidates than participants, and channels as a choice where all are equal."""
        chosen, devices = getattr(self.policy, "participation", None), self.channel.devices
        if isinstance(chosen, LearnedParticipants):
            chosen.refuse_fewer_than(max(self.channel.group_sizes))
        if not isinstance(self.link, FixedSlots) or not isinstance(chosen, UpdateNorm):
            return
        if chosen.norm_candidates < devices:
            equal = f"at least {devices}, or used with a radio link: without one all channels are equal"
            raise InputError("norm_candidates", chosen.norm_candidates, equal)

    def _check_group_rule(self) -> None:
        """Refuse a rule for group sizes that are given."""
        rule = getattr(self.policy, "group_rule", FIXED)
        if rule != FIXED and self.channel.group_size_changes:
            raise InputError("group_rule", GROUP_RULE.name_of(rule), "fixed if group_size has changes")

    def _check_access(self, fleet: Fleet) -> None:
        """Refuse what groups of devices, and uplinks beside a broadcast, are not simulated with."""
        if self.channel.has_full_duplex:
            refuse_windows_on_two_bands(self.channel, fleet)
        if self.access.in_groups:
            name = ACCESS.name_of(self.access)
            if not isinstance(self.link, RateAdaptive):
                raise NoEffectError("access", name, "unless radio_link is rate-adaptive")
            if self.channel.sub_channels > 1:
                raise ConflictError("sub_channels", "access")
            if fleet.windows is not None:
                raise InputError("access", name, "tdma with windows or owned slots of devices")

    def _refuse_idle(self, idle: Mapping[str, str]) -> None:
        """Raise a NoEffectError for an option without effect that differs from its default."""
        table, known = table_of(self), declared(type(self))
        for name, reason in idle.items():
            if name in table and table[name] != known[name].default:
                raise NoEffectError(name, table[name], reason)

    @classmethod
    def from_options(cls, options: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> Self:
        """Build a value from a flat table of options.

        Options that are not given come from ``defaults``, or else from the paper's case for the data set; so
        does the group size, or all devices if they are fewer. `Shorthand` options may take the place of
        others. Files are read here and never again. A UserError names an option that is unknown, out of its
        range, in conflict with another or without effect.
        """
        cls.refuse_unknown(options)
        usual = cls.usual_options(options) if defaults is None else defaults
        given = {**options, **cls.found_options(options)}
        chosen, origin = expand(cls, cls.shorthands, given, usual)
        start = cls.from_saved(usual)
        chosen |= start.fitting_group_size(chosen)
        with blaming(origin, options):
            made = start.with_options(**chosen)
        # Only now: whether an option has an effect may depend on files and on the case.
        for name, reason in (made.without_effect() | made.without_effect_here()).items():
            if name in options and origin.get(name, name) == name:
                raise NoEffectError(name, options[name], reason)
        return made

    @classmethod
    def usual_options(cls, options: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG003
        """Return what differs from the defaults of the class for a case of the paper."""
        return {}

    @classmethod
    def found_options(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the number of devices in a file of their places, unless it is given."""
        path = options.get("radio_placement_file")
        if not isinstance(path, str | Path) or "devices" in options or options.get("radio_link") is None:
            return {}
        return {"devices": len(read_distances(Path(path)))}

    def fitting_group_size(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """Return all devices as the group size, if none was given and they are fewer than the default."""
        devices, usual = chosen.get("devices"), self.channel.group_size
        fits = "group_size" in chosen or not isinstance(devices, int) or not 1 <= devices < usual
        return {} if fits else {"group_size": devices}

    @classmethod
    def from_saved(cls, options: Mapping[str, Any]) -> Self:
        """Build a value from the table in a run.json, also of an earlier version.

        Options that had another name are renamed; those that were accepted though they have no effect get
        their default values.
        """
        table, known = {RENAMED.get(name, name): value for name, value in options.items()}, declared(cls)
        # An error names one option at a time. Each is left out once, so this ends.
        while True:
            try:
                return build(cls, table, lenient=True)
            except NoEffectError as error:
                if error.parameter not in table or error.parameter not in known:
                    raise
                del table[error.parameter]

    def with_options(self, /, **options: Any) -> Self:
        """Return a copy with some options replaced, whichever class declares them."""
        self.refuse_unknown(options)
        known = declared(type(self))
        for name in [name for name in options if name in known and known[name].may_be_text]:
            options.setdefault(f"{name}_changes", ())  # the later sizes before do not count
        return build(type(self), options, start=self)

    @classmethod
    def declared_options(cls) -> Mapping[str, Option]:
        """Return all options, with shorthands."""
        return ChainMap(dict(declared(cls)), *(dict(declared(kind)) for kind in cls.shorthands))

    @classmethod
    def known_options(cls) -> tuple[str, ...]:
        """Return the names of all options, with shorthands."""
        return tuple(cls.declared_options())

    @classmethod
    def refuse_unknown(cls, options: Mapping[str, Any]) -> None:
        """Raise a UserError for the first name that is no option."""
        known = cls.known_options()
        for name in nested(options):
            if name in RENAMED:
                raise UserError(f"unknown option {name}: it is now {RENAMED[name]}")
            if "-" in name and (option := name.replace("-", "_")) in known:
                raise UserError(f"unknown option {name}: in Python it is {option}")
            refuse_unknown_name("option", name, known)

    def options(self) -> dict[str, Any]:
        """Return the flat table of all options, as run.json has it; ``slot_ms`` only with a CPU."""
        table = table_of(self)
        if self.slot_ms is None:
            del table["slot_ms"]
        return table

    def changed_options(self) -> dict[str, Any]:
        """Return the options that differ from the defaults of the class."""
        known = declared(type(self))
        return {name: value for name, value in self.options().items() if value != known[name].default}

    @property
    def schedule(self) -> str:
        """The short name of the policy, or module:function of your own."""
        return POLICY.name_of(self.policy) or ""

    @property
    def fleet_seed(self) -> int:
        """Random seed of the fleet."""
        return self.seed if self.fleet.fleet_seed is None else self.fleet.fleet_seed

    @property
    def schedule_depends_on_seed(self) -> bool:
        """True if another seed may give another schedule; your own policy is called with the seed."""
        if not isinstance(self.policy, Policy) or self.policy.depends_on_seed:
            return True
        drawn = isinstance(self.link, RadioOptions) and self.link.channel.depends_on_seed
        if drawn or LINK.is_own(self.link):
            return True
        return self.fleet.depends_on_seed and self.fleet.fleet_seed is None

    @property
    def decides_by_learning(self) -> bool:
        """True if the schedule depends on what is learned: then it is made while it is trained."""
        return bool(self.agents)

    @property
    def agents(self) -> Mapping[DecisionKind, Agent]:
        """What decides by what is learned: functions of policy and access scheme."""
        return {**ready_policy(self.policy, self.seed).agents, **self.access.agents}

    def name_of_agent(self, kind: DecisionKind) -> tuple[str, str | None]:
        """Return the option that chooses what decides by what is learned, and the name of that."""
        if kind in self.access.agents:
            return ALLOCATION.option, ALLOCATION.name_of(getattr(self.access, ALLOCATION.option))
        return name_of_agent(ready_policy(self.policy, self.seed), kind)

    def without_learning(self) -> Self:
        """Return the setting with a schedule that is known before; itself if its own is."""
        if not self.decides_by_learning:
            return self
        policy = ready_policy(self.policy, self.seed).without_agents()
        return replace(self, policy=policy, access=self.access.without_agents())

    @property
    def deadline(self) -> int:
        """Deadline T in slots; a run always has one."""
        return self.channel.deadline or 0

    def make_fleet(self) -> Fleet:
        """Return the devices: `Fleet.equal` if all are equal and without faults."""
        fleet = self.fleet.fleet(self.channel, self.seed)
        return fleet.of_scenario(self.channel, lossy_link=not isinstance(self.link, FixedSlots))

    def make_link(self, channel: Scenario | None = None, fleet: Fleet | None = None) -> Link:
        """Return the link: of fixed slots, over the radio, or your own.

        ``channel`` and ``fleet`` replace the setting's own channel and devices.
        """
        scenario = channel or self.channel
        if isinstance(self.link, FixedSlots):
            return FleetLink.of(scenario, fleet or self.fleet.fleet(scenario, self.seed))
        if not isinstance(self.link, RadioOptions):
            return own_link(LINK, self.link, scenario, self.seed)
        return self.access.link(self.radio_link(scenario))

    def radio_link(self, channel: Scenario | None = None) -> RadioLink:
        """Return the link over the radio of devices that send alone, whatever the access scheme."""
        scenario, slots = channel or self.channel, self.fleet.uplinks.uplink_slots
        return self.radio().link(scenario, seed=self.seed, uplink_slots=slots, until=scenario.deadline)

    def sending_joules(self) -> tuple[float, ...]:
        """Return the joules of a slot of sending, of all devices or one by one: what their batteries pay.

        Without batteries it is what the radio link radiates, and 0 without that.
        """
        if not isinstance(self.fleet.batteries, NoBatteries):
            return self.fleet.batteries.sending
        if not isinstance(self.link, RadioOptions):
            return (0.0,)
        return (10 ** (self.link.power_dbm / 10) / 1000 * self.link.slot_ms / 1000,)

    def radio(self) -> RadioOptions:
        """Return the link over the radio with the bits of the model, if none are given; there must be one."""
        if not isinstance(self.link, RadioOptions):
            raise InputError("radio_link", LINK.name_of(self.link) or None, "rate-adaptive or fixed-rate")
        return self.link.with_bits(*self.message_bits()) if self.link.lacks_bits else self.link

    def message_bits(self) -> tuple[int, int]:
        """Return the bits of an update and of a model; a setting alone has no model that says them."""
        missing = "radio_broadcast_bits" if getattr(self.link, "bits", None) else "radio_bits"
        raise MissingError(missing, "given: nothing is trained here")

    @property
    def update_bits(self) -> int | None:
        """Bits of an uplink of adaptive rate; None if the slots of an uplink are fixed."""
        link = self.radio() if isinstance(self.link, RateAdaptive) else None
        return link.bits if isinstance(link, RateAdaptive) else None

    def simulate(self, rounds: int | None = None) -> Timeline:
        """Return the timeline, or that of its first rounds.

        Raises:
            InputError: no round fits, or the timeline would be too long.
        """
        policy, fleet, link = self.ready_parts()
        refuse_too_many_uplinks(self.channel, rounds, fleet, simulator_of(self.channel, policy, fleet, link))
        return simulate(self.channel, policy, rounds=rounds, fleet=fleet, link=link)

    @property
    def simulator(self) -> Simulator:
        """The simulator that makes the timeline."""
        return simulator_of(self.channel, *self.ready_parts())

    def ready_parts(self) -> tuple[Policy, Fleet, Link]:
        """Return policy, devices and link as a simulation or a live run uses them."""
        fleet = self.make_fleet()
        return ready_policy(self.policy, self.seed), fleet, self.make_link(fleet=fleet)
