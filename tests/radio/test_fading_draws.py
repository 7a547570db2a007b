"""What is drawn in compiled code equals what the tables of numpy say, also where rounding decides."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from slotwise import Asynchronous, IntentionalDelay, Scenario, Synchronous, simulate
from slotwise.base.random_streams import SchedulePurpose, device_states, mixed_all
from slotwise.fleet import Fleet
from slotwise.options import choose
from slotwise.radio import LINK, Rayleigh, Rician, radio_link
from slotwise.schedule import SELECTIONS, ready_queue
from slotwise.schedule.drawing_kernel import (
    NO_DEVICE,
    NOT_KNOWN,
    UNKNOWN,
    best_channel,
    bound_scores,
    drawn_bits,
)
from slotwise.schedule.link import FEW, RayleighDraws

DEVICES = FEW + 6
SCENARIO = Scenario(devices=DEVICES, group_size=4, compute_slots=9, deadline=600)
LINKS = [
    {"radio_link": "fixed-rate", "radio_threshold_db": 3.0},
    {"radio_link": "fixed-rate", "radio_threshold_db": 3.0, "radio_coherence_slots": 4},
    {"radio_link": "rate-adaptive"},
    {"radio_link": "rate-adaptive", "radio_coherence_slots": 7, "radio_gap_db": 3.0},
    {"radio_link": "rate-adaptive", "radio_rate": "cqi", "radio_coherence_slots": 3},
    {"radio_link": "rate-adaptive", "radio_schemes": ((0.0, 0.5), (10.0, 3.0))},
    {"radio_link": "rate-adaptive", "radio_fading": "rician", "radio_coherence_slots": 2},
    {
        "radio_link": "fixed-rate",
        "radio_threshold_db": 3.0,
        "radio_fading": "rician",
        "radio_rician_k_db": 0.0,
    },
]


def link_of(options, scenario=SCENARIO):
    return choose(LINK, options).with_bits(700_000, 100_000).link(scenario, until=scenario.deadline)


@contextmanager
def nothing_compiled() -> Iterator[None]:
    """Take all SNRs and bits from tables."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (radio_link, ready_queue):
            patch.setattr(module, "FEW", DEVICES + 1)
        yield


def assert_equal_to_tables(link, policy, fleet=None, scenario=SCENARIO):
    timeline = simulate(scenario, policy, link=link, fleet=fleet)
    assert len(timeline) > 50
    assert timeline == simulate(scenario, policy, link=link, fleet=fleet, event_by_event=True)
    with nothing_compiled():
        slow = simulate(scenario, policy, link=replace(link), fleet=fleet, event_by_event=True)
    assert timeline == slow


@pytest.mark.parametrize("name", ["best-channel", "proportional-fair", "largest-age"])
@pytest.mark.parametrize("options", LINKS, ids=range(len(LINKS)))
def test_timelines_equal_those_of_the_scheduler(options, name):
    link = link_of(options)
    assert link.draws is not None
    assert_equal_to_tables(link, Asynchronous(selection=SELECTIONS[name]))


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("policy", [Asynchronous, IntentionalDelay])
def test_timelines_on_sub_channels_equal_those_from_tables(policy, selection):
    scenario = replace(SCENARIO, sub_channels=3)
    link = link_of(LINKS[3], scenario)
    assert_equal_to_tables(link, policy(selection=SELECTIONS[selection]), scenario=scenario)


@pytest.mark.parametrize("participation", ["random", "best-channel", "proportional-fair"])
def test_participants_are_those_from_tables(participation):
    assert_equal_to_tables(link_of(LINKS[2]), Synchronous(participation=participation))


@pytest.mark.parametrize("bits", [700_000, 80_000_000])  # the second take more blocks than are drawn
@pytest.mark.parametrize("options", LINKS[2:-1], ids=range(2, len(LINKS) - 1))
def test_planned_slots_are_those_of_the_tables(options, bits):
    link = replace(link_of(options), update_bits=bits)
    with nothing_compiled():
        slow = replace(link)
        assert slow.planned_draws() is None
        expected = slow.planned_slots
    assert link.planned_draws() is not None
    assert link.planned_slots == expected


@pytest.mark.parametrize("options", LINKS, ids=range(len(LINKS)))
def test_uplinks_and_broadcasts_are_those_of_the_tables(options):
    link, draw = link_of(options), np.random.default_rng(1)
    with nothing_compiled():
        slow = replace(link)
        assert slow._follow_uplink is None
        assert slow._follow_broadcast is None
    for slot in draw.integers(0, SCENARIO.deadline, 400).tolist():
        device = int(draw.integers(1, DEVICES + 1))
        assert link.uplink(device, slot, 0) == slow.uplink(device, slot, 0)
        receivers = draw.choice(DEVICES, draw.integers(0, 9), replace=False) + 1
        assert link.broadcast(receivers.tolist(), slot) == slow.broadcast(receivers.tolist(), slot)


@pytest.mark.parametrize("retransmission", ["next-turn", "at-once", "erasure"])
def test_lost_uplinks_equal_those_of_the_scheduler(retransmission):
    fleet = replace(Fleet.equal(SCENARIO), retransmission=retransmission)
    link = link_of({**LINKS[0], "radio_threshold_db": 8.0})
    policy = IntentionalDelay(delay=1, selection=SELECTIONS["proportional-fair"])
    assert_equal_to_tables(link, policy, fleet)


@pytest.mark.parametrize("name", ["best-channel", "proportional-fair"])
def test_ties_go_to_the_device_that_the_scheduler_chooses(name):
    link = link_of({"radio_link": "rate-adaptive", "radio_placement": "ring"})
    link.draws.states[1::2] = link.draws.states[::2]  # every SNR occurs twice
    assert np.array_equal(*(link.tables(0, 9)[0][:, first::2] for first in (0, 1)))
    assert_equal_to_tables(link, Asynchronous(selection=SELECTIONS[name]))


def test_a_threshold_that_is_just_reached_is_left_to_the_link():
    link = link_of(LINKS[0])
    snr = float(link.conditions.snr(0, 1)[0, 2])
    for threshold, bits in ((snr, UNKNOWN), (np.nextafter(snr, 0), UNKNOWN), (snr * (1 - 1e-9), 1)):
        exact = replace(link, threshold=threshold)
        assert drawn_bits(exact.draws, np.array([2]), 0) == bits
        assert_equal_to_tables(exact, Asynchronous(selection=SELECTIONS["proportional-fair"]))


def test_bits_are_those_of_the_table_unless_rounding_decides():
    link = link_of(LINKS[2])
    _, bits = link.tables(0, 200)
    places = [np.array([n]) for n in range(DEVICES)]
    drawn = np.array([[drawn_bits(link.draws, place, block) for place in places] for block in range(200)])
    assert (drawn[drawn != UNKNOWN] == bits[drawn != UNKNOWN]).all()
    assert (drawn == UNKNOWN).mean() < 0.001


@pytest.mark.parametrize("by_rate", [False, True])
@pytest.mark.parametrize("fading", [Rayleigh(), Rician(k_db=-3.0), Rician(k_db=9.0)])
def test_scores_are_between_their_bounds(fading, by_rate):
    count = 100_000
    states, mean = device_states(3, SchedulePurpose.FADING, count), np.geomspace(1e-6, 1e9, count)
    draws = RayleighDraws(states, mean, np.empty(0), np.empty(0, dtype=np.int64), 1.0, 1.0, fading.sight)
    share, bounds = 1 / np.arange(1, count + 1), np.empty((2, count))
    bound_scores(draws, 8, np.ones(count, dtype=np.bool_), share, by_rate, bounds)
    snr = mean * fading.gains(mixed_all(states, 8))
    scores = (np.log2(1 + snr) if by_rate else snr) * share
    assert (bounds[0] <= scores * (1 + 1e-12) + 1e-15).all()
    assert (bounds[1] >= scores * (1 - 1e-12) - 1e-15).all()


def test_the_best_channel_is_that_of_a_ready_device_and_ties_are_not_decided():
    draws, bounds = link_of(LINKS[2]).draws, np.empty((2, DEVICES))
    snr = draws.mean * Rayleigh().gains(mixed_all(draws.states, 5))
    share, ready = np.ones(DEVICES), np.zeros(DEVICES, dtype=np.bool_)
    assert best_channel(draws, 5, ready, share, False, bounds) == NO_DEVICE
    ready[snr.argsort()[:-3]] = True  # all but the best three
    best = int(snr.argsort()[-4])
    assert best_channel(draws, 5, ready, share, False, bounds) == best
    for array in (draws.states, draws.mean):
        array[(best + 1) % DEVICES] = array[best]
    ready[:] = True
    ready[snr.argsort()[-3:]] = False
    ready[(best + 1) % DEVICES] = True
    assert best_channel(draws, 5, ready, share, False, bounds) == NOT_KNOWN


@pytest.mark.parametrize("fading", ["none", "nakagami"])
def test_other_fading_has_tables_only(fading):
    assert link_of({"radio_link": "rate-adaptive", "radio_fading": fading}).draws is None
