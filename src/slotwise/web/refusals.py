"""Refusals of the explorer: the option at fault, as its page names it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from slotwise.base.errors import InputError, UserError
from slotwise.radio.links import UnreachableError
from slotwise.runs.config import RunConfig
from slotwise.schedule import NoRoundError
from slotwise.setting.slow_link import explained
from slotwise.web.controls import controls, effective, label_of

Options = Mapping[str, Any]


def as_table(error: UserError) -> dict[str, Any]:
    """Return what a page shows of an error: all of it, and at a control what its option must be."""
    if not isinstance(error, InputError):
        return {"message": str(error), "parameter": None}
    known = {control.name for control in controls()}
    return {
        "message": error.described(label_of, known=known),
        "parameter": error.parameter,
        "requirement": error.requirement(label_of, known=known),
    }


def in_labels(text: str) -> str:
    """Return a text with labels instead of the names of options."""
    return re.sub(r"\b[a-z]+(?:_[a-z]+)+\b", lambda name: label_of(name[0]), text)


def at_fault(options: Options, config: RunConfig, error: InputError) -> InputError:
    """Return an error about the option that keeps rounds from ending, if the given error is about that.

    It is an option of a slow radio link or, if the error names an option that was not given, a given one
    without which a round would end. Otherwise it is the option that the error names.
    """
    found = explained(config, error)
    if not isinstance(found, NoRoundError | UnreachableError) or found.parameter in options:
        return found
    culprits = [name for name in options if _ends_a_round(dict(options), name)]
    if not culprits:
        return found
    name = culprits[-1]
    allowed = f"{_remedy(options[name], config, name)}, or {found.parameter} {found.allowed}"
    return InputError(name, options[name], allowed)


def _ends_a_round(options: dict[str, Any], without: str) -> bool:
    """Return whether a round ends with the default value of an option."""
    del options[without]
    with suppress(UserError):
        return effective(options)[0].simulate(1).rounds > 0
    return False


def _remedy(value: Any, config: RunConfig, name: str) -> str:
    usual = next(control.default for control in controls() if control.name == name)
    if not all(isinstance(one, int | float) for one in (value, usual)) or name not in config.options():
        return "another one"
    return "smaller" if value > usual else "larger"
