"""RunParameters: everything a training run depends on, flat, validated once, and written to run.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from math import inf
from numbers import Integral
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from slotwise.aggregation import Aggregation, AggregationName, DiscountName, aggregation_from
from slotwise.errors import InputError, UserError
from slotwise.fleet import Absence, Fleet, Retransmission
from slotwise.fleet.options import FLEET_OPTIONS, FleetOptions, options_of_file
from slotwise.learning.fastcnn.architecture import Architecture
from slotwise.learning.local_sgd import LocalSgd, LocalUpdate
from slotwise.learning.quantised import UNQUANTISED, checked_bits, link_slots_of
from slotwise.runs.network import network
from slotwise.scenario import Scenario, compute_slots, whole
from slotwise.schedule import Delay, Participation, Schedule, Timeline, simulate

DataName = Literal["mnist", "cifar10"]
PartitionName = Literal["one-label", "k-labels", "dirichlet", "iid"]
InputScale = Literal["standard", "unit"]
Backend = Literal["numba", "torch"]


@dataclass(frozen=True, kw_only=True)
class RunParameters:
    """One training run. The defaults are the MNIST case of the paper with a group size of 10.

    Attributes:
        data: the data set.
        partition: which samples a device holds; the paper: samples of one label each.
        samples_per_device: how many.
        labels_per_device: for the partition k-labels.
        concentration: for the partition dirichlet; smaller is more unequal.
        input_scale: pixels standardised by the data set's mean and deviation, or 0 to 1 as they are.
        schedule: sync, async or idfl.
        delay: intentional delay of idfl in rounds, or auto.
        participation: who takes part in a round of sync with group_size < devices.
        devices: N.
        group_size: S, uplinks per round.
        compute_slots: tau_comp, slots of one local training.
        link_slots: r, slots of one uplink and of one broadcast.
        deadline: T, slots of the whole run.
        local_steps: H.
        batch_size: B.
        learning_rate: eta.
        update: sum or mean of the local gradients.
        channels: output channels of the convolutions, each 5×5 with max-pool 2 and relu.
        hidden: units of the dense layers before the last.
        backend: numba kernels, or PyTorch for the same network.
        evaluate_every: slots between evaluations; None makes it a hundredth of the deadline, at least 250.
        seed: of the model, the partition, the batches, the participation, the rounding and the fleet.
        aggregation: how the updates of a round combine; see docs/baselines.md.
        discount: what age does to an update's weight (staleness-weighted and fedasync).
        discount_power: a of the polynomial discount.
        discount_slope: a of the hinge discount.
        discount_grace: b of the hinge discount, the rounds of age that cost nothing.
        mixing: a of fedasync, the weight of a fresh local model.
        server_rate: eta_g of fedbuff.
        bits: of each number of an update; 32 sends it as it is.
        uplink_slots: slots of one uplink, if not link_slots: quantised updates are shorter than a broadcast.
        compute_distribution: compute slots drawn for each device, as in two-classes:50:200:0.2.
        link_distribution: uplink slots drawn for each device.
        device_compute_slots: compute slots of devices 1 to N, one by one.
        device_link_slots: uplink slots of devices 1 to N, one by one.
        jitter: a training takes up to this share longer or shorter, drawn anew for each.
        loss: the probability that an uplink is lost.
        retransmission: whether it is sent again at once, or when its turn comes next.
        absences: (device, leaves, returns) for each; returns is None for good.
        mean_present: mean slots for which a device is there, if devices come and go at random.
        mean_away: mean slots for which it is then away.
        task: module:function that makes the user's own task of these parameters; see docs/own-task.md.
    """

    data: DataName = "mnist"
    partition: PartitionName = "one-label"
    samples_per_device: int = 250
    labels_per_device: int = 2
    concentration: float = 0.5
    input_scale: InputScale = "standard"
    schedule: Schedule = "idfl"
    delay: Delay = "auto"
    participation: Participation = "round-robin"
    devices: int = 100
    group_size: int = 10
    compute_slots: int = 50
    link_slots: int = 1
    deadline: int = 50_000
    local_steps: int = 5
    batch_size: int = 64
    learning_rate: float = 0.01
    update: LocalUpdate = "sum"
    channels: tuple[int, ...] = (10, 20)
    hidden: tuple[int, ...] = (50,)
    backend: Backend = "numba"
    evaluate_every: int | None = None
    seed: int = 0
    aggregation: AggregationName = "mean"
    discount: DiscountName = "polynomial"
    discount_power: float = 0.5
    discount_slope: float = 10.0
    discount_grace: float = 4.0
    mixing: float = 0.6
    server_rate: float = 1.0
    bits: int = UNQUANTISED
    uplink_slots: int | None = None
    compute_distribution: str | None = None
    link_distribution: str | None = None
    device_compute_slots: tuple[int, ...] = ()
    device_link_slots: tuple[int, ...] = ()
    jitter: float = 0.0
    loss: float = 0.0
    retransmission: Retransmission = "next-turn"
    absences: tuple[tuple[int, int, int | None], ...] = ()
    mean_present: float | None = None
    mean_away: float | None = None
    task: str | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, checked_option(field.name, getattr(self, field.name)))
        whole("samples_per_device", self.samples_per_device)
        whole("labels_per_device", self.labels_per_device)
        if not 0 < self.concentration < inf:
            raise InputError("concentration", self.concentration, "a finite number above 0")
        for name in ("channels", "hidden"):
            for number in getattr(self, name):
                whole(name, number)
        if self.evaluate_every is not None:
            whole("evaluate_every", self.evaluate_every)
        checked_bits(self.bits)
        object.__setattr__(self, "absences", tuple(map(_absence, self.absences)))
        self.scenario()
        self.sgd()
        self.combine()
        self.fleet()
        self._check_task()

    def scenario(self) -> Scenario:
        """Devices and channel."""
        return Scenario(
            devices=self.devices,
            group_size=self.group_size,
            compute_slots=self.compute_slots,
            link_slots=self.link_slots,
            deadline=self.deadline,
        )

    def timeline(self) -> Timeline:
        """The schedule of the run."""
        return simulate(
            self.scenario(),
            self.schedule,
            delay=self.delay,
            fleet=self.fleet(),
            participation=self.participation,
            seed=self.seed,
        )

    def fleet(self) -> Fleet | None:
        """The devices, if anything is said about them."""
        options = FleetOptions(**{name: getattr(self, name) for name in FLEET_OPTIONS})
        return options.fleet(self.scenario(), self.seed)

    def combine(self) -> Aggregation:
        """How the updates of a round combine."""
        numbers = {name: getattr(self, f"discount_{name}") for name in ("power", "slope", "grace")}
        try:
            return aggregation_from(
                self.aggregation,
                discount=self.discount,
                **numbers,
                mixing=self.mixing,
                server_rate=self.server_rate,
            )
        except InputError as error:
            if error.parameter not in numbers:
                raise
            raise InputError(f"discount_{error.parameter}", error.value, error.allowed) from None

    def network(self) -> Architecture:
        """The network that is trained."""
        return network(self.data, self.channels, self.hidden)

    def sgd(self) -> LocalSgd:
        """Local training."""
        return LocalSgd(
            local_steps=self.local_steps,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            seed=self.seed,
            update=self.update,
        )

    @property
    def slots_between_evaluations(self) -> int:
        """``evaluate_every``, or a hundredth of the deadline but not less than 250.

        An evaluation costs as much as a few hundred SGD steps.
        """
        return self.evaluate_every or max(250, self.deadline // 100)

    def as_dict(self) -> dict[str, Any]:
        """By name, as run.json holds them."""
        return asdict(self)

    def _check_task(self) -> None:
        """A task of one's own has its own data and model; nothing else may be said about them."""
        if self.task is None:
            return
        module, _, function = self.task.partition(":")
        if not all(part.isidentifier() for part in (*module.split("."), function)):
            raise InputError("task", self.task, "module:function, as in my_module:make_task")
        for name in BUILT_IN_ONLY:
            if getattr(self, name) != getattr(type(self), name):
                raise InputError(name, getattr(self, name), "left out where --task is given")


# What describes slotwise's own data sets and networks, and nothing else.
BUILT_IN_ONLY = ("data", "input_scale", "channels", "hidden", "backend")
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


# Options that stand in for parameters: a device's speed, the rate of the link, and a table of the devices.
STAND_INS = ("samples_per_slot", "bits_per_slot", "fleet_file")
# What the paper has not: equal devices, the mean and whole numbers are all it knows.
BEYOND_THE_PAPER = tuple(
    field.name
    for field in fields(RunParameters)
    if field.name in FLEET_OPTIONS
    or field.name.startswith("discount")
    or field.name in {"aggregation", "mixing", "server_rate", "bits", "task"}
)


def run_parameters(options: Mapping[str, Any]) -> RunParameters:
    """The paper's case for the data set, with ``options`` on top.

    ``samples_per_slot`` (a device's speed q) may stand in for ``compute_slots``, ``bits_per_slot`` (the rate
    of the link) for ``link_slots`` and ``uplink_slots``, and ``fleet_file`` (a CSV file) for ``devices`` and
    what is said of each. The file is read here and never again.
    """
    chosen = {name: value for name, value in options.items() if name not in STAND_INS}
    refuse_unknown(chosen)
    case = PAPER_CASES.get(str(chosen.get("data", RunParameters.data)), {})
    chosen |= _slots_of_link(options, {**case, **chosen})
    chosen |= _devices_of_file(options, chosen)
    parameters = replace(RunParameters(), **{**case, **chosen})
    speed = options.get("samples_per_slot")
    if speed is None:
        return parameters
    if "compute_slots" in chosen:
        raise InputError("samples_per_slot", speed, "left out where --compute-slots is given")
    slots = compute_slots(parameters.local_steps, parameters.batch_size, speed)
    return replace(parameters, compute_slots=slots)


def _slots_of_link(options: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, int]:
    """The slots of a broadcast in 32 bits and of an uplink in fewer, from the rate of the link."""
    rate = options.get("bits_per_slot")
    if rate is None:
        return {}
    for name in ("link_slots", "uplink_slots", "link_distribution", "device_link_slots"):
        if name in options:
            raise InputError("bits_per_slot", rate, f"left out where {name} is given")
    if options.get("task") is not None:
        raise InputError("bits_per_slot", rate, "left out where --task is given (--link-slots instead)")
    names = ("data", "channels", "hidden", "bits")
    own = RunParameters(**{name: chosen[name] for name in names if name in chosen})
    size, arrays = own.network().parameters, len(own.network().parameter_shapes)
    slots = {"link_slots": link_slots_of(size, UNQUANTISED, rate)}
    if own.bits != UNQUANTISED:
        slots["uplink_slots"] = link_slots_of(size, own.bits, rate, arrays)
    return slots


def _devices_of_file(options: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """What the fleet's CSV file says, device by device."""
    path = options.get("fleet_file")
    if path is None:
        return {}
    if not isinstance(path, str | Path):
        raise InputError("fleet_file", path, "the name of a CSV file")
    for name in ("compute_distribution", "link_distribution", "mean_present", "samples_per_slot"):
        if name in options:
            raise InputError(name, options[name], "left out where fleet_file is given")
    for name in ("device_compute_slots", "device_link_slots", "absences"):
        if name in options:
            raise InputError("fleet_file", path, f"left out where {name} is given")
    usual = chosen.get("uplink_slots", chosen.get("link_slots", RunParameters.link_slots))
    return options_of_file(Path(path), link_slots=usual, devices=chosen.get("devices"))


def refuse_unknown(options: Mapping[str, Any]) -> None:
    """A UserError for the first name that is no parameter of a run."""
    known = {field.name for field in fields(RunParameters)}
    for name in options:
        if name not in known:
            allowed = ", ".join(sorted({*known, *STAND_INS}))
            raise UserError(f"unknown option {name}: allowed are {allowed}")


@cache
def _hints() -> dict[str, Any]:
    """The types of the fields; a sweep asks for them a hundred thousand times."""
    return get_type_hints(RunParameters)


def is_list(name: str) -> bool:
    """Whether a parameter is itself a list."""
    return get_origin(_hints().get(name)) is tuple


def checked_option(name: str, value: Any) -> Any:
    """``value`` in the type its field declares, or an InputError that says what is allowed."""
    hint = _hints()[name]
    if NoneType in get_args(hint):
        if value is None:
            return None
        hint = next(kind for kind in get_args(hint) if kind is not NoneType)
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise InputError(name, value, _either(get_args(hint)))
    elif hint is float:
        return _number(name, value)
    elif get_origin(hint) is tuple:
        if not isinstance(value, list | tuple):
            raise InputError(name, value, "a list of whole numbers")
        return tuple(int(item) if _is_whole(item) else item for item in value)
    elif hint is str and not isinstance(value, str):
        raise InputError(name, value, "text")
    elif hint is int:
        if not _is_whole(value):
            raise InputError(name, value, "a whole number")
        return int(value)
    return value


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(name, value, "a number")
    try:
        return float(value)
    except OverflowError:
        raise InputError(name, value, "a number of moderate size") from None


def _absence(value: Any) -> tuple[int, int, int | None]:
    try:
        device, leaves, returns = Absence(*value)
    except TypeError:
        raise InputError("absences", value, "lists of device, leaves and (unless for good) returns") from None
    return device, leaves, returns


def _either(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"
