"""RunParameters: everything a training run depends on, flat, validated once, and written to run.json."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from math import inf
from numbers import Integral
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from slotwise.errors import InputError, UserError
from slotwise.learning.local_sgd import LocalSgd, LocalUpdate
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
        seed: of the model, the partition, the batches and the participation.
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

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for field in fields(self):
            object.__setattr__(
                self, field.name, _checked(field.name, getattr(self, field.name), hints[field.name])
            )
        whole("samples_per_device", self.samples_per_device)
        whole("labels_per_device", self.labels_per_device)
        if not 0 < self.concentration < inf:
            raise InputError("concentration", self.concentration, "a finite number above 0")
        for name in ("channels", "hidden"):
            for number in getattr(self, name):
                whole(name, number)
        if self.evaluate_every is not None:
            whole("evaluate_every", self.evaluate_every)
        self.scenario()
        self.sgd()

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
            self.scenario(), self.schedule, delay=self.delay, participation=self.participation, seed=self.seed
        )

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


def run_parameters(options: Mapping[str, Any]) -> RunParameters:
    """The paper's case for the data set, with ``options`` on top.

    ``samples_per_slot`` (a device's speed q) may stand in for ``compute_slots``.
    """
    chosen = dict(options)
    speed = chosen.pop("samples_per_slot", None)
    _refuse_unknown(chosen)
    case = PAPER_CASES.get(str(chosen.get("data", RunParameters.data)), {})
    parameters = replace(RunParameters(), **{**case, **chosen})
    if speed is None:
        return parameters
    if "compute_slots" in chosen:
        raise InputError("samples_per_slot", speed, "left out where --compute-slots is given")
    slots = compute_slots(parameters.local_steps, parameters.batch_size, speed)
    return replace(parameters, compute_slots=slots)


def read_toml(path: Path) -> dict[str, Any]:
    """The options a TOML file holds, by the names of the flags (dashes or underscores)."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("config", path, f"a readable TOML file ({error})") from None
    except ValueError as error:  # TOML's own errors, and Python's for a number of thousands of digits
        raise InputError("config", path, f"valid TOML ({error})") from None
    options = {name.replace("-", "_"): value for name, value in document.items()}
    try:
        _refuse_unknown({name: value for name, value in options.items() if name != "samples_per_slot"})
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    return options


def _refuse_unknown(options: Mapping[str, Any]) -> None:
    known = {field.name for field in fields(RunParameters)}
    for name in options:
        if name not in known:
            raise UserError(f"unknown option {name}: allowed are {', '.join(sorted(known))}")


def _checked(name: str, value: Any, hint: Any) -> Any:
    """``value`` in the type its field declares, or an InputError that says what is allowed."""
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise InputError(name, value, _either(get_args(hint)))
    elif hint is float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(name, value, "a number")
        try:
            return float(value)
        except OverflowError:
            raise InputError(name, value, "a number of moderate size") from None
    elif get_origin(hint) is tuple:
        if not isinstance(value, list | tuple):
            raise InputError(name, value, "a list of whole numbers")
        return tuple(value)
    elif hint is int and (isinstance(value, bool) or not isinstance(value, Integral)):
        raise InputError(name, value, "a whole number")
    return value


def _either(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"
