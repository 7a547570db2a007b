"""Examples of the radio: settings of papers, published studies, and scripts that make traces."""

import csv
import re
import runpy
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from slotwise.batch import BatchSpec
from slotwise.radio import read_trace

ROOT = Path(__file__).parents[2]
FILES = sorted(
    [*(ROOT / "examples").glob("papers/*.toml"), *(ROOT / "examples").glob("radio-studies/*.toml")]
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_schedules_of_a_setting_have_rounds(path, tmp_path, monkeypatch):
    for folder in ("papers", "own_aggregation"):
        monkeypatch.syspath_prepend(str(ROOT / "examples" / folder))
    shutil.copytree(path.parent, tmp_path / "copy")
    copy, text = tmp_path / "copy" / path.name, path.read_text(encoding="utf-8")
    text = re.sub(r"^seeds = .*$", "seeds = [0]", text, flags=re.MULTILINE)
    deadline = int(re.search(r"^deadline = (\d+)", text, re.MULTILINE)[1])
    copy.write_text(text.replace(f"deadline = {deadline}", f"deadline = {min(deadline, 600)}"))
    spec = BatchSpec.read(copy)  # which simulates every schedule
    assert spec.skipped is None
    assert len(spec.points) >= 3


@pytest.mark.parametrize("path", [p for p in FILES if p.parent.name == "papers"], ids=lambda path: path.stem)
def test_a_setting_has_a_page_that_the_list_names(path):
    page = path.with_suffix(".md")
    assert path.name in page.read_text(encoding="utf-8")
    assert page.name in (path.parent / "README.md").read_text(encoding="utf-8")


STUDIES = ("outage", "selection", "batteries")


@pytest.mark.parametrize("study", STUDIES)
def test_simulating_a_study_again_gives_the_schedules_of_its_table(study, tmp_path):
    with (ROOT / f"docs/results/radio/{study}.csv").open(encoding="utf-8", newline="") as file:
        published = {row["run"]: row for row in csv.DictReader(file) if row["seed"] == "0"}
    text = (ROOT / f"examples/radio-studies/{study}.toml").read_text(encoding="utf-8")
    one_seed = tmp_path / "study.toml"
    one_seed.write_text(re.sub(r"^seeds = .*$", "seeds = [0]", text, flags=re.MULTILINE), encoding="utf-8")
    spec = BatchSpec.read(one_seed)
    assert len(spec.runs) == len(published)
    for run in spec.runs:
        timeline, row = run.config.simulate(), published[run.name]
        found = (timeline.rounds, len(timeline), len(timeline.lost), timeline.last_slot)
        assert found == tuple(int(row[name]) for name in ("rounds", "updates", "lost", "slots"))
        assert timeline.mean_staleness() == float(row["mean_staleness"])


def run_script(monkeypatch, name, *arguments):
    monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
    runpy.run_path(str(ROOT / "examples/radio" / name), run_name="__main__")


def test_a_log_of_ns3_becomes_a_trace(tmp_path, monkeypatch):
    log = tmp_path / "UlSinrStats.txt"
    log.write_text(
        "% time\tcellId\tIMSI\tRNTI\tsinrLinear\tcomponentCarrierId\n"
        "0.01\t1\t1\t1\t10\t0\n0.02\t1\t1\t1\t30\t0\n0.05\t1\t2\t2\t100\t0\n0.25\t1\t1\t1\t1\t0\n"
    )
    run_script(monkeypatch, "from_ns3.py", log, tmp_path / "trace.csv", "--slot-ms", 100)
    values = read_trace(str(tmp_path / "trace.csv")).values
    assert values[:, 0] == pytest.approx([10 * np.log10(20)] * 2 + [0.0])
    assert values[:, 1] == pytest.approx([20.0] * 3)


def test_measurements_become_a_trace_and_long_gaps_are_errors(tmp_path, monkeypatch):
    log = tmp_path / "log.csv"
    log.write_text("seconds,name,snr_db\n5.0,b,10\n5.02,a,3\n5.15,a,4\n5.16,b,12\n5.35,a,5\n5.36,b,9\n")
    for hold, works in ((1, True), (0, False)):
        arguments = (log, tmp_path / "trace.csv", "--slot-ms", 100, "--hold", hold)
        if works:
            run_script(monkeypatch, "from_measurements.py", *arguments)
            expected = [[3, 10], [4, 12], [4, 12], [5, 9]]
            assert read_trace(tmp_path / "trace.csv").values == pytest.approx(np.array(expected, dtype=float))
        else:
            with pytest.raises(SystemExit, match="slot 2"):
                run_script(monkeypatch, "from_measurements.py", *arguments)


def test_the_power_of_all_paths_counts():
    to_snr_db = runpy.run_path(str(ROOT / "examples/radio/from_sionna.py"))["to_snr_db"]
    coefficients = np.zeros((1, 1, 1, 2, 1, 3, 4), dtype=complex)
    coefficients[0, 0, 0, 0, 0] = 1e-5  # three paths of -100 dB each
    coefficients[0, 0, 0, 1, 0, 0] = 1e-4j
    found = to_snr_db(coefficients, 23.0, 1e6, 5.0)
    assert found.shape == (4, 2)
    assert found[0] == pytest.approx([23 - 100 + 10 * np.log10(3) + 109, 23 - 80 + 109])
