"""The search: all candidates step by step with the first seed, then the finalists with the other seeds.

A candidate is dropped when even its optimistic extrapolation to the deadline is worse than the leader's
present score. This is pure logic: a trainer is given, so it also searches among stored curves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from slotwise.base.errors import InputError, UserError
from slotwise.base.observer import BaseObserver
from slotwise.batch.job import BatchObserver, Run
from slotwise.recommendation.candidates import (
    SIXTEENTHS,
    Candidate,
    Curve,
    Field,
    Pilot,
    Trainer,
    field_of,
    slot_after,
)
from slotwise.recommendation.metric import DIVERGED, Metric, Score
from slotwise.runs import RunConfig

SMALL_GRID = 100_000  # SGD steps; a grid of at most so many is trained as a whole
TOLERANCE = 0.1  # results of the first seed that are so close to the leader's are not told apart by it


@dataclass(frozen=True)
class Question:
    """The question that a search answers."""

    base: RunConfig  # its schedule, group size, delay and seed are not used
    group_sizes: tuple[int, ...]
    seeds: tuple[int, ...]
    metric: Metric = field(default_factory=Metric)
    budget: int | None = None  # most SGD steps
    learning_rates: tuple[float, ...] = ()  # none: all candidates have that of the base

    def __post_init__(self) -> None:
        every, most = self.base.evaluate_every, max(1, slot_after(self.base.deadline, 1))
        if every is not None and every > most:
            allowed = f"at most {most}, so that there is an evaluation in each sixteenth of the deadline"
            raise InputError("evaluate_every", every, allowed)

    @cached_property
    def field(self) -> Field:
        """Every schedule with every group size and learning rate, and what is left out."""
        return field_of(self.base, self.group_sizes, self.seeds, self.learning_rates)

    @property
    def grid_steps(self) -> int:
        """SGD steps of training every candidate to the deadline with every seed."""
        return self.base.steps_per_training * self.field.updates()

    def pilot(self, candidate: Candidate, index: int, sixteenths: int = SIXTEENTHS) -> Pilot:
        """Return the run of a candidate with the seed at ``index``, up to some sixteenths of the deadline."""
        seed, prospect = self.seeds[index], candidate.prospects[index]
        run = Run(f"{candidate.name}-seed{seed}", candidate.config(self.base, seed))
        slot = slot_after(self.base.deadline, sixteenths)
        return Pilot(run, slot, prospect.rounds[sixteenths], prospect.updates[sixteenths])


@dataclass(frozen=True)
class Finding:
    """Everything a search found: the curve of each candidate with each seed, and who can be the best."""

    question: Question
    curves: Mapping[tuple[Candidate, int], Curve]  # by candidate and index of the seed
    choices: tuple[Candidate, ...]  # those that cannot be told apart, best first
    search_steps: int  # SGD steps of the pilots; one that diverged counts up to its slot
    complete: bool  # whether the budget was sufficient

    def scores(self, candidate: Candidate) -> tuple[Score, ...]:
        """Return the present score of a candidate with each seed it was trained with."""
        return tuple(_scores(self.question.metric, self.curves, candidate))

    def score(self, candidate: Candidate) -> Score:
        """Return the score of a candidate over its seeds."""
        return self.question.metric.over_seeds(self.scores(candidate))

    def slot(self, candidate: Candidate) -> int:
        """Return the slot up to which a candidate was trained with the first seed."""
        return self.curves[candidate, 0].slot

    def is_diverged(self, candidate: Candidate) -> bool:
        """Return whether a candidate has diverged with any seed."""
        return self.score(candidate) == DIVERGED


def _scores(
    metric: Metric, curves: Mapping[tuple[Candidate, int], Curve], candidate: Candidate
) -> Iterator[Score]:
    index = 0
    while (candidate, index) in curves:
        yield metric.present(curves[candidate, index])
        index += 1


class SearchObserver(BatchObserver):
    """Callbacks of a search, besides those of the batches that it trains."""

    def rung_started(self, slot: int, candidates: Sequence[str]) -> None:
        """A search trains these candidates up to a slot."""


class Search:
    """A search for the best candidates; `run` does all of it."""

    def __init__(self, question: Question, train: Trainer, observer: BaseObserver | None = None) -> None:
        self._question, self._train, self._observer = question, train, SearchObserver.of(observer)
        self._metric, self._candidates = question.metric, question.field.candidates
        self._curves: dict[tuple[Candidate, int], Curve] = {}
        self._reached: dict[tuple[Candidate, int], int] = {}  # in sixteenths of the deadline
        self._refuse_small_budget()

    def _refuse_small_budget(self) -> None:
        """Refuse a budget that ends the search before anything is trained; one candidate needs no budget."""
        budget = self._question.budget
        if budget is None or len(self._candidates) == 1:
            return
        for sixteenths in range(1, SIXTEENTHS + 1):
            smallest = self._steps(dict.fromkeys(((c, 0) for c in self._candidates), sixteenths))
            if smallest:
                break
        if budget < smallest:
            until = f"slot {slot_after(self._question.base.deadline, sixteenths)}, by which a round ends"
            raise InputError("budget", budget, f"at least {smallest}, the SGD steps with one seed to {until}")

    def run(self) -> Finding:
        """Search to the end, or until the budget is used; a UserError if every candidate diverged."""
        question, seeds = self._question, range(len(self._question.seeds))
        choices: tuple[Candidate, ...] = ()
        complete = True
        if len(self._candidates) == 1:
            # There is nothing to compare: only the first model is evaluated.
            self._advance(self._candidates, 0, 0)
            choices = self._candidates
        elif question.grid_steps <= min(SMALL_GRID, question.budget or SMALL_GRID):
            # A small grid is trained as a whole: dropping candidates would save little.
            for index in seeds:
                self._advance(self._candidates, index, SIXTEENTHS)
            choices = self._best_of(self._stable())
        else:
            # Again without the finalists, should they all diverge with another seed.
            while not choices and self._stable():
                complete = self._deepen()
                choices = self._possible()
                for index in seeds[1:]:
                    if not complete or len(choices) < 2:
                        break
                    complete = self._advance(choices, index, SIXTEENTHS)
                    choices = self._best_of(self._stable(choices))
        if not choices:
            raise UserError("every candidate diverged; try a smaller learning rate or fewer local steps")
        return Finding(question, self._curves, choices, self._steps(self._reached), complete)

    def _deepen(self) -> bool:
        """Train all that may be the best with the first seed to the deadline; return False without budget.

        A candidate that was dropped resumes if the leader's loss has risen so much that it may be the best.
        """
        while going := [candidate for candidate in self._possible() if self._can_continue(candidate)]:
            # The least trained go on first, so that candidates are compared at nearly the same slot.
            rung = min(self._reached.get((c, 0), 0) for c in going)
            behind = [c for c in going if self._reached.get((c, 0), 0) == rung]
            if not self._advance(behind, 0, rung + 1):
                return False
        return True

    def _can_continue(self, candidate: Candidate) -> bool:
        curve = self._curves.get((candidate, 0))
        return curve is None or not (self._metric.settled(curve) or self._reached[candidate, 0] == SIXTEENTHS)

    def _advance(self, candidates: Sequence[Candidate], index: int, sixteenths: int) -> bool:
        """Train candidates with one seed to some sixteenths of the deadline; return False without budget."""
        question = self._question
        # The schedule tells the steps of a rung in advance, so the budget is never exceeded.
        after = {**self._reached, **{(candidate, index): sixteenths for candidate in candidates}}
        if question.budget is not None and self._steps(after) > question.budget:
            return False
        slot = slot_after(question.base.deadline, sixteenths)
        self._observer.rung_started(slot, [candidate.label for candidate in candidates])
        curves = self._train([question.pilot(candidate, index, sixteenths) for candidate in candidates])
        self._curves |= {(c, index): curve for c, curve in zip(candidates, curves, strict=True)}
        self._reached = after
        return True

    def _steps(self, reached: Mapping[tuple[Candidate, int], int]) -> int:
        """Return the SGD steps of pilots that have reached these sixteenths."""
        updates = sum(candidate.prospects[index].updates[at] for (candidate, index), at in reached.items())
        return self._question.base.steps_per_training * updates

    def _stable(self, candidates: Sequence[Candidate] | None = None) -> tuple[Candidate, ...]:
        """Return those of the candidates that have not diverged with any seed."""
        diverged = {candidate for (candidate, _), curve in self._curves.items() if curve.diverged}
        return tuple(c for c in (self._candidates if candidates is None else candidates) if c not in diverged)

    def _possible(self) -> tuple[Candidate, ...]:
        """Return those that may be the best by the first seed, best first; before the first training all.

        The optimistic score is not worse than the leader's present one, or only by the tolerance.
        """
        if not self._curves:
            return self._candidates
        present = {c: self._metric.present(self._curves[c, 0]) for c in self._stable()}
        if not present:
            return ()
        # With one seed, a difference below the tolerance says nothing: the finalists are trained with more.
        missed, value = min(present.values())
        most = (missed, value + TOLERANCE * abs(value))
        ranking = sorted(present, key=lambda candidate: present[candidate])
        return tuple(c for c in ranking if self._metric.optimistic(self._curves[c, 0]) <= most)

    def _best_of(self, candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
        """Return the best over all seeds, and those that it does not beat with every seed, best first."""
        if len(self._question.seeds) == 1:
            return self._possible()
        found = {c: tuple(_scores(self._metric, self._curves, c)) for c in candidates}
        # One that was dropped and is a finalist again may have been trained with more seeds than the others.
        shared = min(map(len, found.values()), default=0)
        scores = {c: of_seeds[:shared] for c, of_seeds in found.items()}
        ranking = sorted(scores, key=lambda candidate: self._metric.over_seeds(scores[candidate]))
        return tuple(
            c
            for c in ranking
            if any(own <= best for own, best in zip(scores[c], scores[ranking[0]], strict=True))
        )
