"""Timelines drawn in the compiled loop equal those of the Scheduler, also where rounding decides."""

from dataclasses import replace

import numpy as np
import pytest

from slotwise import Asynchronous, IntentionalDelay, Scenario, simulate
from slotwise.base.random_streams import SchedulePurpose, mixed_all
from slotwise.fleet import Fleet
from slotwise.options import choose
from slotwise.radio import LINK, Rayleigh
from slotwise.radio.placement import device_states
from slotwise.schedule import SELECTIONS
from slotwise.schedule.fading_kernel import CLOSE, UNKNOWN, draw_scores, drawn_bits

SCENARIO = Scenario(devices=30, group_size=4, compute_slots=9, deadline=600)
LINKS = [
    {"radio_link": "fixed-rate", "radio_threshold_db": 3.0},
    {"radio_link": "fixed-rate", "radio_threshold_db": 3.0, "radio_coherence_slots": 4},
    {"radio_link": "rate-adaptive"},
    {"radio_link": "rate-adaptive", "radio_coherence_slots": 7, "radio_gap_db": 3.0},
    {"radio_link": "rate-adaptive", "radio_rate": "cqi", "radio_coherence_slots": 3},
    {"radio_link": "rate-adaptive", "radio_schemes": ((0.0, 0.5), (10.0, 3.0))},
]


def link_of(options):
    return choose(LINK, options).with_bits(700_000, 100_000).link(SCENARIO)


def assert_equal_to_events(link, policy, fleet=None):
    timeline = simulate(SCENARIO, policy, link=link, fleet=fleet)
    assert len(timeline) > 50
    assert timeline == simulate(SCENARIO, policy, link=link, fleet=fleet, event_by_event=True)


@pytest.mark.parametrize("name", ["best-channel", "proportional-fair", "largest-age"])
@pytest.mark.parametrize("options", LINKS, ids=range(len(LINKS)))
def test_timelines_equal_those_of_the_scheduler(options, name):
    link = link_of(options)
    assert link.draws is not None
    assert_equal_to_events(link, Asynchronous(selection=SELECTIONS[name]))


@pytest.mark.parametrize("retransmission", ["next-turn", "at-once", "erasure"])
def test_lost_uplinks_equal_those_of_the_scheduler(retransmission):
    fleet = replace(Fleet.equal(SCENARIO), retransmission=retransmission)
    link = link_of({**LINKS[0], "radio_threshold_db": 8.0})
    policy = IntentionalDelay(delay=1, selection=SELECTIONS["proportional-fair"])
    assert_equal_to_events(link, policy, fleet)


@pytest.mark.parametrize("name", ["best-channel", "proportional-fair"])
def test_ties_go_to_the_device_that_the_scheduler_chooses(name):
    link = link_of({"radio_link": "rate-adaptive", "radio_placement": "ring"})
    link.draws.states[1::2] = link.draws.states[::2]  # every SNR occurs twice
    assert np.array_equal(*(link.tables(0, 9)[0][:, first::2] for first in (0, 1)))
    assert_equal_to_events(link, Asynchronous(selection=SELECTIONS[name]))


def test_a_threshold_that_is_just_reached_is_left_to_the_link():
    link = link_of(LINKS[0])
    snr = float(link.conditions.snr(0, 1)[0, 2])
    for threshold, bits in ((snr, UNKNOWN), (np.nextafter(snr, 0), UNKNOWN), (snr * (1 - 1e-9), 1)):
        exact = replace(link, threshold=threshold)
        assert drawn_bits(exact.draws, 0, 2) == bits
        assert_equal_to_events(exact, Asynchronous(selection=SELECTIONS["proportional-fair"]))


def test_bits_are_those_of_the_table_unless_rounding_decides():
    link = link_of(LINKS[2])
    _, bits = link.tables(0, 200)
    drawn = np.array([[drawn_bits(link.draws, block, n) for n in range(30)] for block in range(200)])
    assert (drawn[drawn != UNKNOWN] == bits[drawn != UNKNOWN]).all()
    assert (drawn == UNKNOWN).mean() < 0.001


def test_scores_are_ten_times_as_exact_as_is_relied_on():
    states, mean = device_states(3, SchedulePurpose.FADING, 100_000), np.geomspace(1e-6, 1e9, 100_000)
    snr, scores = mean * Rayleigh().gains(mixed_all(states, 8)), np.empty(100_000)
    draw_scores(states, mean, 8, False, scores)
    assert np.abs(scores / snr - 1).max() < CLOSE / 10
    draw_scores(states, mean, 8, True, scores)
    rates = np.log2(1 + snr)
    assert (np.abs(scores - rates) < CLOSE / 10 * rates + 4e-16).all()


@pytest.mark.parametrize("fading", ["none", "rician", "nakagami"])
def test_other_fading_has_tables_only(fading):
    assert link_of({"radio_link": "rate-adaptive", "radio_fading": fading}).draws is None
