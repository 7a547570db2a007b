"""TensorboardTracker: writes TensorBoard event files while the run trains."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from slotwise.base.errors import ConflictError
from slotwise.runs.session import RunEnd
from slotwise.tracking.tracker_base import NOTHING, Tracker, import_library

if TYPE_CHECKING:
    from slotwise.runs import RunFolder

FOLDER = "tensorboard"
# TensorBoard keeps the first status it reads, so a run that may be resumed has none.
STATUS: dict[RunEnd, str] = {
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
            if status in STATUS:
                self._write(summary=self._session_end(STATUS[status]))
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
