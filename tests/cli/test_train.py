"""`slotwise train` as a person meets it: options, files, signals, kills. Only the network is small."""

import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from slotwise.cli import main
from slotwise.data import Dataset, data_source, load_mnist
from slotwise.runs import RunFolder

OF_ANY_SPEED = [
    *("--devices", "4", "--group-size", "2", "--samples-per-device", "20"),
    *("--local-steps", "1", "--batch-size", "8", "--channels", "2,2", "--hidden", "4"),
    *("--evaluate-every", "1000", "--quiet"),
]
SMALL = [*OF_ANY_SPEED, "--compute-slots", "4"]
SHORT = [*SMALL, "--deadline", "30"]  # 7 rounds
LONG = [*SMALL, "--deadline", "5000"]  # some seconds, to be disturbed in


def last_of_each(arguments: Sequence[object]) -> list[str]:
    """The arguments, without flags that come again later: a command refuses repeated flags."""
    words = list(map(str, arguments))
    kept: list[str] = []
    while words:
        flag = words.pop(0)
        value = [words.pop(0)] if words and not words[0].startswith("--") else []
        kept += [] if flag.startswith("--") and flag in words else [flag, *value]
    return kept


class Said:
    """How the command ended and what it said."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def refusal(self) -> str:
        """The one line of a refusal: nothing else may have been said."""
        assert (self.code, self.out) == (2, "")
        assert self.err.startswith("slotwise: ")
        assert self.err.endswith("\n")
        assert self.err.count("\n") == 1
        return self.err.strip()


Slotwise = Callable[..., Said]


@pytest.fixture(scope="module")
def mnist() -> Dataset:
    return load_mnist()


@pytest.fixture
def slotwise(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], mnist: Dataset) -> Slotwise:
    """`slotwise train` in this process, which unpacks its data once."""
    monkeypatch.setattr(data_source, "load_mnist", lambda: mnist)

    def run(*arguments: object) -> Said:
        monkeypatch.setattr(sys, "argv", ["slotwise", "train", *last_of_each(arguments)])
        with pytest.raises(SystemExit) as exit_:
            main()
        return Said(int(exit_.value.code or 0), *capsys.readouterr())

    return run


def command(*arguments: object) -> list[str]:
    """`slotwise train` as a process of its own."""
    return [sys.executable, "-c", "from slotwise.cli import main; main()", "train", *last_of_each(arguments)]


def start(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    )


def ended(process: subprocess.Popen[str]) -> Said:
    out, err = process.communicate(timeout=120)
    return Said(process.returncode, out, err)


def result(run: Path) -> tuple[object, ...]:
    """Everything that must be the same, however the run went."""
    document = RunFolder(run).description()
    files = [(run / name).read_bytes() for name in ("history.csv", "model.npz")]
    return (document["status"], document["model_sha256"], document["rounds"], document["final"], *files)


def wait_for_checkpoint(run: Path, process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + 60
    while not list((run / "checkpoints").glob("*.checkpoint")):
        assert process.poll() is None, ended(process).err
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[object, ...]:
    """The result of the long run."""
    run = tmp_path_factory.mktemp("undisturbed") / "run"
    done = ended(start(*LONG, "--out", run))
    assert (done.code, done.err) == (0, "")
    return result(run)


# What it does


@pytest.mark.slow
def test_a_new_user_gets_a_model_and_is_told_so(tmp_path: Path) -> None:
    program = command("--deadline", "300", "--out", "RUN")
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True)
    learned, spent = done.stdout.splitlines()
    assert re.fullmatch(
        r"finished after 22 rounds: loss \d\.\d{4}, accuracy \d+\.\d\d% at slot 292  \(RUN\)", learned
    )
    assert spent == (
        "the devices' time: computing 43.2%, sending 0.8%, receiving 0.8%, idle 55.3%; "
        "air time of each: 2–3 (2.2) slots"
    )
    assert {path.name for path in (tmp_path / "RUN").iterdir()} == {
        "run.json",
        "history.csv",
        "model.npz",
        "checkpoints",
    }
    # A round takes 11 slots, more than the 3 between evaluations: every model is evaluated.
    assert [point.round for point in RunFolder(tmp_path / "RUN").points()] == list(range(23))


def test_a_run_leaves_its_parameters_curve_and_model(slotwise: Slotwise, tmp_path: Path) -> None:
    done = slotwise(*SHORT, "--seed", 7, "--out", tmp_path / "run")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("finished after 7 rounds: loss ")
    document = RunFolder(tmp_path / "run").description()
    assert (document["status"], document["rounds"]) == ("finished", 7)
    assert document["parameters"]["seed"] == 7
    assert document["parameters"]["channels"] == [2, 2]
    with np.load(tmp_path / "run" / "model.npz") as archive:
        assert archive["0.weight"].shape == (2, 1, 5, 5)


@pytest.mark.parametrize("more", ["--workers 2", "--workers 4", "--workers 2 --processes"])
def test_workers_do_not_change_the_result(slotwise: Slotwise, tmp_path: Path, more: str) -> None:
    slotwise(*SHORT, "--workers", 1, "--out", tmp_path / "one")
    slotwise(*SHORT, *more.split(), "--out", tmp_path / "many")
    assert result(tmp_path / "one") == result(tmp_path / "many")


@pytest.mark.parametrize(
    "options",
    [
        "--devices 1 --group-size 1",
        "--devices 5 --group-size 2",
        "--group-size 4",
        "--deadline 7",  # exactly one round
        "--samples-per-device 3 --batch-size 64",
        "--channels= --hidden=",
        "--schedule sync --participation random --group-size 3",
        "--schedule idfl --delay 0",
        "--schedule idfl --delay 1",
        "--partition k-labels --labels-per-device 3",
        "--partition dirichlet --concentration 5",
        "--partition iid --input-scale unit --local-steps 2 --update mean",
        "--checkpoint-every 0",
    ],
)
def test_unusual_runs_work(slotwise: Slotwise, tmp_path: Path, options: str) -> None:
    done = slotwise(*SHORT, *options.split(), "--out", tmp_path / "run")
    assert (done.code, done.err) == (0, "")
    assert RunFolder(tmp_path / "run").status == "finished"


def test_the_speed_of_devices_may_be_given_instead_of_compute_slots(
    slotwise: Slotwise, tmp_path: Path
) -> None:
    where = SHORT.index("--compute-slots")
    options = [*SHORT[:where], *SHORT[where + 2 :], "--samples-per-slot", "1.6"]
    assert slotwise(*options, "--out", tmp_path / "run").code == 0
    assert RunFolder(tmp_path / "run").parameters().channel.compute_slots == 5  # ceil(1·8/1.6)


def test_pytorch_gives_the_same_run_up_to_rounding(slotwise: Slotwise, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    for backend in ("numba", "torch"):
        done = slotwise(*SHORT, "--backend", backend, "--out", tmp_path / backend)
        assert (done.code, done.err) == (0, "")
    one, other = (RunFolder(tmp_path / backend).points()[-1] for backend in ("numba", "torch"))
    assert one.loss == pytest.approx(other.loss, rel=1e-3)


def test_an_existing_run_is_replaced_only_on_demand(slotwise: Slotwise, tmp_path: Path) -> None:
    run = tmp_path / "run"
    slotwise(*SHORT, "--out", run)
    before = result(run)
    refusal = slotwise(*SHORT, "--seed", 1, "--out", run).refusal
    assert "must be a new folder" in refusal
    assert result(run) == before
    assert slotwise(*SHORT, "--seed", 1, "--out", run, "--overwrite").code == 0
    assert result(run) != before


# The configuration file


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(
        "devices = 4\ngroup-size = 2\ncompute-slots = 4\nsamples-per-device = 20\nlocal_steps = 1\n"
        "batch-size = 8\nchannels = [2, 2]\nhidden = [4]\nevaluate-every = 1000\ndeadline = 30\nseed = 3\n"
    )
    return path


def test_a_file_gives_the_same_run_as_flags_and_flags_win(
    slotwise: Slotwise, tmp_path: Path, config: Path
) -> None:
    slotwise("--config", config, "--out", tmp_path / "file", "--quiet")
    slotwise(*SHORT, "--seed", 3, "--out", tmp_path / "flags")
    assert result(tmp_path / "file") == result(tmp_path / "flags")
    slotwise("--config", config, "--seed", 4, "--hidden", "5", "--out", tmp_path / "run", "--quiet")
    parameters = RunFolder(tmp_path / "run").parameters()
    assert (parameters.seed, parameters.model.network.hidden, parameters.channel.group_size) == (4, (5,), 2)


@pytest.mark.parametrize(
    ("flags", "blamed"),
    [
        ("--workers 0", "--workers 0"),
        ("--checkpoint-every -1", "--checkpoint-every -1.0"),
        ("--deadline 0", "--deadline 0"),
        ("--devices 4", "FILE: seed = -1"),
        ("", "FILE: seed = -1"),
    ],
)
def test_who_has_set_a_value_is_blamed(
    slotwise: Slotwise, tmp_path: Path, config: Path, flags: str, blamed: str
) -> None:
    if "seed" in blamed:
        config.write_text("seed = -1\n")
    refusal = slotwise("--config", config, "--out", tmp_path / "run", *flags.split()).refusal
    assert refusal.startswith(f"slotwise: {blamed.replace('FILE', str(config))}: must be")
    assert not (tmp_path / "run").exists()


def test_a_folder_that_is_in_use_is_not_blamed_on_the_file(
    slotwise: Slotwise, tmp_path: Path, config: Path
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "other.txt").write_text("")
    refusal = slotwise("--config", config, "--out", tmp_path / "run").refusal
    assert refusal.startswith(f"slotwise: --out {tmp_path / 'run'}: must be")


def test_a_default_that_nobody_has_set_is_blamed_on_a_file_only_if_there_are_no_flags(
    slotwise: Slotwise, tmp_path: Path, config: Path
) -> None:
    config.write_text('aggregation = "krum"\ngroup-size = 5\n')
    out = ("--out", tmp_path / "run")
    assert slotwise("--config", config, *out).refusal.startswith(f"slotwise: {config}: byzantine = 2:")
    config.write_text("seed = 4\n")
    flags = ("--aggregation", "krum", "--group-size", 5)
    assert slotwise("--config", config, *flags, *out).refusal.startswith("slotwise: --byzantine 2:")


def test_an_option_spelled_in_two_ways_is_refused(slotwise: Slotwise, tmp_path: Path, config: Path) -> None:
    config.write_text("learning-rate = 0.01\nlearning_rate = 0.5\n")
    refusal = slotwise("--config", config, "--out", tmp_path / "run").refusal
    assert refusal == f"slotwise: {config}: learning_rate is given twice, with dashes and with underscores"


# Going on


@pytest.fixture
def finished(slotwise: Slotwise, tmp_path: Path) -> Path:
    """A short run, finished."""
    slotwise(*SHORT, "--out", tmp_path / "run")
    return tmp_path / "run"


def reopen(run: Path) -> None:
    """Make a finished run one that was killed before it could say so."""
    document = json.loads((run / "run.json").read_text())
    document["status"] = "running"
    (run / "run.json").write_text(json.dumps(document))


def test_a_finished_run_says_so_whatever_its_path(slotwise: Slotwise, finished: Path, tmp_path: Path) -> None:
    before = result(finished)
    done = slotwise("--resume", finished)
    assert (done.code, done.out) == (0, "")
    assert done.err == f"{finished}: finished already; slotwise show {finished} shows it\n"
    assert result(finished) == before
    strange = finished.rename(tmp_path / ("[red]" + "long" * 40))
    assert slotwise("--resume", strange).err.startswith(f"{strange}: finished already")


def test_a_batch_is_resumed_by_its_own_command(slotwise: Slotwise, tmp_path: Path) -> None:
    (tmp_path / "batch.json").write_text("{}")
    assert "slotwise sweep" in slotwise("--resume", tmp_path).refusal


def test_damaged_checkpoints_are_told_and_the_run_starts_anew(slotwise: Slotwise, finished: Path) -> None:
    before = result(finished)
    reopen(finished)
    [path] = (finished / "checkpoints").iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    done = slotwise("--resume", finished, "--quiet")
    assert done.code == 0
    assert done.err == (
        f"{path}: damaged checkpoint, skipped\n{finished}: resuming from the start (no checkpoint)\n"
    )
    assert result(finished) == before


def test_a_diverging_run_says_where_and_what_to_try(slotwise: Slotwise, tmp_path: Path) -> None:
    refusal = slotwise(*SHORT, "--learning-rate", 1e6, "--out", tmp_path / "run").refusal
    told = re.fullmatch(
        r"slotwise: training diverged in round (\d+): the model is not finite; "
        r"try a smaller learning_rate, fewer local_steps or a larger group_size",
        refusal,
    )
    assert told
    folder = RunFolder(tmp_path / "run")
    document, (history, _) = folder.description(), folder.checkpoints.load()
    assert document["status"] == "diverged"
    assert document["diverged_in_round"] == document["rounds"] == int(told[1])
    assert history is not None
    assert np.isfinite(history.model).all()
    assert folder.points()[0].round == 0
    assert (tmp_path / "run" / "model.npz").is_file()


# Disturbed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_with_a_checkpoint_and_it_goes_on_to_the_same_end(
    number: signal.Signals, tmp_path: Path, undisturbed: tuple[object, ...]
) -> None:
    run = tmp_path / "run"
    process = start(*LONG, "--checkpoint-every", "0.1", "--out", run)
    wait_for_checkpoint(run, process)
    process.send_signal(number)
    said = ended(process)
    assert said.code == 130
    assert said.out.startswith("interrupted after ")
    assert said.err == f"resume with: slotwise train --resume {run}\n"
    assert RunFolder(run).status == "interrupted"
    resumed = ended(start("--resume", run, "--quiet"))
    assert resumed.code == 0
    assert re.fullmatch(rf"{run}: resuming from round \d+\n", resumed.err)
    assert result(run) == undisturbed


def test_two_processes_do_not_train_one_run(
    slotwise: Slotwise, tmp_path: Path, undisturbed: tuple[object, ...]
) -> None:
    run = tmp_path / "run"
    process = start(*LONG, "--checkpoint-every", "0.1", "--out", run)
    wait_for_checkpoint(run, process)
    process.send_signal(signal.SIGSTOP)  # it must not end before the others have tried
    for arguments in (("--resume", run), (*SHORT, "--out", run, "--overwrite")):
        assert slotwise(*arguments).refusal == f"slotwise: {run}: another process is training this run"
    process.send_signal(signal.SIGCONT)
    assert ended(process).code == 0
    assert result(run) == undisturbed


def test_a_disk_that_fills_up_is_one_line_and_costs_nothing(
    tmp_path: Path, undisturbed: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)  # a count of lines could not be written
    run = tmp_path / "run"
    process = start(*LONG, "--checkpoint-every", "0.1", "--out", run)
    wait_for_checkpoint(run, process)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (1000, 1000))  # no file may grow beyond that
    said = ended(process)
    resuming = f"continue it with: slotwise train --resume {run}"
    assert re.fullmatch(rf"slotwise: cannot write {run}/.*: File too large; .*{resuming}", said.refusal)
    assert list(run.rglob("*.tmp")) == []
    resumed = ended(start("--resume", run, "--quiet"))
    assert re.fullmatch(rf"{run}: resuming from round \d+\n", resumed.err)
    assert result(run) == undisturbed


def test_a_run_moved_while_it_was_down_goes_on_elsewhere(
    tmp_path: Path, undisturbed: tuple[object, ...]
) -> None:
    process = start(*LONG, "--checkpoint-every", "0.1", "--out", tmp_path / "run")
    wait_for_checkpoint(tmp_path / "run", process)
    process.kill()
    process.communicate()
    shutil.copytree(tmp_path / "run", tmp_path / "elsewhere")
    assert ended(start("--resume", tmp_path / "elsewhere", "--quiet")).code == 0
    assert result(tmp_path / "elsewhere") == undisturbed


def wait_for_new_checkpoint(run: Path, process: subprocess.Popen[str]) -> None:
    """Until there is one more than there was, or the process has ended."""
    before = set(run.glob("checkpoints/*.checkpoint"))
    while process.poll() is None and set(run.glob("checkpoints/*.checkpoint")) <= before:
        time.sleep(0.01)


def survive(
    kills: int, folder: Path, undisturbed: tuple[object, ...], options: Sequence[object] = LONG
) -> None:
    """Kill runs at random moments until there were enough kills; each run must end the same.

    Every other kill comes in the first two seconds, which is start-up on most machines; the others come while
    the run trains and writes a checkpoint every few milliseconds.
    """
    draw, done = random.Random(f"{kills} kills"), 0
    for number in range(100):
        if done >= kills:
            break
        run = folder / str(number)
        while not RunFolder(run).is_run or RunFolder(run).status != "finished":
            more = ["--resume", run] if RunFolder(run).is_run else [*options, "--out", run]
            process = start(*more, "--quiet", "--checkpoint-every", "0.02")
            if done % 2 and done < kills:
                wait_for_new_checkpoint(run, process)
            try:
                process.wait(draw.uniform(0.0, 0.5 if done % 2 else 2.0) if done < kills else 120)
            except subprocess.TimeoutExpired:
                process.kill()
            said = ended(process)
            assert said.code in {0, -signal.SIGKILL}, said.err
            done += said.code == -signal.SIGKILL  # it may have ended by itself just before
        assert result(run) == undisturbed
    assert done == kills


@pytest.mark.parametrize("kills", [4, pytest.param(20, marks=pytest.mark.slow)])
def test_kills_at_random_moments_change_nothing(
    tmp_path: Path, undisturbed: tuple[object, ...], kills: int
) -> None:
    survive(kills, tmp_path, undisturbed)


@pytest.mark.slow
def test_kills_do_not_change_quantised_updates_of_a_lossy_unequal_fleet(tmp_path: Path) -> None:
    fleet = ["--compute-distribution", "two-classes:2:9:0.5", "--uplink-loss", "0.3", "--jitter", "0.3"]
    learning = ["--aggregation", "fedbuff", "--bits", "8", "--schedule", "async"]
    options = [*OF_ANY_SPEED, "--deadline", "2000", *fleet, *learning]
    assert ended(start(*options, "--quiet", "--out", tmp_path / "undisturbed")).code == 0
    survive(2, tmp_path, result(tmp_path / "undisturbed"), options)


@pytest.mark.slow
def test_the_paper_s_mnist_job_needs_less_than_600_megabytes(tmp_path: Path) -> None:
    # A deadline of 150 slots is ten rounds: all memory is in use by then, staleness and evaluations included.
    # The process tells its own peak: what wait4 tells begins with the size of the process it was forked from.
    tell = "import atexit, pathlib; status = pathlib.Path('/proc/self/status').read_text"
    script = f"{tell}; atexit.register(lambda: print(status())); from slotwise.cli import main; main()"
    options = ["--deadline", "150", "--workers", "2", "--out", str(tmp_path / "run"), "--quiet"]
    done = subprocess.run(
        [sys.executable, "-c", script, "train", *options], capture_output=True, text=True, check=True
    )
    (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", done.stdout)
    assert int(peak) < 600 * 1024


def test_a_task_of_the_user_s_own_is_trained_shown_and_gone_on_with(
    slotwise: Slotwise, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(Path(__file__).parents[2])
    own = ["--task", "examples.own_task.logistic:make_task", "--devices", 20, "--group-size", 4]
    said = slotwise(*own, "--deadline", 500, "--out", tmp_path / "run", "--quiet")
    assert said.code == 0
    assert "finished after" in said.out
    assert "finished already" in slotwise("--resume", tmp_path / "run").err


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        ("--ray auto --processes", ["--ray", "--processes"]),
        ("--gpus-per-worker 0.5", ["--gpus-per-worker 0.5", "--ray"]),
        ("--gpus-per-worker 0.5 --processes", ["--gpus-per-worker 0.5", "--ray"]),
        ("--ray auto --gpus-per-worker 0.5", ["--gpus-per-worker 0.5", "--backend numba"]),
        ("--ray auto --gpus-per-worker 0.5 --backend numba", ["--gpus-per-worker 0.5", "--backend numba"]),
        ("--ray auto --gpus-per-worker 1.5 --backend torch", ["--gpus-per-worker 1.5", "whole number"]),
        ("--ray auto --workers 0", ["--workers 0"]),
        ("--processes --workers 0", ["--workers 0"]),
        ("--ray nowhere", ["--ray nowhere", "HOST:PORT"]),
    ],
)
def test_workers_that_cannot_be_are_refused(
    slotwise: Slotwise, tmp_path: Path, flags: str, parts: list[str]
) -> None:
    if "nowhere" in flags:
        pytest.importorskip("ray", reason="needs the extra slotwise[ray]")
    refusal = slotwise(*SHORT, "--out", tmp_path / "run", *flags.split()).refusal
    assert all(part in refusal for part in parts), refusal
    assert not (tmp_path / "run").exists()


def test_gpus_are_refused_for_a_run_that_is_resumed_without_torch(slotwise: Slotwise, tmp_path: Path) -> None:
    assert slotwise(*SHORT, "--out", tmp_path / "run").code == 0
    resumed = slotwise("--resume", tmp_path / "run", "--ray", "auto", "--gpus-per-worker", "0.5")
    assert "--backend numba" in resumed.refusal


def test_a_second_ctrl_c_ends_with_its_exit_code(slotwise: Slotwise, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("slotwise.cli.train.start_run", interrupt)
    said = slotwise(*SHORT, "--out", "run")
    assert (said.code, said.err) == (130, "")
