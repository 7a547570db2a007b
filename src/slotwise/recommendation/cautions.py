"""What speaks against believing an answer: a question that tells nobody apart, or too short a look."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slotwise.recommendation.search import Finding
from slotwise.recommendation.standing import Standing


def cautions(finding: Finding, standings: Sequence[Standing]) -> tuple[str, ...]:
    """One line each, none if nothing does; ``standings`` are best first."""
    if not finding.rungs:
        return ()
    best = standings[0]
    return (*_target(finding, best), *_no_learning(finding, best), *_early(finding, standings))


def _target(finding: Finding, best: Standing) -> Iterator[str]:
    """Whether the target told candidates apart."""
    target = finding.question.metric.target
    if target is None:
        return
    if best.mean is None:
        yield f"no candidate has met {target} with all seeds by slot {best.slot:,}; this one comes closest"
    elif best.mean == 0:
        yield f"the first model meets {target} already, without a joule: so does every candidate"


def _no_learning(finding: Finding, best: Standing) -> Iterator[str]:
    """Whether even the best is worse than a model that was never trained."""
    metric = finding.question.metric
    if metric.target is not None or best.mean is None:
        return
    starts = [getattr(curve[0], metric.quantity) for curve in finding.curves[best.candidate]]
    first = sum(starts) / len(starts)
    if best.mean < first if metric.quantity == "accuracy" else best.mean > first:
        yield f"even the best is worse than the first model ({metric.text(first)}): nothing was learned"


def _early(finding: Finding, standings: Sequence[Standing]) -> Iterator[str]:
    """Whether others were last seen before the end: curves cross."""
    last = standings[0].slot
    slots = [s.slot for s in standings if s.slot is not None and not s.diverged and s.slot != last]
    if slots:
        first, final = f"{min(slots):,}", f"{max(slots):,}"
        yield (
            f"{len(slots)} {'was' if len(slots) == 1 else 'were'} out at slot "
            f"{first if first == final else f'{first} to {final}'} of {finding.question.base.deadline:,}; "
            "curves may cross later, and a larger --budget sees more of them"
        )
