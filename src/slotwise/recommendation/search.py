"""Question in, finding out: the plan, then pilots on nested deadlines, the better half kept on each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slotwise.errors import UserError
from slotwise.learning import Point
from slotwise.observer import Observer
from slotwise.recommendation.candidates import Candidate, Field, field_of, rung_slot
from slotwise.recommendation.folder import RecommendFolder
from slotwise.recommendation.halving import (
    Extent,
    Rung,
    Score,
    extent_within_budget,
    extent_within_quarter,
    halve,
)
from slotwise.recommendation.metric import Reading
from slotwise.recommendation.pilots import Pilot, PilotTasks
from slotwise.recommendation.question import Question
from slotwise.runs import RunConfig


class SearchWatcher:
    """What a caller is told and asked while the search goes on; this one stays silent."""

    def rung_started(self, slot: int, candidates: Sequence[Candidate]) -> None:
        """These are tried up to this slot."""

    def pilot_started(self, candidate: Candidate, seed: int) -> Observer:
        """A pilot begins or goes on; the answer is told how."""
        del candidate, seed
        return Observer()


@dataclass(frozen=True)
class Finding:
    """Everything the search has found.

    Attributes:
        question: that was asked.
        field: the candidates, and what was ruled out.
        extent: how much was tried.
        rungs: one after the other.
        readings: of a candidate with each seed, on each rung it climbed.
        curves: of a candidate with each seed, as far as the search went.
        search_steps: SGD steps of the pilots.
        grid_steps: SGD steps of training every schedule with every group size to the deadline.
    """

    question: Question
    field: Field
    extent: Extent
    rungs: tuple[Rung[Candidate], ...]
    readings: Mapping[tuple[Candidate, int], tuple[Reading, ...]]
    curves: Mapping[Candidate, tuple[tuple[Point, ...], ...]]
    search_steps: int
    grid_steps: int

    @property
    def seeds(self) -> tuple[int, ...]:
        """Those that were tried."""
        return self.question.seeds[: self.extent.seeds]


def prepared(question: Question) -> tuple[Field, Extent]:
    """The candidates, and how much to try; nothing is trained.

    Raises:
        InputError: a group size, the deadline or the budget is out of range.
    """
    field = field_of(question.base, question.group_sizes, question.seeds)
    steps = question.base.training.local_steps
    by_seed = [
        [[steps * updates for updates in candidate.prospects[i].updates] for candidate in field.running]
        for i in range(len(question.seeds))
    ]
    if question.budget is not None:
        return field, extent_within_budget(by_seed, question.budget)
    return field, extent_within_quarter(by_seed, steps * sum(field.grid_updates))


class Search:
    """Climbs the rungs; asked again, it finds the pilots in the folder and trains only what is missing."""

    def __init__(
        self,
        question: Question,
        folder: RecommendFolder,
        *,
        tasks: PilotTasks | None = None,
        workers: int = 1,
        watcher: SearchWatcher | None = None,
    ) -> None:
        self._question, self._folder, self._workers = question, folder, workers
        self._tasks, self._watcher = tasks or PilotTasks(), watcher or SearchWatcher()
        self._field, self._extent = prepared(question)
        self._seeds = question.seeds[: self._extent.seeds]
        self._readings: dict[tuple[Candidate, int], tuple[Reading, ...]] = {}
        self._curves: dict[tuple[Candidate, int], tuple[Point, ...]] = {}
        self._climbed: dict[tuple[Candidate, int], int] = {}
        self._diverged: set[Candidate] = set()

    @property
    def first_parameters(self) -> RunConfig:
        """Of the first pilot."""
        return self._field.running[0].parameters(self._question.pilot_base, self._seeds[0])

    def run(self) -> Finding:
        """Search to the end.

        Raises:
            Interrupted: the watcher wanted to stop.
            UserError: every candidate has diverged.
        """
        rungs = halve(self._extent.rungs, self._field.running, self._measure)
        if rungs and not rungs[-1].ranking:
            raise UserError(
                "every candidate diverged; try a smaller learning-rate or fewer local-steps in the file "
                "given with --config"
            )
        running = self._field.running
        return Finding(
            self._question,
            self._field,
            self._extent,
            rungs,
            self._readings,
            {c: tuple(self._curves.get((c, seed), ()) for seed in self._seeds) for c in running},
            self._search_steps(),
            self._question.base.training.local_steps * sum(self._field.grid_updates[: len(self._seeds)]),
        )

    def _measure(self, sixteenths: int, candidates: Sequence[Candidate]) -> dict[Candidate, Score | None]:
        slot = rung_slot(self._question.base.deadline, sixteenths)
        self._watcher.rung_started(slot, candidates)
        for index in range(len(self._seeds)):  # seeds outside: the data is loaded once for each
            for candidate in candidates:
                if candidate not in self._diverged:
                    self._climb(candidate, index, sixteenths)
        return {candidate: self._score(candidate, sixteenths, slot) for candidate in candidates}

    def _climb(self, candidate: Candidate, index: int, sixteenths: int) -> None:
        """Train one pilot up to a rung, unless more of its curve could not change how it is judged."""
        seed = self._seeds[index]
        if self._question.metric.settled(self._curves.get((candidate, seed), ())):
            return
        points = self.pilot(candidate, seed).climb(
            candidate.prospects[index].rounds[sixteenths],
            tasks=self._tasks,
            workers=self._workers,
            watcher=self._watcher.pilot_started(candidate, seed),
        )
        self._climbed[candidate, index] = sixteenths
        if points is None:
            self._diverged.add(candidate)
        else:
            self._curves[candidate, seed] = points

    def pilot(self, candidate: Candidate, seed: int) -> Pilot:
        """The beginning of a candidate's run with a seed."""
        parameters = candidate.parameters(self._question.pilot_base, seed)
        return Pilot(self._folder.pilot(candidate, seed), parameters)

    def _score(self, candidate: Candidate, sixteenths: int, slot: int) -> Score | None:
        if candidate in self._diverged:
            return None
        metric = self._question.metric
        readings = tuple(
            metric.read(
                candidate.parameters(self._question.pilot_base, seed), self._curves[candidate, seed], slot
            )
            for seed in self._seeds
        )
        self._readings[candidate, sixteenths] = readings
        return metric.score(readings)

    def _search_steps(self) -> int:
        """SGD steps of all updates applied; one that diverged counts up to its rung."""
        updates = (c.prospects[index].updates[at] for (c, index), at in self._climbed.items())
        return self._question.base.training.local_steps * sum(updates)
