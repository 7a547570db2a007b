"""MlflowTracker: logs to MLflow."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from slotwise.base.errors import UserError
from slotwise.runs.session import RunEnd
from slotwise.tracking.tracker_base import NOTHING, PROJECT, Tracker, import_library, one_line

if TYPE_CHECKING:
    from slotwise.runs import RunFolder

STATUS: dict[RunEnd, str] = {
    "finished": "FINISHED",
    "reached": "FINISHED",
    "interrupted": "KILLED",
    "diverged": "FAILED",
    "failed": "FAILED",
}


class MlflowTracker(Tracker):
    """Logs a run to the store that MLFLOW_TRACKING_URI names, by default mlflow.db in the current folder.

    The project is the name of the experiment; by default it is MLFLOW_EXPERIMENT_NAME, or slotwise.
    """

    library = "mlflow"

    def connect(self) -> None:
        """Import MLflow and ask its store for the experiment."""
        self._mlflow = import_library("mlflow")
        self._experiment = self._given["project"] or os.environ.get("MLFLOW_EXPERIMENT_NAME") or PROJECT
        try:
            # The client has no active run, so a run that the user has started is left alone.
            self._client = self._mlflow.MlflowClient()
            self._client.get_experiment_by_name(self._experiment)
        except Exception as error:
            uri = self._mlflow.get_tracking_uri()
            raise UserError(f"mlflow cannot use {uri}: {one_line(error)}") from None

    def begin(self, folder: RunFolder, config: Mapping[str, Any]) -> int:
        """Create a run, or continue the one of this run folder if the store still has it."""
        self._run = self.state.get("id")
        if self._run is not None and self._exists(self._run):
            self._client.update_run(self._run, status="RUNNING")
            steps = [metric.step for metric in self._client.get_metric_history(self._run, "slot")]
            return max(steps, default=NOTHING)
        self.state |= {"project": self._experiment, "name": self._given["name"] or folder.path.resolve().name}
        found = self._client.get_experiment_by_name(self._experiment)
        experiment = found.experiment_id if found else self._client.create_experiment(self._experiment)
        created = self._client.create_run(experiment, run_name=self.state["name"])
        self._run = self.state["id"] = created.info.run_id
        parameter = self._mlflow.entities.Param
        self._client.log_batch(self._run, params=[parameter(key, str(config[key])) for key in config])
        return NOTHING

    def _exists(self, run: str) -> bool:
        try:
            return str(self._client.get_run(run).info.lifecycle_stage) == "active"
        except self._mlflow.exceptions.MlflowException as error:
            if error.error_code == "RESOURCE_DOES_NOT_EXIST":
                return False
            raise

    def log(self, values: Mapping[str, float], slot: int) -> None:
        """Log all values of a point in one request."""
        metric, now = self._mlflow.entities.Metric, int(time.time() * 1000)
        metrics = [metric(_allowed(name), float(value), now, slot) for name, value in values.items()]
        self._client.log_batch(self._run, metrics=metrics)

    def end(self, status: RunEnd) -> None:
        """Set the status of the run."""
        self._client.set_tag(self._run, "slotwise.status", status)
        self._client.set_terminated(self._run, status=STATUS[status])


def _allowed(name: str) -> str:
    """Return a metric's name with the characters that MLflow refuses replaced."""
    return re.sub(r"[^\w\-. /]", "_", name)
