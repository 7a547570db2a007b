"""The section on remedies: do shorter steps or shrinking group sizes end below the best fixed group size?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from slotwise.paper.criteria import COLLAPSED
from slotwise.paper.evidence import Results, seed_curves
from slotwise.paper.experiments import Remedies
from slotwise.report.page import Html, Section, paragraph, table
from slotwise.runs.run_folder import final_accuracy, final_loss

HOW = (
    "Beyond the paper: every update divided by its staleness d (steps/d), and group sizes that shrink over "
    "time (S=50@0, 10@10000: 50 from the start, 10 from the first round after slot 10,000), beside idfl as "
    "the paper has it. Losses are training losses, the medians over the last tenth of the slots."
)


def remedies_section(experiment: Remedies, results: Results, seeds: Sequence[int]) -> Section:
    """Return the final losses of all remedies, seed by seed, and whether one is below the paper's best."""
    finals = {label: _finals(experiment, label, results, seeds) for label in experiment.labelled(0)}
    rows = []
    for label, found in finals.items():
        losses = [f"{loss:.4g}" if accuracy >= COLLAPSED else "collapsed" for loss, accuracy in found]
        mean = f"{fmean(accuracy for _, accuracy in found):.1%}" if found else ""
        rows.append((label, *losses, *[""] * (len(seeds) - len(found)), mean))
    headings = ("", *(f"#loss, seed {seed}" for seed in seeds), "#test accuracy, mean")
    return Section(
        "remedies", "Remedies", (paragraph(HOW), table(headings, rows), _verdict(finals, len(seeds)))
    )


def _finals(
    experiment: Remedies, label: str, results: Results, seeds: Sequence[int]
) -> list[tuple[float, float]]:
    """Return final loss and accuracy of each seed that has finished."""
    curves = seed_curves(results, experiment.labelled(0)[label], seeds)
    deadline = experiment.deadline
    return [
        (final_loss(curve.points, deadline), final_accuracy(curve.points, deadline))
        for curve in curves
        if curve.status == "finished"
    ]


def _verdict(finals: Mapping[str, list[tuple[float, float]]], seeds: int) -> Html:
    """Say whether a remedy ends below the lowest fixed group size with every seed."""
    alive = {
        label: [loss for loss, _ in found]
        for label, found in finals.items()
        if len(found) == seeds and all(accuracy >= COLLAPSED for _, accuracy in found)
    }
    fixed = {
        label: losses for label, losses in alive.items() if label.startswith("idfl S=") and _is_plain(label)
    }
    if not fixed or len(alive) == len(fixed):
        return paragraph("Not decided: runs are missing or have collapsed.", "quiet")
    best = min(fixed, key=lambda label: fmean(fixed[label]))
    below = [
        label
        for label, losses in alive.items()
        if label not in fixed and all(loss < other for loss, other in zip(losses, fixed[best], strict=True))
    ]
    found = ", ".join(below) if below else "no remedy"
    return paragraph(f"Below the best fixed group size here ({best}) with every seed ({seeds}): {found}.")


def _is_plain(label: str) -> bool:
    return "steps/d" not in label and "@" not in label
