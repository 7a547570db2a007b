"""Runs over the radio: options, training, kill and resume, batches."""

import json
from pathlib import Path

import numpy as np
import pytest
from examples.own_task.logistic import Logistic

from slotwise.base.errors import ConflictError, InputError, NoEffectError, UserError
from slotwise.batch import BatchSpec
from slotwise.batch.job import schedule_summary
from slotwise.radio import NoFading, Rayleigh, write_trace
from slotwise.runs import RunConfig, RunFolder, resume, run
from slotwise.runs.toml_options import read_toml
from slotwise.setting.planning import plan

SMALL = {
    "devices": 6,
    "group_size": 2,
    "compute_slots": 4,
    "deadline": 120,
    "network": "logistic",
    "samples_per_device": 20,
    "local_steps": 1,
    "batch_size": 8,
    "radio_link": "rate-adaptive",
    "radio_slot_ms": 20.0,
}


FIXED = {"radio_link": "fixed-rate", "radio_slot_ms": None}


def config(**options):
    given = {**SMALL, **options}
    return RunConfig.from_options({name: value for name, value in given.items() if value is not None})


def test_bits_follow_from_the_model_quantisation_or_the_task():
    parameters = 28 * 28 * 10 + 10
    assert config().make_link().update_bits == 32 * parameters
    assert config(bits=8).make_link().update_bits == 8 * parameters + 2 * 32
    assert config(bits=8).make_link().model_bits == 32 * parameters
    assert config(radio_bits=999).make_link().update_bits == 999
    own = {"network": None, "task": "examples.own_task.logistic:make_task"}
    link = config(**own, bits=8).make_link()
    assert link.update_bits == 8 * 9 + 2 * 32
    assert link.model_bits == 32 * 9
    assert config(**own, radio_bits=999).make_link().update_bits == 999


def test_a_task_object_says_its_bits(tmp_path):
    class Sparse(Logistic):
        update_bits = 2_000_000

    own = config(network=None)
    result = run(own, tmp_path / "run", task=Sparse(own))
    saved = RunFolder.open(tmp_path / "run").parameters()
    assert (saved.link.bits, saved.link.broadcast_bits) == (2_000_000, 32 * 9)
    assert saved.simulate() == result.timeline != own.simulate()


def test_uplinks_and_losses_of_the_timeline_are_those_of_the_link():
    first, again, other = (config(seed=seed).simulate() for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert config().schedule_depends_on_seed
    assert config(seed=5, radio_seed=1).simulate() == config(seed=6, radio_seed=1).simulate()
    chosen = config(schedule="async")
    link, timeline = chosen.make_link(), chosen.simulate()
    for device, start, end in zip(timeline.device, timeline.start, timeline.end, strict=True):
        assert link.uplink(int(device), int(start), 0).slots == end - start
    for k in range(timeline.rounds):
        start = int(timeline.broadcast_start[k])
        assert timeline.broadcast_end[k] - start == link.broadcast(timeline.receivers(k + 1).tolist(), start)
    options = {**FIXED, "radio_threshold_db": 5.0, "schedule": "async"}
    chosen = config(**options)
    link, timeline = chosen.make_link(), chosen.simulate()
    assert len(timeline.lost)
    assert all(link.uplink(device, start, 0).lost for _, device, _, start, _ in timeline.lost.tolist())
    sent = zip(timeline.device.tolist(), timeline.start.tolist(), strict=True)
    assert not any(link.uplink(device, start, 0).lost for device, start in sent)


def test_lost_updates_are_sent_again_or_erased():
    options = {**FIXED, "radio_threshold_db": 5.0, "schedule": "async"}
    timelines = {how: config(**options, retransmission=how).simulate() for how in ("at-once", "erasure")}
    again, erased = timelines["at-once"], timelines["erasure"]
    assert len(erased.lost)
    assert erased.fleet.retransmission == "erasure"
    # Each lost uplink of a round with retransmission costs slots; with erasure rounds have fewer updates.
    assert len(erased) < erased.rounds * 2
    assert len(again) == again.rounds * 2
    with pytest.raises(InputError):
        RunConfig.from_options({"devices": 6, "group_size": 2, "retransmission": "erasure"})


@pytest.mark.parametrize(
    ("options", "error", "parameter"),
    [
        ({"link_slots": 3}, InputError, "link_slots"),
        ({"uplink_slots": 3}, InputError, "uplink_slots"),
        ({"link_distribution": "constant:3"}, ConflictError, "link_distribution"),
        ({"uplink_loss": 0.1}, ConflictError, "uplink_loss"),
        ({"bits_per_slot": 1000}, ConflictError, "bits_per_slot"),
        ({"radio_power_dbm": -100.0}, InputError, "radio_power_dbm"),
        ({"radio_link": None, "radio_slot_ms": 20.0}, InputError, "radio_slot_ms"),
        ({"radio_placement_file": "place.csv", "radio_radius_m": 3.0}, NoEffectError, "radio_radius_m"),
        ({"radio_placement_file": 7}, InputError, "radio_placement_file"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_options_that_contradict_the_radio_are_refused(options, error, parameter, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "place.csv").write_text("device,distance_m\n" + "".join(f"{n},50\n" for n in range(1, 7)))
    with pytest.raises(error) as caught:
        RunConfig.from_options({**SMALL, **options}).simulate()
    assert caught.value.parameter == parameter


def test_files_of_placement_and_schemes_become_options(tmp_path):
    (tmp_path / "place.csv").write_text("device,distance_m\n1,50\n2,60\n3,70\n")
    (tmp_path / "schemes.csv").write_text("snr_db,efficiency\n0,1\n10,3\n")
    (tmp_path / "run.toml").write_text(
        'group-size = 1\n[radio]\nlink = "rate-adaptive"\nplacement-file = "place.csv"\n'
        'schemes-file = "schemes.csv"\n'
    )
    chosen = RunConfig.from_toml(tmp_path / "run.toml")
    assert chosen.channel.devices == 3
    assert chosen.link.channel.placement.distances_m == (50.0, 60.0, 70.0)
    assert chosen.link.rate.schemes == ((0.0, 1.0), (10.0, 3.0))
    saved = json.loads(json.dumps(chosen.options()))
    assert RunConfig.from_saved(saved) == chosen


@pytest.mark.parametrize(
    "options",
    [
        {"radio_distances_m": [float(distance) for distance in range(50, 170, 10)]},
        {"radio_schemes": [[0.0, 1.0], [10.0, 3.0]]},
        {"radio_link": "fixed-rate", "radio_threshold_db": 3.0},
        {"radio_trace": str(Path(__file__)), "radio_trace_sha256": "0" * 64, "radio_coherence_slots": 4},
    ],
    ids=lambda options: next(iter(options)),
)
def test_tables_of_earlier_versions_which_list_every_option_are_read(options):
    recorded = json.loads((Path(__file__).parents[1] / "recorded_tables.json").read_text())["tables"]
    table = next(full for _, full in recorded if full["radio_link"] == "rate-adaptive")
    read = RunConfig.from_saved({**table, **options}).options()
    assert json.loads(json.dumps({name: read[name] for name in options})) == options


@pytest.mark.parametrize(
    "text",
    ['radio = "on"\n', "radio-link = 3\n", "[radio]\nlinks = 1\n", "radio-seed = 1\n[radio]\nseed = 2\n"],
    ids=range(4),
)
def test_wrong_tables_are_refused(tmp_path, text):
    (tmp_path / "run.toml").write_text(text)
    with pytest.raises(UserError):
        RunConfig.from_options(read_toml(tmp_path / "run.toml"))


def test_axes_of_a_batch_may_be_of_the_radio():
    spec = BatchSpec.of(
        {"": {**SMALL, "radio_radius_m": [100.0, 400.0], "radio_fading": ["none", "rayleigh"]}}
    )
    assert len(spec.points) == 4
    rounds = {point.values: point.run.config.simulate().rounds for point in spec.points}
    assert len(set(rounds.values())) > 1
    for point in spec.points:
        assert schedule_summary(point.run.config).rounds == rounds[point.values]


def test_a_table_of_the_radio_may_be_at_the_top_of_a_batch(tmp_path):
    (tmp_path / "batch.toml").write_text(
        "devices = 6\ngroup-size = 2\ndeadline = 200\nnetwork = 'logistic'\n"
        "[radio]\nlink = 'rate-adaptive'\nradius-m = [100, 400]\n"
        "[[case]]\nname = 'best'\nschedule = 'sync'\nparticipation = 'best-channel'\n"
        "[[case]]\nname = 'own'\n[case.radio]\nfading = 'none'\n"
    )
    spec = BatchSpec.read(tmp_path / "batch.toml")
    assert [axis.title for axis in spec.axes] == ["radio-radius-m"]
    assert {type(point.run.config.link.channel.fading) for point in spec.points} == {Rayleigh, NoFading}


def test_plans_simulate_every_schedule_over_the_radio():
    chosen = config()
    rows = plan(devices=6, compute_slots=4, deadline=120, group_sizes=[1, 2], link=chosen.make_link)
    for row in rows:
        for name, outcome in row.schedules.items():
            run_of_it = chosen.with_options(schedule=name, group_size=row.scenario.group_size)
            assert outcome.rounds == run_of_it.simulate().rounds


def test_a_run_trains_and_a_changed_trace_is_refused_when_it_is_resumed(tmp_path):
    trace = tmp_path / "trace.csv"
    write_trace(trace, np.random.default_rng(0).normal(12, 4, (120, 6)), time="slot")
    chosen = config(radio_trace=str(trace))
    done = run(chosen, tmp_path / "run", workers=1)
    assert done.status == "finished"
    assert done.history.rounds == chosen.simulate().rounds > 3
    folder = RunFolder.open(tmp_path / "run")
    folder.write_description(chosen, "interrupted")
    write_trace(trace, np.random.default_rng(1).normal(12, 4, (120, 6)), time="slot")
    with pytest.raises(UserError, match="changed"):
        resume(tmp_path / "run", workers=1)
