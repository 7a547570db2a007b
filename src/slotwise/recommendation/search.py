"""The search: the exact schedule rules candidates out, then pilots on nested deadlines choose among the rest.

A pilot is the beginning of a real run. Its configuration has the whole deadline; it stops at a rung and
resumes from there. So its first rounds are those of the run to the bit, nothing is trained twice, and
`slotwise train --resume` finishes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slotwise.batch.batch_folder import BatchFolder
from slotwise.batch.job import Job, Run
from slotwise.batch.jobs import run_jobs
from slotwise.batch.serial import MakeTask, SerialExecutor, TaskCache
from slotwise.errors import InputError, UserError
from slotwise.learning import History, Point
from slotwise.learning.engine import evaluation_rounds
from slotwise.observer import Observer
from slotwise.recommendation.candidates import Candidate, Field, field_of, rung_slot
from slotwise.recommendation.halving import (
    SIXTEENTHS,
    Extent,
    Rung,
    Score,
    extent_within_budget,
    extent_within_quarter,
    halve,
)
from slotwise.recommendation.metric import Metric, Reading
from slotwise.runs import RunConfig

EVALUATIONS_A_SIXTEENTH = 8  # two of them in the quarter that is judged
SEARCHED = ("schedule", "group_size", "delay", "seed")
"""The options that the answer decides, and the seed, of which a search takes several."""


class Stopped(Exception):
    """The observer asked to stop; the pilots are saved and the same search resumes them."""


@dataclass(frozen=True)
class Question:
    """The question that a search answers.

    Attributes:
        base: the run; its schedule, group size, delay and seed are not used.
        group_sizes: group sizes to choose from.
        seeds: seeds to try each candidate with.
        metric: how candidates are judged.
        budget: most SGD steps of the search; None: less than a quarter of training every candidate.
    """

    base: RunConfig
    group_sizes: tuple[int, ...]
    seeds: tuple[int, ...]
    metric: Metric = Metric()  # noqa: RUF009  (frozen)
    budget: int | None = None

    def __post_init__(self) -> None:
        every, most = self.base.evaluate_every, rung_slot(self.base.deadline, 1) // 4
        if every is not None and every > most:
            allowed = f"at most {most}, so that there are four evaluations in a sixteenth of the deadline"
            raise InputError("evaluate_every", every, allowed)

    @property
    def pilot_base(self) -> RunConfig:
        """The run as pilots train it: evaluated often enough to be judged after a sixteenth."""
        usual = max(1, self.base.deadline // (SIXTEENTHS * EVALUATIONS_A_SIXTEENTH))
        return self.base.with_options(evaluate_every=self.base.evaluate_every or usual)

    def pilot(self, candidate: Candidate, seed: int) -> Run:
        """Return the run whose beginning is the pilot of a candidate with a seed."""
        return Run(f"{candidate.name}-seed{seed}", candidate.config(self.pilot_base, seed))

    def prepare(self) -> tuple[Field, Extent]:
        """Return the candidates and the size of the search; nothing is trained.

        Raises:
            InputError: a group size, the deadline or the budget is out of range.
        """
        field = field_of(self.base, self.group_sizes, self.seeds)
        steps = self.base.training.local_steps
        by_seed = [
            [[steps * updates for updates in candidate.prospects[i].updates] for candidate in field.running]
            for i in range(len(self.seeds))
        ]
        if self.budget is not None:
            return field, extent_within_budget(by_seed, self.budget)
        return field, extent_within_quarter(by_seed, steps * sum(field.grid_updates))


def common_options(base: RunConfig) -> dict[str, Any]:
    """Return the options that all candidates share."""
    return {name: value for name, value in base.options().items() if name not in SEARCHED}


@dataclass(frozen=True)
class Finding:
    """Everything a search found.

    Attributes:
        question: the question.
        field: the candidates, and those ruled out.
        extent: the size of the search.
        rungs: results of the rungs, in order.
        readings: figures of a candidate with each seed, on each rung it reached.
        curves: evaluations of a candidate with each seed, as far as it was trained.
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
        """The seeds that were tried."""
        return self.question.seeds[: self.extent.seeds]


class Search:
    """Successive halving in a folder of pilots; it trains only what the folder does not have."""

    def __init__(
        self,
        question: Question,
        folder: BatchFolder,
        *,
        make_task: MakeTask | None = None,
        workers: int = 1,
        observer: Observer | None = None,
    ) -> None:
        self._question, self._folder, self._workers = question, folder, workers
        self._make_task = make_task or TaskCache().make
        self._observer = observer or Observer()
        self._field, self._extent = question.prepare()
        self._seeds = question.seeds[: self._extent.seeds]
        self._readings: dict[tuple[Candidate, int], tuple[Reading, ...]] = {}
        self._curves: dict[tuple[Candidate, int], tuple[Point, ...]] = {}
        self._reached: dict[tuple[Candidate, int], int] = {}
        self._diverged: set[Candidate] = set()

    def check_task(self) -> None:
        """Build the task of the first pilot, to find mistakes before a folder is made."""
        self._make_task(self._question.pilot(self._field.running[0], self._seeds[0]).config)

    def run(self) -> Finding:
        """Search to the end.

        Raises:
            Stopped: the observer asked to stop.
            UserError: every candidate diverged, or a pilot failed.
        """
        rungs = halve(self._extent.rungs, self._field.running, self._measure)
        if rungs and not rungs[-1].ranking:
            raise UserError("every candidate diverged; try a smaller learning rate or fewer local steps")
        steps = self._question.base.training.local_steps
        updates = (c.prospects[index].updates[at] for (c, index), at in self._reached.items())
        return Finding(
            self._question,
            self._field,
            self._extent,
            rungs,
            self._readings,
            {c: tuple(self._curves.get((c, s), ()) for s in self._seeds) for c in self._field.running},
            steps * sum(updates),  # a pilot that diverged counts up to its rung
            steps * sum(self._field.grid_updates[: len(self._seeds)]),
        )

    def _measure(self, sixteenths: int, candidates: Sequence[Candidate]) -> dict[Candidate, Score | None]:
        slot = rung_slot(self._question.base.deadline, sixteenths)
        self._observer.rung_started(slot, [candidate.label for candidate in candidates])
        for index in range(len(self._seeds)):  # seeds outside: the task is built once for each
            self._train(index, sixteenths, candidates)
        return {candidate: self._score(candidate, sixteenths, slot) for candidate in candidates}

    def _train(self, index: int, sixteenths: int, candidates: Sequence[Candidate]) -> None:
        """Train the pilots of one seed up to a rung, where that can change how a candidate is judged."""
        seed, settled = self._seeds[index], self._question.metric.settled
        wanted = {}
        for candidate in candidates:
            if candidate not in self._diverged and not settled(self._curves.get((candidate, seed), ())):
                prospect, run = candidate.prospects[index], self._question.pilot(candidate, seed)
                wanted[candidate] = Job(run, prospect.updates[sixteenths], prospect.rounds[sixteenths])
        missing = [job for candidate, job in wanted.items() if not self._read(candidate, seed, job)]
        executor = SerialExecutor(self._workers, self._make_task)
        failures = run_jobs(self._folder, missing, executor, self._observer) if missing else ()
        for candidate, job in wanted.items():
            self._reached[candidate, index] = sixteenths
            if job in missing and not self._read(candidate, seed, job):
                reasons = [failure.reason for failure in failures if failure.run == job.run]
                raise UserError(f"{job.run.name}: {reasons[0]}") if reasons else Stopped

    def _read(self, candidate: Candidate, seed: int, job: Job) -> bool:
        """Take in the saved curve of a pilot; return whether it is complete up to its rung, or diverged."""
        folder, rounds = self._folder.run(job.run.name), job.until or 0
        if not folder.is_run:
            return False
        if folder.parameters() != job.run.config:
            raise UserError(f"{folder.path}: made with other options; remove it to train it again")
        history, _ = folder.checkpoints.load()
        if history is not None and _is_complete(job.run.config, history, rounds):
            points = tuple(point for point in history.points if point.round <= rounds)
            self._curves[candidate, seed] = points
            return True
        if folder.status == "diverged":
            self._diverged.add(candidate)
            return True
        return False

    def _score(self, candidate: Candidate, sixteenths: int, slot: int) -> Score | None:
        if candidate in self._diverged:
            return None
        question = self._question
        readings = tuple(
            question.metric.read(question.pilot(candidate, seed).config, self._curves[candidate, seed], slot)
            for seed in self._seeds
        )
        self._readings[candidate, sixteenths] = readings
        return question.metric.score(readings)


def _is_complete(config: RunConfig, history: History, rounds: int) -> bool:
    """Return whether a checkpoint has all rounds, and all evaluations that are due by then."""
    due = evaluation_rounds(config.simulate(), config.slots_between_evaluations)
    there = {point.round for point in history.points}
    return history.rounds >= rounds and {number for number in due if number <= rounds} <= there
