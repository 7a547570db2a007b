"""RunConfig: everything that decides the result of a run.

Every option of a run is declared once, as a field of one of the classes that RunConfig is made of. The fields
have names of their own, so a configuration is also a flat table of options: that is how run.json, TOML files
and the command line write it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Any, get_args, get_origin

from slotwise.aggregation import RuleChoice, check_group_sizes, mean
from slotwise.data import FACTS, DataFolder, DataOptions, PartitionedData
from slotwise.data.npz_folder import input_type
from slotwise.errors import (
    ConflictError,
    InputError,
    NoEffectError,
    UserError,
    refuse_unknown_name,
)
from slotwise.fleet import Fleet, FleetConfig
from slotwise.fleet.fleet_file import options_of_file
from slotwise.learning.attack import AttackChoice, NoAttack
from slotwise.learning.fastcnn.architecture import Architecture
from slotwise.learning.local_training import LocalTraining
from slotwise.learning.models import MODEL, ModelOptions, NetworkModel
from slotwise.learning.networks import Resnet8
from slotwise.learning.quantisation import FEWEST_BITS, UNQUANTISED, link_slots_of, quantised_bits
from slotwise.learning.task import Task
from slotwise.options import build, declared, found_names, nested, resolved, table_of
from slotwise.radio import LINK, FixedSlots, LinkChoice, RadioOptions, RateAdaptive
from slotwise.radio.placement import read_distances
from slotwise.runs.cpu_options import cpu_options
from slotwise.runs.slot_duration import refuse_other_slot_ms, shared_slot_ms
from slotwise.scenario import (
    Scenario,
    check_fields,
    checked,
    compute_slots,
    option_names,
    parse_group_sizes,
    whole,
)
from slotwise.schedule import (
    POLICY,
    IntentionalDelay,
    Policy,
    PolicyChoice,
    Simulator,
    Synchronous,
    Timeline,
    case_of,
    ready_policy,
    refuse_too_many_uplinks,
    simulate,
    simulator_of,
)
from slotwise.schedule.checked_link import own_link
from slotwise.schedule.link import Link
from slotwise.schedule.selections import SELECTION, shortest_uplink


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One training run. The defaults are the MNIST case of the paper with a group size of 10.

    Attributes:
        channel: Devices and channel.
        policy: The schedule: sync, async, idfl, or your own policy as module:function.
        fleet: How devices differ.
        link: Links over a fading channel: rate-adaptive (an uplink takes the slots until its bits are
            through), fixed-rate (it takes --link-slots and is lost below a threshold), or your own as
            module:function. Default: no radio, and uplinks take fixed slots.
        dataset: Data set and its partition.
        model: Network, or your own task.
        training: Local training, and the seed of everything random.
        rule: Aggregation rule: mean, fedavg (weighted by samples), model-average,
            staleness-weighted, fedasync, fedbuff, delay-adaptive, fedavgm, fedadam, fedyogi, fedadagrad,
            trimmed-mean, median, krum, multi-krum, norm-clipping, or your own as module:function.
        adversary: Updates of the attackers: sign-flip sends the update times minus the scale, noise sends
            normal random numbers of the scale times the update's size.
        bits: Bits of each number of an update; 32 sends it unchanged.
        evaluate_every: Slots between evaluations, each of which reads all samples of the devices and the test
            set. Default: a hundredth of the deadline.
        slot_ms: Milliseconds of a slot, found from the options of a CPU. Only joules depend on it.
    """

    channel: Scenario = Scenario(devices=100, group_size=10, compute_slots=50, deadline=50_000)  # noqa: RUF009
    policy: PolicyChoice = IntentionalDelay()  # noqa: RUF009
    fleet: FleetConfig = FleetConfig()  # noqa: RUF009
    link: LinkChoice = FixedSlots()  # noqa: RUF009
    dataset: DataOptions = PartitionedData()  # noqa: RUF009
    model: ModelOptions = NetworkModel()  # noqa: RUF009
    training: LocalTraining = LocalTraining()  # noqa: RUF009
    rule: RuleChoice = mean
    adversary: AttackChoice = NoAttack()  # noqa: RUF009
    bits: int = UNQUANTISED
    evaluate_every: int | None = None
    slot_ms: float | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        whole("bits", self.bits, FEWEST_BITS, UNQUANTISED)
        if self.evaluate_every is not None:
            whole("evaluate_every", self.evaluate_every)
        if self.slot_ms is not None and not 0 < checked("slot_ms", self.slot_ms, float) < inf:
            raise InputError("slot_ms", self.slot_ms, "a finite number above 0")
        # These are called for their checks: what cannot be built is refused here.
        self.make_fleet()
        for size in self.channel.group_sizes:
            check_group_sizes(self.rule, [size])
        self.attackers()
        self.dataset.check_devices(self.channel.devices)
        self._refuse_unused_with_own_task()
        self._check_link()

    def unused(self) -> dict[str, str]:
        """Return the options that have no effect in this configuration, each with the reason.

        A class of options declares its own in a method of the same name.
        """
        found = self._unused_with_own_task() | self._unused_link() | self._unused_schedule()
        for group in GROUPS:
            part = getattr(self, group)
            found |= part.unused() if hasattr(part, "unused") else {}
        return found

    def _unused_link(self) -> dict[str, str]:
        """Return the options that have no effect with this link, with the reason."""
        found = {}
        if isinstance(self.link, FixedSlots) and not self.fleet.has_losses:
            found["retransmission"] = "without uplink losses"
        if isinstance(self.link, RadioOptions) and self.channel.sub_channels == 1:
            found["radio_band"] = "with one sub-channel"
        if isinstance(self.link, RateAdaptive):
            found |= dict.fromkeys(("link_slots", "uplink_slots"), "with radio_link rate-adaptive")
        elif LINK.is_own(self.link):
            found["uplink_slots"] = "with a link of your own"
        return found

    def _unused_schedule(self) -> dict[str, str]:
        """Return the options that have no effect with the schedule and its group size, with the reason.

        They are refused only where they are given: a search tries other schedules with the same options.
        """
        found = {}
        everyone = min(self.channel.group_sizes) == self.channel.devices
        if isinstance(self.policy, Synchronous) and everyone:
            found["participation"] = "if group_size is the number of devices"
        if isinstance(self.link, RateAdaptive) and not self._plans_uplinks:
            planners = "just-in-time delivery, batteries or shortest-uplink"
            found["radio_quantile"] = f"unless {planners} plan with it"
        return found

    @property
    def _plans_uplinks(self) -> bool:
        """True if anything depends on the slots that an uplink typically takes."""
        policy, fleet = self.policy, self.fleet
        if not isinstance(policy, Policy) or SELECTION.is_own(policy.selection):
            return True
        just_in_time = isinstance(policy, IntentionalDelay) and policy.delay == "auto"
        by_length = shortest_uplink in (policy.selection, getattr(policy, "participation", None))
        paid = fleet.has_batteries and any((fleet.sending_joules, *fleet.device_sending_joules))
        return just_in_time or by_length or paid

    def _check_link(self) -> None:
        """Refuse options that say in another way what the link says, or have no effect with it."""
        if not isinstance(self.link, FixedSlots):
            for name in ("link_distribution", "device_link_slots", "uplink_loss", "device_uplink_loss"):
                if getattr(self.fleet, name):
                    raise ConflictError(name, "radio_link")
        if isinstance(self.link, RadioOptions) and self.link.needs_slot:
            refuse_other_slot_ms(self.slot_ms, self.link.slot_ms)
        table = table_of(self.channel) | table_of(self.fleet) | table_of(self.link, LINK.prefix)
        for name, reason in self._unused_link().items():
            if table[name] != declared(RunConfig)[name].default:
                raise NoEffectError(name, table[name], reason)

    def _refuse_unused_with_own_task(self) -> None:
        unused, usual = self._unused_with_own_task(), declared(RunConfig)
        for name, value in (table_of(self.dataset) | table_of(self.training)).items():
            if name in unused and value != usual[name].default:
                raise NoEffectError(name, value, unused[name])

    def _unused_with_own_task(self) -> dict[str, str]:
        replaced = set(self.model.replaces)
        known = {name: option for name, option in declared(RunConfig).items() if name != "seed"}
        names = [name for name, option in known.items() if replaced & {name, option.part}]
        return dict.fromkeys(names, f"with {self.model.chosen_by}")

    @classmethod
    def from_options(cls, options: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> RunConfig:
        """Build a configuration from a flat table of options.

        Options that are not given come from ``defaults``, or else from the paper's case for the data set; so
        does the group size, or all devices if they are fewer.
        `Shorthand` options may take the place of others. Files are read here and never again. A UserError
        names an option that is unknown, out of its range, in conflict with another or without effect.
        """
        refuse_unknown(options)
        for name in ("compute_slots", "samples_per_slot"):  # one speed of all devices, and
            for other in ("compute_distribution", "device_compute_slots", "fleet_file"):  # one of each
                if options.get(name) is not None and options.get(other):
                    raise ConflictError(name, other)
        shorthand = Shorthand(**{name: options.get(name) for name in SHORTHANDS})
        chosen = {name: value for name, value in options.items() if name not in SHORTHANDS}
        case = PAPER_CASES.get(str(chosen.get("data", "mnist")), {}) if defaults is None else defaults
        # In this order, each step can use what those before have found: the number of devices, the placement,
        # the slots of the link from the size of the network, the fleet, and at last the speed of the CPU.
        chosen |= _devices_of_folder(chosen) | _devices_of_model(chosen) | _devices_of_placement(chosen)
        chosen |= shorthand.link(options, {**case, **chosen})
        chosen |= shorthand.devices(options, chosen)
        slot = shared_slot_ms(options, {**case, **chosen})
        chosen |= {name: value for name, value in slot.items() if name not in SHORTHANDS}
        chosen |= cpu_options({**options, **slot}, {**case, **chosen})
        chosen |= _default_group_size(case, chosen)
        config = cls.from_saved(case).with_options(**chosen)
        # Only now: whether an option has an effect may depend on files and on the case.
        for name, reason in config.unused().items():
            if name in options:
                raise NoEffectError(name, options[name], reason)
        if shorthand.samples_per_slot is None:
            return config
        if "compute_slots" in chosen:
            raise ConflictError("samples_per_slot", "compute_slots")
        if "training" in config.model.replaces:  # it alone knows how many samples a training takes
            other = config.model.chosen_by
            raise ConflictError("samples_per_slot", other, "give the compute slots instead")
        steps, batch = config.training.local_steps, config.training.batch_size
        return config.with_options(compute_slots=compute_slots(steps, batch, shorthand.samples_per_slot))

    @classmethod
    def from_saved(cls, options: Mapping[str, Any]) -> RunConfig:
        """Build a configuration from the table in a run.json, also of an earlier version.

        Options that had another name are renamed; those that were accepted though they have no effect get
        their default values.
        """
        table, known = renamed(options), declared(cls)
        # An error names one option at a time. Each gets its default once, so this ends.
        while True:
            try:
                return build(cls, table, lenient=True)
            except NoEffectError as error:
                table[error.parameter] = known[error.parameter].default

    @classmethod
    def from_toml(cls, path: Path) -> RunConfig:
        """Build a configuration from a TOML file with the names of options or flags."""
        from slotwise.runs.toml_options import read_toml  # noqa: PLC0415  (it needs this module)

        return cls.from_options(read_toml(path))

    def with_options(self, /, **options: Any) -> RunConfig:
        """Return a copy with some options replaced, whichever class declares them."""
        refuse_unknown(options)
        changes = dict(options)
        if "group_size" in changes:  # the later sizes before do not count
            changes.setdefault("group_size_changes", ())
        return build(type(self), changes, start=self)

    def options(self) -> dict[str, Any]:
        """Return the flat table of all options, as run.json has it; ``slot_ms`` only with a CPU."""
        table = table_of(self)
        if self.slot_ms is None:
            del table["slot_ms"]
        return table

    def changed_options(self) -> dict[str, Any]:
        """Return the options that differ from the defaults of `RunConfig`."""
        known = declared(RunConfig)
        return {name: value for name, value in self.options().items() if value != known[name].default}

    @property
    def schedule(self) -> str:
        """The short name of the policy, or module:function of your own."""
        return POLICY.name_of(self.policy) or ""

    @property
    def seed(self) -> int:
        """Random seed of batches, participation and rounding, and by default of fleet, data and model."""
        return self.training.seed

    @property
    def fleet_seed(self) -> int:
        """Random seed of the fleet."""
        return self.seed if self.fleet.fleet_seed is None else self.fleet.fleet_seed

    @property
    def data_seed(self) -> int:
        """Random seed of the partition."""
        return self.seed if self.dataset.data_seed is None else self.dataset.data_seed

    @property
    def model_seed(self) -> int:
        """Random seed of the first model."""
        return self.seed if self.model.model_seed is None else self.model.model_seed

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
    def deadline(self) -> int:
        """Deadline T in slots; a run always has one."""
        return self.channel.deadline or 0

    def make_fleet(self) -> Fleet | None:
        """Return the devices, or None if all are equal and without faults."""
        return None if self.fleet == RunConfig.fleet else self.fleet.fleet(self.channel, self.fleet_seed)

    def make_link(self, channel: Scenario | None = None) -> Link | None:
        """Return the link over the radio or of your own; None if uplinks and broadcasts take fixed slots.

        ``channel`` replaces the run's own devices and channel.
        """
        scenario = channel or self.channel
        if isinstance(self.link, FixedSlots):
            return None
        if not isinstance(self.link, RadioOptions):
            return own_link(LINK, self.link, scenario, self.seed)
        slots = self.fleet.uplink_slots
        return self.radio().link(scenario, seed=self.seed, uplink_slots=slots, until=scenario.deadline)

    def radio(self) -> RadioOptions:
        """Return the link over the radio with the bits of the model, if none are given; there must be one."""
        if not isinstance(self.link, RadioOptions):
            raise InputError("radio_link", LINK.name_of(self.link) or None, "rate-adaptive or fixed-rate")
        return self.link.with_bits(*self.message_bits()) if self.link.lacks_bits else self.link

    @property
    def update_bits(self) -> int | None:
        """Bits of an uplink of adaptive rate; None if the slots of an uplink are fixed."""
        link = self.radio() if isinstance(self.link, RateAdaptive) else None
        return link.bits if isinstance(link, RateAdaptive) else None

    def message_bits(self) -> tuple[int, int]:
        """Return the bits of an update and of a model; your own task is built, and asked for them."""
        return self._message_bits

    @cached_property
    def _message_bits(self) -> tuple[int, int]:
        if self.model.is_own:
            from slotwise.runs.execution import build_task  # noqa: PLC0415  (it imports this module)

            task = build_task(self)
            return task.update_bits, task.model_bits
        network = self.network()
        arrays = len(network.parameter_shapes)
        return quantised_bits(network.parameters, self.bits, arrays), network.parameters * UNQUANTISED

    def with_bits_of(self, task: Task) -> RunConfig:
        """Return the configuration for a task object: its bits over the radio, unless they are given."""
        if not isinstance(self.link, RadioOptions):
            return self
        return replace(self, link=self.link.with_bits(task.update_bits, task.model_bits))

    def attackers(self) -> tuple[int, ...]:
        """Return the devices that attack; none without an attack."""
        return self.adversary.attackers(self.channel.devices, self.seed)

    def simulate(self, rounds: int | None = None) -> Timeline:
        """Return the timeline of the run, or of its first rounds.

        Raises:
            InputError: no round fits, or the timeline would be too long.
        """
        policy, fleet, link = ready_policy(self.policy, self.seed), self.make_fleet(), self.make_link()
        values = case_of(self.channel, fleet, link)
        refuse_too_many_uplinks(self.channel, rounds, values[0], simulator_of(self.channel, policy, *values))
        return simulate(self.channel, policy, rounds=rounds, fleet=fleet, link=link)

    @property
    def simulator(self) -> Simulator:
        """The simulator that makes the timeline of the run."""
        values = case_of(self.channel, self.make_fleet(), self.make_link())
        return simulator_of(self.channel, ready_policy(self.policy, self.seed), *values)

    def network(self) -> Architecture | Resnet8:
        """Return the built-in network that is trained, for the images of the data set."""
        facts, folder, shape = self.dataset.facts, self.dataset.data_folder, self.dataset.facts.image_shape
        if shape is None or facts.classes < 2:
            images = ", ".join(name for name, known in FACTS.items() if known.image_shape)
            known = f"used with a task of your own; built-in networks train {images}"
            if folder is None:
                raise InputError("data", self.dataset.source, known)
            if shape is not None and facts.classes == 1:
                allowed = "one with labels of at least two classes: all labels in its files are 0"
                raise InputError("data_folder", folder, allowed)
            found = f"with inputs {list(facts.input_shape)} and {facts.classes or 'no'} classes"
            raise InputError("data_folder", f"{folder} {found}", TRAINABLE_FOLDER)
        assert isinstance(self.model, NetworkModel)  # a task of the user's has no network that is known here
        try:
            return self.model.network.size(shape, facts.classes)
        except ValueError as error:
            # With inputs of another type no layers would help.
            if folder is not None and (kind := input_type(folder)) != "uint8":
                raise InputError("data_folder", f"{folder} with {kind} inputs", TRAINABLE_FOLDER) from None
            raise InputError("channels", self.model.network.channels, f"fewer layers: {error}") from None

    @property
    def slots_between_evaluations(self) -> int:
        """``evaluate_every``, or a hundredth of the deadline: a model is evaluated at most once."""
        return self.evaluate_every or max(1, self.deadline // EVALUATIONS)


EVALUATIONS = 100  # of a run, by default
# Options of earlier versions and their names now: run.json files may have the old ones.
RENAMED: Mapping[str, str] = {"loss": "uplink_loss"}
# The paper's experiments: what differs from the defaults for each data set.
PAPER_CASES: Mapping[str, Mapping[str, Any]] = {
    "mnist": {},
    "cifar10": {"devices": 20, "group_size": 5, "compute_slots": 4, "deadline": 100_000, "local_steps": 8},
}


@dataclass(frozen=True, kw_only=True)
class Shorthand:
    """Options that stand for others: the speed of a device, the rate of the link, a table of the devices.

    Attributes:
        samples_per_slot: q, a device's speed: compute slots = ceil(H·B/q). Instead of --compute-slots.
        bits_per_slot: Rate of the link: slots of a broadcast and of an uplink in --bits follow from the
            model's size. Instead of --link-slots.
        fleet_file: CSV file with a row for each device: device, compute_slots and optionally link_slots,
            leaves, returns, uplink_loss.
        cycles_per_sample: CPU cycles of one sample: compute slots = ceil(H·B·cycles / (cycles of a slot)),
            with --cpu-ghz and --cpu-slot-ms. Instead of --compute-slots.
        cpu_ghz: Frequency f of the CPU in GHz.
        cpu_slot_ms: Milliseconds of a slot. With a radio link that is --radio-slot-ms, and one is enough.
        cpu_kappa: Effective capacitance: a cycle takes kappa·f² joules, which batteries pay. Instead of
            --computing-joules.
    """

    samples_per_slot: float | None = None
    bits_per_slot: int | None = None
    fleet_file: Path | None = None
    cycles_per_sample: float | None = None
    cpu_ghz: float | None = None
    cpu_slot_ms: float | None = None
    cpu_kappa: float | None = None

    def link(self, options: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, int]:
        """Return the slots of a broadcast in 32 bits and of an uplink in fewer, from ``bits_per_slot``."""
        if self.bits_per_slot is None:
            return {}
        if chosen.get("radio_link") is not None:
            raise ConflictError("bits_per_slot", "radio_link")
        for name in REPLACED_BY["bits_per_slot"]:
            if name in options:
                raise ConflictError("bits_per_slot", name)
        for model in MODEL.classes:
            if model.is_own and options.get(model.chosen_by) is not None:
                raise ConflictError("bits_per_slot", model.chosen_by, "give the slots of the link instead")
        names = ("data", "data_folder", "devices", "network", "channels", "hidden", "backend", "bits")
        given = {name: chosen[name] for name in names if name in chosen}
        # Only the network of this configuration is used; a group size of 1 fits any number of devices.
        sized = RunConfig.from_saved({"group_size": 1, **given})
        network, rate = sized.network(), self.bits_per_slot
        slots = {"link_slots": link_slots_of(network.parameters, UNQUANTISED, rate)}
        if sized.bits != UNQUANTISED:
            arrays = len(network.parameter_shapes)
            slots["uplink_slots"] = link_slots_of(network.parameters, sized.bits, rate, arrays)
        return slots

    def devices(self, options: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
        """Return what ``fleet_file`` says of each device."""
        if self.fleet_file is None:
            return {}
        if not isinstance(self.fleet_file, str | Path):
            raise InputError("fleet_file", self.fleet_file, "the name of a CSV file")
        for name in ("compute_distribution", "link_distribution", "mean_present", "samples_per_slot"):
            if options.get(name) is not None:
                raise ConflictError(name, "fleet_file")
        for name in ("device_compute_slots", "device_link_slots", "absences", "device_uplink_loss"):
            if name in options:
                raise ConflictError("fleet_file", name)
        given = "link_slots" if chosen.get("uplink_slots") is None else "uplink_slots"
        usual = whole(given, chosen.get(given, Scenario.link_slots))
        found = options_of_file(Path(self.fleet_file), link_slots=usual, devices=chosen.get("devices"))
        if found["device_link_slots"] and self.bits_per_slot is not None:
            raise ConflictError("bits_per_slot", "fleet_file", "the file has link slots")
        return found


SHORTHANDS = option_names(Shorthand)
UNGROUPED = ("bits", "evaluate_every", "slot_ms")
GROUPS = tuple(name for name in option_names(RunConfig) if name not in UNGROUPED)
# The options that a shorthand determines.
REPLACED_BY: Mapping[str, tuple[str, ...]] = {
    "samples_per_slot": ("compute_slots",),
    "cycles_per_sample": ("compute_slots", "computing_joules"),
    "bits_per_slot": ("link_slots", "uplink_slots", "link_distribution", "device_link_slots"),
    "data_folder": ("devices", *found_names(DataFolder)),
    "fleet_file": (
        *("devices", "device_compute_slots", "device_link_slots", "absences", "device_uplink_loss"),
        *("compute_distribution", "link_distribution", "mean_present", "mean_away"),
    ),
}
TRAINABLE_FOLDER = "one of uint8 images [n, channels, height, width] with labels, or used with your own task"
# Options of the paper's cases. It has only equal devices and data, plain SGD, the mean and exact updates.
PAPER_OPTIONS = (
    *("devices", "group_size", "compute_slots", "link_slots", "deadline"),
    *("schedule", "delay", "participation"),
    *("data", "partition", "samples_per_device", "labels_per_device", "concentration", "input_scale"),
    *("network", "channels", "hidden", "backend", "local_steps", "batch_size", "learning_rate", "update"),
    *("seed", "data_seed", "model_seed", "evaluate_every"),
)


def _default_group_size(case: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return all devices as the group size, if none was given and they are fewer than the default."""
    devices, usual = chosen.get("devices"), case.get("group_size", RunConfig.channel.group_size)
    if "group_size" in chosen or not isinstance(devices, int) or not isinstance(usual, int):
        return {}
    return {"group_size": devices} if 1 <= devices < usual else {}


def _devices_of_folder(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the number of devices that a data folder has files for, unless it is given."""
    if options.get("data_folder") is None:
        return {}
    folder = DataFolder(data_folder=options["data_folder"])
    return {"devices": options.get("devices", len(folder.device_samples))}


def _devices_of_placement(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the number of devices in a file of their places, unless it is given."""
    path = options.get("radio_placement_file")
    if not isinstance(path, str | Path) or "devices" in options or options.get("radio_link") is None:
        return {}
    return {"devices": len(read_distances(Path(path)))}


def _devices_of_model(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the number of devices that a model brings, unless it is given."""
    found = [number for model in MODEL.classes if (number := model.devices_in(options))]
    return {"devices": options.get("devices", found[0])} if found else {}


def beyond_the_paper() -> tuple[str, ...]:
    """Return the options that are not the paper's and may change a training."""
    return tuple(name for name in declared(RunConfig) if name not in (*PAPER_OPTIONS, "slot_ms"))


def list_depth(name: str) -> int:
    """Return how deep lists are nested in one value of an option; 0 if it is no list."""
    if "." in name or name in SHORTHANDS:  # with a dot: a parameter of a user's function
        return 0
    hint, depth = declared(RunConfig)[name].hint, 0
    while get_origin(hint) is tuple:
        hint, depth = get_args(hint)[0], depth + 1
    return depth


def checked_option(name: str, value: Any) -> Any:
    """Return ``value`` converted to the type of an option, or raise an InputError."""
    if name == "group_size" and isinstance(value, str):
        parse_group_sizes(value)
        return value
    if "." in name:  # a parameter of a user's function, which knows its type
        return value
    option = declared(RunConfig)[name]
    if option.choice is not None:
        resolved(option.choice, value)
        return value
    return checked(name, value, option.hint)


def known_options() -> tuple[str, ...]:
    """Return the names of all options of a run, with shorthands."""
    return (*declared(RunConfig), *SHORTHANDS)


def renamed(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table of options that an earlier version wrote, with the names of today."""
    return {RENAMED.get(name, name): value for name, value in options.items()}


def refuse_unknown(options: Mapping[str, Any]) -> None:
    """Raise a UserError for the first name that is no option of a run."""
    known = known_options()
    for name in nested(options):
        if name in RENAMED:
            raise UserError(f"unknown option {name}: it is now {RENAMED[name]}")
        if "-" in name and (option := name.replace("-", "_")) in known:
            raise UserError(f"unknown option {name}: in Python it is {option}")
        refuse_unknown_name("option", name, known)
