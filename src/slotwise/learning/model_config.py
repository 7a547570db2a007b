"""ModelConfig: the network that is trained, or the name of your own task."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from slotwise.errors import ConflictError, InputError, NoEffectError
from slotwise.extras import require
from slotwise.learning.networks import NETWORKS, RESNETS, NetworkName
from slotwise.scenario import LARGEST_SEED, check_fields, checked, whole
from slotwise.user_code import is_function_name

FLOWER_OPTIONS = ("flower_config", "flower_evaluate")  # used with flower_app
DEFAULT_LAYERS: Any = None  # layers that are not given, until ModelConfig fills in those of its network


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The model that is trained.

    Attributes:
        task: Your own task instead of a built-in data set and network: module:function.
        network: Built-in network: convolutions and dense layers, dense layers only, multinomial logistic
            regression, the cnn with dropout of a half, or ResNet-8 with group or batch normalisation; the
            last two need --backend torch.
        channels: Output channels of the convolutions of a cnn, each 5×5 with max-pool 2 and relu.
        hidden: Units of the dense layers before the last, in a cnn or an mlp (default of the mlp: 64). The
            other networks refuse it.
        backend: What computes the network: numba kernels, or PyTorch for the same network.
        model_seed: Random seed of the first model. Default: that of the run.
        flower_app: A Flower project instead of a built-in data set and network: the folder that has its
            pyproject.toml. Its ClientApp is trained as it is.
        flower_config: Values of the Flower app's configuration: "key=value key=value".
        flower_evaluate: Server-side evaluation of a Flower app instead of its own: module:function, called
            with the round and an ArrayRecord.
    """

    task: str | None = None
    network: NetworkName = "cnn"
    channels: tuple[int, ...] = DEFAULT_LAYERS
    hidden: tuple[int, ...] = DEFAULT_LAYERS
    backend: Literal["numba", "torch"] = "numba"
    model_seed: int | None = None
    flower_app: str | None = None
    flower_config: str | None = None
    flower_evaluate: str | None = None

    def __post_init__(self) -> None:
        self._check_flower()
        kind = NETWORKS[checked("network", self.network, NetworkName)]
        layers = {name: default or () for name, default in kind._asdict().items()}
        for name, default in layers.items():
            if getattr(self, name) is DEFAULT_LAYERS:
                object.__setattr__(self, name, default)
        check_fields(self)
        self._check_values()
        for name, reason in self.unused().items():
            value = getattr(self, name)
            if value != layers.get(name, getattr(ModelConfig, name)):
                if self.is_own or name in FLOWER_OPTIONS:
                    raise NoEffectError(name, value, reason)
                # Not a NoEffectError: `RunConfig.from_saved` would put layers of the default network here.
                raise InputError(name, value, f"omitted {reason}")
        if self.network in RESNETS and self.backend != "torch":
            raise InputError("network", self.network, "used with backend=torch")
        if self.network == "mlp" and not self.hidden:
            raise InputError("hidden", self.hidden, "at least one layer; network logistic has none")

    def _check_values(self) -> None:
        for name in ("channels", "hidden"):
            for number in getattr(self, name):
                whole(name, number)
        if self.task is not None and not is_function_name(self.task):
            raise InputError("task", self.task, "module:function, as in my_module:make_task")
        if self.model_seed is not None:
            whole("model_seed", self.model_seed, 0, LARGEST_SEED)

    def _check_flower(self) -> None:
        """Check the options of a Flower app, and keep the absolute name of its folder."""
        if self.flower_app is None:
            return
        if not isinstance(self.flower_app, str | Path) or not str(self.flower_app):
            raise InputError("flower_app", self.flower_app, "the folder of a Flower project")
        if self.task is not None:
            raise ConflictError("flower_app", "task")
        name = self.flower_evaluate
        if name is not None and not (isinstance(name, str) and is_function_name(name)):
            raise InputError("flower_evaluate", name, "module:function, as in my_app.server_app:evaluate")
        object.__setattr__(self, "flower_app", str(Path(self.flower_app).absolute()))

    @property
    def is_own(self) -> bool:
        """True if the user's own task or Flower app is trained, and no built-in network."""
        return self.task is not None or self.flower_app is not None

    def require_package(self) -> None:
        """Raise a UserError if the package that computes the built-in network is not installed."""
        if not self.is_own:
            require("torch" if self.backend == "torch" else "numba")

    def unused(self) -> dict[str, str]:
        """Return the options that have no effect with a task of the user's own, or with the network."""
        found = {} if self.flower_app else dict.fromkeys(FLOWER_OPTIONS, "without flower_app")
        if self.is_own:
            reason = "with flower_app" if self.flower_app else "with a task of your own"
            return found | dict.fromkeys(("network", "channels", "hidden", "backend"), reason)
        kind = NETWORKS[self.network]
        reason = f"with network {self.network}"
        return found | {name: reason for name, default in kind._asdict().items() if default is None}
