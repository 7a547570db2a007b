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
from slotwise.radio import LINK, Fading, Nakagami, NoFading, Rayleigh, Rician, radio_link
from slotwise.radio.channel import ModelConditions
from slotwise.schedule import SELECTIONS, ready_queue
from slotwise.schedule.drawing_kernel import (
    NEVER,
    NO_DEVICE,
    NOT_COMPUTED,
    NOT_KNOWN,
    UNKNOWN,
    best_channel,
    by_mean,
    drawn_bits,
    drawn_snr,
    largest_gain,
    number_needed,
)
from slotwise.schedule.link import FEW, FadingDraws

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
    {"radio_link": "rate-adaptive", "radio_fading": "nakagami", "radio_coherence_slots": 2},
    {"radio_link": "rate-adaptive", "radio_fading": "nakagami", "radio_nakagami_m": 0.6, "radio_rate": "cqi"},
    {
        "radio_link": "fixed-rate",
        "radio_threshold_db": 3.0,
        "radio_fading": "nakagami",
        "radio_nakagami_m": 20.0,
    },
    {"radio_link": "rate-adaptive", "radio_fading": "none"},
]
ADAPTIVE = [options for options in LINKS if options["radio_link"] == "rate-adaptive"]


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
@pytest.mark.parametrize("options", ADAPTIVE, ids=range(len(ADAPTIVE)))
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
@pytest.mark.parametrize("fading", ["rayleigh", "nakagami", "none"])
def test_ties_go_to_the_device_that_the_scheduler_chooses(name, fading):
    link = link_of({"radio_link": "rate-adaptive", "radio_placement": "ring", "radio_fading": fading})
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
@pytest.mark.parametrize("fading", [Rayleigh(), Rician(k_db=-3.0), Rician(k_db=9.0), Nakagami(), NoFading()])
def test_who_reaches_a_level_draws_the_number_that_it_needs(fading, by_rate):
    count = 20_000
    states, mean = device_states(3, SchedulePurpose.FADING, count), np.geomspace(1e-6, 1e9, count)
    share, draws = 1 / np.arange(1, count + 1), draws_of(states, mean, fading)
    numbers = (mixed_all(states, 8) >> np.uint64(11)).astype(np.int64)
    snr = mean * fading.gains(mixed_all(states, 8))
    scores = (np.log2(1 + snr) if by_rate else snr) * share
    for level in (0.0, *np.quantile(scores, (0.01, 0.3, 0.9, 0.999)), scores.max()):
        needed = [number_needed(draws, n, share[n], by_rate, level) for n in range(count)]
        assert (numbers >= needed)[scores >= level].all()
    if fading.drawn_as == (0.0, 0.0):  # nobody else draws it
        assert (numbers >= needed).sum() < 5


@pytest.mark.parametrize(
    "fading", [Rayleigh(), Rician(k_db=3.0), *(Nakagami(m=m) for m in (0.5, 1.0, 2.0, 900.0))]
)
def test_gains_are_those_of_numpy_and_below_the_largest(fading):
    states = device_states(5, SchedulePurpose.FADING, 3000)
    draws = draws_of(states, np.ones(len(states)), fading)
    drawn = np.array([drawn_snr(draws, n, block) for block in range(9) for n in range(len(states))])
    gains = np.concatenate([fading.gains(mixed_all(states, block)) for block in range(9)])
    known = np.isfinite(drawn[:, 1])
    assert known.mean() > 0.999
    assert (abs(drawn[:, 0] - gains)[known] <= 1e-13 * drawn[known, 1]).all()
    assert gains.max() < largest_gain(draws)


@pytest.mark.parametrize("by_rate", [False, True])
@pytest.mark.parametrize("fading", [Rayleigh(), Rician(), Nakagami(), Nakagami(m=0.5), NoFading()])
def test_the_best_of_many_devices_is_that_of_numpy(fading, by_rate):
    draw, count = np.random.default_rng(4), 3000
    mean = 10 ** draw.uniform(-2, 5, count)
    order, draws = by_mean(draws_of(device_states(1, SchedulePurpose.FADING, count), mean, fading))
    assert (mean[order] == draws.mean).all()
    kept = Kept(count)
    for block in range(60):
        weight = 1 / draw.integers(1, 6, count) if by_rate else np.ones(count)
        weight[draw.random(count) < draw.choice([0.1, 0.9, 0.999])] = -1.0
        snr = draws.mean * fading.gains(mixed_all(draws.states, block))
        scores = np.where(weight > 0, (np.log2(1 + snr) if by_rate else snr) * weight, -1.0)
        expected = int(scores.argmax()) if (weight > 0).any() else NO_DEVICE
        assert kept.best(draws, block, weight, by_rate) == expected
        # Few devices change between two choices of a schedule.
        for other in range(block, block + 20):
            snr = draws.mean * fading.gains(mixed_all(draws.states, other))
            scores = np.where(weight > 0, (np.log2(1 + snr) if by_rate else snr) * weight, -1.0)
            best = int(scores.argmax()) if (weight > 0).any() else NO_DEVICE
            assert kept.best(draws, other, weight, by_rate) == best
            weight[best] = -1.0


def test_the_best_channel_is_that_of_a_ready_device_and_close_ones_are_not_decided():
    order, draws = by_mean(link_of(LINKS[2]).draws)
    assert sorted(order) == list(range(DEVICES))
    kept, weight = Kept(DEVICES), np.full(DEVICES, -1.0)
    snr = draws.mean * Rayleigh().gains(mixed_all(draws.states, 5))
    assert kept.best(draws, 5, weight) == NO_DEVICE
    weight[snr.argsort()[:-3]] = 1.0  # all but the best three
    best = int(snr.argsort()[-4])
    assert kept.best(draws, 5, weight) == best
    other = (best + 1) % DEVICES
    for array in (draws.states, draws.mean):
        array[other] = array[best]
    weight[other] = 1.0
    assert Kept(DEVICES).best(draws, 5, weight) == min(best, other)  # equal to the bit
    draws.mean[other] *= 1 + 1e-15
    assert Kept(DEVICES).best(draws, 5, weight) == NOT_KNOWN


class Kept:
    """What `best_channel` keeps from one choice to the next."""

    def __init__(self, devices):
        self.weight, self.needed = np.full(devices, -1.0), np.full(devices, NEVER)
        self.level, self.scores = np.zeros(2), np.empty(devices)

    def best(self, draws, block, weight, by_rate=False):
        changed = weight != self.weight
        self.needed[changed] = np.where(weight[changed] < 0, NEVER, NOT_COMPUTED)
        self.weight[:] = weight
        return best_channel(draws, block, self.weight, by_rate, self.needed, self.level, self.scores)


def draws_of(states, mean, fading):
    numbers = (np.empty(0), np.empty(0, dtype=np.int64), 1.0, 1.0)
    return FadingDraws(states, mean, *numbers, *fading.drawn_as)


def test_fading_of_the_users_has_tables_only():
    class Flat(Fading):
        def gains(self, states):
            return np.ones(states.shape)

    link = link_of(LINKS[2])
    conditions = ModelConditions(link.conditions.mean_snr_db, Flat(), 0)
    assert replace(link, conditions=conditions).draws is None
