"""WandbTracker: logs to wandb, or to a library with the same `init`, `log` and `finish`, such as trackio."""

from __future__ import annotations

import inspect
import os
import secrets
import sys
from collections.abc import Mapping
from contextlib import nullcontext, redirect_stdout
from typing import TYPE_CHECKING, Any

from slotwise.errors import UserError
from slotwise.observer import RunEnd
from slotwise.tracking.tracker_base import PROJECT, Notify, Tracker, import_library, one_line

if TYPE_CHECKING:
    from slotwise.runs import RunFolder

# wandb shows a run with code 255 as killed and one with another code than 0 as failed.
EXIT_CODES: dict[RunEnd, int] = {"finished": 0, "interrupted": 255, "diverged": 1, "failed": 1}


class WandbTracker(Tracker):
    """Logs a run with the calls of wandb.

    Variables such as WANDB_MODE, WANDB_DIR and WANDB_PROJECT have the effect they have in any program.

    Args:
        library: "wandb", or another module with the same functions: "trackio".
        project: Default: WANDB_PROJECT, or slotwise.
        name: Name of the run. Default: WANDB_NAME, or the name of its folder.
        notify: Is told once if the library fails while the run continues.

    Raises:
        UserError: the library is missing, or nobody is logged in.
    """

    def __init__(
        self,
        library: str = "wandb",
        *,
        project: str | None = None,
        name: str | None = None,
        notify: Notify | None = None,
    ) -> None:
        super().__init__(library, project=project, name=name, notify=notify)
        self._module = import_library(library, library)
        self._run: Any = None
        if library == "wandb":
            self._check_login()

    def _check_login(self) -> None:
        """Ask for a login now, not when the training begins; no network is used."""
        if os.environ.get("WANDB_MODE") in ("offline", "disabled"):
            return
        try:
            self._module.login(verify=False)
        except Exception as error:
            hint = "log in with wandb login, or set WANDB_MODE=offline to record without an account"
            raise UserError(f"wandb cannot be used: {one_line(error)} ({hint})") from None

    def begin(self, folder: RunFolder, config: Mapping[str, Any], state: dict[str, Any]) -> int:
        """Call `init`, with the id of the run if it is resumed."""
        usual = {"id": secrets.token_hex(4), "project": PROJECT, "name": folder.path.resolve().name}
        if self.library == "wandb":
            variables = {"project": "WANDB_PROJECT", "name": "WANDB_NAME"}
            usual |= {key: os.environ[name] for key, name in variables.items() if os.environ.get(name)}
        for key, value in usual.items():
            state.setdefault(key, self._given.get(key) or value)
        init, settings = self._module.init, {name: state[name] for name in ("project", "name", "id")}
        if "id" not in inspect.signature(init).parameters:  # trackio knows runs by their names
            settings["name"] = f"{settings['name']}-{settings.pop('id')}"
        with self._prints_to_stderr():
            self._run = init(**settings, config=dict(config), resume="allow")
        return _last_step(self._run, int(state["slot"]))

    def log(self, values: Mapping[str, float], slot: int) -> None:
        """Call `log` with the slot as the step."""
        self._run.log(dict(values), step=slot)

    def end(self, status: RunEnd) -> None:
        """Call `finish`, with an exit code if the library takes one."""
        finish, run, self._run = self._module.finish, self._run, None
        takes_code = "exit_code" in inspect.signature(finish).parameters
        if hasattr(run, "summary"):
            run.summary["status"] = status
        with self._prints_to_stderr():
            finish(**({"exit_code": EXIT_CODES[status]} if takes_code else {}))

    def _prints_to_stderr(self) -> Any:
        """Return a context in which the library does not print to stdout, where results of commands go.

        wandb prints to stderr, and must find the real stdout, which it records.
        """
        return nullcontext() if self.library == "wandb" else redirect_stdout(sys.stderr)


def _last_step(run: Any, logged: int) -> int:
    """Return the last step that the library has of a run; ``logged`` is the last that it was given.

    It may have fewer, because it stores in the background and the process was killed. wandb knows the number
    of the next step unless it is offline; that of trackio is not public.
    """
    following = getattr(run, "step", getattr(run, "_next_step", None))
    if following is None or getattr(run, "offline", False) or getattr(run, "disabled", False):
        return logged
    return int(following) - 1
