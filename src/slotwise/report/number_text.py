"""Text of losses, shares and numbers with a noun."""

from __future__ import annotations

from math import isfinite, isnan

SMALL, LARGE = 1e-4, 1e5


def loss_text(loss: float, form: str = ".4f") -> str:
    """Return a loss in the given form; a tiny one as in 8.1e-5, a huge one, of a blow-up, as in 3.1e31."""
    if SMALL <= abs(loss) < LARGE or not loss or not isfinite(loss):
        return f"{loss:{form}}"
    digits, exponent = f"{loss:.1e}".split("e")
    return f"{digits}e{int(exponent)}"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, as in "1 round" and "2,000 rounds"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def percent(share: float, digits: int = 1) -> str:
    """Return a share in per cent; a dash for NaN, such as the accuracy of a regression."""
    return "–" if isnan(share) else f"{share:.{digits}%}"


def amount_text(number: float) -> str:
    """Return integers and large numbers in full, small ones with four digits."""
    return f"{number:,.0f}" if isinstance(number, int) or abs(number) >= 1000 else f"{number:.4g}"
