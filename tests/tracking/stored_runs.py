"""Runs as the libraries have stored them, read with the libraries' own readers where they have one."""

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

NAMES = ("train_loss", "test_accuracy", "slot", "round", "staleness", "test_loss")


class Stored(NamedTuple):
    """One run of a tracker."""

    id: str
    steps: list[int]
    rows: list[tuple[float, ...]]
    config: dict[str, Any]
    status: Any


def read_stored(library: str, place: Path, project: str) -> list[Stored]:
    """Read the runs of a project, oldest first; ``place`` is the test's folder, with the run in run/."""
    if library == "wandb":
        import wandb

        wandb.teardown()  # what it has in memory is written then
        found = [read_wandb(file) for file in place.glob("wandb/wandb/offline-run-*/*.wandb")]
        # Names of files have only seconds. A killed process may have written nothing, so it comes first.
        return [stored for _, stored in sorted(found, key=lambda started: started[0])]
    if library == "trackio":
        return read_trackio(project)
    if library == "mlflow":
        return read_mlflow(project)
    return [read_tensorboard(place / "run" / "tensorboard")]


def read_wandb(file: Path) -> tuple[int, Stored]:
    """Read the log of transactions that `wandb sync` would send; return when the run started, and the run."""
    from wandb.proto.wandb_internal_pb2 import Record

    name, rows, steps, config, status = "", [], [], {}, None
    started = 0  # nanoseconds
    for data in leveldb_records(file.read_bytes()):
        record = Record()
        record.ParseFromString(data)
        kind = record.WhichOneof("record_type")
        if kind == "run":
            name = f"{record.run.project}/{record.run.display_name}/{record.run.run_id}"
            config = {item.key: json.loads(item.value_json) for item in record.run.config.update}
            started = record.run.start_time.ToNanoseconds()
            assert started
        elif kind == "history":
            row = {(i.key or i.nested_key[0]): json.loads(i.value_json) for i in record.history.item}
            steps.append(row["_step"])
            rows.append(tuple(row[field] for field in NAMES))
        elif kind == "exit":
            status = record.exit.exit_code
    return started, Stored(name, steps, rows, config, status)


def leveldb_records(data: bytes) -> Iterator[bytes]:
    """Split a file in LevelDB's log format: blocks of 32 KiB with whole records or parts of one."""
    place, parts = 7, b""
    while place + 7 <= len(data):
        left = 32768 - place % 32768
        if left < 7:
            place += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, place)
        parts += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # a whole record, or the last part of one
            yield parts
            parts = b""


def read_trackio(project: str) -> list[Stored]:
    from trackio.sqlite_storage import SQLiteStorage

    found = []
    for run in SQLiteStorage.get_run_records(project):
        logs = SQLiteStorage.get_logs(project, run["name"], run_id=run["id"])
        rows = [tuple(log[field] for field in NAMES) for log in logs]
        config = SQLiteStorage.get_run_config(project, run["name"], run_id=run["id"])
        found.append(Stored(f"{project}/{run['name']}", [log["step"] for log in logs], rows, config, None))
    return found


def read_mlflow(project: str) -> list[Stored]:
    from mlflow import MlflowClient

    client, found = MlflowClient(), []
    experiment = client.get_experiment_by_name(project)
    runs = client.search_runs([experiment.experiment_id], order_by=["start_time ASC"])
    for run in runs:
        name = run.info.run_id
        columns = {field: client.get_metric_history(name, field) for field in NAMES}
        steps = [metric.step for metric in columns["slot"]]
        rows = list(zip(*([metric.value for metric in columns[field]] for field in NAMES), strict=True))
        status = (run.info.status, run.data.tags.get("slotwise.status"))
        found.append(Stored(f"{run.info.run_name}/{name}", steps, rows, run.data.params, status))
    return found


def read_tensorboard(folder: Path) -> Stored:
    """Read the events as TensorBoard does: all files, without what a restart has replaced."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams import metadata
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    columns = {field: events.Scalars(field) for field in NAMES if field in events.Tags()["scalars"]}
    steps = [event.step for event in columns.get("slot", [])]
    rows = list(zip(*([event.value for event in columns[field]] for field in columns), strict=True))
    content = events.PluginTagToContent("hparams")
    start = HParamsPluginData.FromString(content[metadata.SESSION_START_INFO_TAG]).session_start_info
    config = {key: getattr(value, value.WhichOneof("kind")) for key, value in start.hparams.items()}
    status = None
    if metadata.SESSION_END_INFO_TAG in content:
        data = HParamsPluginData.FromString(content[metadata.SESSION_END_INFO_TAG])
        status = data.session_end_info.status
    return Stored(str(folder), steps, rows, config, status)
