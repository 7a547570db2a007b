"""SweepFolder: where the points of a sweep are kept, and which sweep it is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from slotwise.batch.axes import Axis
from slotwise.batch.grid import Sweep
from slotwise.batch.job import Run
from slotwise.batch.results_folder import ResultsFolder
from slotwise.errors import InputError, UserError
from slotwise.files import write_atomically

FORMAT = 1


@dataclass(frozen=True)
class ListedPoint:
    """A point as sweep.json has it: its value on each axis, its seed, and the name of its run's folder."""

    values: tuple[Any, ...]
    seed: int
    run: str


@dataclass(frozen=True)
class Manifest:
    """sweep.json: everything that has to be known of a sweep without the file it was asked with.

    Attributes:
        axes: with their values.
        seeds: of every combination.
        digest: of the parameters of all runs.
        points: in the order of the grid.
    """

    axes: tuple[Axis, ...]
    seeds: tuple[int, ...]
    digest: str
    points: tuple[ListedPoint, ...]

    @classmethod
    def of(cls, sweep: Sweep) -> Manifest:
        """What the folder of a sweep remembers of it."""
        points = tuple(ListedPoint(point.values, point.seed, point.run.name) for point in sweep.points)
        return cls(sweep.axes, sweep.seeds, _digest(sweep.runs), points)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "axes": {axis.name: axis.values for axis in self.axes},
            "seeds": self.seeds,
            "digest": self.digest,
            "points": [[point.values, point.seed, point.run] for point in self.points],
        }


class SweepFolder(ResultsFolder):
    """A folder that `slotwise sweep` made or is about to make."""

    maker = "slotwise sweep"
    manifest_name = "sweep.json"

    @property
    def is_sweep(self) -> bool:
        """Whether there is a sweep here."""
        try:
            return self.manifest_path.is_file()
        except OSError:  # a name too long to be a file's
            return False

    def check(self, sweep: Sweep) -> None:
        """Refuse a folder of somebody else, or of another sweep, before anything is written."""
        if self.is_new:
            return
        there, asked = self.manifest(), Manifest.of(sweep)
        for name, one, other in (
            ("axes", there.axes, asked.axes),
            ("seeds", there.seeds, asked.seeds),
            ("options", (there.digest, there.points), (asked.digest, asked.points)),
        ):
            if _plain(one) != _plain(other):
                raise InputError(
                    "out", self.path, f"another folder: this one holds a sweep with other {name}"
                )

    def begin(self, sweep: Sweep) -> None:
        """Write down which sweep it is; nothing changes if that was done before."""
        self.check(sweep)
        if self.is_new:
            document = {"format": FORMAT, "made_by": self.maker, **Manifest.of(sweep).as_dict()}
            write_atomically(self.manifest_path, json.dumps(document) + "\n")

    def manifest(self) -> Manifest:
        """Which sweep it is.

        Raises:
            UserError: there is none, or it is damaged.
        """
        try:
            document = json.loads(self.manifest_path.read_text(encoding="utf-8"))
            if document["format"] != FORMAT:
                raise UserError(
                    f"{self.manifest_path}: format {document['format']}, this slotwise reads {FORMAT}"
                )
            return _manifest(document)
        except OSError as error:
            raise UserError(f"{self.manifest_path}: {error.strerror}") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise UserError(
                f"{self.manifest_path}: damaged; it must be the JSON that slotwise sweep wrote"
            ) from None


def _manifest(document: dict[str, Any]) -> Manifest:
    axes = tuple(Axis(name, tuple(values)) for name, values in document["axes"].items())
    points = tuple(
        ListedPoint(tuple(values), int(seed), str(run)) for values, seed, run in document["points"]
    )
    if any(len(point.values) != len(axes) or "/" in point.run for point in points):
        raise ValueError
    return Manifest(axes, tuple(map(int, document["seeds"])), str(document["digest"]), points)


def _plain(value: Any) -> Any:
    """As JSON gives it back: tuples and lists are the same there."""
    return json.loads(json.dumps(value, default=asdict))


def _digest(runs: Sequence[Run]) -> str:
    """What is as it is by default is left out, so that a parameter that is new tomorrow changes nothing."""
    told = [[run.name, run.parameters.changed_options()] for run in runs]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
