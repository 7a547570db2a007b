"""run_on_medium: the plan of the simulator on an emulated medium, with clocks that drift and frames lost."""

import json
from dataclasses import replace

import numpy as np
import pytest
from tasks import Arithmetic

from slotwise.base.errors import InputError, UserError
from slotwise.learning import train
from slotwise.learning.checked_task import CheckedTask
from slotwise.live import run_on_medium
from slotwise.live.slots.frames import decode
from slotwise.live.slots.medium import SERVER, SharedMedium
from slotwise.options import loaded
from slotwise.runs import RunConfig
from slotwise.runs.run_folder import model_sha256

TASK = Arithmetic(size=20)
CONFIG = RunConfig.from_options(
    {"devices": 12, "group_size": 3, "compute_slots": 10, "deadline": 300, "task": "tasks:make"}
)


def simulated(config, task=TASK):
    """Return the identity of the simulator's last model."""
    radio = config.uplink_radio(CheckedTask.of(task).update_bits)
    history = train(config.simulate(), task, aggregation=loaded(config.rule), workers=1, radio=radio)
    return model_sha256(history.model)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"schedule": "async"},
        {"schedule": "sync"},
        {"schedule": "tasks:make_policy"},
        {"selection": "tasks:latest_first"},
        {"link_slots": 3},
        {"jitter": 0.5},
        {"uplink_loss": 0.3},
        {"uplink_loss": 0.3, "retransmission": "at-once", "schedule": "async"},
        {"uplink_loss": 0.3, "retransmission": "erasure"},
        {"radio_link": "rate-adaptive", "radio_bits": 500_000, "radio_broadcast_bits": 800_000},
        {"radio_link": "tasks:make_link"},
        {
            **{"radio_link": "rate-adaptive", "radio_bits": 500_000, "radio_broadcast_bits": 800_000},
            "aggregation": "examples.own_aggregation.by_channel:by_channel",
        },
        {"bits": 8},
        {"aggregation": "fedasync", "schedule": "async"},
    ],
    ids=lambda options: " ".join(map(str, options.values())) or "idfl",
)
def test_timeline_and_model_are_those_of_the_simulator(options):
    config = CONFIG.with_options(**options)
    task = None if "bits" in options else TASK
    run = run_on_medium(config, task, drift_ppm=20, delay_us=50)
    assert run.as_planned
    if task is not None:
        assert run.model_sha256 == simulated(config)
    assert not run.collisions
    assert not run.misplaced
    assert set(run.outcomes) <= {"arrived", "frames lost"}
    assert np.array_equal(run.plan.lost, run.timeline.lost)


def test_losses_of_the_link_are_lost_frames_on_the_medium():
    run = run_on_medium(CONFIG.with_options(uplink_loss=0.3), TASK)
    assert run.outcomes["frames lost"] >= len(run.plan.lost) > 10


@pytest.mark.slow
def test_a_hundred_devices_execute_ten_thousand_slots_without_a_collision():
    config = CONFIG.with_options(devices=100, group_size=10, compute_slots=50, deadline=10_000)
    run = run_on_medium(config, TASK, guard_ms=1, drift_ppm=20)
    assert run.as_planned
    assert run.plan.last_slot > 9_980
    assert (run.collisions, run.misplaced, set(run.outcomes)) == ((), {}, {"arrived"})
    assert run.largest_offset_ns < run.layout.guard_ns
    assert run.model_sha256 == simulated(config)


def test_drift_beyond_the_guard_time_makes_collisions_which_are_recorded(tmp_path):
    run = run_on_medium(CONFIG, TASK, drift_ppm=5000, estimate_drift=False)
    assert not run.as_planned
    assert run.outcomes["collision"] > 0
    assert len(run.timeline.lost) > 0
    assert all(len(senders) > 1 for _, _, senders in run.collisions)
    run.write(tmp_path / "slots.json")
    record = json.loads((tmp_path / "slots.json").read_text())
    assert record["outcomes"] == run.outcomes
    assert len(record["collisions"]) == len(run.collisions)
    assert [row[-2] for row in record["uses"]] == [use.outcome for use in run.uses]
    lost = [tuple(use[:5]) for use in run.uses if use.outcome != "arrived"]
    assert lost[: len(run.timeline.lost)] == [*map(tuple, run.timeline.lost.tolist())]


def test_estimating_the_drift_keeps_clocks_within_the_guard_time_that_otherwise_are_not():
    run = run_on_medium(CONFIG, TASK, drift_ppm=5000)
    assert run.as_planned
    assert not run.collisions


def test_a_delay_beyond_the_guard_time_makes_frames_late():
    run = run_on_medium(CONFIG, TASK, delay_us=60_000)
    assert run.outcomes["early or late"] > 0
    assert run.misplaced


def test_lost_frames_are_lost_uplinks_and_the_run_goes_on():
    run = run_on_medium(CONFIG, TASK, frame_loss=0.02)
    assert run.outcomes["frames lost"] > 0
    assert 0 < run.timeline.rounds <= run.plan.rounds
    planned = {use[3:5] for use in run.uses}
    assert len(planned) == len(run.uses)  # no two uplinks in the same slots


def test_a_run_is_a_function_of_its_seed():
    first, again, other = (
        run_on_medium(CONFIG.with_options(seed=seed), TASK, frame_loss=0.02, drift_ppm=100)
        for seed in (1, 1, 2)
    )
    assert (first.uses, first.collisions, first.model_sha256) == (
        again.uses,
        again.collisions,
        again.model_sha256,
    )
    assert first.uses != other.uses


def test_devices_know_their_slots_in_advance(monkeypatch):
    announced, send = [], SharedMedium.send

    def noting(medium, sender, frames, start):
        announced.extend(decode(frame) for frame in frames if sender == SERVER and frame[0] == 1)
        send(medium, sender, frames, start)

    monkeypatch.setattr(SharedMedium, "send", noting)
    run = run_on_medium(CONFIG, TASK)
    planned = [*zip(run.plan.start.tolist(), run.plan.device.tolist(), strict=True)]
    known = {(grant.first, grant.device) for beacon in announced for grant in beacon.grants}
    assert known >= set(planned)
    # All but those that follow the first beacon at once were announced in an earlier slot.
    early = {(g.first, g.device) for beacon in announced for g in beacon.grants if g.first > beacon.slot}
    assert early >= set(planned)
    assert run.beacons == len(announced)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"slot_ms": 1}, "slot_ms"),
        ({"bit_rate": 1000}, "bit_rate"),
        ({"frame_bytes": 10}, "frame_bytes"),
        ({"frame_loss": 1.0}, "frame_loss"),
        ({"guard_ms": -1}, "guard_ms"),
        ({"beacon_every": 0}, "beacon_every"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        run_on_medium(CONFIG, TASK, **options)


@pytest.mark.parametrize(
    "options", [{"sub_channels": 2}, {"stop_at": "loss=0.1"}, {"aggregation": "scaffold"}]
)
def test_runs_that_a_medium_cannot_carry_are_refused(options):
    with pytest.raises(InputError, match=next(iter(options))):
        run_on_medium(CONFIG.with_options(**options), TASK)


def test_a_given_bit_rate_is_used():
    lowest = run_on_medium(CONFIG, TASK).layout
    fast = run_on_medium(CONFIG, TASK, bit_rate=2 * lowest.bit_rate)
    assert fast.layout == replace(lowest, bit_rate=2 * lowest.bit_rate)
    assert fast.as_planned


class Broken(Arithmetic):
    def local_update(self, model, start):
        return np.full_like(model, np.nan)


def test_an_update_that_is_not_finite_is_an_error_of_the_task():
    with pytest.raises(UserError, match="update of device 1: numbers are not finite"):
        run_on_medium(CONFIG, Broken(size=20))
