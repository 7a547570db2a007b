"""slotwise: federated learning over time-slotted channels. Plan it, simulate it, train it, run it.

>>> import slotwise as sw
>>> scenario = sw.Scenario(devices=6, group_size=2, compute_slots=2)
>>> sw.simulate(scenario, "idfl", rounds=3).staleness.tolist()
[0, 0, 1, 1, 1, 1]

Names are imported when they are first used, so importing slotwise is fast. docs/python.md describes them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slotwise.aggregation import (
        Contribution,
        DelayAdaptive,
        FedAdagrad,
        FedAdam,
        FedAsync,
        FedBuff,
        FedYogi,
        Krum,
        MultiKrum,
        NormClipping,
        RuleState,
        ServerMomentum,
        StalenessWeightedMean,
        TrimmedMean,
        Vector,
        coordinate_median,
        fedavg,
        mean,
        model_average,
    )
    from slotwise.base.errors import ConflictError, InputError, UserError
    from slotwise.base.observer import Observers
    from slotwise.batch import BatchResults, BatchSpec, run_batch
    from slotwise.data import Dataset, load_mnist, load_npz_folder
    from slotwise.fastcnn.architecture import Architecture
    from slotwise.fleet import Absence, Batteries, Devices, Fleet
    from slotwise.flower import flower_task
    from slotwise.learning import (
        Diverged,
        Evaluation,
        History,
        Interrupted,
        Point,
        Task,
        TrainingResult,
        TrainingStart,
        train,
    )
    from slotwise.learning.cnn_task import CnnTask
    from slotwise.learning.local_training import DeviceSamples, LocalTraining
    from slotwise.learning.optimizer import StepContext
    from slotwise.learning.workers import Processes, RayActors, Threads
    from slotwise.live import ServerConfig, serve
    from slotwise.live.calibration import Calibration, calibrate
    from slotwise.paper.reproduction import reproduce
    from slotwise.radio import RadioLink, read_trace, write_trace
    from slotwise.recommendation.answer import Recommendation
    from slotwise.recommendation.search import recommend
    from slotwise.report.notebook_display import plot_curves
    from slotwise.report.progress import ProgressBar
    from slotwise.runs import Observer, RunConfig, RunFolder, RunResult, resume, run
    from slotwise.scenario import Scenario, compute_slots
    from slotwise.schedule import (
        Asynchronous,
        Delivery,
        IntentionalDelay,
        Policy,
        Scheduler,
        Selection,
        Synchronous,
        Timeline,
        Waiting,
        simulate,
    )
    from slotwise.schedule.battery_balance import BatteryBalance
    from slotwise.schedule.costs import Costs, Powers
    from slotwise.setting import Setting
    from slotwise.setting.planning import Plan, plan
    from slotwise.torch.samples import TorchSamples
    from slotwise.torch.task import TorchTask
    from slotwise.tracking import tracker
    from slotwise.web.timeline_view import timeline_view
    from slotwise.web.web_server import explore

_MODULES = {
    "scenario": ("Scenario", "compute_slots"),
    "fleet": ("Fleet", "Devices", "Absence", "Batteries"),
    "schedule.battery_balance": ("BatteryBalance",),
    "setting.planning": ("plan", "Plan"),
    "radio": ("RadioLink", "read_trace", "write_trace"),
    "setting": ("Setting",),
    "schedule": ("simulate", "Timeline", "Policy", "Synchronous", "Asynchronous", "IntentionalDelay"),
    "schedule.policy": ("Delivery",),
    "schedule.selections": ("Selection", "Waiting"),
    "schedule.scheduler": ("Scheduler",),
    "schedule.costs": ("Costs", "Powers"),
    "data": ("Dataset", "load_mnist", "load_npz_folder"),
    "learning.local_training": ("DeviceSamples", "LocalTraining"),
    "learning.workers": ("Threads", "Processes", "RayActors"),
    "learning.optimizer": ("StepContext",),
    "learning": (
        "train",
        "Task",
        "TrainingStart",
        "TrainingResult",
        "Evaluation",
        "History",
        "Point",
        "Diverged",
        "Interrupted",
    ),
    "flower": ("flower_task",),
    "torch.task": ("TorchTask",),
    "torch.samples": ("TorchSamples",),
    "learning.cnn_task": ("CnnTask",),
    "fastcnn.architecture": ("Architecture",),
    "base.observer": ("Observers",),
    "aggregation": (
        "Contribution",
        "RuleState",
        "Vector",
        "mean",
        "fedavg",
        "model_average",
        "StalenessWeightedMean",
        "FedAsync",
        "FedBuff",
        "DelayAdaptive",
        "ServerMomentum",
        "FedAdam",
        "FedYogi",
        "FedAdagrad",
        "TrimmedMean",
        "coordinate_median",
        "Krum",
        "MultiKrum",
        "NormClipping",
    ),
    "runs": ("Observer", "RunConfig", "run", "resume", "RunResult", "RunFolder"),
    "tracking": ("tracker",),
    "batch": ("BatchSpec", "run_batch", "BatchResults"),
    "report.notebook_display": ("plot_curves",),
    "report.progress": ("ProgressBar",),
    "recommendation.search": ("recommend",),
    "recommendation.answer": ("Recommendation",),
    "paper.reproduction": ("reproduce",),
    "live": ("serve", "ServerConfig"),
    "web.timeline_view": ("timeline_view",),
    "web.web_server": ("explore",),
    "live.calibration": ("calibrate", "Calibration"),
    "base.errors": ("UserError", "InputError", "ConflictError"),
}
# Packages whose other names are theirs, as in sw.data.KLabels, by their names here.
_PACKAGES = {name: name for name in ("data", "fleet", "learning", "live", "radio", "schedule")}
_PACKAGES["rules"] = "aggregation"
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [  # noqa: RUF022  (grouped by use)
    "Scenario", "compute_slots", "Fleet", "Devices", "Absence", "Batteries", "BatteryBalance",
    "RadioLink", "read_trace", "write_trace", "Setting",
    "plan", "Plan", "simulate", "Timeline", "Policy", "Synchronous", "Asynchronous", "IntentionalDelay",
    "Delivery", "Selection", "Waiting", "Scheduler", "Costs", "Powers",
    "train", "Task", "TrainingStart", "TrainingResult", "Evaluation", "History", "Point", "Diverged",
    "Interrupted",
    "Threads", "Processes", "RayActors",
    "flower_task", "TorchTask", "TorchSamples", "CnnTask", "Architecture", "LocalTraining", "StepContext",
    "Observer", "Observers", "ProgressBar", "tracker",
    "Dataset", "DeviceSamples", "load_mnist", "load_npz_folder",
    "Contribution", "RuleState", "Vector", "mean", "fedavg", "model_average", "StalenessWeightedMean",
    "FedAsync", "FedBuff", "DelayAdaptive", "ServerMomentum", "FedAdam", "FedYogi", "FedAdagrad",
    "TrimmedMean", "coordinate_median", "Krum", "MultiKrum", "NormClipping",
    "RunConfig", "run", "resume", "RunResult", "RunFolder", "BatchSpec", "run_batch", "BatchResults",
    "plot_curves", "recommend", "Recommendation", "reproduce", "serve", "ServerConfig",
    "explore", "timeline_view",
    "calibrate", "Calibration",
    "UserError", "InputError", "ConflictError",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a public name from the module that defines it."""
    if name in _PACKAGES:
        return import_module(f"slotwise.{_PACKAGES[name]}")
    if name not in _HOMES:
        raise AttributeError(f"module 'slotwise' has no attribute {name!r}")
    with import_module("slotwise.base.extras").importing():
        value = getattr(import_module(f"slotwise.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
