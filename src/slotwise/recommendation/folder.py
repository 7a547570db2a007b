"""RecommendFolder: the pilots of a search and what came of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from slotwise.batch.results_folder import ResultsFolder
from slotwise.errors import InputError, UserError
from slotwise.files import write_atomically
from slotwise.recommendation.candidates import Candidate
from slotwise.recommendation.question import common_options
from slotwise.runs import RunConfig, RunFolder

FORMAT = 1


class RecommendFolder(ResultsFolder):
    """A folder that `slotwise recommend` made or is about to make; its runs are pilots."""

    maker = "slotwise recommend"
    manifest_name = "recommend.json"

    @property
    def runs(self) -> Path:
        """Where the pilots are."""
        return self.path / "pilots"

    def pilot(self, candidate: Candidate, seed: int) -> RunFolder:
        """Where a candidate is tried with a seed."""
        return self.run(f"{candidate.name}-seed{seed}")

    def begin(self, base: RunConfig) -> None:
        """Make it, or go on with it: other metrics, seeds, sizes and budgets may share its pilots.

        Raises:
            InputError: it is somebody else's, or its pilots are of another run.
        """
        options = json.loads(json.dumps(common_options(base)))
        if self.is_new:
            self.make()
            document = {"format": FORMAT, "made_by": self.maker, "parameters": options}
            write_atomically(self.manifest_path, json.dumps(document, indent=2) + "\n")
            return
        for name, value in self._parameters().items():
            if options.get(name) != value:
                allowed = f"another folder: the pilots of this one have {name} {value}"
                raise InputError("out", self.path, allowed)

    def _parameters(self) -> dict[str, Any]:
        try:
            document = json.loads(self.manifest_path.read_text(encoding="utf-8"))
            if document["format"] != FORMAT:
                found = f"format {document['format']}, this slotwise reads {FORMAT}"
                raise UserError(f"{self.manifest_path}: {found}")
            return dict(document["parameters"])
        except (OSError, ValueError, KeyError, TypeError):
            raise UserError(
                f"{self.manifest_path}: damaged; it must be the JSON that slotwise recommend wrote"
            ) from None
