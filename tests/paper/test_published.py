"""The published runs in the package are those of docs/results/paper."""

import gzip
import json
from pathlib import Path

from slotwise.paper.evidence import Results
from slotwise.paper.experiments import PAPER, all_runs, selected
from slotwise.paper.published import FILE, PublishedResults, packed, published_manifest

PUBLISHED = Path(__file__).parents[2] / "docs" / "results" / "paper"


def test_published_curves_are_complete_small_and_the_same_to_the_bit() -> None:
    content = FILE.read_bytes()
    assert len(content) < 400_000
    # Not the bytes: libraries compress differently.
    assert json.loads(gzip.decompress(content)) == json.loads(gzip.decompress(packed(PUBLISHED)))
    whole, saved = PublishedResults(), Results(PUBLISHED / "runs")
    for run in all_runs(selected(PAPER, ["schedules-mnist"]), range(3)):
        assert [point[:5] for point in whole.curve(run).points] == [p[:5] for p in saved.curve(run).points]
        assert whole.curve(run).status == saved.curve(run).status == "finished"
    runs, results = published_manifest().runs(), PublishedResults()
    assert all(results.curve(run).has_ended for run in runs)
    (other,) = all_runs(selected(PAPER, ["remedies"]), [0])[:1]
    assert results.curve(other).status == "missing"
