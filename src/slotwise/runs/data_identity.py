"""The data that runs were trained on: the only comparison of their hashes.

A hash belongs to a source, which is a fetched data set or a data folder. It covers all samples of the source,
so partitions and seeds do not change it, and runs of different sources have different data on purpose. Two
hashes of one source mean that its files have changed between the runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from slotwise.base.errors import UserError

SHOWN_RUNS, SHOWN_DIGITS = 3, 12  # of a message


class DataUse(NamedTuple):
    """The data of a run: their source and their hash, None if it is not known (MNIST has none)."""

    run: str
    source: str
    sha256: str | None


def changed_sources(uses: Iterable[DataUse]) -> dict[str, dict[str, list[str]]]:
    """Return the runs by hash, for each source of which there is more than one hash."""
    sources: dict[str, dict[str, list[str]]] = {}
    for run, source, sha256 in uses:
        if sha256 is not None:
            sources.setdefault(source, {}).setdefault(sha256, []).append(run)
    return {source: hashes for source, hashes in sources.items() if len(hashes) > 1}


def changed_data_text(source: str, hashes: Mapping[str, Sequence[str]]) -> str:
    """Return which runs were trained on which data of a source, as part of a sentence."""
    states = [f"{_names(runs)} (sha256 {sha256[:SHOWN_DIGITS]}…)" for sha256, runs in hashes.items()]
    return f"the data set {source} has changed between {' and '.join(states)}"


def refuse_mixed_data(uses: Iterable[DataUse]) -> None:
    """Raise a UserError if runs that are combined were trained on different data of the same source."""
    for source, hashes in changed_sources(uses).items():
        remedy = "restore it, or delete the runs of one state and train them again"
        raise UserError(f"{changed_data_text(source, hashes)}; {remedy}")


def _names(runs: Sequence[str]) -> str:
    more = len(runs) - SHOWN_RUNS
    return ", ".join(runs[:SHOWN_RUNS]) + (f" and {more} more" if more > 0 else "")
