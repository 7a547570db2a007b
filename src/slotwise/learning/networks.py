"""Built-in networks by name, and the layers that can be chosen for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

NetworkName = Literal["cnn", "mlp", "logistic"]


class NetworkKind(NamedTuple):
    """Default layers of a built-in network; None where the network has no such layers to choose.

    Attributes:
        channels: Output channels of the convolutions.
        hidden: Units of the dense layers before the last.
    """

    channels: tuple[int, ...] | None
    hidden: tuple[int, ...] | None


NETWORKS: Mapping[NetworkName, NetworkKind] = {
    "cnn": NetworkKind(channels=(10, 20), hidden=(50,)),
    "mlp": NetworkKind(channels=None, hidden=(64,)),
    "logistic": NetworkKind(channels=None, hidden=None),
}
