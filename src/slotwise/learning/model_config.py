"""ModelConfig: the network that is trained, or the name of your own task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from slotwise.errors import InputError, NoEffectError
from slotwise.learning.networks import NETWORKS, TORCH_ONLY, NetworkName
from slotwise.scenario import LARGEST_SEED, check_fields, checked, whole
from slotwise.user_code import is_function_name

DEFAULT_LAYERS: Any = None  # layers that are not given, until ModelConfig fills in those of its network


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The model that is trained.

    Attributes:
        task: Your own task instead of a built-in data set and network: module:function.
        network: Built-in network: convolutions and dense layers, dense layers only, multinomial logistic
            regression, the cnn with dropout, or ResNet-8 with group or batch normalisation; the last three
            need --backend torch.
        channels: Output channels of the convolutions of a cnn, each 5×5 with max-pool 2 and relu.
        hidden: Units of the dense layers before the last, in a cnn or an mlp (default of the mlp: 64). The
            other networks refuse it.
        backend: What computes the network: numba kernels, or PyTorch for the same network.
        model_seed: Random seed of the first model. Default: that of the run.
    """

    task: str | None = None
    network: NetworkName = "cnn"
    channels: tuple[int, ...] = DEFAULT_LAYERS
    hidden: tuple[int, ...] = DEFAULT_LAYERS
    backend: Literal["numba", "torch"] = "numba"
    model_seed: int | None = None

    def __post_init__(self) -> None:
        kind = NETWORKS[checked("network", self.network, NetworkName)]
        layers = {name: default or () for name, default in kind._asdict().items()}
        for name, default in layers.items():
            if getattr(self, name) is DEFAULT_LAYERS:
                object.__setattr__(self, name, default)
        check_fields(self)
        for name in ("channels", "hidden"):
            for number in getattr(self, name):
                whole(name, number)
        if self.task is not None and not is_function_name(self.task):
            raise InputError("task", self.task, "module:function, as in my_module:make_task")
        if self.model_seed is not None:
            whole("model_seed", self.model_seed, 0, LARGEST_SEED)
        for name, reason in self.unused().items():
            value = getattr(self, name)
            if value != layers.get(name, getattr(ModelConfig, name)):
                if self.task is not None:
                    raise NoEffectError(name, value, reason)
                # Not a NoEffectError: `RunConfig.from_saved` would put layers of the default network here.
                raise InputError(name, value, f"omitted {reason}")
        if self.network in TORCH_ONLY and self.backend != "torch":
            raise InputError("backend", self.backend, f"torch with network {self.network}")
        if self.network == "mlp" and not self.hidden:
            raise InputError("hidden", self.hidden, "at least one layer; network logistic has none")

    def unused(self) -> dict[str, str]:
        """Return the options that have no effect with a task of the user's own, or with the network."""
        if self.task is not None:
            return dict.fromkeys(("network", "channels", "hidden", "backend"), "with a task of your own")
        kind = NETWORKS[self.network]
        reason = f"with network {self.network}"
        return {name: reason for name, default in kind._asdict().items() if default is None}
