"""`recommend`: find the schedule, group size and delay to use for a deadline, and write the answer.

The exact schedule rules candidates out, then pilots on nested deadlines choose among the rest. A pilot is the
beginning of a real run. Its configuration has the whole deadline; it stops at a rung and resumes from there.
So its first rounds are those of the run to the bit, nothing is trained twice, and `slotwise train --resume`
finishes it.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from slotwise.batch.batch_folder import BatchFolder
from slotwise.batch.job import Job
from slotwise.batch.jobs import run_jobs
from slotwise.batch.serial import MakeTask, SerialExecutor, TaskCache
from slotwise.batch.specification import checked_seeds
from slotwise.costs import Powers
from slotwise.data.facts import FOUND_IN_FOLDER
from slotwise.errors import InputError, UserError
from slotwise.files import write_atomically
from slotwise.learning import Point
from slotwise.learning.engine import evaluation_rounds
from slotwise.machine import available_cores
from slotwise.observer import Observer
from slotwise.planning import divisors
from slotwise.recommendation.answer import Finding, Question, Recommendation, common_options
from slotwise.recommendation.candidates import Candidate, rung_slot
from slotwise.recommendation.halving import Score, halve
from slotwise.recommendation.metric import Metric, MetricName, Reading, Target
from slotwise.runs import RunConfig
from slotwise.runs.config import renamed
from slotwise.scenario import whole


class Stopped(Exception):
    """The observer asked to stop; the pilots are saved and the same search resumes them."""


def recommend(
    config: RunConfig,
    *,
    group_sizes: Sequence[int] | None = None,
    metric: MetricName = "loss",
    target: Target | str | None = None,
    seeds: int | Sequence[int] = 3,
    budget: int | None = None,
    powers: Powers | None = None,
    out: Path | str | None = None,
    workers: int | None = None,
    observer: Observer | None = None,
) -> Recommendation:
    """Return which schedule, group size and delay is best for the deadline of a run.

    Args:
        config: The run; its schedule, group size, delay and seed are what is searched.
        group_sizes: Group sizes to choose from. Default: all divisors of N that the aggregation rule allows.
        metric: What is best at the deadline: loss, accuracy or joules-to-target.
        target: For joules-to-target: ``accuracy=0.9`` or ``loss=0.2``.
        seeds: Number of seeds, from 0, or the seeds themselves.
        budget: Most SGD steps of the search. Default: less than a quarter of training every candidate.
        powers: Watts of a device, for joules-to-target.
        out: Folder of the pilots and the answer; created, or resumed. Default: nothing is kept.
        workers: Parallel local trainings. Default: all cores. The result is the same.
        observer: Callbacks.

    Raises:
        InputError: a parameter is out of its range, or the folder has pilots of another run.
        Stopped: the observer asked to stop; the same call resumes.
    """
    sizes = _group_sizes(config, group_sizes)
    question = Question(
        config.with_options(schedule="sync", delay="auto", group_size=sizes[0], seed=0),
        sizes,
        tuple(range(whole("seeds", seeds)) if isinstance(seeds, int) else checked_seeds(seeds)),
        Metric(metric, Target.parse(target) if isinstance(target, str) else target, powers),
        None if budget is None else whole("budget", budget),
    )
    threads = available_cores() if workers is None else whole("workers", workers)
    with tempfile.TemporaryDirectory() if out is None else nullcontext(out) as place:
        path = Path(place)
        folder = recommendation_folder(path)
        search = Search(question, folder, workers=threads, observer=observer)
        search.check_task()  # mistakes are reported before a folder is made
        with folder.locked():
            begin(folder, question.pilot_base)
            answer = Recommendation(search.run(), path)
            _write(answer, path)
    return replace(answer, path=None) if out is None else answer


def _group_sizes(base: RunConfig, sizes: Sequence[int] | None) -> tuple[int, ...]:
    """Return the group sizes in ascending order, each once.

    If none are given: all divisors of N that are large enough for the aggregation rule.
    """
    if sizes is None:
        return tuple(size for size in divisors(base.channel.devices) if _is_large_enough(base, size))
    if not sizes:
        raise InputError("group_sizes", list(sizes), "at least one group size")
    for size in sizes:
        if not 1 <= size <= base.channel.devices:
            raise InputError("group_sizes", size, f"from 1 to {base.channel.devices}, the number of devices")
        try:
            base.rule.check_group_size(size)
        except InputError as error:
            if error.parameter != "group_size":
                raise
            raise InputError("group_sizes", size, error.allowed) from None
    return tuple(sorted(set(sizes)))


def _is_large_enough(base: RunConfig, size: int) -> bool:
    try:
        base.rule.check_group_size(size)
    except InputError:
        return False
    return True


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
        """Search to the end; a UserError if every candidate diverged or a pilot failed, or Stopped."""
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
        question, slot = self._question, rung_slot(self._question.base.deadline, sixteenths)
        self._observer.rung_started(slot, [candidate.label for candidate in candidates])
        for index in range(len(self._seeds)):  # seeds outside: the task is built once for each
            self._train(index, sixteenths, candidates)
        scores: dict[Candidate, Score | None] = dict.fromkeys(candidates)
        for candidate in (one for one in candidates if one not in self._diverged):
            pilots = {seed: question.pilot(candidate, seed).config for seed in self._seeds}
            readings = tuple(
                question.metric.read(config, self._curves[candidate, seed], slot)
                for seed, config in pilots.items()
            )
            self._readings[candidate, sixteenths] = readings
            scores[candidate] = question.metric.score(readings)
        return scores

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
        if history is not None and history.rounds >= rounds:
            # It is complete if it has all evaluations that are due by then, too.
            config, points = job.run.config, tuple(p for p in history.points if p.round <= rounds)
            due = evaluation_rounds(config.simulate(), config.slots_between_evaluations)
            if {number for number in due if number <= rounds} <= {point.round for point in points}:
                self._curves[candidate, seed] = points
                return True
        if folder.status == "diverged":
            self._diverged.add(candidate)
            return True
        return False


def recommendation_folder(path: Path) -> BatchFolder:
    """Return the folder of the pilots and the answer."""
    return BatchFolder(path, "slotwise recommend", "recommend.json", "pilots")


def begin(folder: BatchFolder, base: RunConfig) -> None:
    """Create or resume a folder, unless it has pilots of another run.

    Other metrics, seeds, sizes and budgets may share its pilots.
    """
    options = json.loads(json.dumps(common_options(base)))
    if folder.is_new:
        folder.write_manifest({"parameters": options})
        return
    with folder.reading_manifest():
        parameters = renamed(folder.read_manifest()["parameters"])
    for name, value in parameters.items():
        if options.get(name) != value:
            allowed = f"another folder: the pilots of this one have {name} {value}"
            raise InputError("out", folder.path, allowed)


def _write(answer: Recommendation, path: Path) -> None:
    """Write the picture, recommended.toml and, when all else is there, recommendation.json."""
    if answer.finding.rungs:
        from slotwise.recommendation.summary import draw_pilots  # noqa: PLC0415  (plotting is slow to import)

        for kind in ("png", "pdf"):
            write_atomically(path / f"recommendation.{kind}", draw_pilots(answer, kind))
    write_atomically(path / "recommended.toml", toml_of(answer.config))
    write_atomically(path / "recommendation.json", answer.to_json())


def toml_of(config: RunConfig) -> str:
    """Return all options of a run as a TOML file for `slotwise train --config`."""
    lines = []
    unused = {*config.unused(), *(["compute_slots"] if config.fleet.has_own_speeds else [])}
    if config.dataset.data_folder is not None:
        unused |= {*FOUND_IN_FOLDER}
    for name, value in config.options().items():
        if name == "absences":  # TOML has no null
            value = [[part for part in absence if part is not None] for absence in value]  # noqa: PLW2901
        if value is not None and name not in unused:
            lines.append(f"{name.replace('_', '-')} = {json.dumps(value)}")
    return "\n".join(lines) + "\n"
