"""The model of a run: a built-in network, your own task, or what another package brings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from slotwise.base.errors import InputError
from slotwise.base.extras import MODELS, require
from slotwise.base.user_code import user_errors
from slotwise.learning.networks import NETWORK, Cnn, Network
from slotwise.options import Choice, Either, Range, UserFunction, loaded
from slotwise.options.checks import LARGEST_SEED, Value

if TYPE_CHECKING:
    from slotwise.learning.task import Task

TASK = Choice("task", {}, own=(1,))
Seed = Annotated[int, Range(least=0, most=LARGEST_SEED)]


class Model(Value):
    """Base class of the models of a run. The defaults are those of a task that is not slotwise's own.

    Attributes:
        chosen_by: The option that chooses it; empty for the usual model.
        is_own: True if slotwise knows neither its size nor its local training.
        replaces: Options, and fields of a run with all of their options, that have no effect with it.
        not_live: Why devices on a network cannot train it; empty if they can.
        backend: What computes a built-in network.
        model_seed: Random seed of the first model.
    """

    chosen_by: ClassVar[str] = ""
    is_own: ClassVar[bool] = True
    replaces: ClassVar[tuple[str, ...]] = ()
    not_live: ClassVar[str] = ""
    backend: str = ""
    model_seed: int | None = None

    @classmethod
    def devices_in(cls, options: Mapping[str, Any]) -> int | None:
        """Return the number of devices that options of the model imply, if they do."""
        del options
        return None

    def check(self) -> None:
        """Refuse what is missing or cannot be imported; load no data."""

    def make_task(self, config: Any) -> Task:
        """Return the task of a run; its configuration is a `RunConfig`."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class NetworkModel(Model):
    """A built-in network, trained on a data set.

    Attributes:
        network: Built-in network: cnn (convolutions and dense layers), mlp (dense layers only), logistic
            (multinomial logistic regression), cnn-dropout (the cnn with dropout of a half), resnet8-gn or
            resnet8-bn (ResNet-8 with group or batch normalisation; both need --backend torch).
        backend: What computes the network: numba kernels, or PyTorch for the same network.
        model_seed: Random seed of the first model. Default: that of the run.
    """

    is_own: ClassVar[bool] = False
    network: Annotated[Network, NETWORK] = Cnn()  # noqa: RUF009
    backend: Literal["numba", "torch"] = "numba"
    model_seed: Seed | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.network.needs_torch and self.backend != "torch":
            raise InputError("network", NETWORK.name_of(self.network), "used with backend=torch")

    def check(self) -> None:
        """Raise a UserError if the package that computes the network is not installed."""
        require("torch" if self.backend == "torch" else "numba")

    @property
    def network_name(self) -> str:
        """The short name of the network."""
        return NETWORK.name_of(self.network) or ""


@dataclass(frozen=True, kw_only=True)
class OwnTask(Model):
    """A task of your own, made by a function that is called with the configuration of the run.

    Attributes:
        task: Your own task instead of a built-in data set and network: module:function.
        model_seed: Random seed of the first model. Default: that of the run.
    """

    chosen_by: ClassVar[str] = "task"
    replaces: ClassVar[tuple[str, ...]] = ("input_scale",)
    task: Annotated[UserFunction, TASK]
    model_seed: Seed | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.task, UserFunction):  # a function, which is named so that run.json can have it
            object.__setattr__(
                self, "task", UserFunction("task", TASK.name_of(self.task) or "", (), TASK.own)
            )

    def check(self) -> None:
        """Import the function that makes the task."""
        loaded(self.task)

    def make_task(self, config: Any) -> Task:
        """Return the task that the function makes, with checks."""
        from slotwise.learning.checked_task import CheckedTask  # noqa: PLC0415  (a plan needs no task)

        name, make_task = self.task.name, loaded(self.task)
        with user_errors(f"task {name} failed"):
            return CheckedTask(name, make_task(config))


MODEL = Either((NetworkModel, *MODELS, OwnTask))
ModelOptions = Annotated[Model, MODEL]
