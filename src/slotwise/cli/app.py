"""The `slotwise` command: its subcommands, and how errors are reported."""

from __future__ import annotations

import errno
import io
import os
import sys
from importlib.metadata import version
from typing import NoReturn

from cyclopts import App, Parameter
from cyclopts.exceptions import CycloptsError

from slotwise.cli.bench import bench
from slotwise.cli.bound import bound
from slotwise.cli.data import data
from slotwise.cli.flags import INTERRUPTED
from slotwise.cli.plan import plan
from slotwise.cli.recommend import recommend
from slotwise.cli.reproduce import reproduce
from slotwise.cli.show import show
from slotwise.cli.sweep import compare, sweep
from slotwise.cli.timeline import timeline
from slotwise.cli.train import train
from slotwise.errors import InputError, UserError

USAGE_ERROR = 2
USER_CODE_FAILED = 1
LEGACY = {"serve", "device", "fleet", "enroll"}


def _unwrapped(docstring: str | None) -> str:
    """Return a docstring with one line per paragraph: the terminal knows where to wrap."""
    paragraphs = (docstring or "").strip().split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


app = App(
    name="slotwise",
    help="Federated learning over time-slotted channels: plan it, simulate it, train it, run it.",
    version=lambda: f"slotwise {version('slotwise')}",
    help_format="plaintext",
    default_parameter=Parameter(negative=(), show_default=False),
    result_action="return_value",
)
for _command in (plan, timeline, train, show, sweep, recommend, reproduce, bench, bound):
    app.command(_command, help=_unwrapped(_command.__doc__))
app.command(compare, show=False)
app.command(data, name="data")


def main() -> NoReturn:
    """Run the command line and exit."""
    try:
        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run a command and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without UTF-8 gets question marks, not an error
    if arguments and arguments[0] in LEGACY:
        from slotwise.cli.legacy import run as run_legacy  # noqa: PLC0415

        return run_legacy()
    try:
        return int(app(arguments, exit_on_error=False, print_error=False) or 0)
    except CycloptsError as error:
        return _refuse(_usage_message(error))
    except UserError as error:
        return _refuse(describe(error))
    except MemoryError:
        return _refuse("not enough memory for this size")
    except BrokenPipeError:
        # The reader (head, less) has closed the pipe: keep the interpreter's last flush from failing.
        _drop_output()
        return 0
    except OSError as error:
        if error.errno != errno.ENOSPC:
            return _report_crash(error)
        _drop_output()
        return _refuse("cannot write the output: no space left")
    except Exception as error:
        return _report_crash(error)


def describe(error: UserError) -> str:
    """Return the message of an error with options instead of parameters."""
    return error.described(_option_name) if isinstance(error, InputError) else str(error)


def _option_name(parameter: str) -> str:
    """Return ``--group-size`` for ``group_size``."""
    return "--" + parameter.replace("_", "-")


def _usage_message(error: CycloptsError) -> str:
    """Return one line: a converter's own message, or the parser's with the place to read more."""
    if isinstance(error.__cause__, InputError):
        return describe(error.__cause__)
    chain = " ".join(["slotwise", *(error.command_chain or ())])
    return f"{' '.join(str(error).split()).rstrip('.')} (see {chain} --help)"


def _refuse(message: str) -> int:
    sys.stderr.write(f"slotwise: {message}\n")
    return USAGE_ERROR


def _report_crash(error: Exception) -> int:
    """Show an unexpected error in the user's code from there on; raise any other."""
    from slotwise.user_code import user_traceback  # noqa: PLC0415

    shown = user_traceback(error)
    if shown is None:
        raise error
    sys.stderr.write(f"{shown}slotwise: the error is in your code, not in slotwise\n")
    return USER_CODE_FAILED


def _drop_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
