"""The model of a run: a built-in network, your own task, or a Flower app."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from slotwise.errors import InputError
from slotwise.extras import require
from slotwise.learning.networks import NETWORK, Cnn, Network
from slotwise.options import Choice, Either, Range, UserFunction
from slotwise.scenario import LARGEST_SEED, check_fields
from slotwise.user_code import is_function_name

TASK = Choice("task", {}, own=(1,))
Seed = Annotated[int, Range(least=0, most=LARGEST_SEED)]


@dataclass(frozen=True, kw_only=True)
class NetworkModel:
    """A built-in network, trained on a data set.

    Attributes:
        network: Built-in network: convolutions and dense layers, dense layers only, multinomial logistic
            regression, the cnn with dropout of a half, or ResNet-8 with group or batch normalisation; the
            last two need --backend torch.
        backend: What computes the network: numba kernels, or PyTorch for the same network.
        model_seed: Random seed of the first model. Default: that of the run.
    """

    is_own: ClassVar[bool] = False
    network: Annotated[Network, NETWORK] = Cnn()  # noqa: RUF009
    backend: Literal["numba", "torch"] = "numba"
    model_seed: Seed | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.network.needs_torch and self.backend != "torch":
            raise InputError("network", NETWORK.name_of(self.network), "used with backend=torch")

    def require_package(self) -> None:
        """Raise a UserError if the package that computes the network is not installed."""
        require("torch" if self.backend == "torch" else "numba")

    @property
    def network_name(self) -> str:
        """The short name of the network."""
        return NETWORK.name_of(self.network) or ""


@dataclass(frozen=True, kw_only=True)
class OwnTask:
    """A task of your own, made by a function that is called with the configuration of the run.

    Attributes:
        task: Your own task instead of a built-in data set and network: module:function.
        model_seed: Random seed of the first model. Default: that of the run.
    """

    is_own: ClassVar[bool] = True
    backend: ClassVar[str] = ""
    task: Annotated[UserFunction, TASK]
    model_seed: Seed | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if not isinstance(self.task, UserFunction):  # a function, which is named so that run.json can have it
            object.__setattr__(
                self, "task", UserFunction("task", TASK.name_of(self.task) or "", (), TASK.own)
            )


@dataclass(frozen=True, kw_only=True)
class FlowerApp:
    """A Flower project, whose ClientApp is trained as it is.

    Attributes:
        flower_app: A Flower project instead of a built-in data set and network: the folder that has its
            pyproject.toml. Its ClientApp is trained as it is.
        flower_config: Values of the Flower app's configuration: "key=value key=value".
        flower_evaluate: Server-side evaluation of a Flower app instead of its own: module:function, called
            with the round and an ArrayRecord.
        model_seed: Random seed of the first model. Default: that of the run.
    """

    is_own: ClassVar[bool] = True
    backend: ClassVar[str] = ""
    flower_app: str
    flower_config: str | None = None
    flower_evaluate: str | None = None
    model_seed: Seed | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.flower_app, str | Path) or not str(self.flower_app):
            raise InputError("flower_app", self.flower_app, "the folder of a Flower project")
        object.__setattr__(self, "flower_app", str(Path(self.flower_app).absolute()))
        check_fields(self)
        name = self.flower_evaluate
        if name is not None and not is_function_name(name):
            raise InputError("flower_evaluate", name, "module:function, as in my_app.server_app:evaluate")


Model = NetworkModel | OwnTask | FlowerApp
ModelOptions = Annotated[Model, Either((NetworkModel, FlowerApp, OwnTask))]
