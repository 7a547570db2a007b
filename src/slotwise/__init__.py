"""slotwise: federated learning over time-slotted channels. Plan it, simulate it, train it, run it.

>>> import slotwise as sw
>>> scenario = sw.Scenario(devices=6, group_size=2, compute_slots=2)
>>> sw.simulate(scenario, "idfl", rounds=3).staleness.tolist()
[0, 0, 1, 1, 1, 1]

The public names are in ``__init__.pyi``; docs/python.md describes them. They are imported when they are first
used, so importing slotwise is fast. The packages ``sw.rules``, ``sw.data`` and so on have the other names.
"""

from typing import Any
from warnings import warn

from slotwise.base.lazy import attach

_find, __dir__, __all__ = attach(__name__, __file__)


def __getattr__(name: str) -> Any:
    """Import a public name; one that has moved to a package is found there for one more version."""
    if name in __all__ or name.startswith("_"):
        return _find(name)
    for place in ("rules", "schedule", "fleet", "radio", "learning", "live", "torch"):
        if name in dir(_find(place)):
            warn(f"sw.{name} is now sw.{place}.{name}", DeprecationWarning, stacklevel=2)
            return getattr(_find(place), name)
    return _find(name)
