"""RunParameters: everything a training run depends on, flat, validated once, and written to run.json."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from functools import cache
from math import inf
from typing import Any, Literal, get_origin, get_type_hints

from slotwise.aggregation import Aggregation, AggregationName, DiscountName, aggregation_from
from slotwise.errors import InputError
from slotwise.fleet import Absence, Fleet, Retransmission
from slotwise.fleet.options import FLEET_OPTIONS, FleetOptions
from slotwise.learning.fastcnn.architecture import Architecture
from slotwise.learning.local_sgd import LocalSgd, LocalUpdate
from slotwise.learning.quantised import UNQUANTISED, checked_bits
from slotwise.runs.network import network
from slotwise.runs.option_types import checked
from slotwise.scenario import Scenario, whole
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
# What the paper has not: equal devices, the mean and whole numbers are all it knows.
BEYOND_THE_PAPER = tuple(
    field.name
    for field in fields(RunParameters)
    if field.name in FLEET_OPTIONS
    or field.name.startswith("discount")
    or field.name in {"aggregation", "mixing", "server_rate", "bits", "task"}
)


@cache
def _hints() -> dict[str, Any]:
    """The types of the fields; a sweep asks for them a hundred thousand times."""
    return get_type_hints(RunParameters)


def is_list(name: str) -> bool:
    """Whether a parameter is itself a list."""
    return get_origin(_hints().get(name)) is tuple


def checked_option(name: str, value: Any) -> Any:
    """``value`` in the type its field declares, or an InputError that says what is allowed."""
    return checked(name, value, _hints()[name])


def _absence(value: Any) -> tuple[int, int, int | None]:
    try:
        device, leaves, returns = Absence(*value)
    except TypeError:
        raise InputError("absences", value, "lists of device, leaves and (unless for good) returns") from None
    return device, leaves, returns
