"""RunConfig: everything that decides the result of a run: a setting and the parts of learning.

Every option of a run is declared once, as a field of one of the values that RunConfig is made of. The fields
have names of their own, so a configuration is also a flat table of options: that is how run.json, TOML files
and the command line write it.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_args, get_origin

from slotwise.aggregation import RULE, RuleChoice, UplinkRadio, check_group_sizes, mean, message_parts
from slotwise.base.errors import ConflictError, InputError
from slotwise.data import FACTS, DataFolder, DataOptions, PartitionedData
from slotwise.data.hub_data import HubData
from slotwise.data.npz_folder import input_type
from slotwise.fastcnn.architecture import Architecture
from slotwise.fleet import Devices
from slotwise.fleet.fleet_file import FleetFile
from slotwise.fleet.window_file import FrameFile, WindowFile
from slotwise.learning.attack import AttackChoice, NoAttack
from slotwise.learning.compression import COMPRESSOR, CompressorChoice, NoCompression, compressor_of
from slotwise.learning.local_training import LocalTraining
from slotwise.learning.models import MODEL, ModelOptions, NetworkModel
from slotwise.learning.networks import Resnet8
from slotwise.learning.own_metric import MetricChoice, NoMetric
from slotwise.learning.quantisation import FEWEST_BITS, UNQUANTISED
from slotwise.learning.target import AtDeadline, EndChoice
from slotwise.learning.task import Task
from slotwise.options import Range, Shorthand, declared, names_of, resolved
from slotwise.options.checks import LARGEST, checked, whole
from slotwise.radio import LINK, RadioOptions
from slotwise.runs.training_work import RunCpu, RunSamplesPerSlot, TrainedData
from slotwise.scenario import parse_sizes
from slotwise.schedule.learned import FIXED, GROUP_RULE, ShrinkWhenStalled
from slotwise.setting import Setting
from slotwise.setting.setting import RENAMED

__all__ = ["RENAMED", "RunConfig"]

# The paper's experiments: what differs from the defaults for each data set.
PAPER_CASES: Mapping[str, Mapping[str, Any]] = {
    "mnist": {},
    "cifar10": {"devices": 20, "group_size": 5, "compute_slots": 4, "deadline": 100_000, "local_steps": 8},
}
TRAINABLE_FOLDER = "one of uint8 images [n, channels, height, width] with labels, or used with your own task"


@dataclass(frozen=True, kw_only=True)
class BitsPerSlot(Shorthand):
    """The rate of the link in bits, from which slots follow by the size of the model.

    Attributes:
        bits_per_slot: Rate of the link: slots of a broadcast and of an uplink in --bits follow from the
            model's size. Instead of --link-slots.
    """

    panel: ClassVar[str] = "channel"
    bits_per_slot: int

    @classmethod
    def replaces(cls) -> Sequence[str]:
        """Return all other options of links."""
        return ("link_slots", *names_of(Devices, "uplinks"), LINK.option)

    def stands_for(self, known: ChainMap[str, Any]) -> dict[str, Any]:
        """Return the slots of a broadcast, and of an uplink if an update has other bits than a model."""
        # Only the model of this configuration is used; a group size of 1 fits any number of devices.
        sized = RunConfig.from_saved({**known.maps[1], **known.maps[0], "group_size": 1})
        rate, (update, model) = whole("bits_per_slot", self.bits_per_slot), sized.message_bits()
        slots = {"link_slots": -(-model // rate)}
        return slots if update == model else slots | {"uplink_slots": -(-update // rate)}


@dataclass(frozen=True, kw_only=True)
class RunConfig(Setting):
    """One training run: a setting with what is trained. The defaults are the MNIST case of the paper.

    Attributes:
        dataset: Data set and its partition.
        model: Network, or your own task.
        training: Local training.
        rule: Aggregation rule: mean, fedavg (weighted by samples), model-average,
            staleness-weighted, fedasync, fedbuff, delay-adaptive, delay-compensated, mifa, fedvarp, ca2fl,
            ace, scaffold, feddyn, fedavgm, fedadam, fedyogi, fedadagrad, trimmed-mean, median, krum,
            multi-krum, norm-clipping, or your own as module:function.
        adversary: Updates of the attackers: sign-flip sends the update times minus the scale, noise sends
            normal random numbers of the scale times the update's size.
        bits: Bits of each number of an update; 32 sends it unchanged.
        compressor: What devices send in place of an update: all of it (none), its largest numbers (top-k),
            some at random (random-k), signs (sign), or your own as module:function.
        evaluate_every: Slots between evaluations, each of which reads all samples of the devices and the test
            set. Default: a hundredth of the deadline.
        metric: A metric of your own, if there is one.
        end: Whether a target ends the run before its deadline.
    """

    shorthands: ClassVar[tuple[type[Shorthand], ...]] = (
        *(BitsPerSlot, FleetFile, WindowFile, FrameFile),
        *(RunSamplesPerSlot, RunCpu),
    )

    dataset: DataOptions = PartitionedData()  # noqa: RUF009
    model: ModelOptions = NetworkModel()  # noqa: RUF009
    training: LocalTraining = LocalTraining()  # noqa: RUF009
    rule: RuleChoice = mean
    adversary: AttackChoice = NoAttack()  # noqa: RUF009
    bits: Annotated[int, Range(least=FEWEST_BITS, most=UNQUANTISED)] = UNQUANTISED
    compressor: CompressorChoice = NoCompression()  # noqa: RUF009
    evaluate_every: Annotated[int, Range(least=1, most=LARGEST)] | None = None
    metric: MetricChoice = NoMetric()  # noqa: RUF009
    end: EndChoice = AtDeadline()  # noqa: RUF009

    def __post_init__(self) -> None:
        self._share_seed()
        super().__post_init__()
        # These are called for their checks: what cannot be built is refused here.
        check_group_sizes(self.rule, self.channel.group_sizes)
        self._check_shrinking()
        if self.access.is_analog and self.bits != UNQUANTISED:
            raise InputError("bits", self.bits, f"{UNQUANTISED} over the air, where numbers are not coded")
        if self.access.is_analog and not isinstance(self.compressor, NoCompression):
            allowed = "none over the air, where whole updates are added"
            raise InputError("compressor", COMPRESSOR.name_of(self.compressor), allowed)
        self.attackers()
        self.dataset.check_devices(self.channel.devices)

    def _check_shrinking(self) -> None:
        """Raise an InputError if groups shrink below what the aggregation rule needs."""
        shrinks = getattr(self.policy, "group_rule", FIXED)
        if not isinstance(shrinks, ShrinkWhenStalled):
            return
        try:
            check_group_sizes(self.rule, [1])
        except InputError:
            allowed = f"{FIXED} with aggregation {RULE.name_of(self.rule)}, which needs larger groups"
            raise InputError("group_rule", GROUP_RULE.name_of(shrinks), allowed) from None

    def _share_seed(self) -> None:
        """Give the setting and the local training the same seed; either may say it."""
        usual, own = type(self).seed, getattr(self.training, "seed", None)
        if own is None or own == self.seed:
            return
        if self.seed == usual:
            object.__setattr__(self, "seed", own)
        elif own == usual:
            object.__setattr__(self, "training", replace(self.training, seed=self.seed))
        else:
            raise InputError("seed", self.seed, f"{own}, as in training, or omitted")

    def without_effect(self) -> dict[str, str]:
        """Return the options that exist but have no effect beside the others, each with the reason."""
        idle, replaced = super().without_effect(), set(self.model.replaces)
        for name, option in declared(RunConfig).items():
            if replaced & {name, option.part} and name != "seed":
                idle[name] = f"with {self.model.chosen_by}"
        if not getattr(self.compressor, "quantises", False):
            idle["bits"] = f"with compressor {COMPRESSOR.name_of(self.compressor)}"
        return idle

    @classmethod
    def from_options(cls, options: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> RunConfig:
        """Build a configuration from a flat table of options, as `Setting.from_options` does."""
        made = super().from_options(options, defaults)
        if "training" in made.model.replaces and options.get("samples_per_slot") is not None:
            # The model alone knows how many samples a training takes.
            raise ConflictError("samples_per_slot", made.model.chosen_by, "give the compute slots instead")
        return made

    @classmethod
    def usual_options(cls, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what differs from the defaults in the paper's case for the data set."""
        return PAPER_CASES.get(str(options.get("data", "mnist")), {})

    @classmethod
    def found_options(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the number of devices that a data folder, a model or a file brings, unless it is given."""
        if options.get("data_folder") is not None:
            folder = DataFolder(data_folder=options["data_folder"])
            return {"devices": options.get("devices", len(folder.device_samples))}
        brought = [number for model in MODEL.classes if (number := model.devices_in(options))]
        return {"devices": options.get("devices", brought[0])} if brought else super().found_options(options)

    @classmethod
    def from_toml(cls, path: Path | str) -> RunConfig:
        """Build a configuration from a TOML file with the names of options or flags."""
        from slotwise.runs.toml_options import read_toml  # noqa: PLC0415  (it needs this module)

        return cls.from_options(read_toml(Path(path)))

    @property
    def data_seed(self) -> int:
        """Random seed of the partition."""
        return self.seed if self.dataset.data_seed is None else self.dataset.data_seed

    @property
    def model_seed(self) -> int:
        """Random seed of the first model."""
        return self.seed if self.model.model_seed is None else self.model.model_seed

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
        parts = message_parts(self.rule)
        sizes = [prod(shape) for shape in network.parameter_shapes] * parts
        update = compressor_of(self.compressor).update_bits(sizes, self.bits)
        return update, parts * network.parameters * UNQUANTISED

    def uplink_radio(self, update_bits: int) -> UplinkRadio:
        """Return what aggregation rules are told of the uplinks, with the bits of an update."""
        _, fleet, link = self.without_learning().ready_parts()
        return UplinkRadio(link, update_bits, self.sending_joules(), fleet.windows, self.seed)

    def with_bits_of(self, task: Task) -> RunConfig:
        """Return the configuration for a task object: its bits over the radio, unless they are given."""
        if not isinstance(self.link, RadioOptions):
            return self
        return replace(self, link=self.link.with_bits(task.update_bits, task.model_bits))

    def device_sizes(self) -> tuple[int, ...]:
        """Return the number of samples of each device; the data are loaded only if they decide it."""
        parts = TrainedData(dataset=self.dataset, training=self.training)
        return parts.device_sizes(self.channel.devices)

    @property
    def steps_per_training(self) -> int:
        """SGD steps of a local training, of a device that holds as many samples as is usual."""
        held = self.dataset.sizes.held(self.channel.devices)
        return self.training.batching.steps(held, self.training.batch_size)

    @property
    def samples_per_training(self) -> int:
        """Samples that a local training processes, of a device that holds as many as is usual."""
        held = self.dataset.sizes.held(self.channel.devices)
        return self.training.batching.processed(held, self.training.batch_size)

    def attackers(self) -> tuple[int, ...]:
        """Return the devices that attack; none without an attack."""
        return self.adversary.attackers(self.channel.devices, self.seed)

    def network(self) -> Architecture | Resnet8:
        """Return the built-in network that is trained, for the images of the data set."""
        facts, folder = self.dataset.facts, self.dataset.data_folder
        shape = self._table_shape() or facts.image_shape
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

    def _table_shape(self) -> tuple[int, int, int] | None:
        """Return the shape of a row of a table of the Hub for a network of dense layers; else None."""
        data = self.dataset.data
        if not isinstance(data, HubData) or len(data.facts.input_shape) != 1:
            return None
        assert isinstance(self.model, NetworkModel)
        if not self.model.network.takes_tables:
            allowed = f"mlp or logistic: {data.title} is a table"
            raise InputError("network", self.model.network_name, allowed)
        if self.model.backend != "torch":
            raise InputError("backend", self.model.backend, f"torch: {data.title} is a table of numbers")
        return (1, 1, *data.facts.input_shape)

    @property
    def slots_between_evaluations(self) -> int:
        """``evaluate_every``, or a hundredth of the deadline: a model is evaluated at most once."""
        from slotwise.learning.engine import evaluation_interval  # noqa: PLC0415  (plans do without)

        return self.evaluate_every or evaluation_interval(self.deadline)


# Options of the paper's cases. It has only equal devices and data, plain SGD, the mean and exact updates.
PAPER_OPTIONS = (
    *("devices", "group_size", "compute_slots", "link_slots", "deadline"),
    *("schedule", "delay", "participation"),
    *("data", "partition", "samples_per_device", "labels_per_device", "concentration", "input_scale"),
    *("network", "channels", "hidden", "backend", "local_steps", "batch_size", "learning_rate", "update"),
    *("seed", "data_seed", "model_seed", "evaluate_every"),
)


def beyond_the_paper() -> tuple[str, ...]:
    """Return the options that are not the paper's and may change a training."""
    return tuple(name for name in declared(RunConfig) if name not in (*PAPER_OPTIONS, "slot_ms"))


def list_depth(name: str) -> int:
    """Return how deep lists are nested in one value of an option; 0 if it is no list."""
    option = declared(RunConfig).get(name)  # a shorthand, or a parameter of a user's function, is none
    hint, depth = None if option is None else option.hint, 0
    while get_origin(hint) is tuple:
        hint, depth = get_args(hint)[0], depth + 1
    return depth


def checked_option(name: str, value: Any) -> Any:
    """Return ``value`` converted to the type of an option, or raise an InputError."""
    option = declared(RunConfig).get(name)
    if option is not None and isinstance(value, str) and option.may_be_text:
        parse_sizes(name, value)
        return value
    if option is None:  # a shorthand, or a parameter of a user's function, which knows its type
        return value
    if option.choice is not None:
        resolved(option.choice, value)
        return value
    return checked(name, value, option.hint)


def is_seed(name: str) -> bool:
    """Return whether an option is a random seed, as seed and data_seed are."""
    return name.rpartition("_")[2] == "seed"


def without_seeds(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options in which the seeds of one curve agree."""
    return {name: value for name, value in options.items() if not is_seed(name)}
