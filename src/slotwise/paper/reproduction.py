"""`reproduce`: train the paper's experiments in a folder, resume what is unfinished, write the report.

reproduction.json records the requested experiments, seeds and deadline of each study; runs/ has a run folder
for each training; report.html and figures/ are made from them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slotwise.batch.job import Run
from slotwise.batch.results_folder import ResultsFolder
from slotwise.batch.training import Failure, JobsWatcher, can_train, train_jobs, unfinished
from slotwise.energy import Powers
from slotwise.errors import InputError, UserError
from slotwise.files import write_atomically
from slotwise.paper.experiments import PAPER, QUICK, Experiment, all_runs, selected
from slotwise.scenario import whole

FORMAT = 1


@dataclass(frozen=True)
class Request:
    """The requested part of one study.

    Attributes:
        deadline: slots of every run; None leaves each experiment its own.
        seeds: number of seeds, counted from 0.
        experiments: names of the experiments.
    """

    deadline: int | None
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
        """Return a whole study, requested or not: the paper's, if the quick look does not have it."""
        offered = QUICK if self.quick and any(e.study == name for e in QUICK) else PAPER
        return tuple(self._at_deadline(experiment) for experiment in offered if experiment.study == name)

    def seeds(self, study: str) -> range:
        """Return the seeds of a study."""
        request = self.requests.get(study)
        return range(request.seeds if request else 1)

    def runs(self) -> tuple[Run, ...]:
        """Return every training requested so far, study after study."""
        experiments = self.experiments()
        return tuple(
            run
            for study in self.requests
            for run in all_runs([e for e in experiments if e.study == study], self.seeds(study))
        )

    def _at_deadline(self, experiment: Experiment) -> Experiment:
        request = self.requests.get(experiment.study)
        if request is None or request.deadline is None:
            return experiment
        return experiment.with_deadline(request.deadline)

    def as_dict(self) -> dict[str, Any]:
        """Return the manifest as JSON has it."""
        requests = {study: vars(request) for study, request in self.requests.items()}
        return {"format": FORMAT, "made_by": "slotwise reproduce", "quick": self.quick, "studies": requests}


class ReproductionFolder(ResultsFolder):
    """A folder made by `reproduce`, or about to be."""

    maker = "slotwise reproduce"
    manifest_name = "reproduction.json"

    def manifest(self) -> Manifest | None:
        """Return what the folder was made for; None if it is new or empty.

        Raises:
            UserError: it holds something else, or is damaged.
        """
        return None if self.is_new else self._read()

    def request(self, quick: bool, requests: Mapping[str, Request]) -> Manifest:
        """Add requests to the manifest; refuse those that would mix results of different settings."""
        before = self.manifest() or Manifest(quick)
        self._refuse_mixture(before, quick, requests)
        joined = dict(before.requests)
        for study, request in requests.items():
            joined[study] = joined[study].joined(request) if study in joined else request
        manifest = Manifest(quick, joined)
        self.make()
        write_atomically(self.manifest_path, json.dumps(manifest.as_dict(), indent=2) + "\n")
        return manifest

    def _read(self) -> Manifest:
        try:
            document = json.loads(self.manifest_path.read_text(encoding="utf-8"))
            if document["format"] != FORMAT:
                raise UserError(
                    f"{self.manifest_path}: format {document['format']}, this slotwise reads {FORMAT}"
                )
            return Manifest(
                bool(document["quick"]),
                {study: _request(**request) for study, request in document["studies"].items()},
            )
        except OSError as error:
            raise UserError(f"{self.manifest_path}: {error.strerror}") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise UserError(
                f"{self.manifest_path}: damaged; it must be the JSON that slotwise reproduce wrote"
            ) from None

    def _refuse_mixture(self, before: Manifest, quick: bool, requests: Mapping[str, Request]) -> None:
        if before.quick != quick:
            raise InputError("out", self.path, f"another folder: this one was made with quick={before.quick}")
        for study, request in requests.items():
            known = before.requests.get(study)
            if known and known.deadline != request.deadline:
                made = f"the deadline {known.deadline}" if known.deadline else "the paper's deadline"
                raise InputError("out", self.path, f"another folder: its {study} runs have {made}")


def _request(deadline: int | None, seeds: int, experiments: list[str]) -> Request:
    return Request(deadline, seeds, tuple(experiments))


@dataclass(frozen=True)
class Reproduction:
    """What `reproduce` made.

    Attributes:
        path: the folder.
        report: path of report.html.
        failures: runs that diverged or failed.
        skipped: runs whose data set is not on this machine.
        stopped: whether the observer asked to stop; the same call resumes.
    """

    path: Path
    report: Path
    failures: tuple[Failure, ...] = ()
    skipped: tuple[Run, ...] = ()
    stopped: bool = False


def reproduce(
    out: Path | str,
    experiments: Sequence[str] = ("all",),
    *,
    quick: bool = False,
    seeds: int = 1,
    deadline: int | None = None,
    workers: int | None = None,
    powers: Powers | None = None,
    observer: JobsWatcher | None = None,
) -> Reproduction:
    """Train the experiments that are not finished and write the report.

    Args:
        out: Folder of runs/, figures/ and report.html; created, or resumed.
        experiments: Names of experiments or studies; ``all`` are all of them.
        quick: Four group sizes and 3000 slots on MNIST instead of the paper's runs.
        seeds: Number of seeds, from 0; several give a mean and a band.
        deadline: T, slots of every run. Default: the paper's.
        workers: Parallel local trainings. Default: all cores. The result is the same.
        powers: Watts of a device; the report has joules then.
        observer: Callbacks.

    Raises:
        InputError: a parameter is out of its range, or the folder was made with others.
    """
    whole("seeds", seeds)
    threads = len(os.sched_getaffinity(0)) if workers is None else whole("workers", workers)
    chosen = selected(QUICK if quick else PAPER, experiments)
    if deadline is not None:
        chosen = _with_deadline(chosen, whole("deadline", deadline))
    watch, folder = observer or JobsWatcher(), ReproductionFolder(Path(out))
    with folder.locked():
        manifest = folder.request(quick, _requests(chosen, deadline, seeds))
        runs = all_runs(chosen, range(seeds))
        jobs = unfinished(folder, filter(can_train, runs))
        failures = train_jobs(folder, jobs, workers=threads, watcher=watch)
        stopped = watch.wants_stop()

        from slotwise.paper.report_page import write_report  # noqa: PLC0415  (plotting is slow to import)

        report = write_report(folder.path, manifest, failures, figure_files=not stopped, powers=powers)
    skipped = tuple(run for run in runs if not can_train(run))
    return Reproduction(folder.path, report, failures, skipped, stopped)


def _with_deadline(experiments: Iterable[Experiment], deadline: int) -> tuple[Experiment, ...]:
    """Return the experiments with a deadline by which every run completes a round.

    Raises:
        InputError: some run would have no round.
    """
    chosen = tuple(experiment.with_deadline(deadline) for experiment in experiments)
    channels = [run.parameters.channel for run in all_runs(chosen, [0])]
    needed = max((one.compute_slots + one.communication_slots for one in channels), default=1)
    if deadline < needed:
        raise InputError("deadline", deadline, f"at least {needed}, the slots of the longest first round")
    return chosen


def _requests(chosen: Iterable[Experiment], deadline: int | None, seeds: int) -> dict[str, Request]:
    """Return the request for each study; table and timeline, which train nothing, have no deadline."""
    requests: dict[str, Request] = {}
    for experiment in chosen:
        slots = None if experiment.study == "schedule" else deadline
        request = Request(slots, seeds, (experiment.name,))
        known = requests.get(experiment.study)
        requests[experiment.study] = known.joined(request) if known else request
    return requests
