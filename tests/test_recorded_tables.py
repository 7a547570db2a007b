"""Random tables of options still give the timelines, tables and refusals that were recorded."""

import json
from typing import Any

import llvmlite.binding
import pytest

from slotwise.runs import RunConfig

from .recorded_tables import FILE, outcome, whole_table

RECORDED: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
SAME_CPU = llvmlite.binding.get_host_cpu_name() == RECORDED["cpu"]
# Over a radio, the last bit of a logarithm, which differs between CPUs, may decide who sends.
TIMELINES = [case for case in RECORDED["timelines"] if SAME_CPU or "radio_link" not in case[0]]


@pytest.mark.slow
def test_timelines_are_those_that_were_recorded() -> None:
    assert [[options, outcome(options)] for options, _ in TIMELINES] == TIMELINES


def test_event_by_event_gives_the_same_timelines() -> None:
    for options, recorded in TIMELINES[::10]:
        assert outcome(options, events=True) == recorded, options


def test_tables_are_those_that_were_recorded() -> None:
    """Recorded tables may have more: options of alternatives that were not chosen; later ones are usual."""
    usual = json.loads(json.dumps(RunConfig().options()))
    for options, recorded in RECORDED["tables"]:
        table = whole_table(options)
        if isinstance(recorded, str) or isinstance(table, str):
            assert table == recorded, options
        else:
            assert table == {name: (usual | recorded)[name] for name in table}, options
            assert json.loads(json.dumps(RunConfig.from_saved(recorded).options())) == table, options


def test_mistakes_are_refused_as_they_were() -> None:
    for options, recorded in RECORDED["refusals"]:
        if SAME_CPU or "radio_link" not in options:
            assert is_as_recorded(options, outcome(options), recorded), (options, outcome(options), recorded)


def is_as_recorded(options: dict[str, Any], found: str, recorded: str) -> bool:
    """Return whether an outcome is the recorded one.

    The value of an option that the choices leave without effect is not looked at: whatever it is, the option
    is refused for that reason. None and an empty list stand for an option that is not given.
    """
    parameter = recorded.rsplit(maxsplit=1)[-1]
    if found in (recorded, f"NoEffectError {parameter}"):
        return True
    return parameter in options and options[parameter] in (None, [])
