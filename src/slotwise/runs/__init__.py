"""Runs: one training with its configuration, folder, checkpoints and result."""

from slotwise.runs.config import RunConfig
from slotwise.runs.execution import Observer, RunResult, execute, resume, run
from slotwise.runs.run_folder import RunFolder, model_sha256
from slotwise.runs.saved_run import SavedRun
from slotwise.runs.toml_options import read_toml

__all__ = [
    "Observer",
    "RunConfig",
    "RunFolder",
    "RunResult",
    "SavedRun",
    "execute",
    "model_sha256",
    "read_toml",
    "resume",
    "run",
]
