"""BatchSpec: the runs of a batch, as named cases × axes × seeds.

In a TOML file the options of all runs stand at the top, and each ``[[case]]`` table has a name and options of
its own. An option that is a list is an axis. Every combination of the axes of a case is a point, once with
each seed. Points that are the same training share a run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from slotwise.base.errors import ConflictError, InputError, MissingError, UserError, refuse_unknown_name
from slotwise.base.files import load_toml
from slotwise.batch.axes import Axis, combination_name, folder_names, split_axes
from slotwise.batch.job import Run, as_trained
from slotwise.learning.local_training import LocalTraining
from slotwise.options import declared, rivals, spread
from slotwise.options.checks import option_names, whole
from slotwise.options.user_function import OWN_OPTIONS
from slotwise.radio import RadioOptions
from slotwise.runs import RunConfig
from slotwise.runs.execution import check_task
from slotwise.runs.run_timeline import schedule_timeline
from slotwise.runs.toml_options import in_words_of, toml_options
from slotwise.schedule.costs import Powers
from slotwise.setting.slot_duration import powers_of_run

MOST_POINTS = 100_000
MOST_SEEDS = 1_000  # given as a number
CASE_NAME = "at most 60 letters, digits, dots, dashes and underscores, a letter or digit first"
# A wrong name is a mistake, and no combination that may be skipped.
NAMES = {"schedule", "selection", "aggregation"}
Options = Mapping[str, Any]


class BatchPoint(NamedTuple):
    """One combination of a case with one seed: its value on each axis of the batch, and its run."""

    case: str
    values: tuple[Any, ...]
    seed: int
    run: Run


class Skipped(NamedTuple):
    """Impossible combinations: the number of points, and the reason of the first."""

    points: int
    reason: str


@dataclass(frozen=True)
class BatchSpec:
    """A batch of runs; made by `of` or `read`.

    The axes are all options that have several values, in one case or in different cases.
    """

    axes: tuple[Axis, ...]
    points: tuple[BatchPoint, ...]  # in the order of the specification
    powers: Powers | None = None  # of a device, if joules are wanted
    skipped: Skipped | None = None

    @property
    def runs(self) -> tuple[Run, ...]:
        """The trainings, each once."""
        return tuple(dict.fromkeys(point.run for point in self.points))

    @classmethod
    def of(
        cls,
        cases: Mapping[str, RunConfig | Options] | None = None,
        *,
        axes: Mapping[str, Sequence[Any]] | None = None,
        seeds: Sequence[int] = (0,),
        powers: Powers | None = None,
        skip_impossible: bool = False,
    ) -> BatchSpec:
        """Build a batch in Python.

        Args:
            cases: Configurations, or tables of options in which a list is an axis, by name. Default: one
                unnamed case, the defaults of `RunConfig`.
            axes: Options with several values, for all cases; a table of a case overrides them.
            seeds: Seeds; every combination is trained once with each.
            powers: Watts of a device; the results have joules then.
            skip_impossible: Skip combinations that cannot be, such as a group larger than the fleet.

        Raises:
            UserError: an option or a combination is not allowed.
        """
        common = {name: list(values) for name, values in (axes or {}).items()}
        split = []
        for name, case in ({"": {}} if cases is None else cases).items():
            options = {} if isinstance(case, RunConfig) else case
            defaults = case.options() if isinstance(case, RunConfig) else None
            split.append(_split_case(name and _case_name(name), {**common, **options}, defaults))
        return _expand(Path(), split, seeds, powers, skip_impossible)

    @classmethod
    def read(cls, path: Path | str) -> BatchSpec:
        """Read a TOML file; every schedule is simulated, so that mistakes are found before any training.

        A mistake is a UserError of one line: the file, the case and the option or combination.
        """
        path = Path(path)
        document = load_toml(path)
        try:
            return _read(path, document)
        except UserError as error:
            # The case is named by a UserError around the mistake. Only the mistake has parameters, which are
            # written as in the file.
            mistake = error.__cause__ if isinstance(error.__cause__, InputError) else error
            text = str(error).replace(str(mistake), in_words_of(path, mistake))
            raise UserError(f"{path}: {text.removeprefix(f'{path}: ')}") from None


def _read(path: Path, document: dict[str, Any]) -> BatchSpec:
    tables, powers = document.pop("case", None), read_powers(document.pop("powers", None))
    common = _toml_table(path, document, ("seeds", "skip_impossible", "case", "powers"))
    seeds, skip = common.pop("seeds", [0]), common.pop("skip_impossible", False)
    if not isinstance(skip, bool):
        raise InputError("skip-impossible", skip, "true or false")
    if tables is None:
        return _expand(path.parent, [_split_case("", common)], seeds, powers, skip)
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise UserError("case: must be one or several [[case]] tables, each with a name")
    cases: dict[str, _Case] = {}
    for number, table in enumerate(tables, start=1):
        try:
            name = _case_name(table.pop("name", None))
            if name in cases:
                raise InputError("name", name, "different from the names of the other cases")
        except InputError as error:
            raise UserError(f"case number {number}: {error}") from error
        own = _toml_table(path, table)
        cases[name] = _split_case(name, _overridden(common, own))
    return _expand(path.parent, [*cases.values()], seeds, powers, skip)


def _overridden(common: Options, own: Options) -> dict[str, Any]:
    """Return the options of a case: one of its own replaces those that say the same thing in another way.

    Parameters of a function of the user's join those at the top, if it is the same function.
    """
    replaced = {option for pair in _alternatives() if pair & own.keys() for option in pair}
    merged = {**{name: value for name, value in common.items() if name not in replaced}, **own}
    for name, value in own.items():
        function = merged.get(name.removesuffix(OWN_OPTIONS))
        is_same = common.get(name.removesuffix(OWN_OPTIONS), function) == function
        if isinstance(value, Mapping) and isinstance(common.get(name), Mapping) and is_same:
            merged[name] = {**common[name], **value}
    return merged


@cache
def _alternatives() -> frozenset[frozenset[str]]:
    """Return pairs of options that say the same thing in different ways, such as the speed of a device."""
    shorthands = {next(iter(declared(kind))): kind.replaces() for kind in RunConfig.shorthands}
    pairs = {frozenset((name, other)) for name, others in shorthands.items() for other in others}
    concerned = frozenset().union(*pairs)
    return frozenset(pairs | {pair for pair in rivals(RunConfig) if pair <= concerned})


def _toml_table(path: Path, table: Options, others: Sequence[str] = ()) -> dict[str, Any]:
    """Return the options of a table; the name of a fleet file stays as it is written, also in results."""
    options = toml_options(path, table, others)
    for name in {"fleet-file", "fleet_file"} & table.keys():
        options["fleet_file"] = table[name]
    return options


def _case_name(name: Any) -> str:
    if name is None:
        raise MissingError("name", CASE_NAME)
    if not isinstance(name, str) or not re.fullmatch("[A-Za-z0-9][A-Za-z0-9._-]{0,59}", name):
        raise InputError("name", str(name)[:60], CASE_NAME)
    return name


def checked_seeds(seeds: Any) -> list[int]:
    """Return the seeds if they are different integers, at least one; raise an InputError otherwise."""
    if not isinstance(seeds, list | tuple | range) or not seeds or len({*map(str, seeds)}) < len(seeds):
        raise InputError("seeds", seeds, "a list of different whole numbers, at least one")
    for seed in seeds:
        whole("seeds", seed, smallest=0)
        LocalTraining(seed=seed)
    return list(seeds)


def read_powers(table: Any) -> Powers | None:
    """Return the powers in a TOML table; None if there is no table."""
    if table is None:
        return None
    if not isinstance(table, dict):
        raise UserError("powers: must be a table of watts")
    for key in table:
        refuse_unknown_name("key of powers", key, option_names(Powers), dashes=True)
    given = {name.replace("-", "_"): value for name, value in table.items()}
    for name in ("computing", "sending", "receiving"):
        if name not in given:
            raise UserError(f"powers: {name}: missing; must be given in watts")
    try:
        return Powers(**given)
    except InputError as error:
        raise UserError(f"powers: {error}") from None


class _Case(NamedTuple):
    """The options of a case with one value, those with several, and where the others come from."""

    name: str
    fixed: dict[str, Any]
    axes: dict[str, tuple[Any, ...]]
    defaults: Options | None  # the paper's case if None


def _split_case(name: str, options: Options, defaults: Options | None = None) -> _Case:
    try:
        if "seed" in options:
            raise ConflictError("seed", "seeds")
        RunConfig.refuse_unknown(options)
        return _Case(name, *split_axes(spread(options)), defaults)
    except UserError as error:
        raise (UserError(f"case {name}: {error}") if name else error) from error


class _Combination(NamedTuple):
    """A combination with a seed, before it is known to be possible."""

    case: _Case
    options: dict[str, Any]
    seed: int

    def value(self, name: str, config: RunConfig) -> Any:
        # The option may be an axis of other cases only.
        return self.options[name] if name in self.options else spread(config.options()).get(name)

    def name(self, axes: Mapping[str, Axis]) -> str:
        """Return the name without the seed, made from the axes of the case."""
        values = [self.options[name] for name in self.case.axes]
        return combination_name(self.case.name, [axes[name] for name in self.case.axes], values)


def _expand(folder: Path, cases: Sequence[_Case], seeds: Any, powers: Powers | None, skip: bool) -> BatchSpec:
    """Return all points; a training that several points share is named after the first of them."""
    numbers = checked_seeds(seeds)
    count = len(numbers) * sum(prod(map(len, case.axes.values())) for case in cases)
    if count > MOST_POINTS:
        raise UserError(f"{count:,} points: must be at most {MOST_POINTS:,}")
    combinations = [
        _Combination(case, {**case.fixed, **dict(zip(case.axes, values, strict=True))}, seed)
        for case in cases
        for values in product(*case.axes.values())
        for seed in numbers
    ]
    names = dict.fromkeys(name for case in cases for name in case.axes)
    possible, skipped = _possible(folder, combinations, names, skip)
    axes = {n: Axis(n, _distinct(one.value(n, config) for one, config in possible)) for n in names}
    plain = [",".join(filter(None, (one.name(axes), f"seed={one.seed}"))) for one, _ in possible]
    identities = [json.dumps([one.case.name, one.options, one.seed], default=str) for one, _ in possible]
    # Keyed by what is trained: points with the same training share the first one's run.
    runs: dict[RunConfig, Run] = {}
    points = []
    for name, (one, config) in zip(folder_names(plain, identities), possible, strict=True):
        trained = as_trained(config)
        run = runs.setdefault(trained, Run(name, trained))
        values = tuple(one.value(axis, config) for axis in axes)
        points.append(BatchPoint(one.case.name, values, one.seed, run))
    return BatchSpec(tuple(axes.values()), tuple(points), powers and _powers(powers, possible), skipped)


def _powers(powers: Powers, possible: Sequence[tuple[_Combination, RunConfig]]) -> Powers:
    """Return powers with the duration of a slot if all runs have the same; if not, each run has its own."""
    found = {powers_of_run(powers, config) for _, config in possible}
    if len(found) == 1:
        return found.pop()
    if any(not isinstance(config.link, RadioOptions) for _, config in possible):
        raise MissingError("slot_seconds", "given, because slots of the runs last differently")
    return powers


def _possible(
    folder: Path, combinations: Sequence[_Combination], names: Iterable[str], skip: bool
) -> tuple[list[tuple[_Combination, RunConfig]], Skipped | None]:
    """Return the combinations whose schedule and network can be; fleet files are relative to ``folder``."""
    possible, impossible = [], []
    for one in combinations:
        options = {**one.options, "seed": one.seed}
        if isinstance(file := options.get("fleet_file"), str):
            options["fleet_file"] = str(folder / file)
        try:
            config = RunConfig.from_options(options, one.case.defaults)
            schedule_timeline(as_trained(config))
            check_task(config)
            possible.append((one, config))
        except InputError as error:
            if error.parameter in NAMES:
                raise
            impossible.append((one, error))
    if not impossible:
        return possible, None
    first, mistake = impossible[0]
    name = first.name({n: Axis(n, _distinct(one.options.get(n) for one in combinations)) for n in names})
    is_said = name.replace("-", "_") in ("", f"{mistake.parameter}={mistake.value}")
    reason = str(mistake) if is_said else f"{name}: {mistake}"
    if not possible:
        raise UserError(f"no combination is possible; the first: {reason}" if name else reason) from mistake
    if not skip:
        raise UserError(f"{reason} (skip-impossible = true skips such combinations)") from mistake
    return possible, Skipped(len(impossible), reason)


def _distinct(values: Iterable[Any]) -> tuple[Any, ...]:
    """Return different values in order; they may be lists, which cannot be keys."""
    return tuple({json.dumps(value, default=str): value for value in values}.values())
