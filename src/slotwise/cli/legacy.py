"""Commands that still use typer."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable
from importlib.metadata import version as installed_version
from inspect import getdoc
from typing import Annotated

import typer

from slotwise.cli.device import device, fleet
from slotwise.cli.enroll import enroll
from slotwise.cli.flags import SOME_FAILED
from slotwise.cli.serve import serve
from slotwise.errors import InputError, UserError
from slotwise.user_code import user_traceback as error_in_own_code

USAGE_ERROR = 2

app = typer.Typer(
    name="slotwise",
    help="Federated learning over time-slotted channels: plan it, simulate it, train it, run it.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _help(command: Callable[..., None]) -> str:
    """Its docstring, a paragraph to a line: the terminal knows where to fold, the source does not."""
    return "\n\n".join(" ".join(part.split()) for part in (getdoc(command) or "").split("\n\n"))


for _command in (
    serve,
    device,
    fleet,
    enroll,
):
    app.command(help=_help(_command))(_command)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"slotwise {installed_version('slotwise')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version),
    ] = False,
) -> None:
    pass


def run() -> int:
    """Do what the command line says; the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without UTF-8 gets question marks, not an error
    try:
        return int(app(prog_name="slotwise", standalone_mode=False) or 0)
    except InputError as error:
        return _refuse(f"{option_name(error.parameter)} {error.value}: must be {error.allowed}")
    except UserError as error:
        return _refuse(str(error))
    except typer.TyperException as error:
        return _refuse(_usage_line(error)) if error.format_message() else USAGE_ERROR
    except typer.Exit as exit_:
        return exit_.exit_code
    except typer.Abort:
        raise KeyboardInterrupt from None
    except MemoryError:
        return _refuse("not enough memory for sizes like these")
    except BrokenPipeError:
        # The reader (head, less) has gone: keep the interpreter's last flush from complaining.
        _drop_output()
        return 0
    except OSError as error:
        if error.errno != errno.ENOSPC:
            return _failed(error)
        _drop_output()
        return _refuse("cannot write the output: no space left")
    except Exception as error:
        return _failed(error)


def _failed(error: Exception) -> int:
    """An error that nobody has foreseen: in code of the user's own, or in slotwise."""
    shown = error_in_own_code(error)
    if shown is None:
        raise error
    sys.stderr.write(f"{shown}slotwise: it is in code of your own that this failed\n")
    return SOME_FAILED


def _drop_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def option_name(parameter: str) -> str:
    """``group_size`` as a person typed it: ``--group-size``."""
    return "--" + parameter.replace("_", "-")


def _usage_line(error: typer.TyperException) -> str:
    """The parser's message on one line, and where to read what is allowed."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "slotwise"
    return f"{' '.join(error.format_message().split()).rstrip('.')} (see {command} --help)"


def _refuse(message: str) -> int:
    sys.stderr.write(f"slotwise: {message}\n")
    return USAGE_ERROR
