"""Random command lines: fuzz.py --cases 5000 --first 0 --workers 2; one of them again: fuzz.py --only 17.

Every case is a command line with a seed of its own, over all commands and their options, in a folder with a
few files. A refused option is left out and the rest tried again, so that a case gets past the first refusal.
A command line is right if its exit code is one of 0, 1 (the error is in the user's code, or runs failed), 2
(refused), 3 (hopeless) and 130 (interrupted); there is no traceback and no warning of numpy; it takes less
than 30 seconds and 2 GB; and nothing is left behind if it is refused.

Commands that wait or work for long on purpose are interrupted as with Ctrl-C after a few seconds. Root may
read everything: setpriv --bounding-set=-dac_override,-dac_read_search takes that away.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from math import inf
from multiprocessing import get_context
from pathlib import Path
from random import Random

import numpy as np

from random_commands import command_line, commands, mended, mended_file, options_file, sizes
from slotwise.base.machine import available_cores
from slotwise.cli.app import COMMANDS
from slotwise.cli.app import main as slotwise
from slotwise.live.server.timings import FILE as TIMINGS
from slotwise.runs import RunConfig, RunFolder

SECONDS, BYTES = 30, 2 * 10**9
ALLOWED = {0, 1, 2, 3, 130}
RETRIES = 8
PATIENCE, LONGER = (
    2,
    8,
)  # seconds until commands are interrupted that wait for others, or may have a lot to do
WAITING = ("explore", "serve", "device", "fleet", "bench", "reproduce")
TRAINING = ("train", "sweep", "recommend", "bound")
WARNING = re.compile(r"^\S+:\d+: \w*Warning: ", re.MULTILINE)
OWN = """
def broken(*arguments, **options):
    raise RuntimeError("broken on purpose")

def returns_text(*arguments, **options):
    return "text"
"""
TURNS = """device,round,version,training,compute_seconds,ready_seconds,uplink_seconds,lost
1,0,0,0,0.1,0.2,0.05,0
2,0,0,0,0.2,0.3,0.1,0
"""
# Whatever a command downloads or opens in a browser must fail at once, and nothing may be kept elsewhere.
ENVIRONMENT = {
    **dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9"),
    **{
        "BROWSER": "true",
        "HF_HUB_OFFLINE": "1",
        "WANDB_MODE": "offline",
        "COLUMNS": "80",
        "MPLBACKEND": "agg",
    },
}


@dataclass(frozen=True)
class Outcome:
    """One command line and what became of it."""

    seed: int
    arguments: list[str]
    code: int
    seconds: float
    allowed_seconds: float
    bytes: int
    stderr: str
    changed: list[str]

    def problem(self) -> str | None:
        """Return what is wrong, or None."""
        if self.bytes > BYTES:
            return f"takes {self.bytes / 1e9:.1f} GB"
        if self.seconds > self.allowed_seconds:
            return f"takes {self.seconds:.0f} s"
        if self.code not in ALLOWED:
            return f"exit code {self.code}"
        if "Traceback" in self.stderr and not (self.code == 1 and "own.py" in self.stderr):
            return "traceback"
        if WARNING.search(self.stderr):
            return "warning"
        if self.code == 2 and self.changed and "training diverged" not in self.stderr:  # that run is kept
            return f"refused, but leaves {self.changed[0]}"
        if left := [name for name in self.changed if name.endswith(".tmp")]:
            return f"leaves {left[0]}"
        return None


def cases(seed: int, template: Path, *, slow: bool) -> Iterator[Outcome]:
    """Run the command line of a seed, and those without the options that are refused one after another."""
    random = Random(seed)
    arguments, config, sweep = (
        command_line(random, slow=slow),
        options_file(random, sweep=False),
        options_file(random, sweep=True),
    )
    for _ in range(1 + RETRIES):
        with tempfile.TemporaryDirectory(prefix="slotwise-fuzz-", ignore_cleanup_errors=True) as place:
            folder = Path(place) / "here"
            shutil.copytree(template, folder)
            (folder / "options.toml").write_text(config)
            (folder / "sweep.toml").write_text(sweep)
            (folder / "locked").chmod(0)
            outcome = run(seed, arguments, folder)
            (folder / "locked").chmod(0o700)
        yield outcome
        before = arguments, config, sweep
        if outcome.code == 2:
            arguments = mended(arguments, outcome.stderr, random) or arguments
            config, sweep = (mended_file(text, outcome.stderr) for text in (config, sweep))
        if before == (arguments, config, sweep):
            return


def run(seed: int, arguments: list[str], folder: Path) -> Outcome:
    """Run a command line in a process of its own, which begins with everything imported."""
    before, begin = _files(folder), time.monotonic()
    log = folder.parent / "stderr"
    child = os.fork()
    if child == 0:
        _become(arguments, folder, log)
    # Other programs may use the machine as well.
    allowed = SECONDS * max(1.0, os.getloadavg()[0] / available_cores())
    code, most = _wait(child, patience=_patience(arguments), end=begin + allowed + 1)
    seconds = time.monotonic() - begin
    after = _files(folder)
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    return Outcome(seed, arguments, code, seconds, allowed, most, log.read_text(errors="replace"), changed)


def _become(arguments: list[str], folder: Path, log: Path) -> None:
    """Be the command line; never returns."""
    code = 99
    try:
        os.setsid()
        os.chdir(folder)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        null = os.open(os.devnull, os.O_RDWR)
        errors = os.open(log, os.O_WRONLY | os.O_CREAT)
        for descriptor, target in ((null, 0), (null, 1), (errors, 2)):
            os.dup2(descriptor, target)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
        os.environ |= ENVIRONMENT | {"SLOTWISE_CACHE": str(folder.parent / "cache")}
        sys.path.insert(0, str(folder))
        sys.argv = ["slotwise", *arguments]
        slotwise()
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        with suppress(Exception):
            sys.stderr.flush()
        os._exit(code)


def _patience(arguments: list[str]) -> float:
    """Return the seconds after which a command line is interrupted."""
    values = [argument.partition("=")[2] or argument for argument in arguments]
    large = any(re.fullmatch(r"\d{3,}(\.\d+)?", value) for value in values)
    if arguments[0] in WAITING:
        return PATIENCE
    return LONGER if arguments[0] in TRAINING and (large or _without_sizes(arguments)) else inf


def _without_sizes(arguments: list[str]) -> bool:
    """Return whether an option that keeps the problem small is missing, or random options are in a file."""
    given = {argument.partition("=")[0] for argument in arguments}
    usual = {option.name for option in sizes(commands().get((arguments[0],), ()))}
    elsewhere = {"--resume", "--estimate"} & given or "options.toml" in arguments
    return bool(usual - given or elsewhere or arguments[0] == "sweep")


def _wait(child: int, *, patience: float, end: float) -> tuple[int, int]:
    """Wait for a process and return its exit code and the most memory it has had; kill it at the end."""
    most, interrupt = 0, time.monotonic() + patience
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        most = max(most, _resident_bytes(child))
        now = time.monotonic()
        if now > end or most > BYTES:
            os.killpg(child, signal.SIGKILL)
        elif now > interrupt:
            interrupt = end
            os.kill(child, signal.SIGINT)
        time.sleep(0.01)
    with suppress(ProcessLookupError):  # its processes, if it has left some
        os.killpg(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(status), most


def _resident_bytes(process: int) -> int:
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _files(folder: Path) -> dict[str, tuple[int, int]]:
    """Return size and time of change of every file and folder by name."""
    found = {}
    for path in folder.rglob("*"):
        if "__pycache__" not in path.parts:
            status = path.lstat()
            found[str(path.relative_to(folder))] = (
                (status.st_size, status.st_mtime_ns) if path.is_file() else (0, 0)
            )
    return found


def make_template(folder: Path, *, batch: bool) -> None:
    """Make the files that command lines may name: a run, a batch, options, tables, and damaged ones."""
    (folder / "locked").mkdir(parents=True)
    (folder / "own.py").write_text(OWN)
    (folder / "empty").write_text("")
    (folder / "broken.json").write_text('{"format": 1, ')
    (folder / "broken.toml").write_text("devices = = 3\n")
    (folder / "fleet.csv").write_text("device,compute_slots,link_slots\n1,2,1\n2,3,1\n3,4,2\n4,1,1\n")
    (folder / "trace.csv").write_text("1,2,3,4\n" * 10)
    (folder / "samples").mkdir()
    images, labels = np.zeros((6, 1, 28, 28), np.uint8), np.arange(6) % 3
    for name in ("device-1", "device-2", "test"):
        np.savez(folder / "samples" / f"{name}.npz", x=images, y=labels)
    tiny = {option.name: value for option, value in sizes(commands()[("train",)]).items()}
    _slotwise(folder, "train", *(part for pair in tiny.items() for part in pair), "--out", "run", "--quiet")
    RunFolder.create(folder / "live", RunConfig.from_options({"devices": 4, "group_size": 2}), live_run="x")
    (folder / "live" / TIMINGS).write_text(TURNS)
    lists = {"--channels", "--hidden"}
    lines = {
        name: f"{name[2:]} = {f'[{value}]' if name in lists else value}\n" for name, value in tiny.items()
    }
    (folder / "tiny.toml").write_text("".join(lines[name] for name in lines if name != "--group-size"))
    (folder / "sweep.toml").write_text("".join(lines.values()) + "seeds = [0, 1]\n")
    if batch:
        _slotwise(folder, "sweep", "sweep.toml", "--out", "batch", "--quiet")


def _slotwise(folder: Path, *arguments: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "slotwise", *arguments], cwd=folder, check=True, capture_output=True
    )


def outcomes_of(seed: int, template: Path, *, slow: bool) -> list[Outcome]:
    return list(cases(seed, template, slow=slow))


def import_everything() -> None:
    """Import what commands import, so that forked processes need not."""
    commands()
    for module in {module for module, _ in COMMANDS.values()}:
        import_module(f"slotwise.cli.{module}")
    for module in (
        "runs",
        "recommendation.search",
        "paper.reproduction",
        "batch.jobs",
        "learning.cnn_task",
        "report.page",
    ):
        import_module(f"slotwise.{module}")


def arguments_of_script() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=int, default=200, help="how many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", type=int, help="run one seed, and show its command lines and messages")
    parser.add_argument("--quick", action="store_true", help="no commands that wait, or train for long")
    parser.add_argument("--verbose", action="store_true", help="show every command line")
    return parser.parse_args()


def main() -> int:
    given = arguments_of_script()
    import_everything()
    seeds = range(given.first, given.first + given.cases) if given.only is None else [given.only]
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="slotwise-fuzz-template-") as place:
        template = Path(place) / "template"
        make_template(template, batch=not given.quick)  # which takes some seconds
        with ProcessPoolExecutor(given.workers, mp_context=get_context("fork")) as pool:
            for found in pool.map(partial(outcomes_of, template=template, slow=not given.quick), seeds):
                outcomes += found
                for outcome in found:
                    report(outcome, verbose=given.verbose or given.only is not None)
    return summary(outcomes)


def report(outcome: Outcome, *, verbose: bool) -> None:
    problem = outcome.problem()
    if problem is None and not verbose:
        return
    print(f"{'FAILED' if problem else 'ok'} seed {outcome.seed}, exit code {outcome.code}", end=", ")
    print(f"{outcome.seconds:.1f} s" + (f": {problem}" if problem else ""))
    print(f"  {shlex.join(['slotwise', *outcome.arguments])[:1000]}")
    print("  " + "\n  ".join(outcome.stderr.splitlines()[-6:])[:2000], flush=True)


def summary(outcomes: list[Outcome]) -> int:
    failed = sorted({outcome.seed for outcome in outcomes if outcome.problem()})
    codes = sorted(Counter(outcome.code for outcome in outcomes).items())
    seeds = {outcome.seed for outcome in outcomes}
    print(f"{len(outcomes):,} command lines of the seeds {min(seeds)} to {max(seeds)}; exit codes", end=" ")
    print(", ".join(f"{code}: {count:,}" for code, count in codes))
    longest, most = max(one.seconds for one in outcomes), max(one.bytes for one in outcomes)
    print(f"longest {longest:.1f} s, most memory {most / 1e6:,.0f} MB")
    print(f"{len(failed)} seeds failed" + (f": {', '.join(map(str, failed))}" if failed else ""))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
