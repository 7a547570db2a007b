"""The schedules behind docs/results/radio are still those that were trained."""

import csv
import re
from pathlib import Path

import pytest

from slotwise.batch import BatchSpec

ROOT = Path(__file__).parents[2]
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
