"""The machine this process runs on: usable cores, memory and processor."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from pathlib import Path


def available_cores() -> int:
    """Return the number of cores this process may use: the default number of workers everywhere."""
    return len(os.sched_getaffinity(0))


def total_memory() -> int:
    """Return the bytes of memory of this machine, or the limit of its container if that is lower."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # no such file, or "max"
        found = min(found, int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    return found


def processor() -> str:
    """Return the processor's model name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def describe_machine() -> str:
    """Return processor, cores, operating system and Python version in one line."""
    system = f"{platform.system()} {platform.machine()}"
    return f"{processor()}, {available_cores()} cores, {system}, Python {platform.python_version()}"
