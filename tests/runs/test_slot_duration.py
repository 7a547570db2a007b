"""CPU, radio and powers agree on the duration of a slot."""

from typing import Any

import pytest

from slotwise.base.errors import InputError
from slotwise.batch import BatchSpec
from slotwise.runs import RunConfig
from slotwise.schedule.costs import Powers
from slotwise.setting.slot_duration import powers_of_run

CPU: dict[str, Any] = {"cycles_per_sample": 2e6, "cpu_ghz": 1.0}  # 0.64 s for 5 · 64 samples
RADIO: dict[str, Any] = {"radio_link": "rate-adaptive"}
WATTS: dict[str, Any] = {"computing": 1.0, "sending": 1.0, "receiving": 1.0}


@pytest.mark.parametrize(
    ("slots", "slot_ms"),
    [
        ({"cpu_slot_ms": 50.0}, 50.0),
        ({"radio_slot_ms": 50.0}, 50.0),
        ({"cpu_slot_ms": 50.0, "radio_slot_ms": 50}, 50.0),
        ({}, 100.0),
    ],
)
def test_one_of_cpu_and_radio_is_enough(slots: dict[str, Any], slot_ms: float) -> None:
    config = RunConfig.from_options({**CPU, **RADIO, **slots})
    assert config.link.slot_ms == slot_ms
    assert config.channel.compute_slots == -(-640 // slot_ms)


def test_a_radio_and_a_cpu_must_have_the_same_slot() -> None:
    with pytest.raises(InputError) as error:
        RunConfig.from_options({**CPU, **RADIO, "cpu_slot_ms": 50.0, "radio_slot_ms": 10.0})
    assert error.value.parameter == "cpu_slot_ms"
    config = RunConfig.from_options({**CPU, "cpu_slot_ms": 50.0})
    assert config.with_options(**RADIO, radio_slot_ms=50.0).link.slot_ms == 50.0
    with pytest.raises(InputError) as error:
        config.with_options(**RADIO, radio_slot_ms=10.0)
    assert error.value.parameter == "cpu_slot_ms"


@pytest.mark.parametrize(
    ("options", "seconds"), [(RADIO, 0.1), ({**RADIO, "radio_slot_ms": 20.0}, 0.02), ({}, 1.0)]
)
def test_powers_take_the_slot_of_the_radio(options: dict[str, Any], seconds: float) -> None:
    config = RunConfig.from_options(options)
    assert powers_of_run(Powers(**WATTS), config).slot_seconds == pytest.approx(seconds)
    agreeing = Powers(**WATTS, slot_seconds=seconds)
    assert powers_of_run(agreeing, config) == agreeing


def test_powers_take_the_slot_of_the_cpu_and_run_json_keeps_it() -> None:
    config = RunConfig.from_options({**CPU, "cpu_slot_ms": 50.0})
    assert powers_of_run(Powers(**WATTS), config).slot_seconds == 0.05
    with pytest.raises(InputError) as error:
        powers_of_run(Powers(**WATTS, slot_seconds=1.0), config)
    assert error.value.parameter == "slot_seconds"
    assert RunConfig.from_saved(config.options()) == config
    assert config.changed_options()["slot_ms"] == 50.0
    assert "slot_ms" not in RunConfig().options()
    assert "slot_ms" not in RunConfig.from_options({**CPU, **RADIO, "cpu_slot_ms": 50.0}).options()


def test_runs_of_a_batch_have_the_slots_of_their_options() -> None:
    options = {"devices": 4, "group_size": 2, "deadline": 400, **CPU, "cpu_slot_ms": 50.0}
    in_words = BatchSpec.of({"a": options}, powers=Powers(**WATTS))
    built = BatchSpec.of({"a": RunConfig.from_options(options)}, powers=Powers(**WATTS))
    assert built.powers == in_words.powers == Powers(**WATTS, slot_seconds=0.05)
    # What is trained does not depend on the duration of a slot.
    assert built.runs == in_words.runs
    assert "slot_ms" not in built.runs[0].config.options()
    powers, config = Powers(**WATTS, slot_seconds=5.0), RunConfig.from_options(RADIO)
    with pytest.raises(InputError) as error:
        powers_of_run(powers, config)
    assert error.value.parameter == "slot_seconds"
    assert powers_of_run(powers, config, check=False) == powers
    small = {"devices": 4, "group_size": 2, "compute_slots": 2, "deadline": 4000, **RADIO}
    found = BatchSpec.of({"": {**small, "radio_slot_ms": 50.0}}, powers=Powers(**WATTS)).powers
    assert found == Powers(**WATTS, slot_seconds=0.05)
    several = {"": {**small, "radio_slot_ms": [50.0, 100.0]}}
    assert BatchSpec.of(several, powers=Powers(**WATTS)).powers == Powers(**WATTS)
    mixed = {"radio": small, "fixed": {"deadline": 4000}}
    with pytest.raises(InputError) as error:
        BatchSpec.of(mixed, powers=Powers(**WATTS))
    assert error.value.parameter == "slot_seconds"
