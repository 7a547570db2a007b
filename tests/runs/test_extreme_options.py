"""Numbers at the ends of what a float can be are refused, or computed without an overflow or a warning."""

from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from option_contexts import CONTEXTS, FLEET, FOUND, LEARNING, RADIO, ROOT, Outcome, options_in, write_files

from slotwise.base.errors import InputError, UserError
from slotwise.fleet.battery import MOST_HARVEST, Batteries
from slotwise.options import Option, Range
from slotwise.options.declarations import mark_of
from slotwise.runs import RunConfig

ENDS = (5e-324, 1e30, 1.7e308)
RARE = {"harvest_probability": (0.01,)}  # rarer harvests are searched for in millions of slots


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT))


def numbers() -> list[tuple[str, float]]:
    """Return the options that are numbers, each with both ends of its range and beyond."""
    return [
        (name, value)
        for name, option in RunConfig.declared_options().items()
        if float in (option.hint, *get_args(option.hint)) and CONTEXTS[name][1] is not FOUND
        for value in RARE.get(name, (*ENDS, *_ends(option)))
    ]


def _ends(option: Option) -> list[float]:
    declared = mark_of(option.marks, Range)
    ends = () if declared is None else (declared.least, declared.most)
    return [end for end in ends if end is not None]


@pytest.mark.parametrize(("option", "value"), numbers())
def test_a_number_at_the_end_of_its_range_is_refused_in_one_line_or_computed(option, value) -> None:
    message = refusal(option, value)
    assert "\n" not in message
    assert len(message) < 300


def refusal(option: str, value: float) -> str:
    """Return why a run with the option is refused, or diverges; empty if it is computed."""
    # Warnings are errors here, so an overflow in numpy fails as one in Python does.
    context, _ = CONTEXTS[option]
    try:
        outcome = Outcome(RunConfig.from_options(options_in(context, **{option: value})))
        outcome.schedule()
        if option in LEARNING:
            outcome.history()
    except UserError as error:
        return str(error)
    return ""


def test_a_slot_that_carries_more_bits_than_an_integer_carries_any_message() -> None:
    wide = {"radio_bandwidth_hz": 1e12, "radio_slot_ms": 1e9, "radio_power_dbm": 200.0}
    server = {**RADIO, "radio_server_power_dbm": 200.0}
    for more in ({}, {"schedule": "async", "selection": "best-channel"}, {"radio_rate": "cqi"}):
        timeline = RunConfig.from_options(options_in({**server, **wide, **more})).simulate()
        assert (timeline.end - timeline.start == 1).all()
    fixed = {"radio_link": "fixed-rate", "radio_bits": 1, **wide}  # any SNR is enough
    assert not len(RunConfig.from_options(options_in(fixed)).simulate().lost)


@pytest.mark.parametrize("name", ["radio_bits", "radio_broadcast_bits"])
def test_a_message_whose_bits_times_the_slots_of_a_block_overflow_is_refused(name: str) -> None:
    long = {**RADIO, "radio_coherence_slots": 10**9}
    assert RunConfig.from_options(options_in({**long, name: 10**6})).simulate().rounds
    with pytest.raises(InputError, match=f"{name}.*radio_coherence_slots"):
        RunConfig.from_options(options_in({**long, name: 10**15})).simulate()


def test_sums_of_the_largest_harvest_are_exact() -> None:
    batteries = Batteries(
        capacity=(1e9,), computing=(1.0,), sending=(1.0,), harvest=(MOST_HARVEST,), probability=0.9
    )
    chunks = [batteries.harvested(1, slot, slot + 1).tolist()[0] for slot in range(20_000)]
    assert batteries.harvested_until(1, 0, 20_000) == sum(chunks)
    with pytest.raises(InputError, match="harvest"):
        Batteries(capacity=(1e9,), computing=(1.0,), sending=(1.0,), harvest=(2 * MOST_HARVEST,))


def test_a_cpu_that_takes_too_long_or_burns_too_much_is_refused() -> None:
    context, _ = FLEET["cpu_kappa"]
    for option, value, named in (
        ("cpu_ghz", 1e-320, "cycles_per_sample"),
        ("cpu_slot_ms", 1e-320, "cycles_per_sample"),
        ("cycles_per_sample", 1.7e308, "cycles_per_sample"),
        ("cpu_kappa", 1e-5, "cpu_kappa"),
    ):
        with pytest.raises(InputError) as caught:
            RunConfig.from_options(options_in(context, **{option: value}))
        assert caught.value.parameter == named


def test_an_attack_that_overflows_diverges_without_a_warning() -> None:
    outcome = Outcome(RunConfig.from_options(options_in({"attack": "sign-flip", "attack_scale": 1e30})))
    assert np.isfinite([point.loss for point in outcome.history()]).all()
