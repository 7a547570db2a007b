"""The question: a run without its schedule, what to choose from, and what is best."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slotwise.batch.compare_file import powers_of
from slotwise.costs import Powers
from slotwise.errors import InputError, UserError
from slotwise.files import load_toml
from slotwise.planning import divisors
from slotwise.recommendation.candidates import rung_slot
from slotwise.recommendation.halving import SIXTEENTHS
from slotwise.recommendation.metric import Metric
from slotwise.runs import RunConfig
from slotwise.runs.config import checked_toml_options

EVALUATIONS_A_SIXTEENTH = 8  # two of them in the quarter that is judged
SEARCHED = ("schedule", "group_size", "delay", "seed")
"""The parameters that the answer decides, and the seed, of which the search takes several."""


@dataclass(frozen=True)
class Question:
    """What is asked.

    Attributes:
        base: the run, but for the schedule, the group size, the delay and the seed.
        group_sizes: to choose from.
        seeds: to try each with.
        metric: what is best.
        budget: SGD steps of the search at most; None: less than a quarter of the whole grid.
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


def common_options(base: RunConfig) -> dict[str, Any]:
    """The parameters that all candidates share, by name."""
    return {name: value for name, value in base.options().items() if name not in SEARCHED}


def group_sizes_of(base: RunConfig, sizes: Sequence[int] | None) -> tuple[int, ...]:
    """Those asked for, each once, or all divisors of the number of devices; ascending."""
    if sizes is None:
        return tuple(divisors(base.channel.devices))
    for size in sizes:
        if not 1 <= size <= base.channel.devices:
            raise InputError("group_sizes", size, f"from 1 to {base.channel.devices}, the number of devices")
    return tuple(sorted(set(sizes)))


@dataclass(frozen=True)
class Case:
    """The run a question is about, as a file and flags say it.

    Attributes:
        path: of the file, if there is one.
        in_file: the options it holds.
        flags: the options said otherwise; they win.
        powers: of the devices, if the file has a table of them.
    """

    path: Path | None
    in_file: Mapping[str, Any]
    flags: Mapping[str, Any]
    powers: Powers | None

    @classmethod
    def read(cls, path: Path | None, flags: Mapping[str, Any]) -> Case:
        """Take in a TOML file; its values are checked with the flags, not by themselves."""
        if path is None:
            return cls(None, {}, flags, None)
        document = load_toml(path, "config")
        powers = powers_of(path, document.pop("powers", None))
        return cls(path, checked_toml_options(path, document), flags, powers)

    def base(self) -> RunConfig:
        """The run, but for what is searched."""
        return base_of({**self.in_file, **self.flags})

    @contextmanager
    def naming_file(self) -> Iterator[None]:
        """What is wrong with a value of the file is told with the file's name."""
        try:
            yield
        except InputError as error:
            if error.parameter in self.in_file and error.parameter not in self.flags:
                raise UserError(f"{self.path}: {error}") from None
            raise


def base_of(options: Mapping[str, Any]) -> RunConfig:
    """The run that ``options`` describe, but for what is searched.

    Raises:
        InputError: something is out of range, or decided beforehand.
    """
    for name in SEARCHED:
        if name in options:
            raise InputError(name, options[name], "left out: it is what is searched for")
    return RunConfig.from_options({**options, "group_size": 1})
