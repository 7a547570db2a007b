"""Links: durations, losses and broadcasts against a loop over slots, and refusals."""

from dataclasses import replace

import numpy as np
import pytest

from slotwise.base.errors import InputError, UserError
from slotwise.options import choose
from slotwise.radio import LINK, write_trace
from slotwise.scenario import Scenario
from slotwise.schedule.link import BlockLink

BITS, NAN = 698_880, float("nan")
SCENARIO = Scenario(devices=20, group_size=4, compute_slots=5, link_slots=2, deadline=400)


def radio_of(**options):
    return choose(LINK, {"radio_link": "rate-adaptive", **options})


def link_of(scenario=SCENARIO, *, seed=0, until=None, **options):
    return radio_of(**options).with_bits(BITS, BITS).link(scenario, seed=seed, until=until)


def naive_uplink(link, device, slot):
    """Send slot by slot, asking only for the bits of one slot."""
    sent, slots = 0, 0
    while slots < (link.fixed_slots or link.give_up_slots):
        _, bits = link.tables((slot + slots) // link.coherence_slots, 1)
        each = int(bits[0, device - 1])
        if link.fixed_slots and not each:
            return link.fixed_slots, True
        sent, slots = sent + each, slots + 1
        if not link.fixed_slots and sent >= link.update_bits:
            return slots, False
    return slots, not link.fixed_slots


VARIANTS = [
    {},
    {"radio_coherence_slots": 7},
    {"radio_fading": "nakagami", "radio_rate": "cqi", "radio_gap_db": 2.0},
    {"radio_fading": "rician", "radio_slot_ms": 10.0, "radio_coherence_slots": 3},
    {"radio_give_up_slots": 3, "radio_bits": 400_000},
    {"radio_link": "fixed-rate", "radio_threshold_db": 5.0, "radio_coherence_slots": 3},
    {"radio_schemes": ((0.0, 0.5), (10.0, 3.0))},
]


@pytest.mark.parametrize("options", VARIANTS, ids=range(len(VARIANTS)))
def test_uplinks_equal_a_loop_over_slots(options):
    link = link_of(**options)
    assert isinstance(link, BlockLink)
    for device in (1, 7, 20):
        for slot in range(0, 60, 7):
            found = link.uplink(device, slot, 0)
            assert (found.slots, found.lost) == naive_uplink(link, device, slot)


@pytest.mark.parametrize("threshold", [-25.0, -22.0, -19.0])  # lost rarely, often, nearly always
def test_long_uplinks_of_a_fixed_rate_equal_a_loop_over_slots(threshold):
    scenario = replace(SCENARIO, link_slots=700)
    link = link_of(scenario, radio_link="fixed-rate", radio_threshold_db=threshold)
    outcomes = [link.uplink(device, 5, 0)[:2] for device in range(1, 21)]
    assert outcomes == [naive_uplink(link, device, 5) for device in range(1, 21)]


@pytest.mark.parametrize("options", VARIANTS, ids=range(len(VARIANTS)))
def test_a_deadline_changes_only_uplinks_that_end_after_it(options):
    free, link = link_of(**options), link_of(**options, until=40)
    for device in (1, 7, 20):
        for slot in range(41):
            found, whole = link.uplink(device, slot, 0), free.uplink(device, slot, 0)
            assert found == whole or min(found.slots, whole.slots) > 40 - slot


@pytest.mark.parametrize("link", ["rate-adaptive", "fixed-rate"])
def test_uplinks_are_not_followed_beyond_the_deadline(link):
    patient = {"radio_give_up_slots": 10**9, "radio_bits": 10**13} if link == "rate-adaptive" else {}
    scenario = replace(SCENARIO, link_slots=10**9)
    found = link_of(scenario, until=400, radio_link=link, **patient).uplink(3, 390, 0)
    assert found.slots > 10


@pytest.mark.parametrize("options", [{}, {"radio_coherence_slots": 5}], ids=["slot", "block"])
def test_a_broadcast_takes_as_long_as_its_worst_receiver_slot_by_slot(options):
    link = link_of(**options, radio_server_power_dbm=25.0)
    for slot, receivers in ((0, [1, 2]), (13, [5]), (29, list(range(1, 21)))):
        sent, slots = 0, 0
        while sent < BITS:
            block = (slot + slots) // link.coherence_slots
            snr = 10 ** (link.tables(block, 1)[0][0] / 10)
            sent += int(link.broadcast_bits(snr)[np.array(receivers) - 1].min())
            slots += 1
        assert link.broadcast(receivers, slot) == slots
    assert link.broadcast([], 0) == 1
    assert link_of(radio_link="fixed-rate").broadcast([1, 2], 3) == SCENARIO.link_slots


def test_outage_and_threshold_have_their_closed_forms():
    one = Scenario(devices=50, group_size=4, compute_slots=5, link_slots=1)
    options = {"radio_link": "fixed-rate", "radio_placement": "ring", "radio_radius_m": 200.0}
    link = link_of(one, radio_threshold_db=5.0, **options)
    expected = -np.expm1(-(10**0.5) / link.conditions.mean_snr[0])  # Tse and Viswanath, 2005, eq. 5.54
    lost = [link.uplink(device, slot, 0).lost for device in range(1, 51) for slot in range(400)]
    error = np.sqrt(expected * (1 - expected) / len(lost))
    assert abs(np.mean(lost) - expected) <= 5 * error
    link = link_of(radio_link="fixed-rate", radio_bits=200_000)
    # 200,000 bits in 2 slots of 100 ms and 1 MHz are 1 bit/s/Hz, which needs an SNR of 1.
    assert link.threshold == pytest.approx(1.0)


def test_the_same_seed_gives_the_same_link_and_snr_is_the_row_of_the_table():
    link = link_of(radio_coherence_slots=4)
    table, _ = link.tables(0, 10)
    for slot in range(40):
        assert np.array_equal(link.snr_db(slot), table[slot // 4])
    first, again, other = (link_of(seed=seed).tables(3, 2)[0] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.isclose(first, other).any()
    larger = Scenario(devices=30, group_size=4, compute_slots=5)
    assert np.array_equal(link_of(larger, seed=1).tables(3, 2)[0][:, :20], first)
    assert np.array_equal(link_of(seed=2, radio_seed=1).tables(3, 2)[0], first)


def test_dividing_the_band_divides_bandwidth_and_noise():
    whole, own, divided = (
        link_of(replace(SCENARIO, sub_channels=count), radio_band=band, radio_fading="none")
        for count, band in ((1, "own"), (4, "own"), (4, "divided"))
    )
    assert np.array_equal(whole.tables(0, 1)[1], own.tables(0, 1)[1])
    snr, bits = divided.tables(0, 1)
    assert snr == pytest.approx(whole.tables(0, 1)[0] + 10 * np.log10(4))
    ratio = np.log2(1 + 10 ** (snr / 10)) * 25_000
    assert np.array_equal(bits, np.floor(ratio))
    assert divided.broadcast([1, 2, 3], 0) == whole.broadcast([1, 2, 3], 0)


def test_planned_slots_are_the_quantile_of_what_happens_and_no_prophecy():
    options = {"radio_slot_ms": 20.0}
    low, high = (link_of(radio_quantile=q, **options) for q in (0.1, 0.9))
    for device in (1, 10, 20):
        seen = [low.uplink(device, slot, 0).slots for slot in range(0, 4000, 10)]
        assert np.quantile(seen, 0.03) <= low.planned_slots[device - 1] <= np.quantile(seen, 0.2)
        assert np.quantile(seen, 0.8) <= high.planned_slots[device - 1] <= np.quantile(seen, 0.97)
    receivers = [[1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 20]]
    seen = [low.broadcast(receivers[slot % 3], slot) for slot in range(0, 900, 10)]
    assert low.planned_broadcast_slots <= np.quantile(seen, 0.5)
    assert link_of(radio_link="fixed-rate").planned_slots == (2,) * 20
    link = link_of()
    assert not np.isclose(link.conditions.snr(0, 3), link.conditions.snr(0, 3, planning=True)).any()


@pytest.mark.parametrize(
    ("options", "parameter"),
    [
        ({"radio_radius_m": 6000.0}, "radio_radius_m"),
        ({"radio_nearest_m": 500.0}, "radio_nearest_m"),
        *(
            ({"radio_schemes": (pair, (4.0, 2.0))}, "radio_schemes")
            for pair in ((1.0, NAN), (NAN, 1.0), (300.0, 1.0), (1.0, 0.0), (5.0, 1.0), (1.0, 3.0), (1.0,))
        ),
        ({"radio_distances_m": (1.0, -2.0)}, "radio_distances_m"),
        ({"radio_distances_m": (1.0,), "radio_radius_m": 20.0}, "radio_radius_m"),
        ({"radio_seed": 1, "radio_fading": "none", "radio_placement": "ring"}, "radio_seed"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_parts_that_do_not_fit_each_other_are_refused(options, parameter):
    with pytest.raises(InputError) as caught:
        radio_of(**options)
    assert caught.value.parameter == parameter


@pytest.mark.parametrize(
    ("options", "parameter"),
    [
        ({"radio_power_dbm": -150.0}, "radio_power_dbm"),
        ({"radio_server_power_dbm": -150.0, "radio_rate": "cqi"}, "radio_server_power_dbm"),
        ({"radio_distances_m": (10.0, 20.0)}, "radio_distances_m"),
        ({"radio_distances_m": (9000.0,) * 20}, "radio_distances_m"),
        ({"radio_link": "fixed-rate", "radio_threshold_db": 150.0}, "radio_power_dbm"),
        ({"radio_link": "fixed-rate", "radio_bits": 10**12}, "radio_bits"),
        ({"radio_bits": 10**12}, "radio_give_up_slots"),
    ],
    ids=range(7),
)
def test_devices_that_can_never_send_are_refused(options, parameter):
    with pytest.raises(InputError) as caught:
        link_of(**options)
    assert caught.value.parameter == parameter


def test_a_trace_replaces_the_model(tmp_path):
    model = link_of(radio_coherence_slots=5)
    table, _ = model.tables(0, 80)
    write_trace(tmp_path / "trace.csv", table)
    traced = link_of(radio_trace=tmp_path / "trace.csv", radio_coherence_slots=5)
    for device in (1, 9, 20):
        for slot in range(0, 300, 11):
            assert traced.uplink(device, slot, 0) == model.uplink(device, slot, 0)
    assert traced.broadcast([1, 2, 3], 17) == model.broadcast([1, 2, 3], 17)
    assert np.allclose(traced.snr_db(123), model.snr_db(123), rtol=1e-12)


def test_a_trace_of_bits_is_what_a_slot_carries_however_many(tmp_path):
    values = np.random.default_rng(0).integers(50_000, 500_000, (400, 20)).astype(float)
    write_trace(tmp_path / "bits.csv", values, time="slot", quantity="bits")
    link = link_of(radio_trace=str(tmp_path / "bits.csv"))
    assert np.array_equal(link.tables(0, 400)[1], values)
    worst = values[:, [2, 3]].min(axis=1).cumsum()
    assert link.broadcast([3, 4], 0) == 1 + int((worst < BITS).sum())
    for name, value in (("radio_rate", "cqi"), ("radio_slot_ms", 5.0), ("radio_link", "fixed-rate")):
        with pytest.raises(InputError):
            link_of(**{"radio_trace": str(tmp_path / "bits.csv"), name: value})
    values = np.random.default_rng(0).integers(0, 10**9, (400, 20), endpoint=True).astype(float)
    values[:4, 0] = 0, 1, 2, 10**9
    write_trace(tmp_path / "bits.csv", values, time="slot", quantity="bits")
    link = link_of(radio_trace=str(tmp_path / "bits.csv"))
    assert np.array_equal(link.tables(0, 400)[1], values)
    assert np.array_equal(link.broadcast_bits(link.conditions.snr(0, 400)), values)
    assert np.isfinite(link.snr_db(3)).all()


def test_a_trace_that_is_short_changed_empty_or_without_effect_is_refused(tmp_path):
    write_trace(tmp_path / "short.csv", np.full((10, 20), 12.0))
    with pytest.raises(InputError, match="radio_trace"):
        link_of(radio_trace=str(tmp_path / "short.csv"))
    link = link_of(radio_trace=str(tmp_path / "short.csv"), radio_trace_end="repeat")
    assert np.array_equal(link.snr_db(3), link.snr_db(13))
    write_trace(tmp_path / "trace.csv", np.full((400, 20), 12.0))
    radio = radio_of(radio_trace=str(tmp_path / "trace.csv"), radio_bits=BITS, radio_broadcast_bits=BITS)
    write_trace(tmp_path / "trace.csv", np.full((400, 20), 13.0))
    with pytest.raises(UserError, match="changed"):
        radio.link(SCENARIO)
    write_trace(tmp_path / "trace.csv", np.full((400, 20), 10.0))
    with pytest.raises(InputError) as caught:
        radio_of(radio_trace=str(tmp_path / "trace.csv"), radio_radius_m=3.0)
    assert caught.value.parameter == "radio_radius_m"
    write_trace(tmp_path / "trace.csv", np.zeros((400, 20)), quantity="bits")
    with pytest.raises(InputError) as caught:
        link_of(radio_trace=str(tmp_path / "trace.csv"))
    assert caught.value.parameter == "radio_trace"
    assert "SNR" not in caught.value.allowed
