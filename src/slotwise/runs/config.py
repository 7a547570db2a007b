"""RunConfig: everything that decides the result of a run.

Every option of a run is declared once, as a field of one of the classes that RunConfig is made of. The fields
have names of their own, so a configuration is also a flat table of options: that is how run.json, TOML files
and the command line write it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_origin

from slotwise.aggregation import AggregationConfig
from slotwise.data import IMAGE_SHAPES, DatasetConfig
from slotwise.errors import ConflictError, InputError, UserError
from slotwise.files import load_toml
from slotwise.fleet import Fleet, FleetConfig
from slotwise.fleet.fleet_config import options_of_file
from slotwise.learning.fastcnn.architecture import Architecture
from slotwise.learning.local_sgd import LocalSgd
from slotwise.learning.quantisation import FEWEST_BITS, UNQUANTISED, link_slots_of
from slotwise.option_types import check_fields, checked, field_types, option_names
from slotwise.scenario import Scenario, compute_slots, whole
from slotwise.schedule import PolicyConfig, Timeline, simulate
from slotwise.user_code import is_function_name

Backend = Literal["numba", "torch"]
KERNEL = 5
CLASSES = 10


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The model that is trained.

    Attributes:
        task: Your own task instead of a built-in data set and network: module:function.
        channels: Output channels of the convolutions, each 5×5 with max-pool 2 and relu.
        hidden: Units of the dense layers before the last.
        backend: What computes the network: numba kernels, or PyTorch for the same network.
    """

    task: str | None = None
    channels: tuple[int, ...] = (10, 20)
    hidden: tuple[int, ...] = (50,)
    backend: Backend = "numba"

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("channels", "hidden"):
            for number in getattr(self, name):
                whole(name, number)
        if self.task is not None and not is_function_name(self.task):
            raise InputError("task", self.task, "module:function, as in my_module:make_task")

    def network(self, data: str) -> Architecture:
        """Return the convolutional network for the images of a built-in data set."""
        try:
            return Architecture(
                input_shape=IMAGE_SHAPES[data],
                convolutions=tuple((count, KERNEL) for count in self.channels),
                hidden=self.hidden,
                classes=CLASSES,
            )
        except ValueError as error:
            raise InputError("channels", self.channels, f"fewer layers: {error}") from None


_NO_DIFFERENCES = FleetConfig()


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One training run. The defaults are the MNIST case of the paper with a group size of 10.

    Attributes:
        channel: Devices and channel.
        policy: Schedule and delay.
        fleet: How devices differ.
        dataset: Data set and its partition.
        model: Network, or your own task.
        training: Local training, and the seed of everything random.
        rule: Aggregation rule.
        bits: Bits of each number of an update; 32 sends it unchanged.
        evaluate_every: Slots between evaluations. Default: a hundredth of the deadline, at least 250.
    """

    channel: Scenario = Scenario(devices=100, group_size=10, compute_slots=50, deadline=50_000)  # noqa: RUF009
    policy: PolicyConfig = PolicyConfig()  # noqa: RUF009
    fleet: FleetConfig = FleetConfig()  # noqa: RUF009
    dataset: DatasetConfig = DatasetConfig()  # noqa: RUF009
    model: ModelConfig = ModelConfig()
    training: LocalSgd = LocalSgd()  # noqa: RUF009
    rule: AggregationConfig = AggregationConfig()  # noqa: RUF009
    bits: int = UNQUANTISED
    evaluate_every: int | None = None

    def __post_init__(self) -> None:
        whole("bits", self.bits, FEWEST_BITS, UNQUANTISED)
        if self.evaluate_every is not None:
            whole("evaluate_every", self.evaluate_every)
        self.make_fleet()
        if self.model.task is not None:
            self._refuse_built_in_options()

    @classmethod
    def from_options(cls, options: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> RunConfig:
        """Build a configuration from a flat table of options.

        Options that are not given come from ``defaults``, or else from the paper's case for the data set.
        `Shorthand` options may take the place of others. Files are read here and never again.

        Raises:
            UserError: an option is unknown, out of its range or in conflict with another.
        """
        refuse_unknown(options)
        _refuse_two_speeds(options)
        shorthand = Shorthand(**{name: options.get(name) for name in SHORTHANDS})
        chosen = {name: value for name, value in options.items() if name not in SHORTHANDS}
        case = PAPER_CASES.get(str(chosen.get("data", "mnist")), {}) if defaults is None else defaults
        chosen |= shorthand.link(options, {**case, **chosen})
        chosen |= shorthand.devices(options, chosen)
        config = cls().with_options(**{**case, **chosen})
        return config.with_options(**shorthand.speed(config, chosen))

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> RunConfig:
        """Rebuild a configuration from what `options` returned, or a former version of it."""
        refuse_unknown(table)
        return cls().with_options(**table)

    @classmethod
    def from_toml(cls, path: Path) -> RunConfig:
        """Build a configuration from a TOML file with the names of options or flags."""
        return cls.from_options(read_toml(path))

    def with_options(self, **options: Any) -> RunConfig:
        """Return a copy with some options replaced, whichever class declares them."""
        homes = _homes()
        changes: dict[str, Any] = {}
        nested: dict[str, dict[str, Any]] = {}
        for name, value in options.items():
            if homes[name] is None:
                changes[name] = checked(name, value, field_types(RunConfig)[name])
            else:
                nested.setdefault(str(homes[name]), {})[name] = value
        for home, values in nested.items():
            changes[home] = replace(getattr(self, home), **values)
        return replace(self, **changes) if changes else self

    def options(self) -> dict[str, Any]:
        """Return the flat table of all options, as run.json has it."""
        table: dict[str, Any] = {}
        for name in option_names(RunConfig):
            value = getattr(self, name)
            table |= asdict(value) if name in GROUPS else {name: value}
        return table

    def changed_options(self) -> dict[str, Any]:
        """Return the options that differ from the defaults of `RunConfig`."""
        usual = RunConfig().options()
        return {name: value for name, value in self.options().items() if value != usual[name]}

    @property
    def seed(self) -> int:
        """Random seed of model, partition, batches, participation, rounding and fleet."""
        return self.training.seed

    @property
    def deadline(self) -> int:
        """Deadline T in slots; a run always has one."""
        return self.channel.deadline or 0

    def make_fleet(self) -> Fleet | None:
        """Return the devices, or None if all are equal and without faults."""
        if self.fleet == _NO_DIFFERENCES:
            return None
        return self.fleet.fleet(self.channel, self.seed)

    def simulate(self, rounds: int | None = None) -> Timeline:
        """Return the timeline of the run, or of its first rounds."""
        policy = self.policy.policy(self.seed)
        return simulate(self.channel, policy, rounds=rounds, fleet=self.make_fleet())

    def network(self) -> Architecture:
        """Return the built-in network that is trained."""
        return self.model.network(self.dataset.data)

    @property
    def slots_between_evaluations(self) -> int:
        """``evaluate_every``, or a hundredth of the deadline but not less than 250.

        An evaluation costs as much as a few hundred SGD steps.
        """
        return self.evaluate_every or max(250, self.deadline // 100)

    def _refuse_built_in_options(self) -> None:
        """Refuse options of the built-in data sets and networks next to the user's own task."""
        usual, given = RunConfig().options(), self.options()
        for name in ("data", "input_scale", "channels", "hidden", "backend"):
            if given[name] != usual[name]:
                raise ConflictError(name, "task")


# The paper's experiments: what differs from the defaults for each data set.
PAPER_CASES: Mapping[str, Mapping[str, Any]] = {
    "mnist": {},
    "cifar10": {
        "devices": 20,
        "group_size": 5,
        "compute_slots": 4,
        "deadline": 100_000,
        "local_steps": 8,
    },
}


@dataclass(frozen=True, kw_only=True)
class Shorthand:
    """Options that stand for others: the speed of a device, the rate of the link, a table of the devices.

    Attributes:
        samples_per_slot: q, a device's speed: compute slots = ceil(H·B/q). Instead of --compute-slots.
        bits_per_slot: Rate of the link: slots of a broadcast and of an uplink in --bits follow from the
            model's size. Instead of --link-slots.
        fleet_file: CSV file with a row for each device: device, compute_slots and optionally link_slots,
            leaves, returns.
    """

    samples_per_slot: float | None = None
    bits_per_slot: int | None = None
    fleet_file: Path | None = None

    def speed(self, config: RunConfig, chosen: Mapping[str, Any]) -> dict[str, int]:
        """Return the compute slots that ``samples_per_slot`` stands for."""
        if self.samples_per_slot is None:
            return {}
        if "compute_slots" in chosen:
            raise ConflictError("samples_per_slot", "compute_slots")
        local = config.training
        return {"compute_slots": compute_slots(local.local_steps, local.batch_size, self.samples_per_slot)}

    def link(self, options: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, int]:
        """Return the slots of a broadcast in 32 bits and of an uplink in fewer, from ``bits_per_slot``."""
        rate = self.bits_per_slot
        if rate is None:
            return {}
        for name in REPLACED_BY["bits_per_slot"]:
            if name in options:
                raise ConflictError("bits_per_slot", name)
        if options.get("task") is not None:
            raise ConflictError("bits_per_slot", "task", "use link_slots")
        names = ("data", "channels", "hidden", "bits")
        sized = RunConfig().with_options(**{name: chosen[name] for name in names if name in chosen})
        size, arrays = sized.network().parameters, len(sized.network().parameter_shapes)
        slots = {"link_slots": link_slots_of(size, UNQUANTISED, rate)}
        if sized.bits != UNQUANTISED:
            slots["uplink_slots"] = link_slots_of(size, sized.bits, rate, arrays)
        return slots

    def devices(self, options: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
        """Return what ``fleet_file`` says of each device."""
        path = self.fleet_file
        if path is None:
            return {}
        if not isinstance(path, str | Path):
            raise InputError("fleet_file", path, "the name of a CSV file")
        for name in ("compute_distribution", "link_distribution", "mean_present", "samples_per_slot"):
            if options.get(name) is not None:
                raise ConflictError(name, "fleet_file")
        for name in ("device_compute_slots", "device_link_slots", "absences"):
            if name in options:
                raise ConflictError("fleet_file", name)
        known = "link_slots" if chosen.get("uplink_slots") is None else "uplink_slots"
        usual = whole(known, chosen.get(known, Scenario.link_slots))
        found = options_of_file(Path(path), link_slots=usual, devices=chosen.get("devices"))
        if found["device_link_slots"] and self.bits_per_slot is not None:
            raise ConflictError("bits_per_slot", "fleet_file", "the file has link slots")
        return found


SHORTHANDS = option_names(Shorthand)
GROUPS = tuple(name for name in option_names(RunConfig) if name not in {"bits", "evaluate_every"})
# The options that a shorthand determines.
REPLACED_BY: Mapping[str, tuple[str, ...]] = {
    "samples_per_slot": ("compute_slots",),
    "bits_per_slot": ("link_slots", "uplink_slots", "link_distribution", "device_link_slots"),
    "fleet_file": (
        *("devices", "device_compute_slots", "device_link_slots", "absences"),
        *("compute_distribution", "link_distribution", "mean_present", "mean_away"),
    ),
}
# Options the paper does not have: it has only equal devices, the mean and unquantised updates.
BEYOND_THE_PAPER = (*option_names(FleetConfig), *option_names(AggregationConfig), "selection", "bits", "task")


@cache
def _homes() -> dict[str, str | None]:
    """Return the field of RunConfig that holds each option; None for those of RunConfig itself."""
    homes: dict[str, str | None] = {name: None for name in option_names(RunConfig) if name not in GROUPS}
    for group in GROUPS:
        homes |= dict.fromkeys(option_names(type(getattr(RunConfig(), group))), group)
    return homes


@contextmanager
def blaming_file(path: Path | None, options: Mapping[str, Any]) -> Iterator[None]:
    """Add the name of a TOML file to an InputError, unless one of ``options`` (flags) is to blame."""
    try:
        yield
    except InputError as error:
        if path is None or error.parameter in options:
            raise
        raise UserError(f"{path}: {error}") from None


def known_options() -> tuple[str, ...]:
    """Return the names of all options of a run, shorthands included."""
    return (*_homes(), *SHORTHANDS)


def option_type(name: str) -> Any:
    """Return the declared type of an option."""
    home = _homes()[name]
    return field_types(RunConfig if home is None else type(getattr(RunConfig(), home)))[name]


def is_list(name: str) -> bool:
    """Return whether the value of an option is itself a list."""
    return name not in SHORTHANDS and get_origin(option_type(name)) is tuple


def checked_option(name: str, value: Any) -> Any:
    """Return ``value`` converted to the type of an option, or raise an InputError."""
    if _homes()[name] == "policy":  # which also knows the short names
        return getattr(PolicyConfig(**{name: value}), name)
    return checked(name, value, option_type(name))


def _refuse_two_speeds(options: Mapping[str, Any]) -> None:
    """Refuse one speed for all devices next to one for each."""
    for name in ("compute_slots", "samples_per_slot"):
        for other in ("compute_distribution", "fleet_file"):
            if options.get(name) is not None and options.get(other) is not None:
                raise ConflictError(name, other)


def refuse_unknown(options: Mapping[str, Any]) -> None:
    """Raise a UserError for the first name that is no option of a run."""
    for name in options:
        if name not in known_options():
            close = difflib.get_close_matches(name, known_options(), 1)
            allowed = f"allowed are {', '.join(sorted(known_options()))}"
            hint = f"did you mean {close[0]}?" if close else allowed
            raise UserError(f"unknown option {name}: {hint}")


def read_toml(path: Path) -> dict[str, Any]:
    """Read the options in a TOML file; names may have dashes or underscores."""
    return checked_toml_options(path, load_toml(path, "config"))


def checked_toml_options(path: Path, table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options in a table of a TOML file; refuse unknown names, naming the file."""
    options = toml_options(path, table)
    try:
        refuse_unknown(options)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    return options


def toml_options(path: Path, table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table with underscores in its names; a fleet file is relative to the TOML file."""
    options: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name in options:
            raise UserError(f"{path}: {key} is given twice, with dashes and with underscores")
        options[name] = value
    if isinstance(options.get("fleet_file"), str):
        options["fleet_file"] = str(path.parent / options["fleet_file"])
    return options
