"""The option of the radio that keeps the first round of a run from ending by the deadline."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from slotwise.base.errors import InputError, UserError
from slotwise.options import choose, declared, table_of
from slotwise.radio import LINK, RadioLink, RadioOptions
from slotwise.radio.links import UnreachableError
from slotwise.schedule import NoRoundError, Timeline
from slotwise.setting.setting import Setting

CHECKED_BLOCKS = 256  # over which the slots of an uplink are averaged


class _Culprit(NamedTuple):
    """An option, and the slots that a round would take with its default value."""

    slots: float
    name: str
    value: Any
    default: Any


def simulate_run(config: Setting, rounds: int | None = None) -> Timeline:
    """Return the timeline of a run; if no round ends over a slow radio link, the InputError says why."""
    try:
        return config.simulate(rounds)
    except InputError as error:
        raise explained(config, error) from None


def explained(config: Setting, error: InputError) -> InputError:
    """Return an error that names the option of the radio with whose default value a round would end.

    Of several, that with which it would end first. If there is none, the given error is right.
    """
    deadline = config.channel.deadline
    if deadline is None or not _is_of_slow_link(config, error):
        return error
    culprits = [culprit for culprit in _culprits(config) if culprit.slots <= deadline]
    if not culprits:
        return error
    worst = min(culprits)
    return InputError(worst.name, _text(worst.value), f"{_remedy(worst)}: {_reason(config, error)}")


def _is_of_slow_link(config: Setting, error: InputError) -> bool:
    """Return whether an error is about what a slow link exceeds, and names no option of it that was given."""
    if isinstance(error, UnreachableError):
        value = table_of(config.link, LINK.prefix).get(error.parameter)
        return bool(value == declared(LINK)[error.parameter].default)
    return isinstance(config.link, RadioOptions) and isinstance(error, NoRoundError)


def _reason(config: Setting, error: InputError) -> str:
    if isinstance(error, UnreachableError):  # the link cannot be built
        return error.reason
    channel = config.channel
    slots = float(np.median(_uplink_slots(config.radio_link())))
    takes = f"an uplink takes {slots:,.0f} slots, the median of the devices"
    return f"{takes}, and no round of {channel.group_size} ends by the deadline, {channel.deadline:,}"


def _culprits(config: Setting) -> list[_Culprit]:
    """Return the options of the radio that are not at their defaults and can be reset by themselves."""
    known, name_of_link = declared(LINK), {LINK.option: LINK.name_of(config.link)}
    table = table_of(config.link, LINK.prefix)
    changed = {name: value for name, value in table.items() if value != known[name].default}
    culprits = []
    for name, value in changed.items():
        others = {other: changed[other] for other in changed if other != name}
        with suppress(UserError):  # other options need this one
            link = replace(config, link=choose(LINK, name_of_link | others)).radio_link()
            culprits.append(_Culprit(_round_slots(config, link), name, value, known[name].default))
    return culprits


def _round_slots(config: Setting, link: RadioLink) -> float:
    """Return the slots of the first round if its uplinks are those of the median device; roughly."""
    channel = config.channel
    uplinks = channel.group_size / channel.sub_channels
    return channel.compute_slots + uplinks * float(np.median(_uplink_slots(link)))


def _uplink_slots(link: RadioLink) -> Any:
    """Return the slots that an update of each device takes on average, lost uplinks included."""
    snr = link.conditions.snr(0, CHECKED_BLOCKS, planning=True)
    return link.update_bits / link.uplink_bits(snr).mean(axis=0)


def _remedy(culprit: _Culprit) -> str:
    numbers = [isinstance(one, int | float) for one in (culprit.value, culprit.default)]
    if not all(numbers):
        return "another one"
    return "smaller" if culprit.value > culprit.default else "larger"


def _text(value: Any) -> Any:
    return f"{value:g}" if isinstance(value, float) else value
