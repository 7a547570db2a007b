"""Exit codes of commands that train."""

from __future__ import annotations

SOME_FAILED = 1
HOPELESS = 3  # it would end like this again: services do not restart it
INTERRUPTED = 130
