"""What the options of slotwise serve come to: a run, new or resumed, and how it is served."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from slotwise.cli.run_options import parameters_of
from slotwise.errors import InputError, UserError
from slotwise.files import is_empty
from slotwise.live.plan import live_plan
from slotwise.live.run import ServerOptions
from slotwise.live.topics import Topics
from slotwise.runs import RunConfig, RunFolder, read_toml
from slotwise.runs.config import REPLACED_BY
from slotwise.runs.execution import check_interval


def server_options(own: dict[str, Any], wait: float, checkpoint_every: float) -> ServerOptions:
    """What the flags say; those that are not given have their defaults."""
    chosen = {name: value for name, value in own.items() if value is not None}
    options = ServerOptions(**chosen, wait=wait, checkpoint_every=check_interval(checkpoint_every))
    Topics(options.name)
    options.clock()
    patience, clip_norm = options.patience, options.clip_norm
    for what, seconds in {"patience": patience, "wait": wait}.items():
        if not 0 < seconds < float("inf"):
            raise InputError(what, seconds, "a number of seconds above 0")
    if clip_norm is not None and not 0 < clip_norm < float("inf"):
        raise InputError("clip_norm", clip_norm, "a finite number above 0")
    return options


def kept_options(path: Path, own: dict[str, Any]) -> dict[str, Any]:
    """A resumed run goes on as it was, but for what is said anew."""
    kept = RunFolder.open(path).description().get("live_options", {})
    return {name: kept.get(name) if value is None else value for name, value in own.items()}


def listening_address(listen: str) -> tuple[str, int]:
    """Where the embedded broker listens."""
    matched = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]]+)):([0-9]{1,5})", listen)
    if matched is None or not 0 < int(matched[3]) < 65536:
        raise InputError("listen", listen, "HOST:PORT, as in 127.0.0.1:1883 or [::1]:1883")
    return matched[1] or matched[2], int(matched[3])


def new_place(out: Path | None) -> Path:
    """The folder of a new run."""
    if out is None:
        raise InputError("out", "missing", "the folder of the new run (or --resume RUN)")
    if RunFolder(out).is_run:
        raise InputError("out", out, "a new folder; a run is there already (--resume it, or use --go-on)")
    try:
        if out.exists() and not out.is_dir():
            raise InputError("out", out, "a folder, and this is a file")
        if out.is_dir() and not is_empty(out):
            raise InputError("out", out, "a new or empty folder")
    except OSError as error:
        raise InputError("out", out, f"a folder that can be written ({error.strerror})") from None
    return out


def new_parameters(like: Path | None, config: Path | None, given: dict[str, Any]) -> RunConfig:
    """Of a new run; its plan is tried out."""
    if like is not None and config is not None:
        raise InputError("config", config, "left out with --like")
    options: dict[str, Any] = {}
    if config is not None:
        options = read_toml(config)
    elif like is not None:
        replaced = {name for flag in given for name in REPLACED_BY.get(flag, ())}
        simulated = RunFolder.open(like).parameters().options()
        options = {name: value for name, value in simulated.items() if name not in replaced}
    return parameters_of(options, given, source=config or like, tried_out=live_plan)


def resumed_parameters(path: Path) -> RunConfig:
    """Of a live run that is there already."""
    folder = RunFolder.open(path)
    if "live_run" not in folder.description():
        raise UserError(f"{path}: a simulated run; slotwise train --resume goes on with it")
    if folder.status == "diverged":
        raise UserError(f"{path}: diverged, and would again; start anew with other parameters")
    return folder.parameters()


def refuse_options(others: dict[str, Any]) -> None:
    """A run that is resumed keeps its parameters."""
    for name, value in others.items():
        if value is not None:
            raise InputError(name, value, "left out with --resume: the run keeps its parameters")
