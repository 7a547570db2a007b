"""`reproduce`: train the paper's experiments in a folder, resume what is unfinished, write the report.

reproduction.json records the requested experiments, seeds and deadline of each study; runs/ has a run folder
for each training; report.html and figures/ are made from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slotwise.base.errors import InputError
from slotwise.base.extras import require
from slotwise.base.observer import BaseObserver
from slotwise.batch.batch_folder import BatchFolder
from slotwise.batch.executors import ProcessExecutor
from slotwise.batch.job import Failure, Run, distinct
from slotwise.batch.jobs import can_train, run_jobs, unfinished
from slotwise.batch.specification import MOST_SEEDS
from slotwise.options.checks import LARGEST, whole
from slotwise.paper.experiments import (
    PAPER,
    QUICK,
    QUICK_SEEDS,
    Experiment,
    all_runs,
    known_names,
    selected,
)
from slotwise.runs.device_data import refuse_mixed_data
from slotwise.schedule.costs import Powers

LONGEST_BEGINNING = min(experiment.deadline for experiment in selected(PAPER, ["mnist"]))


@dataclass(frozen=True)
class Request:
    """The requested part of one study: number of seeds, and names of experiments."""

    deadline: int | None  # slots of every run; None leaves each experiment its own
    seeds: int
    experiments: tuple[str, ...]

    def joined(self, later: Request) -> Request:
        """Return both requests as one; their deadlines are the same."""
        names = tuple(dict.fromkeys((*self.experiments, *later.experiments)))
        return Request(self.deadline, max(self.seeds, later.seeds), names)


@dataclass(frozen=True)
class Manifest:
    """The content of reproduction.json: quick experiments or the paper's, and the request for each study."""

    quick: bool
    requests: Mapping[str, Request] = field(default_factory=dict)

    def experiments(self) -> tuple[Experiment, ...]:
        """Return everything requested so far, with its deadline."""
        return tuple(
            self._at_deadline(experiment)
            for experiment in (QUICK if self.quick else PAPER)
            if (request := self.requests.get(experiment.study)) and experiment.name in request.experiments
        )

    def study(self, name: str) -> tuple[Experiment, ...]:
        """Return a whole study of the paper, requested or not."""
        return tuple(self._at_deadline(experiment) for experiment in PAPER if experiment.study == name)

    def seeds(self, study: str) -> Sequence[int]:
        """Return the seeds of a study."""
        request = self.requests.get(study)
        return seeds_of(self.quick, request.seeds if request else 1)

    def runs(self) -> tuple[Run, ...]:
        """Return every training requested so far once, study after study."""
        studies = {study: [e for e in self.experiments() if e.study == study] for study in self.requests}
        return distinct(run for study, found in studies.items() for run in all_runs(found, self.seeds(study)))

    def _at_deadline(self, experiment: Experiment) -> Experiment:
        request = self.requests.get(experiment.study)
        return experiment.with_deadline(request.deadline) if request and request.deadline else experiment

    def document(self) -> dict[str, Any]:
        """Return the manifest as it is written."""
        return {
            "quick": self.quick,
            "studies": {study: vars(request) for study, request in self.requests.items()},
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Manifest:
        """Return the manifest that was written."""
        requests = {
            study: Request(**{**known, "experiments": tuple(known["experiments"])})
            for study, known in document["studies"].items()
        }
        return cls(bool(document["quick"]), requests)

    def write(self, folder: BatchFolder) -> None:
        """Write the manifest of a folder."""
        folder.write_manifest(self.document())

    @classmethod
    def read(cls, folder: BatchFolder) -> Manifest:
        """Read the manifest of a folder; a UserError if it is missing or damaged."""
        document = folder.read_manifest()
        with folder.reading_manifest():
            return cls.from_document(document)


def seeds_of(quick: bool, number: int) -> Sequence[int]:
    """Return so many seeds, from 0; for a quick look, of the published ones."""
    return QUICK_SEEDS[:number] if quick else range(number)


def reproduction_folder(path: Path) -> BatchFolder:
    """Return the folder of a reproduction."""
    return BatchFolder(path, "slotwise reproduce", "reproduction.json")


def add_requests(folder: BatchFolder, quick: bool, requests: Mapping[str, Request]) -> Manifest:
    """Return the manifest of a folder with more requests; refuse them if its runs have other settings."""
    before = Manifest(quick) if folder.is_new else Manifest.read(folder)
    if before.quick != quick:
        made = "is a quick look" if before.quick else "has runs of full length"
        raise InputError("out", folder.path, f"another folder: this one {made}")
    joined = dict(before.requests)
    for study, request in requests.items():
        known = joined.get(study, request)
        if known.deadline != request.deadline:
            found = f"deadline {known.deadline}" if known.deadline else "the paper's deadline"
            raise InputError("out", folder.path, f"another folder: its {study} runs have {found}")
        joined[study] = known.joined(request)
    return Manifest(quick, joined)


@dataclass(frozen=True)
class Reproduction:
    """The result of `reproduce`."""

    path: Path
    report: Path
    failures: tuple[Failure, ...] = ()  # runs that diverged or failed
    skipped: tuple[Run, ...] = ()  # runs whose data set is not on this machine
    stopped: bool = False  # the observer asked to stop; the same call resumes


def reproduce(
    out: Path | str,
    experiments: Sequence[str] = ("all",),
    *,
    quick: bool = False,
    seeds: int = 1,
    deadline: int | None = None,
    workers: int | None = None,
    powers: Powers | None = None,
    observer: BaseObserver | None = None,
) -> Reproduction:
    """Train the experiments that are not finished and write the report.

    Args:
        out: Folder of runs/, figures/ and report.html; created, or resumed.
        experiments: Names of experiments or studies; ``all`` are all of them.
        quick: Train the beginnings of published runs and compare them; the page shows the published runs.
        seeds: Number of seeds, from 0; several give a mean and a band. Up to 3 for a quick look.
        deadline: T, slots of every run. Default: the paper's, 20,000 for variants of CIFAR-10, and 5,000 for
            a quick look.
        workers: Parallel local trainings over all runs. Default: all cores. The result is the same.
        powers: Watts of a device; the report has joules then.
        observer: Callbacks.

    Raises:
        InputError: a parameter is out of its range, or the folder was made with others.
    """
    require("numba", "matplotlib", "plotly")  # for trainings, figures and the page
    whole("seeds", seeds, largest=len(QUICK_SEEDS) if quick else MOST_SEEDS)
    executor = ProcessExecutor(workers)
    if quick:
        _refuse_full_length(experiments)
    chosen = selected(QUICK if quick else PAPER, experiments)
    if deadline is not None:
        chosen = _with_deadline(chosen, deadline, LONGEST_BEGINNING if quick else LARGEST)
    requests: dict[str, Request] = {}
    for experiment in chosen:  # table and timeline, which train nothing, have no deadline
        slots = None if experiment.study == "schedule" else deadline
        request = Request(slots, seeds, (experiment.name,))
        requests[experiment.study] = requests.get(experiment.study, request).joined(request)
    observer, folder = BaseObserver.of(observer), reproduction_folder(Path(out))
    with folder.locked():
        manifest = add_requests(folder, quick, requests)
        runs = all_runs(chosen, seeds_of(quick, seeds))
        trainable = [run for run in runs if can_train(run)]
        jobs = unfinished(folder, trainable, combined_with=manifest.runs())
        manifest.write(folder)
        finished = len(trainable) - len(jobs)
        failures = run_jobs(folder, jobs, executor, observer, finished=finished)
        refuse_mixed_data(folder.data_uses(run.name for run in manifest.runs()))
        stopped = observer.wants_stop()

        from slotwise.paper.report_page import write_report  # noqa: PLC0415  (plotting is slow to import)

        report = write_report(folder.path, manifest, failures, figure_files=not stopped, powers=powers)
    skipped = tuple(run for run in runs if run not in trainable)
    return Reproduction(folder.path, report, failures, skipped, stopped)


def _refuse_full_length(experiments: Sequence[str]) -> None:
    """Raise an InputError for an experiment that a quick look does not have."""
    short = known_names(QUICK)
    for name in experiments:
        if name in known_names(PAPER) and name not in short:
            allowed = f"omitted with --quick, which has {', '.join(short)} only"
            raise InputError("experiments", name, allowed)


def _with_deadline(experiments: Iterable[Experiment], deadline: int, longest: int) -> tuple[Experiment, ...]:
    """Return the experiments with another deadline; an InputError if some run has no round in it."""
    whole("deadline", deadline, largest=longest)
    shortened = tuple(experiment.with_deadline(deadline) for experiment in experiments)
    channels = [run.config.channel for run in all_runs(shortened, [0])]
    needed = max((one.compute_slots + one.communication_slots for one in channels), default=1)
    if deadline < needed:
        raise InputError("deadline", deadline, f"at least {needed}, the slots of the longest first round")
    return shortened
