"""The announced run as a device reads it: values of the options that it trains by, and never code.

The table of options comes from the network. Only names on an allow-list are read, those of slotwise's own
networks, data and local training; a file or a function is used if the device was started with it. Sizes
that no device could train are refused before anything of that size exists.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from slotwise.base.errors import UserError
from slotwise.base.user_code import is_function_name
from slotwise.data.data_source import DataFolder
from slotwise.learning.models import NetworkModel, OwnTask
from slotwise.live.device.client import NotUnderstood
from slotwise.live.protocol import MAX_DEVICES, TRAINED
from slotwise.options import Option, declared, found_names, names_of
from slotwise.runs.config import RENAMED, RunConfig

OPTION_NAME_LIMIT = 40  # characters of an unknown option that are shown
MOST_SAMPLES = 10**8  # of one local training: hours with the fastest network


def announced_config(announced: str, own: Mapping[str, Any]) -> RunConfig:
    """Return the configuration of an announced run; ``own`` are options that the device was started with.

    Raises:
        NotUnderstood: this device cannot take part, for the reason that the error says.
    """
    table = announced_options(announced)
    given = {name: value for name, value in own.items() if value is not None}
    if "task" in given:
        _leave_to_the_task(table, given)
    else:
        _refuse_other_folder(table, given)
    for name in [name for name in table if _names_code(name, table[name])]:
        if table[name] != given.get(name):
            _refuse_other(name, table[name])
    if "local_step" in given and table.get("local_step") is None:
        _refuse_other("local_step", None)
    try:
        config = RunConfig.from_saved({**table, **given})
        _refuse_absurd_sizes(config)
    except UserError as error:
        raise NotUnderstood(f"its announcement is refused here: {error}") from None
    return config


def announced_options(announced: str) -> dict[str, Any]:
    """Return the options of an announced run that a device uses.

    A server of a later version sends options that this one does not know only if the run uses them.
    """
    try:
        table = {RENAMED.get(name, name): value for name, value in json.loads(announced).items()}
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise NotUnderstood("its announcement cannot be read") from None
    allowed, known = _allowed(), declared(RunConfig)
    # The others are of the server alone (schedule, link, rule) and are left out, an order to attack included.
    # The task is the device's own, or there is none.
    ignored = {name for name, option in known.items() if option.part not in TRAINED} | {"task"}
    if refused := {n for n in set(table) - allowed - ignored if n not in known or table[n] is not None}:
        names = ", ".join(sorted(ascii(name[:OPTION_NAME_LIMIT])[1:-1] for name in refused))
        raise NotUnderstood(f"the run uses options that this device does not take: {names}")
    return {name: value for name, value in table.items() if name in allowed}


def _allowed() -> set[str]:
    """Return the names of the options that decide what slotwise's own networks and an own task train."""
    parts = [part for part in TRAINED if part != "model"]
    models = {*names_of(NetworkModel), *names_of(OwnTask)} - {"task"}
    return {"bits", *names_of(RunConfig, "channel", *parts), *models}


def _names_code(name: str, value: Any) -> bool:
    option: Option | None = declared(RunConfig).get(name)
    own = option is not None and option.choice is not None and option.choice.own
    return bool(own) and isinstance(value, str) and is_function_name(value)


def _refuse_other(name: str, value: Any) -> None:
    needed = f"no {name}" if value is None else f"{name} {str(value)[:OPTION_NAME_LIMIT]}"
    raise NotUnderstood(f"the run has {needed}: start the device with the same")


def _refuse_other_folder(table: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Refuse a folder on one side only: a path from the network must not decide what is read."""
    if ("data_folder" in own) != (table.get("data_folder") is not None):
        needed = "no data_folder" if "data_folder" in own else "a data_folder"
        raise NotUnderstood(f"the run has {needed}: start the device with the same")


def _leave_to_the_task(table: dict[str, Any], own: Mapping[str, Any]) -> None:
    """Remove what names data or code of the server: a device with its own task has its own data."""
    for name in ("data_folder", *found_names(DataFolder)):
        if "data_folder" not in own:
            table.pop(name, None)
    if _names_code("partition", table.get("partition")) and "partition" not in own:
        del table["partition"]


def _refuse_absurd_sizes(config: RunConfig) -> None:
    """Refuse trainings that would never end; memory is checked where the task is built."""
    devices, samples = config.channel.devices, config.samples_per_training
    if devices > MAX_DEVICES:
        raise UserError(f"{devices:,} devices, must be at most {MAX_DEVICES:,}")
    if not config.model.is_own and samples > MOST_SAMPLES:
        raise UserError(f"trainings of {samples:,} samples each, must be at most {MOST_SAMPLES:,}")
