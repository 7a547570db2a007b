"""Options of an address: powers, choices, and options that others switch off."""

import pytest

from slotwise.base.errors import InputError
from slotwise.schedule.costs import Powers
from slotwise.web.controls import controls, effective, of_other_choices, parse_options, parse_powers

WATTS = {"power_computing": "2", "power_sending": "1", "power_receiving": "0.5"}


def test_powers_are_given_in_watts() -> None:
    assert parse_powers(WATTS) == Powers(computing=2, sending=1, receiving=0.5)
    assert parse_powers({**WATTS, "slot_seconds": " 0.1 "}) == Powers(
        computing=2, sending=1, receiving=0.5, slot_seconds=0.1
    )


@pytest.mark.parametrize(
    ("given", "parameter"),
    [
        ({"power_computing": "1", "power_sending": "1"}, "power_receiving"),
        ({**WATTS, "power_sending": "-1"}, "power_sending"),
        ({**WATTS, "slot_seconds": "0"}, "slot_seconds"),
        ({**WATTS, "power_sending": "much"}, "power_sending"),
    ],
)
def test_wrong_powers_are_refused_by_the_name_of_their_control(given: dict[str, str], parameter: str) -> None:
    with pytest.raises(InputError) as raised:
        parse_powers(given)
    assert raised.value.parameter == parameter


def test_a_choice_is_one_of_those_offered_and_no_file_nor_huge_number() -> None:
    for name in ("devices", "group_size"):
        with pytest.raises(InputError) as raised:
            parse_options({name: "9" * 5000})
        assert raised.value.parameter == name
    for control in controls():
        if control.kind == "choice" and control.section in ("plan", "more", "radio"):
            with pytest.raises(InputError) as raised:
                parse_options({control.name: "something-else"})
            assert raised.value.parameter == control.name
    assert not [control.name for control in controls() if "trace" in control.name]


def test_an_option_that_another_switches_off_is_left_out_and_a_wrong_one_is_not() -> None:
    _, kept, unused = effective({"schedule": "async", "delay": 1})
    assert kept == {"schedule": "async"}
    assert list(unused) == ["delay"]
    with pytest.raises(InputError) as raised:
        effective({"schedule": "async", "delay": 1, "devices": 0})
    assert raised.value.parameter == "devices"


def test_options_of_alternatives_that_were_not_chosen_name_the_choice() -> None:
    config, *_ = effective({"radio_link": "rate-adaptive", "radio_fading": "rician"})
    reasons = of_other_choices(config)
    assert reasons["radio_nakagami_m"] == "without radio_fading nakagami"
    assert reasons["radio_threshold_db"] == "without radio_link fixed-rate"
    assert not {"radio_rician_k_db", "radio_bits", "mean_away"} & set(reasons)


def test_epochs_take_the_place_of_the_steps_that_the_page_still_shows() -> None:
    options = parse_options({"local_steps": "5", "local_epochs": "2"}, ("training",))
    config, kept, unused = effective(options)
    assert (config.training.batching.option, config.training.batching.amount) == ("local_epochs", 2)
    assert kept == {"local_epochs": 2}
    assert unused == {"local_steps": "when local_epochs is given"}
