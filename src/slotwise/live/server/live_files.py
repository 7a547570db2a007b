"""LiveFiles: the files of a live run: run.json, checkpoints, timeline.json, live.json, rejections.log."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from slotwise.files import write_atomically, write_document
from slotwise.learning import Task
from slotwise.live.server.inbox import Rejection
from slotwise.live.server.live_results import Comparison, compare, measured_timeline
from slotwise.live.server.server_config import ServerConfig
from slotwise.live.server.state import LiveState, Snapshot, decode_state, encode_state
from slotwise.observer import BaseObserver
from slotwise.runs import RunConfig, RunFolder
from slotwise.runs.checkpoints import SealedFiles
from slotwise.runs.run_folder import model_sha256
from slotwise.runs.saved_run import Status
from slotwise.schedule import Scheduler, Timeline

LOG_LIMIT = 10 << 20  # bytes of rejections.log; further rejections are only counted


class LiveFiles:
    """Reads and writes the folder of one live run."""

    def __init__(self, folder: RunFolder, config: RunConfig, options: ServerConfig) -> None:
        self.folder, self._config, self._options = folder, config, options
        self._checkpoints = SealedFiles(folder.path / "live")
        self.run_id = str(folder.description()["live_run"])

    def load(self, scheduler: Scheduler, observer: BaseObserver) -> LiveState | None:
        """Return the state in the newest checkpoint that is not damaged, if the first model was out then."""
        devices = self._config.channel.devices
        state, damaged = self._checkpoints.load(lambda data: decode_state(data, scheduler, devices))
        if state is not None and not state.record.receivers:
            state = None
        for path in damaged:
            observer.notice(f"{path}: damaged checkpoint, skipped")
        if damaged:
            start = "the start (no checkpoint)" if state is None else f"round {state.round}"
            observer.notice(f"{self.folder.path}: resuming from {start}")
        return state

    def save(self, snapshot: Snapshot) -> None:
        """Write a checkpoint, and the points so far."""
        self._checkpoints.save(len(snapshot.document["broadcasts"]), encode_state(snapshot))
        self.folder.write_points(snapshot.document["points"])

    def log_rejection(self, rejection: Rejection) -> None:
        """Append a line to rejections.log."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        with (self.folder.path / "rejections.log").open("a", encoding="utf-8") as log:
            if log.tell() < LOG_LIMIT:  # a flood must not fill the disk
                log.write(f"{stamp} {rejection}\n")

    def describe(self, status: Status, **more: Any) -> None:
        """Write run.json with the status of the run."""
        kept: dict[str, Any] = {"live_run": self.run_id, "live_options": self._options.kept()}
        self.folder.write_description(self._config, status, **kept, **more)

    def close(
        self, state: LiveState, status: Status, task: Task, plan: Timeline, **more: Any
    ) -> Comparison | None:
        """Save everything; run.json comes last, so that its status is true of the other files."""
        self.save(Snapshot.of(state))
        comparison = None
        model = state.models[state.round]
        self.folder.write_model(task.named_arrays(model))
        if state.round:
            measured = measured_timeline(self._config, plan, state)
            comparison = compare(plan, measured, state, self._options.slot_ms)
            write_atomically(self.folder.path / "timeline.json", measured.to_json())
            norms = {device: norms._asdict() for device, norms in comparison.norms.items()}
            write_document(self.folder.path / "live.json", {**asdict(comparison), "norms": norms})
        last = state.points[-1] if state.points else None
        self.describe(
            status,
            model_sha256=model_sha256(model),
            rounds=state.round,
            final=last._asdict() if last else None,
            seconds=round(state.seconds, 3),
            **more,
        )
        return comparison
