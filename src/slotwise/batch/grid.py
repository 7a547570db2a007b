"""The question `slotwise sweep` is asked: a TOML file of options, any of them a list, and seeds.

Every combination of the lists is a point, once with each seed. Points that are the same training, such as
intentional delay that comes out as 0 and the asynchronous schedule, share a run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from slotwise.batch.axes import Axis, beside, combination_name, folder_names, split_axes
from slotwise.batch.compare_file import checked_seeds
from slotwise.batch.facts import facts
from slotwise.batch.job import Run, as_trained
from slotwise.errors import InputError, UserError
from slotwise.files import load_toml
from slotwise.learning.local_sgd import LocalSgd
from slotwise.runs import RunConfig
from slotwise.runs.config import SHORTHANDS, refuse_unknown
from slotwise.runs.tasks import check_task

MOST_POINTS = 100_000


@dataclass(frozen=True)
class GridPoint:
    """One combination with one seed: its value on each axis, and the run that trains it."""

    values: tuple[Any, ...]
    seed: int
    run: Run


@dataclass(frozen=True)
class LeftOut:
    """Combinations that cannot be: how many points they are, and what is wrong with the first."""

    points: int
    reason: str


@dataclass(frozen=True)
class Sweep:
    """A whole grid."""

    axes: tuple[Axis, ...]
    seeds: tuple[int, ...]
    points: tuple[GridPoint, ...]
    left_out: LeftOut | None = None

    @property
    def runs(self) -> tuple[Run, ...]:
        """What has to be trained, each once."""
        return tuple(dict.fromkeys(point.run for point in self.points))


def read_sweep(path: Path) -> Sweep:
    """What a file asks for, every schedule tried out.

    Raises:
        UserError: one line that names the file and the key or the combination, and says what is allowed.
    """
    document = load_toml(path)
    try:
        return _sweep(path, document)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def _sweep(path: Path, document: dict[str, Any]) -> Sweep:
    options = {name.replace("-", "_"): value for name, value in document.items()}
    seeds = _seeds(options.pop("seeds", [0]))
    skip = options.pop("skip_impossible", False)
    if not isinstance(skip, bool):
        raise InputError("skip-impossible", skip, "true or false")
    if "seed" in options:
        raise InputError("seed", options["seed"], "left out: seeds says which")
    refuse_unknown({name: value for name, value in options.items() if name not in SHORTHANDS})
    common, axes = split_axes(options)
    count = len(seeds) * prod(len(axis.values) for axis in axes)
    if count > MOST_POINTS:
        raise UserError(f"{count:,} points: must be at most {MOST_POINTS:,}")
    points, left_out = _possible(_Expansion(path, common, axes, seeds), skip=skip)
    return Sweep(axes, tuple(seeds), _with_runs(axes, points), left_out)


def _seeds(value: Any) -> list[int]:
    seeds = checked_seeds(value)
    for seed in seeds:
        LocalSgd(seed=seed)
    return seeds


@dataclass(frozen=True)
class _Expansion:
    """A grid before it is known which of its combinations can be."""

    path: Path
    common: Mapping[str, Any]
    axes: tuple[Axis, ...]
    seeds: Sequence[int]

    def combinations(self) -> Iterator[tuple[tuple[Any, ...], int]]:
        """The values of each point, and its seed."""
        return (
            (values, seed) for values in product(*(axis.values for axis in self.axes)) for seed in self.seeds
        )

    def parameters(self, values: Sequence[Any], seed: int) -> RunConfig:
        """Of a point, its schedule and network tried out."""
        own = {axis.name: value for axis, value in zip(self.axes, values, strict=True)}
        options = {name: beside(self.path, name, value) for name, value in {**self.common, **own}.items()}
        parameters = RunConfig.from_options({**options, "seed": seed})
        facts(parameters)
        check_task(parameters)
        return parameters


@dataclass(frozen=True)
class _Possible:
    values: tuple[Any, ...]
    seed: int
    parameters: RunConfig


def _possible(expansion: _Expansion, *, skip: bool) -> tuple[list[_Possible], LeftOut | None]:
    """The points that can be; the first that cannot is refused, unless such are skipped."""
    points, impossible = [], []
    for values, seed in expansion.combinations():
        try:
            points.append(_Possible(values, seed, expansion.parameters(values, seed)))
        except InputError as error:
            impossible.append((combination_name(expansion.axes, values), error))
    if not impossible:
        return points, None
    name, mistake = impossible[0]
    reason = f"{name}: {mistake}" if name else str(mistake)
    if not points:
        raise UserError(f"no combination can be; the first is {reason}" if name else reason)
    if not skip:
        raise UserError(f"{reason} (skip-impossible = true leaves out what cannot be)")
    return points, LeftOut(len(impossible), reason)


def _with_runs(axes: Sequence[Axis], points: Sequence[_Possible]) -> tuple[GridPoint, ...]:
    """Each point with its run; a training is named after the first point that needs it."""
    names = folder_names(
        [_point_name(axes, point) for point in points],
        [json.dumps([point.values, point.seed]) for point in points],
    )
    runs: dict[RunConfig, Run] = {}
    result = []
    for name, point in zip(names, points, strict=True):
        trained = as_trained(point.parameters)
        run = runs.setdefault(trained, Run(name, trained))
        result.append(GridPoint(point.values, point.seed, run))
    return tuple(result)


def _point_name(axes: Sequence[Axis], point: _Possible) -> str:
    combination = combination_name(axes, point.values)
    return f"{combination},seed={point.seed}" if combination else f"seed={point.seed}"
