"""The trackers: wandb, trackio (which has the calls of wandb), MLflow and TensorBoard."""

from __future__ import annotations

import inspect
import json
import os
import re
import secrets
import socket
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from typing import TYPE_CHECKING, Any

from slotwise.base.errors import ConflictError, UserError
from slotwise.runs.session import RunEnd
from slotwise.tracking.tracker_base import NOTHING, PROJECT, Tracker, import_library, one_line

if TYPE_CHECKING:
    from slotwise.runs import RunFolder

# wandb shows a run with code 255 as killed and one with another code than 0 as failed.
EXIT_CODES: dict[RunEnd, int] = {"finished": 0, "reached": 0, "interrupted": 255, "diverged": 1, "failed": 1}


class WandbTracker(Tracker):
    """Logs a run with the calls of wandb.

    Variables such as WANDB_MODE, WANDB_DIR and WANDB_PROJECT have the effect they have in any program.

    Project and name are by default WANDB_PROJECT and WANDB_NAME.
    """

    library = "wandb"

    def connect(self) -> None:
        """Import wandb and ask for a login now, not when the training begins; no network is used."""
        self._module = import_library("wandb")
        if os.environ.get("WANDB_MODE") in ("offline", "disabled"):
            return
        try:
            self._module.login(verify=False)
        except Exception as error:
            hint = "log in with wandb login, or set WANDB_MODE=offline to record without an account"
            raise UserError(f"wandb cannot be used: {one_line(error)} ({hint})") from None

    def begin(self, folder: RunFolder, config: Mapping[str, Any]) -> int:
        """Call `init`, with the id of the run if it is resumed."""
        state = self.state
        if state.get("offline") and state.get("is_open"):
            # The process was killed. wandb keeps the last seconds of an offline run in memory, so it is not
            # known which points were written: log all of them as another run.
            del state["id"]
            state["slot"] = NOTHING
        usual = {"id": secrets.token_hex(4), "project": PROJECT, "name": folder.path.resolve().name}
        for key, value in (usual | self._variables()).items():
            state.setdefault(key, self._given.get(key) or value)
        init = self._module.init
        identity = _accepted(init, id=state["id"])
        # trackio knows runs by their names only.
        name = state["name"] if identity else f"{state['name']}-{state['id']}"
        # As it is stored: a resumed run must have the same values.
        plain = json.loads(json.dumps(dict(config)))
        with self._stdout():
            self._run = init(project=state["project"], name=name, config=plain, resume="allow", **identity)
        state |= {"offline": bool(getattr(self._run, "offline", False)), "is_open": True}
        return _last_step(self._run, int(state["slot"]))

    def log(self, values: Mapping[str, float], slot: int) -> None:
        """Call `log` with the slot as the step.

        wandb keeps the values of a step back until the next one, unless it is told to commit them.
        """
        log = self._run.log
        log(dict(values), step=slot, **_accepted(log, commit=True))

    def end(self, status: RunEnd) -> None:
        """Call `finish`, with an exit code if the library takes one."""
        finish, run, self._run = self._module.finish, self._run, None
        if hasattr(run, "summary"):
            run.summary["status"] = status
        with self._stdout():
            finish(**_accepted(finish, exit_code=EXIT_CODES[status]))
        self.state["is_open"] = False

    def _variables(self) -> dict[str, str]:
        """Return project and name from the environment, where they are set."""
        variables = {"project": "WANDB_PROJECT", "name": "WANDB_NAME"}
        return {key: os.environ[name] for key, name in variables.items() if os.environ.get(name)}

    def _stdout(self) -> AbstractContextManager[Any]:
        """Return a context for calls that print: wandb prints to stderr, and records the real stdout."""
        return nullcontext()


class TrackioTracker(WandbTracker):
    """Logs a run to trackio, which has the functions of wandb, but no login and no variables for names."""

    library = "trackio"

    def connect(self) -> None:
        """Import the package trackio."""
        self._module = import_library("trackio")

    def _variables(self) -> dict[str, str]:
        return {}

    def _stdout(self) -> AbstractContextManager[Any]:
        """Return a context in which nothing is printed to stdout, where results of commands go."""
        return redirect_stdout(sys.stderr)


def _accepted(function: Callable[..., Any], **arguments: Any) -> dict[str, Any]:
    """Return the arguments that a function of the library takes: trackio leaves out some of wandb's."""
    known = inspect.signature(function).parameters
    return {name: value for name, value in arguments.items() if name in known}


def _last_step(run: Any, logged: int) -> int:
    """Return the last step that the library has of a run; ``logged`` is the last that it was given.

    It may have fewer, because it stores in the background and the process was killed. wandb knows the number
    of the next step unless it is offline; that of trackio is not public.
    """
    following = getattr(run, "step", getattr(run, "_next_step", None))
    if following is None or getattr(run, "offline", False) or getattr(run, "disabled", False):
        return logged
    return int(following) - 1


MLFLOW_STATUS: dict[RunEnd, str] = {
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
        self._client.set_terminated(self._run, status=MLFLOW_STATUS[status])


def _allowed(name: str) -> str:
    """Return a metric's name with the characters that MLflow refuses replaced."""
    return re.sub(r"[^\w\-. /]", "_", name)


FOLDER = "tensorboard"
# TensorBoard keeps the first status it reads, so a run that may be resumed has none.
TENSORBOARD_STATUS: dict[RunEnd, str] = {
    "finished": "STATUS_SUCCESS",
    "reached": "STATUS_SUCCESS",
    "diverged": "STATUS_FAILURE",
}


class TensorboardTracker(Tracker):
    """Writes event files into the folder tensorboard of the run folder; every point is on disk at once.

    TensorBoard's own writer has a thread that prints its errors and knows no resumed runs, so the events are
    made here: scalars, the options of the run, and its end.

    It has neither projects nor names of runs.
    """

    library = "tensorboard"

    def connect(self) -> None:
        """Import the modules of TensorBoard that make events."""
        for key, value in self._given.items():
            if value is not None:
                raise ConflictError(key, self.library)
        proto, hparams = "tensorboard.compat.proto", "tensorboard.plugins.hparams"
        self._records = import_library("tensorboard.summary.writer.record_writer")
        self._events = import_library(f"{proto}.event_pb2")
        self._summaries = import_library(f"{proto}.summary_pb2")
        self._options = import_library(f"{hparams}.summary_v2")
        self._plugin = import_library(f"{hparams}.plugin_data_pb2")
        self._metadata = import_library(f"{hparams}.metadata")
        self._api = import_library(f"{hparams}.api_pb2")

    def begin(self, folder: RunFolder, config: Mapping[str, Any]) -> int:
        """Open a new event file; TensorBoard joins it to those of the run before it was resumed."""
        place, logged = folder.path / FOLDER, int(self.state["slot"])
        place.mkdir(exist_ok=True)
        if logged == NOTHING:  # files of a run that this one replaces
            for old in place.glob("events.out.tfevents.*"):
                old.unlink()
        # TensorBoard reads the files in the order of their names.
        path = place / f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}"
        self._writer = self._records.RecordWriter(path.open("xb"))
        self._write(file_version="brain.Event:2")
        if logged != NOTHING:  # drop a point that was written, but not noted, when the process was killed
            start = self._events.SessionLog(status=self._events.SessionLog.START)
            self._write(step=logged + 1, session_log=start)
        shown = {name: _shown(value) for name, value in config.items()}
        self._write(summary=self._options.hparams_pb(shown, trial_id=str(folder.path.resolve())))
        return logged

    def log(self, values: Mapping[str, float], slot: int) -> None:
        """Write one event with all values of a point."""
        value = self._summaries.Summary.Value
        scalars = [value(tag=name, simple_value=float(number)) for name, number in values.items()]
        self._write(step=slot, summary=self._summaries.Summary(value=scalars))

    def end(self, status: RunEnd) -> None:
        """Write how the run ended and close the file."""
        try:
            if status in TENSORBOARD_STATUS:
                self._write(summary=self._session_end(TENSORBOARD_STATUS[status]))
        finally:
            self._writer.close()

    def _session_end(self, status: str) -> Any:
        info = self._plugin.SessionEndInfo(status=self._api.Status.Value(status), end_time_secs=time.time())
        data = self._metadata.create_summary_metadata(self._plugin.HParamsPluginData(session_end_info=info))
        tag, tensor = self._metadata.SESSION_END_INFO_TAG, self._metadata.NULL_TENSOR
        value = self._summaries.Summary.Value(tag=tag, metadata=data, tensor=tensor)
        return self._summaries.Summary(value=[value])

    def _write(self, **fields: Any) -> None:
        event = self._events.Event(wall_time=time.time(), **fields)
        self._writer.write(event.SerializeToString())
        self._writer.flush()


def _shown(value: Any) -> bool | float | str:
    """Return an option as TensorBoard can show it."""
    return value if isinstance(value, bool | int | float | str) else str(value)
