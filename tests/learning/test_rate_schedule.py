import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotwise.errors import InputError
from slotwise.learning import TrainingStart
from slotwise.learning.local_training import LocalTraining
from slotwise.learning.rate_schedule import rate_factor

DECAYS = ["constant", "step", "exponential", "inverse", "cosine"]
START = TrainingStart(device=3, training=4, round=20, slot=100)


@pytest.mark.parametrize("decay", DECAYS)
@given(times=st.lists(st.floats(0, 1e6), min_size=2, max_size=2).map(sorted))
def test_a_factor_starts_at_1_and_never_rises(decay, times) -> None:
    first, later = (rate_factor(decay, time) for time in times)
    assert 1 == rate_factor(decay, 0) >= first >= later >= 0


def test_the_factor_after_one_and_a_half_periods() -> None:
    found = [round(rate_factor(decay, 1.5), 4) for decay in DECAYS]
    assert found == [1, 0.5, 0.3536, 0.4, 0]


@pytest.mark.parametrize(("unit", "elapsed"), [("round", 20), ("slot", 100), ("training", 4)])
def test_the_decay_counts_rounds_slots_or_trainings(unit, elapsed) -> None:
    training = LocalTraining(learning_rate=0.5, rate_decay="inverse", rate_unit=unit, rate_period=10)
    assert training.rate_at(START) == 0.5 / (1 + elapsed / 10)


@pytest.mark.parametrize(
    ("options", "parameter"),
    [
        ({"rate_period": 5}, "rate_period"),
        ({"rate_unit": "slot"}, "rate_unit"),
        ({"optimizer": "adam", "momentum": 0.9}, "momentum"),
        ({"beta1": 0.5}, "beta1"),
        ({"epsilon": 1e-3}, "epsilon"),
        ({"local_step": "mine:step", "proximal": 0.1}, "proximal"),
        ({"local_step": "mine:step", "optimizer": "adam"}, "optimizer"),
        ({"local_step": "mine"}, "local_step"),
        ({"momentum": 1.0}, "momentum"),
        ({"weight_decay": -1.0}, "weight_decay"),
        ({"gradient_clip": 0.0}, "gradient_clip"),
        ({"optimizer": "lion"}, "optimizer"),
    ],
)
def test_options_out_of_range_or_without_effect_are_refused(options, parameter) -> None:
    with pytest.raises(InputError) as caught:
        LocalTraining(**options)
    assert caught.value.parameter == parameter
