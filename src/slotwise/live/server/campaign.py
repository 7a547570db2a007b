"""Campaign: plans that a live server plays one after another, each run in a folder of its own.

There is no file with the state of a campaign: the names and statuses of the run folders say what comes next,
so a server that was killed goes on at the right run.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, NamedTuple, Self

from slotwise.base.errors import InputError, UserError
from slotwise.options import Range
from slotwise.options.checks import Value
from slotwise.runs import RunConfig, RunFolder, read_toml
from slotwise.runs.saved_run import Status
from slotwise.runs.toml_options import blaming_file

PLAN_NAME = "[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_FOLDER = re.compile(rf"([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}T[0-9]{{6}}Z)-([0-9]{{4,9}})-({PLAN_NAME})")
_STAMP = "%Y-%m-%dT%H%M%SZ"
_TIME_OF_DAY = re.compile("([01][0-9]|2[0-3]):([0-5][0-9])")
REMOVED = ".removed-"  # prefix of a run folder that is being removed
ENDED: tuple[Status, ...] = ("finished", "diverged")


@dataclass(frozen=True, kw_only=True)
class CampaignOptions(Value):
    """Options of a campaign.

    Attributes:
        repeat: Begin again with the first plan after the last.
        start_at: Times of day (UTC) at which a run may begin, as in 02:00,14:00. Default: as soon as the run
            before it has ended.
        keep_runs: Folders of ended runs that are kept; older ones are removed. Default: all.
    """

    repeat: bool = False
    start_at: tuple[str, ...] = ()
    keep_runs: Annotated[int | None, Range(1)] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for text in self.start_at:
            if not _TIME_OF_DAY.fullmatch(text):
                raise InputError("start_at", text, "times of day from 00:00 to 23:59, separated by commas")

    def due(self, after: datetime) -> datetime:
        """Return when the run after one that began at ``after`` may begin."""
        moments = []
        for text in self.start_at:
            hour, minute = map(int, text.split(":"))
            moment = after.replace(hour=hour, minute=minute, second=0, microsecond=0)
            moments.append(moment if moment > after else moment + timedelta(days=1))
        return min(moments, default=after)


class CampaignRun(NamedTuple):
    """A run of a campaign: its number from 1, when it began (UTC), its plan and its folder."""

    number: int
    began: datetime
    plan: str
    path: Path

    @classmethod
    def new(cls, out: Path, number: int, began: datetime, plan: str) -> Self:
        """Return a run whose folder is still to be made; its name has all that is known of it."""
        return cls(number, began, plan, out / f"{began.strftime(_STAMP)}-{number:04}-{plan}")

    @classmethod
    def of(cls, path: Path) -> Self | None:
        """Return the run in a folder, by the name of the folder; None if it is no run of a campaign."""
        parts = _FOLDER.fullmatch(path.name)
        if parts is None or not RunFolder(path).is_run:
            return None
        try:
            began = datetime.strptime(parts[1], _STAMP).replace(tzinfo=UTC)
        except ValueError:  # the 31st of February
            return None
        return cls(int(parts[2]), began, parts[3], path)

    @property
    def status(self) -> Status:
        """Status of the run, as in its run.json."""
        return RunFolder(self.path).status


@dataclass(frozen=True)
class Campaign:
    """Plans, and the folder of their runs.

    Attributes:
        plans: Folder with the plans, TOML files, played in the order of their names.
        out: Folder of the campaign: each run is a folder in it.
        options: When runs begin and how many are kept.
    """

    plans: Path
    out: Path
    options: CampaignOptions

    def names(self) -> list[str]:
        """Return the names of the plans in order; a UserError if there are none."""
        if not self.plans.is_dir():
            raise InputError("campaign", self.plans, "a folder with plans, TOML files")
        names = sorted(path.stem for path in self.plans.glob("*.toml"))
        if not names:
            raise InputError("campaign", self.plans, "a folder with at least one plan, a TOML file")
        for name in names:
            if not re.fullmatch(PLAN_NAME, name):
                allowed = "named by at most 64 letters, digits, dots, dashes and underscores"
                raise UserError(f"{self.plans}: {name}.toml must be {allowed}")
        return names

    def config(self, name: str) -> RunConfig:
        """Return the configuration of a plan, read anew; a UserError names its file and what is wrong."""
        file = self.plans / f"{name}.toml"
        with blaming_file(file):
            return RunConfig.from_options(read_toml(file))

    def runs(self) -> list[CampaignRun]:
        """Return the runs that have begun, the oldest first."""
        folders = self.out.iterdir() if self.out.is_dir() else ()
        runs = (CampaignRun.of(folder) for folder in folders)
        return sorted(run for run in runs if run is not None)

    def plan_after(self, last: CampaignRun | None) -> str | None:
        """Return the plan to play after a run; None if that was the last.

        It is the next by name, also if plans were added or removed meanwhile.
        """
        names = self.names()
        following = names if last is None else [name for name in names if name > last.plan]
        return following[0] if following else names[0] if self.options.repeat else None

    def next_run(self, last: CampaignRun | None, plan: str, began: datetime) -> CampaignRun:
        """Return the run after ``last``, which begins now."""
        return CampaignRun.new(self.out, 1 if last is None else last.number + 1, began, plan)

    def removable(self, runs: Sequence[CampaignRun]) -> list[CampaignRun]:
        """Return the ended runs that are too many."""
        ended = [run for run in runs if run.status in ENDED]
        kept = self.options.keep_runs
        return [] if kept is None else ended[: max(0, len(ended) - kept)]

    def remove(self, run: CampaignRun) -> None:
        """Remove a run folder; a crash meanwhile leaves a hidden folder, and no half of a run."""
        with RunFolder(run.path).held():
            hidden = self.out / f"{REMOVED}{run.path.name}"
            run.path.rename(hidden)
        shutil.rmtree(hidden)

    def clean(self) -> None:
        """Remove what killed processes have left: half-removed runs, folders of runs not begun."""
        for path in self.out.glob(f"{REMOVED}*"):
            shutil.rmtree(path)
        for path in self.out.iterdir():
            if _FOLDER.fullmatch(path.name) and path.is_dir() and not any(path.iterdir()):
                path.rmdir()
