"""Device memory: average the latest update of every device, not only those of this round."""

from collections.abc import Sequence

import numpy as np

from slotwise.aggregation import Contribution, RuleState, Vector


def device_memory(
    model: Vector, contributions: Sequence[Contribution], state: RuleState
) -> tuple[Vector, RuleState]:
    """Return w_{k+1} and the memory (Gu, Huang, Zhang and Huang, NeurIPS 2021, arXiv:2106.04159)."""
    memory = {**state, **{f"device{sent.device}": sent.update for sent in contributions}}
    total = np.zeros(model.shape, dtype=np.float64)
    for name in sorted(memory):
        total += memory[name]
    return (model - total / len(memory)).astype(np.float32), memory
