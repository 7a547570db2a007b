"""ReproductionFolder: where the results of the experiments are kept, and what it was made with.

reproduction.json says which experiments were asked for, with how many seeds and slots; runs/ holds a run
folder for each training; report.html and figures/ are made from them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slotwise.batch.results_folder import ResultsFolder
from slotwise.errors import InputError, UserError
from slotwise.files import write_atomically
from slotwise.paper.catalogue import PAPER, QUICK, Experiment, with_deadline

FORMAT = 1


@dataclass(frozen=True)
class Request:
    """What was asked for of one study.

    Attributes:
        deadline: slots of every run; None leaves each experiment its own.
        seeds: how many, from 0.
        experiments: which of the study, by name.
    """

    deadline: int | None
    seeds: int
    experiments: tuple[str, ...]

    def joined(self, later: Request) -> Request:
        """Both requests in one; their deadlines are the same."""
        names = tuple(dict.fromkeys((*self.experiments, *later.experiments)))
        return Request(self.deadline, max(self.seeds, later.seeds), names)


@dataclass(frozen=True)
class Manifest:
    """reproduction.json: whether the experiments are the quick ones, and what was asked for of each study."""

    quick: bool
    requests: Mapping[str, Request] = field(default_factory=dict)

    def experiments(self) -> tuple[Experiment, ...]:
        """Everything asked for so far, with its deadline."""
        return tuple(
            self._at_deadline(experiment)
            for experiment in (QUICK if self.quick else PAPER)
            if (request := self.requests.get(experiment.study)) and experiment.name in request.experiments
        )

    def study(self, name: str) -> tuple[Experiment, ...]:
        """A whole study, asked for or not; the quick look has no CIFAR-10, so there it is the paper's."""
        offered = QUICK if self.quick and any(e.study == name for e in QUICK) else PAPER
        return tuple(self._at_deadline(experiment) for experiment in offered if experiment.study == name)

    def seeds(self, study: str) -> range:
        """The seeds of a study."""
        request = self.requests.get(study)
        return range(request.seeds if request else 1)

    def _at_deadline(self, experiment: Experiment) -> Experiment:
        request = self.requests.get(experiment.study)
        if request is None or request.deadline is None:
            return experiment
        return with_deadline(experiment, request.deadline)

    def as_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        requests = {study: vars(request) for study, request in self.requests.items()}
        return {"format": FORMAT, "made_by": "slotwise reproduce", "quick": self.quick, "studies": requests}


class ReproductionFolder(ResultsFolder):
    """A folder that `slotwise reproduce` made or is about to make."""

    maker = "slotwise reproduce"
    manifest_name = "reproduction.json"

    def manifest(self) -> Manifest | None:
        """What the folder was made with; None if it is new or empty.

        Raises:
            UserError: it is something else, or damaged.
        """
        return None if self.is_new else self._read()

    def ask(self, quick: bool, requests: Mapping[str, Request]) -> Manifest:
        """Add to what is asked for; refuse what would mix results of different settings."""
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
            made = "with --quick" if before.quick else "without --quick"
            raise InputError("out", self.path, f"another folder: this one was made {made}")
        for study, request in requests.items():
            known = before.requests.get(study)
            if known and known.deadline != request.deadline:
                made = f"with --deadline {known.deadline}" if known.deadline else "with the paper's deadline"
                raise InputError("out", self.path, f"another folder: its {study} runs were made {made}")


def _request(deadline: int | None, seeds: int, experiments: list[str]) -> Request:
    return Request(deadline, seeds, tuple(experiments))
