"""The section on remedies: do shorter steps or shrinking group sizes end below the best fixed group size?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from statistics import fmean

from slotwise.paper.criteria import below
from slotwise.paper.evidence import ENDED, Curve, Results, has_collapsed, seed_curves
from slotwise.paper.experiments import Remedies
from slotwise.paper.result_text import DIGITS
from slotwise.report.number_text import counted, loss_text
from slotwise.report.page import Section, paragraph, table
from slotwise.runs import RunConfig
from slotwise.runs.saved_run import final_accuracy, final_loss

HOW = (
    "Beyond the paper: every update divided by its staleness d (steps/d), and group sizes that shrink over "
    "time (S=50@0, 10@10000: 50 from the start, 10 from the first round after slot 10,000), beside async and "
    "idfl as the paper has them. Losses are training losses, the medians over the last tenth of the slots. "
    "steps/d multiplies an update by min(1, 1/d), after the delay-adaptive steps of Mishchenko et al. "
    "(NeurIPS 2022, arXiv:2206.07638) and Koloskova et al. (NeurIPS 2022, arXiv:2206.08307). They compare d "
    "with the average delay instead of with one round, which would change nothing where all updates are "
    "equally old."
)


@dataclass(frozen=True)
class RemediesTable:
    """The final losses of all remedies, seed by seed, and whether one is below the paper's best."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    verdict: str


def remedies_table(experiment: Remedies, results: Results, seeds: Sequence[int]) -> RemediesTable:
    """Return what the remedies and the paper's runs beside them came to."""
    deadline = experiment.deadline

    def curves(configs: Mapping[str, RunConfig]) -> dict[str, list[Curve]]:
        return {label: seed_curves(results, config, seeds) for label, config in configs.items()}

    remedies, fixed = curves(experiment.remedies(0)), curves(experiment.fixed(0))
    rows = []
    for label, found in (remedies | fixed).items():
        finished = [final_accuracy(curve.points, deadline) for curve in found if curve.status == "finished"]
        mean = f"{fmean(finished):.1%}" if len(finished) == len(found) else ""
        rows.append((label, *(_end_text(curve, deadline) for curve in found), mean))
    headings = ("", *(f"loss, seed {seed}" for seed in seeds), "test accuracy, mean")
    return RemediesTable(headings, tuple(rows), _verdict(remedies, fixed, deadline))


def remedies_section(found: RemediesTable) -> Section:
    """Return the section of the page."""
    headings = [f"#{heading}" if heading else "" for heading in found.headings]
    parts = (paragraph(HOW), table(headings, found.rows), paragraph(found.verdict))
    return Section("remedies", "Remedies", parts)


def _end_text(curve: Curve, deadline: int) -> str:
    """Return the final loss of a run, or why it has none."""
    if curve.status not in ENDED:
        return "not trained"
    if curve.status == "diverged":
        return "diverged"
    return "collapsed" if has_collapsed(curve, deadline) else loss_text(_loss(curve, deadline), DIGITS)


def _loss(curve: Curve, deadline: int) -> float:
    """Return the final loss of a run that has ended; NaN if it collapsed."""
    return nan if has_collapsed(curve, deadline) else final_loss(curve.points, deadline)


def _verdict(
    remedies: Mapping[str, Sequence[Curve]], fixed: Mapping[str, Sequence[Curve]], deadline: int
) -> str:
    """Say whether a remedy ends below the lowest fixed group size with every seed."""
    every = [curve for found in (*remedies.values(), *fixed.values()) for curve in found]
    missing = sum(curve.status not in ENDED for curve in every)
    if missing:
        return f"Not decided yet: {counted(missing, 'run')} of {len(every)} not trained."
    paper = {label: [_loss(curve, deadline) for curve in found] for label, found in fixed.items()}
    alive = {label: losses for label, losses in paper.items() if not any(map(isnan, losses))}
    if not alive:
        return "Not decided: every fixed group size has collapsed with some seed."
    best = min(alive, key=lambda label: fmean(alive[label]))
    better = []
    for label, found in remedies.items():
        losses = [_loss(curve, deadline) for curve in found]
        if all(below(a, b) for a, b in zip(losses, alive[best], strict=True)):
            better.append(label)
    seeds, named = counted(len(alive[best]), "seed"), "; ".join(better) or "no remedy"
    return f"Below the best fixed group size here ({best}) with every seed ({seeds}): {named}."
