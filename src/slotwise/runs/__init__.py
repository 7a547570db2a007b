"""Runs: one training with its configuration, folder, checkpoints and result."""

from slotwise.runs.config import RunConfig
from slotwise.runs.run_folder import RunFolder, model_sha256
from slotwise.runs.saved_run import SavedRun
from slotwise.runs.session import Observer, RunResult, RunSession, resume, run
from slotwise.runs.toml_options import read_toml

__all__ = [
    "Observer",
    "RunConfig",
    "RunFolder",
    "RunResult",
    "RunSession",
    "SavedRun",
    "model_sha256",
    "read_toml",
    "resume",
    "run",
]
