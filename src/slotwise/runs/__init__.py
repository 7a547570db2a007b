"""Runs: parameters in, a folder with the result out; resumable at any moment."""

from slotwise.runs.config import RunConfig
from slotwise.runs.execute import Outcome, Watcher, execute
from slotwise.runs.folder import RunFolder, model_sha256
from slotwise.runs.toml_file import read_toml

__all__ = [
    "Outcome",
    "RunConfig",
    "RunFolder",
    "Watcher",
    "execute",
    "model_sha256",
    "read_toml",
]
