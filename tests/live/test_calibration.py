"""Measured times of a live run, and the fleet that follows from them."""

import json

import pytest
from virtual_time import run_virtual

import slotwise as sw
from live import Play, prepare
from slotwise.base.errors import InputError, UserError
from slotwise.cli.app import run as run_command
from slotwise.fleet.fleet_file import read_fleet
from slotwise.live.server.timings import FILE, Timings
from slotwise.runs import RunConfig, RunFolder
from slotwise.runs.toml_options import read_toml
from slotwise.scenario import Scenario

SMALL = Scenario(devices=3, group_size=1, compute_slots=2, deadline=100)
HEADER = "device,round,version,training,compute_seconds,ready_seconds,uplink_seconds,lost\n"


def live_folder(path, rows, slot_ms=None, devices=3, **options):
    config = RunConfig.from_options({"devices": devices, "group_size": 1, **options})
    RunFolder.create(path, config, live_run="x", live_options={"slot_ms": slot_ms})
    (path / FILE).write_text(HEADER + rows)
    return path


def turn(device, computed, sent, *, ready=None, lost=0):
    said = "" if computed is None else f"{computed:.6f}"
    waited = (computed or 0.0) + 0.01 if ready is None else ready
    return f"{device},0,0,0,{said},{waited:.6f},{'' if lost else f'{sent:.6f}'},{lost}\n"


ROWS = turn(1, 0.1, 0.05) * 9 + turn(1, 9.0, 9.0) + turn(2, 0.2, 0.1) * 10 + turn(3, 0.4, 0.051) * 5


def test_slots_are_those_that_nine_of_ten_trainings_and_uplinks_need(tmp_path):
    found = sw.calibrate(live_folder(tmp_path / "run", ROWS, slot_ms=50))
    assert (found.slot_ms, found.compute_slots, found.link_slots) == (50, (2, 4, 8), (1, 2, 2))
    assert (found.broadcast_slots, found.uplink_loss, found.unmeasured) == (1, 0.0, ())


def test_another_slot_and_another_share_give_other_slots(tmp_path):
    folder = live_folder(tmp_path / "run", ROWS, slot_ms=50)
    found = sw.calibrate(folder, slot_ms=100, quantile=1.0)
    assert (found.compute_slots, found.link_slots) == ((90, 2, 4), (90, 1, 1))


def test_a_run_without_a_slot_length_gets_one_from_its_uplinks(tmp_path):
    rows = turn(1, 0.1, 0.05) + turn(2, 0.2, 0.05) + turn(3, 0.4, 0.05)
    found = sw.calibrate(live_folder(tmp_path / "run", rows, link_slots=2))
    assert found.slot_ms == pytest.approx(1000 * 1.1 * 0.05 / 2)
    assert found.link_slots == (2, 2, 2)


def test_losses_are_counted_and_devices_without_measurements_get_the_median(tmp_path):
    rows = turn(1, 0.1, 0.05) * 3 + turn(2, 0.2, 0.0, lost=1) + turn(2, 0.2, 0.05)
    found = sw.calibrate(live_folder(tmp_path / "run", rows, slot_ms=50))
    assert found.uplink_loss == pytest.approx(0.2)
    assert (found.unmeasured, found.compute_slots[2]) == ((3,), 4)
    assert found.device_uplink_loss == found.fleet().device_uplink_loss == (0.0, 0.5, 0.0)


def test_a_device_that_reports_no_seconds_is_measured_from_the_broadcast_on(tmp_path):
    rows = "".join(turn(device, None, 0.05, ready=0.3) for device in (1, 2, 3))
    assert sw.calibrate(live_folder(tmp_path / "run", rows, slot_ms=100)).compute_slots == (3, 3, 3)


def test_what_a_device_says_is_bounded_by_what_the_server_measured(tmp_path):
    rows = turn(1, 0.1, 0.05) + turn(2, 2e8, 0.05, ready=0.3) + turn(3, 0.2, 0.05)
    unmeasured = "2,1,1,1,999999999.000000,,0.050000,0\n"
    found = sw.calibrate(live_folder(tmp_path / "run", rows + unmeasured, slot_ms=100), quantile=1.0)
    assert found.compute_slots == (1, 3, 2)
    assert found.broadcast_slots == 1


def test_lines_that_are_cut_off_or_of_no_device_are_left_out(tmp_path):
    rows = ROWS + turn(9, 5.0, 5.0) + "1,0,0,zero,,,,0\n" + "2,0,0,0,0.2"
    found = sw.calibrate(live_folder(tmp_path / "run", rows, slot_ms=50))
    assert [one.turns for one in found.devices] == [10, 10, 5]


def test_plan_and_train_take_the_files(tmp_path):
    rows = turn(1, 0.1, 0.05) * 4 + turn(2, 0.2, 0.1) * 4 + turn(3, 0.4, 0.05, lost=1) + turn(3, 0.4, 0.05)
    found = sw.calibrate(live_folder(tmp_path / "run", rows, slot_ms=50))
    settings = found.write(tmp_path / "fleet.csv")
    assert read_fleet(tmp_path / "fleet.csv").compute_slots == found.compute_slots
    config = RunConfig.from_options(read_toml(settings) | {"group_size": 1, "deadline": 50})
    fleet = config.make_fleet()
    assert (fleet.compute_slots, fleet.link_slots) == (found.compute_slots, found.link_slots)
    assert fleet.device_uplink_loss == found.device_uplink_loss == (0.0, 0.0, 0.5)
    assert config.channel.link_slots == found.broadcast_slots


def test_the_command_prints_a_table_or_json_and_writes_the_files(tmp_path, capsys):
    folder, out = live_folder(tmp_path / "run", ROWS, slot_ms=50), tmp_path / "fleet.csv"
    assert run_command(["calibrate", str(folder), "--out", str(out)]) == 0
    assert "--fleet-file" in capsys.readouterr().out
    assert out.exists()
    assert run_command(["calibrate", str(folder), "--json", "--slot-ms", "25"]) == 0
    assert json.loads(capsys.readouterr().out)["compute_slots"] == [4, 8, 16]
    plan = ["plan", "--fleet-file", str(out), "--link-slots", "1", "--deadline", "200"]
    assert run_command(plan) == 0


@pytest.mark.parametrize(
    "options",
    [
        ["--slot-ms", "0"],
        ["--slot-ms", "nan"],
        ["--quantile", "0"],
        ["--quantile", "1.5"],
        ["--out", "x.txt"],
    ],
    ids=" ".join,
)
def test_options_out_of_range_are_refused(tmp_path, options):
    folder = live_folder(tmp_path / "run", ROWS, slot_ms=50)
    assert run_command(["calibrate", str(folder), *options]) == 2


def test_runs_without_measurements_are_refused(tmp_path):
    RunFolder.create(tmp_path / "simulated", RunConfig())
    with pytest.raises(UserError, match="simulated"):
        sw.calibrate(tmp_path / "simulated")
    with pytest.raises(UserError, match="no measurements"):
        sw.calibrate(live_folder(tmp_path / "empty", ""))
    with pytest.raises(UserError, match="no update"):
        sw.calibrate(live_folder(tmp_path / "lost", turn(1, 0.1, 0.0, lost=1)))
    (tmp_path / "empty" / FILE).write_text("other,columns\n")
    with pytest.raises(UserError, match="columns"):
        sw.calibrate(tmp_path / "empty")
    (tmp_path / "empty" / FILE).write_text("0" * 200_000)  # longer than a field of csv may be
    with pytest.raises(UserError, match="cannot be read"):
        sw.calibrate(tmp_path / "empty")
    (tmp_path / "empty" / FILE).unlink()
    with pytest.raises(UserError, match="cannot be read"):
        sw.calibrate(tmp_path / "empty")
    with pytest.raises(InputError):
        sw.calibrate(live_folder(tmp_path / "run", ROWS)).write(tmp_path / "fleet.txt")


def test_a_run_records_every_turn_with_its_seconds(tmp_path):
    live = prepare(SMALL, "async", rounds=9)

    async def scenario(clock):
        live.state.timings = Timings(clock.now)
        await Play(live, clock, seconds={1: 2.0, 2: 3.0, 3: 4.0}).run([1, 2, 3])

    run_virtual(scenario)
    live.state.timings.write(tmp_path)
    live.state.timings.write(tmp_path)
    header, *rows = (line.split(",") for line in (tmp_path / FILE).read_text().splitlines())
    assert ",".join(header) + "\n" == HEADER
    assert [tuple(map(int, (row[1], row[0], row[2]))) for row in rows] == live.updates
    assert all(float(row[5]) >= int(row[0]) + 1 for row in rows)  # virtual seconds from model to ready
    assert {row[7] for row in rows} == {"0"}
