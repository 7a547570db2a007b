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
_MOVED = {  # found where they are now for one more version
    "rules": "Contribution DelayAdaptive FedAdagrad FedAdam FedAsync FedBuff FedYogi Krum MultiKrum "
    "NormClipping RuleState ServerMomentum StalenessWeightedMean TrimmedMean coordinate_median fedavg mean "
    "model_average",
    "schedule": "BatteryBalance Delivery Scheduler Selection Waiting compute_slots",
    "fleet": "Absence Batteries",
    "radio": "RadioLink read_trace write_trace",
    "learning": "Architecture Point Processes RayActors StepContext Threads TrainingResult",
    "live": "Calibration ServerConfig",
    "torch": "TorchSamples",
}


def __getattr__(name: str) -> Any:
    """Import a public name, or one that has moved to a package."""
    for place, names in _MOVED.items():
        if name in names.split():
            warn(f"sw.{name} is now sw.{place}.{name}", DeprecationWarning, stacklevel=2)
            return getattr(_find(place), name)
    return _find(name)
