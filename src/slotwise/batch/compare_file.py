"""The question `slotwise compare` is asked: a TOML file of runs, what they have in common, and seeds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from slotwise.batch.job import Run
from slotwise.costs import Powers
from slotwise.errors import InputError, UserError
from slotwise.files import load_toml
from slotwise.runs import RunConfig
from slotwise.runs.config import toml_options
from slotwise.runs.tasks import check_task
from slotwise.scenario import whole

NAME = "at most 60 letters, digits, dots, dashes and underscores, a letter or digit first"


@dataclass(frozen=True)
class Entry:
    """One thing compared: a name, and the same run with each seed."""

    name: str
    runs: tuple[Run, ...]


@dataclass(frozen=True)
class Comparison:
    """Everything that is compared, and what a slot of the devices costs, if that is known."""

    entries: tuple[Entry, ...]
    powers: Powers | None = None

    @property
    def runs(self) -> tuple[Run, ...]:
        """All trainings, in the order of the file; all entries with the first seed come first."""
        return tuple(
            run for runs in zip(*(entry.runs for entry in self.entries), strict=True) for run in runs
        )


def read_comparison(path: Path) -> Comparison:
    """What a file asks for, every schedule tried out.

    Raises:
        UserError: one line that names the file, the run and the key, and says what is allowed.
    """
    document = load_toml(path)
    try:
        return _comparison(path, document)
    except InputError as error:
        raise UserError(f"{path}: {error}") from None


def _comparison(path: Path, document: dict[str, Any]) -> Comparison:
    tables, seeds = document.pop("run", None), document.pop("seeds", [0])
    powers = powers_of(path, document.pop("powers", None))
    common = toml_options(path, document)
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise UserError(f"{path}: run: must be given as one or several [[run]] tables, each with a name")
    entries: list[Entry] = []
    for number, table in enumerate(tables, start=1):
        name = _name(path, number, table.pop("name", None), [entry.name for entry in entries])
        options = {**common, **toml_options(path, table)}
        entries.append(Entry(name, tuple(_runs(path, name, options, checked_seeds(seeds)))))
    return Comparison(tuple(entries), powers)


def checked_seeds(seeds: Any) -> list[int]:
    """Different whole numbers, at least one."""
    allowed = "a list of different whole numbers, at least one"
    if not isinstance(seeds, list) or not seeds:
        raise InputError("seeds", seeds, allowed)
    for seed in seeds:
        whole("seeds", seed, smallest=0)
    if len(set(seeds)) < len(seeds):
        raise InputError("seeds", seeds, allowed)
    return seeds


def _name(path: Path, number: int, name: Any, before: Sequence[str]) -> str:
    if name is None:
        raise UserError(f"{path}: run number {number}: name: missing: must be given")
    if not isinstance(name, str) or not re.fullmatch("[A-Za-z0-9][A-Za-z0-9._-]{0,59}", name):
        raise UserError(f"{path}: run number {number}: name = {str(name)[:60]!r}: must be {NAME}")
    if name in before:
        raise UserError(f"{path}: run number {number}: name = {name}: is there twice; names must differ")
    return name


def _runs(path: Path, name: str, options: Mapping[str, Any], seeds: Sequence[int]) -> list[Run]:
    try:
        if "seed" in options:
            raise InputError("seed", options["seed"], "left out: seeds says which, for all runs")
        return [_run(name, {**options, "seed": seed}) for seed in seeds]
    except UserError as error:
        raise UserError(f"{path}: run {name}: {error}") from None


def _run(name: str, options: Mapping[str, Any]) -> Run:
    parameters = RunConfig.from_options(options)
    parameters.simulate()
    check_task(parameters)
    return Run(f"{name}-seed{parameters.seed}", parameters)


def powers_of(path: Path, table: Any) -> Powers | None:
    """The watts in a file's table of powers, if it has one."""
    if table is None:
        return None
    if not isinstance(table, dict):
        raise UserError(f"{path}: powers: must be a table of watts")
    known = [field.name for field in fields(Powers)]
    given = {name.replace("-", "_"): value for name, value in table.items()}
    for name in given:
        if name not in known:
            raise UserError(f"{path}: powers: unknown key {name}: allowed are {', '.join(known)}")
    for name in ("computing", "sending", "receiving"):
        if name not in given:
            raise UserError(f"{path}: powers: {name}: missing: must be given, in watts")
    try:
        return Powers(**given)
    except InputError as error:
        raise UserError(f"{path}: powers: {error}") from None
