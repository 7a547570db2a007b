"""Runs of unequal, faulty devices and of other aggregations: what they are is in run.json alone."""

import json
from pathlib import Path
from typing import Any

import pytest

from slotwise.base.errors import ConflictError
from slotwise.fleet.devices import EqualUplinks, ListedAbsences
from slotwise.learning import Task
from slotwise.learning.quantisation import Quantised
from slotwise.runs import RunConfig, RunFolder, read_toml
from slotwise.runs.config import PAPER_OPTIONS
from slotwise.runs.execution import build_task

from .conftest import train_in

SMALL: dict[str, Any] = {"devices": 6, "group_size": 2, "compute_slots": 2, "deadline": 122}


def from_small(options: dict[str, Any]) -> RunConfig:
    """The small scenario with options on top of it, as if nothing else had been given."""
    return RunConfig.from_options(options, defaults=SMALL)


FLEETS: list[dict[str, Any]] = [
    {
        "compute_distribution": "two-classes:2:9:0.5",
        "uplink_loss": 0.3,
        "jitter": 0.4,
        "aggregation": "fedbuff",
    },
    {"link_distribution": "uniform:1:3", "schedule": "async", "aggregation": "fedasync", "mixing": 0.3},
    {"device_compute_slots": (2, 2, 2, 5, 5, 9), "aggregation": "staleness-weighted", "discount": "hinge"},
    {"mean_present": 20, "mean_away": 5, "retransmission": "at-once", "uplink_loss": 0.1, "schedule": "sync"},
    {"absences": ((2, 30, None), (3, 0, 50)), "bits": 8, "uplink_slots": 1, "link_slots": 3},
]


def run(path: Path, parameters: RunConfig, task: Task, workers: int = 1) -> dict[str, Any]:
    folder = RunFolder.create(path, parameters)
    train_in(folder, parameters, task=task, workers=workers)
    return folder.description()


@pytest.mark.parametrize("options", FLEETS)
def test_a_fleet_comes_back_from_run_json(tmp_path: Path, options: dict[str, Any]) -> None:
    parameters = from_small(options)
    folder = RunFolder.create(tmp_path / "run", parameters)
    assert folder.parameters() == parameters
    assert folder.parameters().simulate() == parameters.simulate()


def test_a_run_json_of_before_there_were_fleets_means_the_same(tmp_path: Path) -> None:
    parameters = from_small({})
    folder = RunFolder.create(tmp_path / "run", parameters)
    document = folder.description()
    first = {*PAPER_OPTIONS} - {"network", "data_seed", "model_seed"}  # which came later
    document["parameters"] = {name: value for name, value in document["parameters"].items() if name in first}
    (folder.path / "run.json").write_text(json.dumps(document))
    assert folder.parameters() == parameters
    assert len(first) == 23


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("schedule", ["sync", "async", "idfl"])
def test_equal_faultless_devices_are_the_same_run_however_they_are_said(
    tmp_path: Path, toy: Task, schedule: str, seed: int
) -> None:
    plain = {"schedule": schedule, "seed": seed}
    said = {
        **plain,
        "compute_distribution": "constant:2",
        "device_link_slots": (1,) * 6,
    }
    one, other = (
        run(tmp_path / str(number), from_small(options), toy) for number, options in enumerate((plain, said))
    )
    assert one["model_sha256"] == other["model_sha256"]
    assert (one["rounds"], one["final"]) == (other["rounds"], other["final"])


def test_aggregations_and_seeds_of_a_fleet_make_a_difference(tmp_path: Path, toy: Task) -> None:
    parameters = from_small(FLEETS[0])
    others = [parameters, parameters.with_options(aggregation="mean"), parameters.with_options(seed=1)]
    hashes = {run(tmp_path / str(i), p, toy)["model_sha256"] for i, p in enumerate(others)}
    assert len(hashes) == 3


def fleet_file(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_run_does_not_need_its_fleet_file_any_more(tmp_path: Path, toy: Task) -> None:
    path = fleet_file(tmp_path / "fleet.csv", "device,compute_slots,leaves\n1,2,\n2,3,40\n3,9,\n")
    options = {"group_size": 1, "deadline": 100, "fleet_file": str(path)}
    parameters = RunConfig.from_options(options)
    assert (parameters.channel.devices, parameters.fleet.speeds.device_compute_slots) == (3, (2, 3, 9))
    assert parameters.fleet.uplinks == EqualUplinks()
    assert parameters.fleet.presence == ListedAbsences(absences=((2, 40, None),))
    folder = RunFolder.create(tmp_path / "run", parameters)
    path.write_text("device,compute_slots\n1,1\n")
    assert folder.parameters().simulate() == parameters.simulate()
    undisturbed = run(tmp_path / "other", parameters, toy)
    train_in(folder, folder.parameters(), task=toy)
    assert folder.description()["model_sha256"] == undisturbed["model_sha256"]


def test_a_fleet_file_is_looked_for_beside_the_toml_file_that_names_it(tmp_path: Path) -> None:
    fleet_file(tmp_path / "fleet.csv", "device,compute_slots\n1,2\n")
    (tmp_path / "run.toml").write_text('fleet-file = "fleet.csv"\ngroup-size = 1\n')
    assert RunConfig.from_options(read_toml(tmp_path / "run.toml")).fleet.speeds.device_compute_slots == (2,)


def test_the_rate_of_the_link_and_the_bits_give_the_slots() -> None:
    whole = RunConfig.from_options({"bits_per_slot": 10_000})
    assert (whole.channel.link_slots, whole.fleet.uplinks.uplink_slots) == (70, None)
    quantised = RunConfig.from_options({"bits_per_slot": 10_000, "bits": 8})
    assert (quantised.channel.link_slots, quantised.fleet.uplinks.uplink_slots) == (70, 18)
    assert RunConfig.from_saved(quantised.options()) == quantised
    fleet = quantised.make_fleet()
    assert fleet is not None
    assert set(fleet.link_slots) == {18}


def test_fewer_bits_quantise_the_task() -> None:
    options = {"devices": 2, "group_size": 1, "samples_per_device": 8, "channels": (2,), "hidden": ()}
    task = build_task(RunConfig.from_options({**options, "bits": 5}))
    assert isinstance(task, Quantised)
    assert task.bits == 5
    assert not isinstance(build_task(RunConfig.from_options(options)), Quantised)


@pytest.mark.parametrize(
    "options",
    [
        {"bits_per_slot": 100, "link_slots": 2},
        {"bits_per_slot": 100, "link_distribution": "constant:2"},
        {"compute_distribution": "constant:2", "device_compute_slots": (2,) * 6},
        {"uplink_slots": 2, "link_distribution": "constant:2"},
        {"mean_present": 5, "mean_away": 5, "absences": ((1, 2, 3),)},
        {"fleet_file": "fleet.csv", "compute_distribution": "constant:2"},
        {"fleet_file": "fleet.csv", "absences": ((1, 2, 3),)},
    ],
)
def test_two_options_of_one_meaning_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConflictError) as caught:
        from_small(options)
    assert {caught.value.parameter, caught.value.other} <= options.keys()
