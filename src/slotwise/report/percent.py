"""Text of shares and accuracies in per cent."""

from __future__ import annotations

from math import isnan


def percent(share: float, digits: int = 1) -> str:
    """Return a share in per cent; a dash for NaN, such as the accuracy of a regression."""
    return "–" if isnan(share) else f"{share:.{digits}%}"
