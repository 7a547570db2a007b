"""WandbTracker: logs to wandb; TrackioTracker: to trackio, which has the same `init`, `log` and `finish`."""

from __future__ import annotations

import inspect
import json
import os
import secrets
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from typing import TYPE_CHECKING, Any

from slotwise.base.errors import UserError
from slotwise.runs.session import RunEnd
from slotwise.tracking.tracker_base import NOTHING, PROJECT, Tracker, import_library, one_line

if TYPE_CHECKING:
    from slotwise.runs import RunFolder

# wandb shows a run with code 255 as killed and one with another code than 0 as failed.
EXIT_CODES: dict[RunEnd, int] = {"finished": 0, "reached": 0, "interrupted": 255, "diverged": 1, "failed": 1}


class WandbTracker(Tracker):
    """Logs a run with the calls of wandb.

    Variables such as WANDB_MODE, WANDB_DIR and WANDB_PROJECT have the effect they have in any program.

    Project and name are by default WANDB_PROJECT and WANDB_NAME.
    """

    library = "wandb"

    def connect(self) -> None:
        """Import wandb and ask for a login now, not when the training begins; no network is used."""
        self._module = import_library("wandb")
        if os.environ.get("WANDB_MODE") in ("offline", "disabled"):
            return
        try:
            self._module.login(verify=False)
        except Exception as error:
            hint = "log in with wandb login, or set WANDB_MODE=offline to record without an account"
            raise UserError(f"wandb cannot be used: {one_line(error)} ({hint})") from None

    def begin(self, folder: RunFolder, config: Mapping[str, Any]) -> int:
        """Call `init`, with the id of the run if it is resumed."""
        state = self.state
        if state.get("offline") and state.get("is_open"):
            # The process was killed. wandb keeps the last seconds of an offline run in memory, so it is not
            # known which points were written: log all of them as another run.
            del state["id"]
            state["slot"] = NOTHING
        usual = {"id": secrets.token_hex(4), "project": PROJECT, "name": folder.path.resolve().name}
        for key, value in (usual | self._variables()).items():
            state.setdefault(key, self._given.get(key) or value)
        init = self._module.init
        identity = _accepted(init, id=state["id"])
        # trackio knows runs by their names only.
        name = state["name"] if identity else f"{state['name']}-{state['id']}"
        # As it is stored: a resumed run must have the same values.
        plain = json.loads(json.dumps(dict(config)))
        with self._stdout():
            self._run = init(project=state["project"], name=name, config=plain, resume="allow", **identity)
        state |= {"offline": bool(getattr(self._run, "offline", False)), "is_open": True}
        return _last_step(self._run, int(state["slot"]))

    def log(self, values: Mapping[str, float], slot: int) -> None:
        """Call `log` with the slot as the step.

        wandb keeps the values of a step back until the next one, unless it is told to commit them.
        """
        log = self._run.log
        log(dict(values), step=slot, **_accepted(log, commit=True))

    def end(self, status: RunEnd) -> None:
        """Call `finish`, with an exit code if the library takes one."""
        finish, run, self._run = self._module.finish, self._run, None
        if hasattr(run, "summary"):
            run.summary["status"] = status
        with self._stdout():
            finish(**_accepted(finish, exit_code=EXIT_CODES[status]))
        self.state["is_open"] = False

    def _variables(self) -> dict[str, str]:
        """Return project and name from the environment, where they are set."""
        variables = {"project": "WANDB_PROJECT", "name": "WANDB_NAME"}
        return {key: os.environ[name] for key, name in variables.items() if os.environ.get(name)}

    def _stdout(self) -> AbstractContextManager[Any]:
        """Return a context for calls that print: wandb prints to stderr, and records the real stdout."""
        return nullcontext()


class TrackioTracker(WandbTracker):
    """Logs a run to trackio, which has the functions of wandb, but no login and no variables for names."""

    library = "trackio"

    def connect(self) -> None:
        """Import trackio."""
        self._module = import_library("trackio")

    def _variables(self) -> dict[str, str]:
        return {}

    def _stdout(self) -> AbstractContextManager[Any]:
        """Return a context in which nothing is printed to stdout, where results of commands go."""
        return redirect_stdout(sys.stderr)


def _accepted(function: Callable[..., Any], **arguments: Any) -> dict[str, Any]:
    """Return the arguments that a function of the library takes: trackio leaves out some of wandb's."""
    known = inspect.signature(function).parameters
    return {name: value for name, value in arguments.items() if name in known}


def _last_step(run: Any, logged: int) -> int:
    """Return the last step that the library has of a run; ``logged`` is the last that it was given.

    It may have fewer, because it stores in the background and the process was killed. wandb knows the number
    of the next step unless it is offline; that of trackio is not public.
    """
    following = getattr(run, "step", getattr(run, "_next_step", None))
    if following is None or getattr(run, "offline", False) or getattr(run, "disabled", False):
        return logged
    return int(following) - 1
