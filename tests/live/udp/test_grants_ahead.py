"""Grants ahead of time over UDP, in virtual time: slots are time, and devices send in them unasked."""

import json

import numpy as np
import pytest
from memory_run import CONFIG
from udp_network import serve_over_udp

from live import simulated_models
from slotwise.live import replay
from slotwise.runs import SavedRun
from slotwise.runs.run_folder import model_sha256

PACED = {"grants_ahead": True, "slot_ms": 200, "clip_norm": "off"}


def record_of(run):
    return json.loads((run / "slots.json").read_text())


def assert_same_model_by_replay(run):
    """Check that the recorded timeline gives the model of the run, to the bit."""
    assert model_sha256(replay(run)) == json.loads((run / "run.json").read_text())["model_sha256"]


@pytest.mark.parametrize("group", [False, True])
@pytest.mark.parametrize("drift", [0.0, 200e-6])
def test_timeline_and_model_are_those_of_the_simulator(tmp_path, group, drift):
    run = tmp_path / "run"
    network = {"group": group, "drift": drift}
    outcome, air, _ = serve_over_udp(run, loss=0.0, delay=0.003, network=network, **PACED)
    models, plan = simulated_models(CONFIG.simulate()), CONFIG.simulate()
    assert outcome.comparison.first_difference is None
    assert outcome.comparison.measured == outcome.comparison.planned
    assert model_sha256(outcome.state.models[max(models)]) == model_sha256(models[max(models)])
    record = record_of(run)
    assert record["outcomes"] == {"arrived": len(plan.device)}
    assert record["largest_offset_ns"] < 12_000_000  # twice the delay, and what the clock gains meanwhile
    columns = np.array([use[:5] for use in record["uses"]])
    assert (
        columns[:, [0, 1, 3, 4]].tolist()
        == np.column_stack([plan.round, plan.device, plan.start, plan.end]).tolist()
    )
    assert (air.hub.group is not None and air.hub.group.bytes_sent > 10_000) == group


def test_updates_that_are_lost_on_the_way_are_lost_uplinks_and_the_record_gives_the_model(tmp_path):
    run = tmp_path / "run"
    outcome, _, _ = serve_over_udp(run, loss=0.25, delay=0.005, network={"group": True}, **PACED)
    assert outcome.status == "finished"
    record, lost = record_of(run), outcome.comparison.measured.lost
    assert lost > 0
    assert sum(count for name, count in record["outcomes"].items() if name != "arrived") == lost
    assert set(record["outcomes"]) <= {"arrived", "early or late", "silent"}
    assert_same_model_by_replay(run)
    saved = SavedRun.read(run)
    assert saved.measured.rounds == saved.config.simulate().rounds


def fast_clocks(air, clock):
    """Let the counters of three devices run ahead or behind, by what the guard time does not cover."""
    for number, shift in ((1, 24), (2, -260), (3, 60)):
        channel = air.channels[number]
        heard = channel.hear_beacons

        def shifted(hear, heard=heard, shift=shift):
            heard(None if hear is None else lambda frame, began: hear(frame, began - shift * 1_000_000))

        channel.hear_beacons = shifted


def test_an_update_that_comes_too_early_or_too_late_is_a_lost_uplink(tmp_path):
    run = tmp_path / "run"

    async def shift(air, clock):
        while len(air.channels) < 6:
            await clock.sleep(0)
        fast_clocks(air, clock)

    live, _, _ = serve_over_udp(run, loss=0.0, delay=0.003, meanwhile=shift, **PACED)
    assert live.status == "finished"
    early = [use for use in record_of(run)["uses"] if use[1] == 1]
    late = [use for use in record_of(run)["uses"] if use[1] == 2]
    earlier = [use for use in record_of(run)["uses"] if use[1] == 3]  # before the slot begins
    others = [use for use in record_of(run)["uses"] if use[1] > 3]
    for *_, outcome, offset in early:  # by the guard time, more or less
        assert outcome == ("arrived" if offset >= -20_000_000 else "early or late")
    assert any(use[5] == "early or late" for use in early)
    assert {use[5] for use in late} <= {"early or late", "silent"}  # nothing has come when its slot ends
    assert live.comparison.rejected["update outside its slots"] > 0
    assert late
    assert {use[5] for use in earlier} == {"early or late"}
    assert {use[5] for use in others} == {"arrived"}
    assert_same_model_by_replay(run)


def test_a_device_that_hears_no_beacon_is_silent_and_the_others_go_on(tmp_path):
    run = tmp_path / "run"

    async def deafen(air, clock):
        while 3 not in air.channels:
            await clock.sleep(0)
        air.channels[3].hear_beacons = lambda hear: None

    outcome, _, _ = serve_over_udp(run, loss=0.0, delay=0.003, meanwhile=deafen, timeout=2, **PACED)
    assert outcome.status == "finished"
    uses = record_of(run)["uses"]
    assert {use[5] for use in uses if use[1] == 3} == {"silent"}
    assert {use[5] for use in uses if use[1] != 3} == {"arrived"}
