"""The published full-length runs, which the package contains: their evaluations, and how each ended.

The page of a quick look is made from them. ``python -m slotwise.paper.published docs/results/paper`` writes
the file again from the folder that the runs were published in.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from slotwise.batch.job import Run
from slotwise.learning import Point
from slotwise.paper.evidence import Curve, Results
from slotwise.paper.reproduction import Manifest, reproduction_folder

FILE = files("slotwise.paper").joinpath("published.json.gz")
STUDIES = ("schedule", "mnist", "mnist-model-average", "cifar10")
COLUMNS = ("slot", "round", "loss", "accuracy", "staleness")
KEPT = ("status", "seconds", "model_sha256", "diverged_in_round", "versions")  # of run.json


class PublishedResults(Results):
    """The curves of the published runs."""

    def __init__(self) -> None:
        super().__init__(Path("published"))

    def _read(self, run: Run) -> Curve:
        saved = _document()["runs"].get(run.name)
        if saved is None:
            return Curve(run, "missing")
        points = tuple(Point(*row) for row in zip(*(saved[name] for name in COLUMNS), strict=True))
        return Curve(run, saved["status"], points, saved)


def published_manifest() -> Manifest:
    """Return the studies that the package contains, with their seeds."""
    return Manifest.from_document(_document())


@cache
def _document() -> Mapping[str, Any]:
    document: Mapping[str, Any] = json.loads(gzip.decompress(FILE.read_bytes()))
    return document


def packed(folder: Path) -> bytes:
    """Return the content of the file for a folder of published runs."""
    manifest = Manifest.read(reproduction_folder(folder))
    manifest = replace(manifest, requests={study: manifest.requests[study] for study in STUDIES})
    results = Results(folder / "runs")
    runs = {run.name: _kept(results.curve(run)) for run in manifest.runs()}
    text = json.dumps({**manifest.document(), "runs": runs}, separators=(",", ":"))
    return gzip.compress(text.encode(), compresslevel=9, mtime=0)  # no time: equal runs give equal bytes


def _kept(curve: Curve) -> dict[str, Any]:
    if not curve.has_ended:
        raise ValueError(f"{curve.run.name} is {curve.status}")
    kept = {name: curve.description[name] for name in KEPT if name in curve.description}
    return kept | {name: [getattr(point, name) for point in curve.points] for name in COLUMNS}


if __name__ == "__main__":
    Path(str(FILE)).write_bytes(packed(Path(sys.argv[1])))
