"""StudyResults: the runs of requested studies, and the figures, evidence and verdicts made from them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeGuard

from slotwise.batch.job import Run
from slotwise.data import TITLES
from slotwise.paper.evidence import Evidence, Results
from slotwise.paper.experiments import BOTH, Curves, Experiment, Readings, Remedies, Tradeoff, all_runs
from slotwise.paper.figures import figures_of
from slotwise.paper.report_verdicts import Judged, RemediesTable, remedies_table
from slotwise.paper.reproduction import Manifest
from slotwise.report.curves import CurveFigure


@dataclass(frozen=True)
class StudyResults:
    """The runs that were requested, and the curves that there are."""

    manifest: Manifest
    results: Results

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """All runs that were requested."""
        return self.manifest.runs()

    @cached_property
    def figures(self) -> tuple[CurveFigure, ...]:
        """The figures of the requested experiments that have curves."""
        every = (
            figure
            for experiment in self.manifest.experiments()
            for figure in figures_of(experiment, self.results, self.manifest.seeds(experiment.study))
        )
        return tuple(figure for figure in every if figure.lines)

    def evidence(self, study: str) -> Evidence:
        """Return the curves of a study, for the claims about it."""
        experiments = self.manifest.study(study)
        comparison = next(e for e in experiments if _is_comparison(e))
        tradeoffs = [experiment for experiment in experiments if isinstance(experiment, Tradeoff)]
        slow = tuple(slots for tradeoff in tradeoffs for slots in tradeoff.slots if slots[1] > 1)
        base, seeds = comparison.config("async", comparison.group_sizes[0]), self.manifest.seeds(study)
        requested = [one for one in self.manifest.experiments() if one.study == study]
        # While later seeds are being trained, the verdicts are those of the seeds that are complete.
        ended = self.results.ended_seeds(lambda seed: all_runs(requested, [seed]), seeds)
        return Evidence(base, comparison.group_sizes, slow, ended, self.results, len(seeds))

    @cached_property
    def paper_cases(self) -> tuple[Evidence, ...]:
        """The evidence of the paper's own case for each data set that was requested."""
        return tuple(self.evidence(study) for study in TITLES if study in self.manifest.requests)

    @cached_property
    def judged(self) -> dict[str, Judged]:
        """The verdicts on every study that has the curves of both schedules."""
        found = (one for one in self.manifest.experiments() if _is_comparison(one))
        return {one.study: Judged(one.reading, self.evidence(one.study)) for one in found}

    @cached_property
    def readings(self) -> tuple[Judged, ...]:
        """The verdicts on every reading at the same group sizes."""
        found = []
        for experiment in self.manifest.experiments():
            if not isinstance(experiment, Readings):
                continue
            seeds, sizes = self.manifest.seeds(experiment.study), experiment.group_sizes
            for reading in experiment.readings:
                base = experiment.under(reading).config("async", sizes[0])
                found.append(Judged(reading, Evidence(base, sizes, experiment.slots, seeds, self.results)))
        return tuple(found)

    @cached_property
    def remedies(self) -> tuple[RemediesTable, ...]:
        """The final losses of the remedies."""
        return tuple(
            remedies_table(experiment, self.results, self.manifest.seeds(experiment.study))
            for experiment in self.manifest.experiments()
            if isinstance(experiment, Remedies)
        )


def _is_comparison(experiment: Experiment) -> TypeGuard[Curves]:
    """Return whether an experiment has the curves of async and idfl, on which the statements are judged."""
    return isinstance(experiment, Curves) and experiment.schedules == BOTH
