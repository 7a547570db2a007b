"""The backup script: a run that was copied while it was played goes on from the copy."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from processes import Mosquitto, Trial, until
from tasks import Arithmetic

from live import simulated_models
from slotwise.live.enroll.enrolment import Enrolment
from slotwise.live.enroll.enrolment_folder import change_enrolment, create_enrolment
from slotwise.runs import RunFolder
from slotwise.runs.run_folder import model_sha256

SCRIPT = Path(__file__).parents[2] / "deploy" / "slotwise-backup"


def back_up(archive, *folders):
    return subprocess.run([SCRIPT, archive, *folders], check=True, capture_output=True, text=True)


def restore(archive):
    subprocess.run(["tar", "-xpPf", archive], check=True)


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_is_restored_is_what_was_there_but_for_temporary_files(tmp_path):
    folder, archive = tmp_path / "a folder", tmp_path / "backup.tar"
    (folder / "run" / "live").mkdir(parents=True)
    (folder / "empty").mkdir()
    for name in (
        "run/live/7.checkpoint",
        "run/live/9.checkpoint",
        "run/run.json",
        "run/rounds.jsonl",
        "live",
    ):
        (folder / name).write_text(name)
    (folder / "run" / "live" / "9.checkpoint").chmod(0o600)
    before = contents(folder)
    (folder / "run" / ".0123456789abcdef.tmp").touch()
    back_up(archive, folder)
    assert archive.stat().st_mode & 0o077 == 0
    names = subprocess.run(["tar", "-tPf", archive], check=True, capture_output=True, text=True).stdout
    files = [line for line in names.splitlines() if not line.endswith("/")]
    assert [Path(name).suffix for name in files[:2]] == [".checkpoint"] * 2  # before the rounds
    assert len(files) == len(set(files)) == len(before)
    shutil.rmtree(folder)
    restore(archive)
    assert contents(folder) == before
    assert (folder / "empty").is_dir()
    assert (folder / "run" / "live" / "9.checkpoint").stat().st_mode & 0o777 == 0o600


def test_a_backup_that_fails_leaves_the_one_before(tmp_path):
    (tmp_path / "run").mkdir()
    archive = tmp_path / "backup.tar"
    back_up(archive, tmp_path / "run")
    before = archive.read_bytes()
    done = subprocess.run(
        [SCRIPT, archive, tmp_path / "nowhere"], check=False, capture_output=True, text=True
    )
    assert done.returncode != 0
    assert "nowhere" in done.stderr
    assert archive.read_bytes() == before


def test_an_enrolment_is_changed_after_it_was_restored(tmp_path):
    fleet, archive = tmp_path / "fleet", tmp_path / "fleet.tar"
    create_enrolment(fleet, Enrolment(["localhost"], by_certificate=True), 2)
    back_up(archive, fleet)
    shutil.rmtree(fleet)
    restore(archive)
    enrolment, numbers = change_enrolment(fleet, revoke=[1], add=2)
    assert (sorted(enrolment.devices), numbers) == ([1, 2, 3], [1, 3])
    assert (fleet / "authority" / "ca.key").stat().st_mode & 0o077 == 0


@pytest.mark.slow
def test_a_run_goes_on_from_a_copy_that_was_made_while_it_was_played(tmp_path):
    broker = Mosquitto(tmp_path)
    trial, archive = Trial(tmp_path, broker), tmp_path / "backup.tar"
    try:
        assert trial.wire
        server = trial.serve(deadline=200)
        trial.fleet(seconds="0.02")
        until(lambda: trial.checkpoints, "checkpoint")
        for _ in range(5):  # the last one counts; all of them while checkpoints are written after every round
            back_up(archive, trial.out)
        server.kill9()
        played = RunFolder.open(trial.out).status
        shutil.rmtree(trial.out)
        restore(archive)
        assert (played, trial.run["status"]) == ("running", "running")
        assert trial.checkpoints
        trial.resume().ends()
        assert trial.run["status"] == "finished"
        expected = simulated_models(RunFolder.open(trial.out).parameters().simulate(), Arithmetic())
        assert trial.run["model_sha256"] == model_sha256(np.asarray(expected[max(expected)]))
    finally:
        trial.close()
        broker.kill()
