"""The lowest loss that a curve may have at the deadline, by an optimistic extrapolation.

Losses are lower-is-better numbers here: training losses, or error rates (1 − accuracy).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import inf
from typing import NamedTuple

BEGUN = 0.9  # a run whose lowest loss is above this part of the first one has not begun to learn


class Measured(NamedTuple):
    """A loss at a slot."""

    slot: int
    loss: float


def optimistic_loss(curve: Sequence[Measured], slot: int, deadline: int) -> float:
    """Return an optimistic loss at the deadline T for a curve that is known up to ``slot`` s.

    With m(t) the lowest loss up to slot t, it is m(s) · (m(s) / m(b))^((T − s) / (s − b)): until the deadline
    the loss falls in every slot by the factor by which it has fallen on average since slot b. That is s/2, or
    the last evaluation at which the run had not begun to learn if that was later. Learning curves flatten, so
    a run rarely does as well.

    The result is −inf, which is better than any loss, for a curve that has not begun to learn, because it may
    still begin, and for losses that are not positive, because they have no factors.
    """
    known = [measured for measured in curve if measured.slot <= slot]
    # The running minimum: a spike in the last evaluation must not drop a good candidate.
    lowest = list(accumulate((measured.loss for measured in known), min))
    if slot >= deadline:
        return lowest[-1]
    begun = BEGUN * known[0].loss
    if not 0 < lowest[-1] <= begun:
        return -inf
    waiting = sum(low > begun for low in lowest)  # evaluations before learning began; the first one at least
    begin = max(slot / 2, known[waiting - 1].slot)
    before = lowest[sum(measured.slot <= begin for measured in known) - 1]
    return float(lowest[-1] * (lowest[-1] / before) ** ((deadline - slot) / (slot - begin)))
