"""The `slotwise` command: its subcommands, and how errors are reported."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from importlib import import_module
from typing import Any, NoReturn, TextIO, cast

from cyclopts import App, Parameter
from cyclopts.exceptions import CycloptsError, MissingArgumentError, UnknownOptionError, UnusedCliTokensError

from slotwise.base.errors import InputError, UserError, nearest_names, one_line, shortened, shown
from slotwise.base.extras import IS_SMALL, importing, installed_version
from slotwise.base.files import reason_of

# Exit codes. HOPELESS: it would end like this again, so service managers must not restart it.
SOME_FAILED, USAGE_ERROR, HOPELESS, INTERRUPTED = 1, 2, 3, 130


# Commands, the modules that define them, and summaries: `slotwise --help` imports nothing else, and a command
# imports its own module only.
COMMANDS = {
    "plan": ("schedules", "Show what every group size costs."),
    "timeline": ("schedules", "Show the exact schedule: who sends and receives in every slot."),
    "explore": ("results", "Explore schedules, trainings and results in a web browser."),
    "train": ("train", "Train a model along the schedule, exactly as the devices and the server would."),
    "radio": ("radio", "Show the cell of a radio model, or export its channels as a trace."),
    "show": ("results", "Tabulate and draw runs, or a batch."),
    "sweep": ("batches", "Train every case and every combination of a grid with every seed."),
    "recommend": ("recommend", "Recommend a schedule, group size and delay for a deadline."),
    "reproduce": ("batches", "Make the paper's figures, tables and verdicts on its claims, in one page."),
    "serve": ("serve", "Run a plan with real devices: grant the channel, collect updates, broadcast models."),
    "device": ("device", "Run one device: train what the server assigns, send when it grants the channel."),
    "fleet": (
        "device",
        "Run many devices at once, each with its own connection, on one machine.",
    ),
    "calibrate": ("live_setup", "Measure the devices of a live run, to plan the next one."),
    "rollout": ("live_setup", "Upgrade the devices of a live run, some first; all back if one fails."),
    "enroll": (
        "live_setup",
        "Write the logins of a server and devices: for a mosquitto broker with TLS, or UDP.",
    ),
    "data": (
        "data",
        "Get data sets, and show who holds which samples: label by device.",
    ),
    "bench": (
        "this_machine",
        "Measure this machine: a plain PyTorch loop, slotwise and a matrix product.",
    ),
    "bound": ("bound", "Show the bound of Theorem 1: as published, corrected, for groups in turn."),
}


def build_app(chosen: str | None) -> App:
    """Return the command line parser; only the chosen command is imported."""
    app = App(
        name="slotwise",
        help="Federated learning over time-slotted channels: plan it, simulate it, train it, run it.",
        version=lambda: f"slotwise {installed_version()}",
        help_format="plaintext",
        default_parameter=Parameter(negative=(), show_default=False),
        result_action="return_value",
        suppress_keyboard_interrupt=False,  # `main` has the exit code
    )
    for number, (name, (module, summary)) in enumerate(COMMANDS.items()):
        place = f"slotwise.cli.{module}"
        if name != chosen:
            app.command(f"{place}:{name}", name=name, help=summary, sort_key=number)
            continue
        command = getattr(import_module(place), name)
        if isinstance(command, App):
            app.command(command, name=name)
        else:
            # One line per paragraph: the terminal knows where to wrap.
            paragraphs = (command.__doc__ or "").strip().split("\n\n")
            app.command(command, help="\n\n".join(" ".join(part.split()) for part in paragraphs))
    return app


def main(*before: str) -> NoReturn:
    """Run the command line, with these arguments before those that were given, and exit."""
    try:
        code = run([*before, *sys.argv[1:]])
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run a command and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without UTF-8 gets question marks, not an error
    try:
        with importing():
            app = build_app(arguments[0] if arguments else None)
            return int(app(arguments, exit_on_error=False, print_error=False) or 0)
    except CycloptsError as error:
        return _refuse(_usage_message(error))
    except UserError as error:
        return _refuse(_with_notes(describe(error), error))
    except MemoryError:
        return _refuse("not enough memory for this size")
    except BrokenPipeError:
        # The reader (head, less) has closed the pipe: keep the interpreter's last flush from failing.
        _drop_output()
        return 0
    except OSError as error:
        return _refuse_file(error)
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # raised by rich, see above
            _drop_output()
            return 0
        return _refuse("a function of yours called sys.exit")
    except Exception as error:
        return _report_crash(error)


def describe(error: UserError) -> str:
    """Return the message of an error with options instead of parameters."""
    if isinstance(error, InputError):
        return error.described(lambda parameter: "--" + parameter.replace("_", "-"), known=_options(error))
    return str(error)


def _options(error: InputError) -> tuple[str, ...]:
    """Return the options of a run, if one may be in the message."""
    if not {"_", "="} & set(error.allowed):
        return ()
    from slotwise.runs.config import RunConfig  # noqa: PLC0415  (slow to import)

    return RunConfig.known_options()


def _usage_message(error: CycloptsError) -> str:
    """Return one line: a converter's own message, or the parser's with the place to read more."""
    if isinstance(error.__cause__, InputError):
        return describe(error.__cause__)
    if isinstance(error, UnknownOptionError) and (now := _new_name(error.token.keyword or "")):
        return f"{error.token.keyword} is now {now}"
    chain = " ".join(["python -m slotwise" if IS_SMALL else "slotwise", *(error.command_chain or ())])
    message = " ".join(str(error).split()).partition(" Available commands:")[0]
    if isinstance(error, MissingArgumentError) and error.keyword is None:  # the flag itself is missing
        message = message.replace("requires an argument", "is required")
    if isinstance(error, UnknownOptionError) and (flag := error.token.keyword):
        arguments = error.argument_collection
        flags = [name for argument in arguments for name in argument.names]
        helps = {argument.name: argument.parameter.help or "" for argument in arguments}
        message = f"unknown option {shown(flag)}{nearest_names(flag, flags, helps)}"
    if isinstance(error, UnusedCliTokensError):
        message = f"unexpected argument: {shown(' '.join(error.unused_tokens or ()))}"
    return f"{shortened(message.rstrip('.'), 400)} (see {chain} --help)"


def _new_name(flag: str) -> str | None:
    """Return the new name of a flag that was renamed."""
    from slotwise.runs.config import RENAMED  # noqa: PLC0415  (slow to import)

    name = RENAMED.get(flag.lstrip("-").replace("-", "_"))
    return name and "--" + name.replace("_", "-")


def _with_notes(message: str, error: BaseException) -> str:
    return "; ".join([message, *getattr(error, "__notes__", ())])


def _refuse(message: str) -> int:
    sys.stderr.write(f"slotwise: {one_line(message)}\n")
    return USAGE_ERROR


def _refuse_file(error: OSError) -> int:
    """Report a file that cannot be read or written, whichever command asked for it."""
    if error.errno == errno.ENOSPC and error.filename is None:
        _drop_output()
        return _refuse("cannot write the output: no space left")
    if error.errno in (errno.EMFILE, errno.ENFILE) and _traceback_in_user_code(error) is None:
        place = "" if error.filename is None else f"{shown(os.fsdecode(error.filename))}: "
        return _refuse(f"{place}{reason_of(error)}")
    # A task of the user's may fail to read its own files: where it does so must be seen.
    if not isinstance(error.filename, str | bytes) or _traceback_in_user_code(error) is not None:
        return _report_crash(error)
    return _refuse(_with_notes(f"{shown(os.fsdecode(error.filename))}: {reason_of(error)}", error))


def _report_crash(error: Exception) -> int:
    """Show an unexpected error in the user's code from there on; raise any other."""
    frames = _traceback_in_user_code(error)
    if frames is None:
        raise error
    told = _with_notes("the error is in your code, not in slotwise", error)
    sys.stderr.write(f"{frames}slotwise: {one_line(told)}\n")
    return SOME_FAILED


def _traceback_in_user_code(error: Exception) -> str | None:
    from slotwise.base.user_code import user_traceback  # noqa: PLC0415  (slow to import)

    return user_traceback(error)


def _drop_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _ClosableStream:
    """A stream that discards output after the first write error."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        self._attempt(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        self._attempt(self._stream.flush)

    def _attempt(self, action: Callable[[], object]) -> None:
        try:
            action()
        except OSError:
            # Redirect the file itself: the rest of the buffer would fail again when the interpreter exits.
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._stream.fileno())
            os.close(null)


@contextmanager
def stderr_may_close() -> Iterator[None]:
    """Keep a run going when the reader of its standard error is gone."""
    with redirect_stderr(cast(TextIO, _ClosableStream(sys.stderr))):
        yield
