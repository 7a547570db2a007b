"""Whole live runs over UDP in virtual time, without sockets: datagrams are lost, doubled and late."""

import pytest
from memory_run import CONFIG
from udp_network import serve_over_udp

from live import simulated_models
from slotwise.runs.run_folder import model_sha256


@pytest.mark.parametrize("loss", [0.0, 0.2])
def test_the_model_is_the_simulators_whatever_is_lost_on_the_way(tmp_path, loss):
    outcome, network, _ = serve_over_udp(tmp_path / "run", loss=loss, delay=0.01, clip_norm="off")
    models = simulated_models(CONFIG.simulate())
    assert outcome.status == "finished"
    assert outcome.state.round == max(models)
    assert model_sha256(outcome.state.models[max(models)]) == model_sha256(models[max(models)])
    assert outcome.comparison.measured == outcome.comparison.planned
    assert {channel.connections for channel in network.channels.values()} == {1}


def test_with_slots_of_a_fixed_length_the_slots_are_those_of_the_plan(tmp_path):
    outcome, _, _ = serve_over_udp(tmp_path / "run", loss=0.0, delay=0.005, slot_ms=200, clip_norm="off")
    assert outcome.comparison.measured == outcome.comparison.planned
    assert outcome.comparison.first_difference is None


def test_uplinks_that_take_longer_than_their_slots_are_lost(tmp_path):
    outcome, _, observer = serve_over_udp(
        tmp_path / "run", loss=0.3, delay=0.005, slot_ms=200, clip_norm="off"
    )
    assert outcome.status == "finished"
    assert outcome.comparison.measured.lost > 0
    assert any(entry["what"] == "uplink" for entry in observer.named("late"))
