"""`slotwise compare` from a file to tables and curves, once more, and refused."""

import csv
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from slotwise.batch.compare_file import read_comparison
from slotwise.cli import main
from slotwise.data import Dataset, dataset_config, load_mnist
from slotwise.runs import RunFolder

Outcome = tuple[int, str, str]
Call = Callable[..., Outcome]
COMMON = """
devices = 4
group-size = 2
compute-slots = 4
deadline = 40
samples-per-device = 20
local-steps = 1
batch-size = 8
channels = [2]
hidden = []
evaluate-every = 20
loss = 0.2
seeds = [0, 1]
"""
POWERS = "[powers]\ncomputing = 2.0\nsending = 1\nreceiving = 0.5\nslot-seconds = 0.01\n"
RUNS = """
[[run]]
name = "plain"

[[run]]
name = "unequal"
compute-distribution = "uniform:2:6"
aggregation = "fedbuff"
"""


@pytest.fixture(scope="module")
def mnist() -> Dataset:
    return load_mnist()


@pytest.fixture
def compare(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], mnist: Dataset) -> Call:
    """Calls ``slotwise compare`` at 80 columns, which unpacks its data once."""
    monkeypatch.setattr(dataset_config, "load_mnist", lambda: mnist)
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["slotwise", "compare", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            main()
        captured = capsys.readouterr()
        return int(exit_.value.code or 0), captured.out, captured.err

    return run


def file(folder: Path, text: str) -> Path:
    path = folder / "question.toml"
    path.write_text(text)
    return path


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as text:
        return list(csv.DictReader(text))


def test_runs_are_trained_tabulated_and_drawn_and_the_second_time_kept(compare: Call, tmp_path: Path) -> None:
    question, out = file(tmp_path, COMMON + POWERS + RUNS), tmp_path / "out"
    code, said, _ = compare(question, "--out", out, "--quiet")
    assert code == 0
    assert [line.split()[:2] for line in said.splitlines() if "2/2" in line] == [
        ["plain", "2/2"],
        ["unequal", "2/2"],
    ]
    names = sorted(path.name for path in (out / "runs").iterdir())
    assert names == ["plain-seed0", "plain-seed1", "unequal-seed0", "unequal-seed1"]
    assert (out / "curves.png").read_bytes().startswith(b"\x89PNG")
    summary, points = rows(out / "summary.csv"), rows(out / "points.csv")
    assert [row["status"] for row in summary] == ["finished"] * 4
    for row in summary:
        own = [p for p in points if (p["run"], p["seed"]) == (row["run"], row["seed"])]
        assert own[0]["updates"] == "0"
        assert float(own[0]["joules"]) == 0
        assert [own[-1][name] for name in ("loss", "updates", "joules")] == [
            row[name] for name in ("loss", "updates", "joules")
        ]
        late = [float(p["loss"]) for p in own if 4 * int(p["slot"]) >= 3 * int(own[-1]["slot"])]
        assert float(row["late_loss"]) == pytest.approx(sum(late) / len(late))
    files = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert compare(question, "--out", out, "--quiet")[:2] == (0, said)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == files


def test_a_run_is_the_one_that_train_makes(compare: Call, tmp_path: Path, mnist: Dataset) -> None:
    question = file(tmp_path, COMMON + RUNS)
    compare(question, "--out", tmp_path / "out", "--quiet")
    entry = read_comparison(question).entries[1]
    run = RunFolder.open(tmp_path / "out/runs/unequal-seed1")
    assert run.parameters() == entry.runs[1].parameters
    assert run.parameters().seed == 1


def test_without_powers_there_are_no_joules(compare: Call, tmp_path: Path) -> None:
    code, said, _ = compare(
        file(tmp_path, COMMON.replace("[0, 1]", "[3]") + RUNS), "--out", tmp_path / "out", "--quiet"
    )
    assert code == 0
    assert "joules" not in said
    assert {row["joules"] for row in rows(tmp_path / "out/summary.csv")} == {""}


def test_one_that_diverges_is_told_and_stops_no_other(compare: Call, tmp_path: Path) -> None:
    bad = '[[run]]\nname = "wild"\nlearning-rate = 1e30\nloss = 0.0\n'
    question = file(tmp_path, COMMON.replace("[0, 1]", "[0]") + bad + RUNS)
    for _ in range(2):
        code, said, err = compare(question, "--out", tmp_path / "out", "--quiet")
        assert code == 1
        assert "wild-seed0: diverged" in err
        assert [line.split()[1] for line in said.splitlines() if "/1" in line] == ["0/1", "1/1", "1/1"]


def test_a_folder_of_others_and_a_changed_file_are_refused(compare: Call, tmp_path: Path) -> None:
    question, out = file(tmp_path, COMMON.replace("[0, 1]", "[0]") + RUNS), tmp_path / "out"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.tex").write_text("")
    code, said, err = compare(question, "--out", tmp_path / "mine", "--quiet")
    assert (code, said, err.count("\n")) == (2, "", 1)
    assert "must be a new or empty folder, or one that slotwise compare made" in err
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.tex"]
    compare(question, "--out", out, "--quiet")
    question.write_text(question.read_text().replace("loss = 0.2", "loss = 0.3"))
    code, said, err = compare(question, "--out", out, "--quiet")
    assert (code, said) == (2, "")
    assert "plain-seed0: made with other parameters" in err


def test_a_broken_run_is_gone_on_with(compare: Call, tmp_path: Path) -> None:
    question, out = file(tmp_path, COMMON.replace("[0, 1]", "[0]") + RUNS), tmp_path / "out"
    compare(question, "--out", out, "--quiet")
    folder = RunFolder.open(out / "runs/unequal-seed0")
    finished = folder.description()["model_sha256"]
    folder.write_description(folder.parameters(), "running")
    shutil.rmtree(out / "runs/plain-seed0")
    assert compare(question, "--out", out, "--quiet")[0] == 0
    assert folder.description()["model_sha256"] == finished


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "run: must be given as one or several [[run]] tables"),
        ("run = 5", "run: must be given as one or several [[run]] tables"),
        ("group-sise = 5\n" + RUNS, "run plain: unknown option group_sise: allowed are absences"),
        ("[[run]]\nschedule = 'sync'\n", "run number 1: name: missing"),
        ("[[run]]\nname = 'a/b'\n", "run number 1: name = 'a/b': must be at most 60 letters"),
        ("[[run]]\nname = 'a'\n[[run]]\nname = 'a'\n", "run number 2: name = a: is there twice"),
        ("[[run]]\nname = 'a'\nflux = 1\n", "run a: unknown option flux"),
        ("[[run]]\nname = 'a'\nseed = 1\n", "run a: seed = 1: must be left out"),
        ("[[run]]\nname = 'a'\nloss = 1.0\n", "run a: loss = 1.0: must be a probability from 0 to below 1"),
        ("[[run]]\nname = 'a'\ndeadline = 3\n", "run a: deadline = 3: must be at least"),
        ("[[run]]\nname = 'a'\nchannels = [1, 1, 1]\n", "run a: channels"),
        ("[[run]]\nname = 'a'\nfleet-file = 'none.csv'\n", "none.csv: No such file"),
        ("seeds = []\n" + RUNS, "seeds = []: must be a list"),
        ("seeds = [1, 1]\n" + RUNS, "must be a list of different"),
        ("seeds = ['x']\n" + RUNS, "seeds = x: must be a whole number"),
        ("[powers]\nflying = 1\n" + RUNS, "powers: unknown key flying: allowed are computing"),
        ("[powers]\ncomputing = 1\n" + RUNS, "powers: sending: missing"),
        (POWERS.replace("2.0", "-2.0") + RUNS, "powers: computing = -2.0: must be"),
        ("[[run", "must be valid TOML"),
    ],
)
def test_a_wrong_file_is_one_line_and_leaves_nothing(
    compare: Call, tmp_path: Path, text: str, told: str
) -> None:
    question = file(tmp_path, text)
    code, said, err = compare(question, "--out", tmp_path / "out")
    assert (code, said, err.count("\n")) == (2, "", 1)
    assert str(question) in err
    assert told in err
    assert not (tmp_path / "out").exists()


EXAMPLES = sorted((Path(__file__).parents[2] / "examples/compare").glob("*.toml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_can_be_read(path: Path) -> None:
    comparison = read_comparison(path)
    assert len(comparison.entries) >= 3
    assert comparison.powers is not None


def test_there_are_three_examples() -> None:
    assert len(EXAMPLES) == 3
