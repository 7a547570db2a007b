"""The machine this process runs on: usable cores, memory and processor."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

from slotwise.base.errors import InputError

SPARE_FILES = 100  # open files of a process beside its connections
PROCESSES_PER_CORE = 8  # at most; each takes some hundred megabytes


def available_cores() -> int:
    """Return the number of cores this process may use: the default number of workers everywhere."""
    return len(os.sched_getaffinity(0))


def refuse_too_many_processes(parameter: str, count: int) -> None:
    """Raise an InputError for more processes than this machine has any use for."""
    most = PROCESSES_PER_CORE * available_cores()
    if count > most:
        cores = f"{available_cores()} core{'s' * (available_cores() != 1)}"
        raise InputError(parameter, count, f"at most {most}: this machine has {cores}")


def allow_open_files(parameter: str, count: int, each: str) -> None:
    """Raise this process's limit of open files for ``count`` connections; an InputError if it is too low.

    ``each`` says what has a connection.
    """
    needed = count + SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        most = max(0, hard - SPARE_FILES)
        remedy = f"raise the limit (ulimit -n {needed}, or LimitNOFILE={needed} in a systemd unit)"
        allowed = f"at most {most:,}: {each}, and this process may open {hard:,} files; {remedy}"
        raise InputError(parameter, count, allowed)
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def total_memory() -> int:
    """Return the bytes of memory of this machine, or the limit of its container if that is lower."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # no such file, or "max"
        found = min(found, int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    return found


def resident_memory() -> int:
    """Return the bytes of memory that this process takes; 0 if that is not known."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def busy_seconds() -> float | None:
    """Return the processor time that all programs have used since the start of the machine, if it is known.

    Time that a virtual machine waited for its processors (steal) counts too.
    """
    try:
        first = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0]
    except OSError:
        return None
    user, nice, system, _idle, _iowait, *others = map(int, first.split()[1:9])
    return (user + nice + system + sum(others)) / os.sysconf("SC_CLK_TCK")


class OtherLoad:
    """Measures the share of this machine's cores that other programs use, from its construction on."""

    def __init__(self) -> None:
        self._cores = os.cpu_count() or 1
        self._start = self._now()

    def share(self) -> float | None:
        """Return the share so far, from 0 to 1; None where it cannot be measured."""
        if self._start is None or (end := self._now()) is None:
            return None
        elapsed, busy, own = (after - before for before, after in zip(self._start, end, strict=True))
        return min(1.0, max(0.0, (busy - own) / (elapsed * self._cores))) if elapsed > 0 else 0.0

    def _now(self) -> tuple[float, float, float] | None:
        """Return the time, the busy time of all programs, and that of this process and its children."""
        busy, own = busy_seconds(), os.times()
        return None if busy is None else (time.monotonic(), busy, sum(own[:4]))


def processor() -> str:
    """Return the processor's model name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


@cache
def source_commit() -> str | None:
    """Return the git commit of the checkout that slotwise runs from; None if it is installed elsewhere.

    It ends in ``-dirty`` if files of the checkout differ from the commit.
    """
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):  # no git, or not the owner of the checkout
        return None
    return done.stdout.strip() or None


def describe_machine() -> str:
    """Return processor, cores, operating system and Python version in one line."""
    system = f"{platform.system()} {platform.machine()}"
    return f"{processor()}, {available_cores()} cores, {system}, Python {platform.python_version()}"
