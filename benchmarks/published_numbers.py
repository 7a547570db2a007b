"""Numbers that others published, for docs/validation.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Number(NamedTuple):
    """A published test accuracy in per cent: of a case, after a round."""

    title: str
    case: str
    round: int
    theirs: float


class Best(NamedTuple):
    """A published test accuracy in per cent: the best of 50 rounds, and the one run of an earlier draft."""

    title: str
    case: str
    theirs: float
    deviation: float
    draft: float
    round = 50


def niid_bench(*theirs: tuple[float, float, float]) -> tuple[Best, ...]:
    """Return what Flower's baseline niid_bench has of a data set; FedProx is the best of the penalties."""
    titles = {
        "iid": "FedAvg, IID",
        "dirichlet": "FedAvg, Dir(0.5)",
        "one-label": "FedAvg, one label",
        "two-labels": "FedAvg, two labels",
        "three-labels": "FedAvg, three labels",
    }
    penalties = ("0.001", "0.01", "0.1", "1")
    fedprox = {f"one-label-fedprox-{mu}": f"FedProx, one label, μ = {mu}" for mu in penalties}
    rows = zip(titles.items(), theirs, strict=False)
    return (
        *(Best(title, case, *own) for (case, title), own in rows),
        *(Best(title, case, *theirs[-1]) for case, title in fedprox.items()),
    )


FEDSASYNC = (
    *(
        Number(f"FedAvg, round {after}", "FedAvg", after, accuracy)
        for after, accuracy in ((1, 76.1), (2, 93.9), (5, 97.3), (10, 98.2), (25, 98.6))
    ),
    Number("M = 10, round 25", "M10", 25, 98.59),
    Number("M = 8, round 25", "M8", 25, 98.33),
)
PUBLISHED: Mapping[str, tuple[Number, ...]] = {"fedsasync": FEDSASYNC, "fedsasync-held-out": FEDSASYNC}
NIID: Mapping[str, tuple[Best, ...]] = {
    "niid-mnist": niid_bench(
        *((99.09, 0.05, 99.1), (98.89, 0.07, 98.9), (19.33, 11.82, 10.0)),
        *((96.86, 0.30, 96.6), (97.86, 0.34, 98.2), (51.79, 26.75, 81.3)),
    ),
    "niid-fashion": niid_bench(
        *((89.23, 0.45, 89.0), (88.09, 0.29, 88.4), (28.39, 17.09, 10.0)),
        *((78.10, 2.51, 81.0), (82.43, 1.52, 83.2), (32.65, 6.68, 38.0)),
    ),
}
# Rounds to 97 % by devices of a round: FedAvg's Table 1.
FEDAVG: Mapping[str, Mapping[int, int]] = {
    "iid": {10: 87, 20: 77, 50: 75, 100: 70},
    "shards": {10: 664, 20: 619, 50: 443, 100: 380},
}
INPUTS = {"unit": "inputs 0..1", "standard": "standardised"}
# The rules that the authors' script compares; they publish no numbers.
WIRELESS = {
    "random": "random",
    "best-channel": "best channel",
    "rarely-heard": "rarely heard",
    "channel-and-data": "channel and data (proposed)",
}
