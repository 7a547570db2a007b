"""Runs: one training with its configuration, folder, checkpoints and result."""

from slotwise.runs.config import RunConfig, read_toml
from slotwise.runs.execution import RunResult, execute, resume, run
from slotwise.runs.run_folder import RunFolder, model_sha256

__all__ = ["RunConfig", "RunFolder", "RunResult", "execute", "model_sha256", "read_toml", "resume", "run"]
