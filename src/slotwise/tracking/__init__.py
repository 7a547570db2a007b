"""Experiment trackers as observers of a run; `tracker` makes one from its name."""

from __future__ import annotations

from slotwise.base.errors import InputError
from slotwise.tracking.tracker_base import Notify, Tracker
from slotwise.tracking.trackers import MlflowTracker, TensorboardTracker, TrackioTracker, WandbTracker

__all__ = ["TRACKERS", "Tracker", "tracker"]

TRACKERS: dict[str, type[Tracker]] = {
    kind.library: kind for kind in (WandbTracker, TrackioTracker, MlflowTracker, TensorboardTracker)
}


def tracker(
    library: str, *, project: str | None = None, name: str | None = None, notify: Notify | None = None
) -> Tracker:
    """Return an observer that logs a run of `run` or `resume` to an experiment tracker.

    Every evaluation is logged with its slot as the step, and the options of the run as its configuration. A
    resumed run continues the same run of the tracker. If the library fails while the run trains, the training
    continues.

    Args:
        library: wandb, trackio, mlflow or tensorboard.
        project: Project of wandb and trackio, experiment of MLflow. Default: slotwise.
        name: Name of the run in the tracker. Default: the name of its folder.
        notify: Is told once if the library fails. Default: a Python warning.

    Raises:
        UserError: the library is missing or cannot be used; nothing has been written then.
    """
    if library not in TRACKERS:
        raise InputError("library", library, f"one of {', '.join(TRACKERS)}")
    return TRACKERS[library](project=project, name=name, notify=notify)
