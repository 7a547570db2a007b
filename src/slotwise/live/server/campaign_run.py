"""Playing a campaign: which run comes next, when it begins, and what observers are told of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, TypeVar

from slotwise.base.errors import UserError
from slotwise.base.observer import BaseObserver
from slotwise.live.clock import Clock
from slotwise.live.server.campaign import ENDED, Campaign, CampaignRun
from slotwise.live.server.events import EventLog, LiveObserver
from slotwise.live.server.live_run import LiveOutcome
from slotwise.runs import RunFolder

STOP_POLL = 0.2  # seconds between two looks at LiveObserver.wants_stop
RETRY = 30.0  # seconds after which a plan that was refused is read again
RECENT = 20  # ended runs that are shown

CampaignEnd = Literal["finished", "interrupted"]
Prepared = TypeVar("Prepared")


@dataclass(frozen=True)
class EndedRun:
    """An ended run of a campaign, for those who watch it.

    Attributes:
        number: Number in the campaign, from 1.
        plan: Its plan.
        began: When it began: UTC, ISO 8601.
        status: How it ended.
        rounds: Rounds that were played.
        loss: The last training loss; None if no model was evaluated.
        accuracy: The last test accuracy, likewise.
    """

    number: int
    plan: str
    began: str
    status: str
    rounds: int
    loss: float | None
    accuracy: float | None

    @classmethod
    def of(cls, run: CampaignRun) -> EndedRun:
        """Read what is shown of a run."""
        description = RunFolder(run.path).description()
        final = description.get("final") or {}
        rounds, began = int(description.get("rounds", 0)), run.began.isoformat()
        status, loss, accuracy = description["status"], final.get("loss"), final.get("accuracy")
        return cls(run.number, run.plan, began, status, rounds, loss, accuracy)


@dataclass(frozen=True)
class CampaignStatus:
    """State of a campaign.

    Attributes:
        number: Number of the run that is played, or of the last one; 0 before the first.
        plan: Plan of that run, or of the next one while it is waited for.
        waits_until: When the next run begins: UTC, ISO 8601; empty while a run is played.
        refused: Why the next plan cannot be played; empty if it can.
        ended: The last ended runs, the newest first.
    """

    number: int = 0
    plan: str = ""
    waits_until: str = ""
    refused: str = ""
    ended: tuple[EndedRun, ...] = ()


async def play_campaign(
    campaign: Campaign,
    prepare: Callable[[CampaignRun], Prepared],
    play: Callable[[Prepared], Awaitable[LiveOutcome]],
    *,
    observer: BaseObserver | None = None,
    ended: Callable[[CampaignRun, LiveOutcome], None] = lambda *_: None,
    clock: Clock | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> CampaignEnd:
    """Play the runs of a campaign until the last has ended, or the observer asks to stop.

    ``prepare`` checks a run, in a thread, and raises a UserError if it cannot be played; its plan is then
    read again every now and then until it can, while devices wait. ``play`` plays it.
    """
    driver = _Driver(campaign, LiveObserver.of(observer), clock or Clock(), now)
    while not driver.stopped:
        try:
            run = await driver.next_run()
            if run is None:
                break
            prepared = await asyncio.to_thread(prepare, run)
        except UserError as error:
            await driver.wait_for_correction(error)
            continue
        driver.begin(run)
        outcome = await play(prepared)
        ended(run, outcome)
        if outcome.status == "interrupted":
            return "interrupted"
        driver.remove_old()
    return "interrupted" if driver.stopped else "finished"


class _Driver:
    """Says what comes next, and reports it."""

    def __init__(
        self, campaign: Campaign, observer: LiveObserver, clock: Clock, now: Callable[[], datetime]
    ) -> None:
        self._campaign, self._observer, self._clock, self._now = campaign, observer, clock, now
        self._log, self._began = EventLog(observer), now()
        self._refused = ""

    @property
    def stopped(self) -> bool:
        """True if the observer asks to stop."""
        return self._observer.wants_stop()

    async def next_run(self) -> CampaignRun | None:
        """Return the run that was interrupted, or else the next when it is due; None if there is none."""
        last = self._last()
        if last is not None and last.status not in ENDED:
            return last
        plan = self._campaign.plan_after(last)
        if plan is not None:
            await self._wait_until_due(last, plan)
            plan = self._campaign.plan_after(last)  # read again: plans may have been changed meanwhile
        if plan is None or self.stopped:
            return None
        return self._campaign.next_run(last, plan, self._now())

    def begin(self, run: CampaignRun) -> None:
        """Report that a run begins."""
        self._refused = ""
        self._log.info("campaign", run=run.number, plan=run.plan, folder=str(run.path))
        self._tell(CampaignStatus(run.number, run.plan, ended=self._ended()))

    async def wait_for_correction(self, error: UserError) -> None:
        """Report, once, why the next run cannot begin, and wait a while before it is tried again."""
        last, reason = self._last(), str(error)
        if reason != self._refused:
            self._log.error("plan_refused", reason=reason, again_after=RETRY)
            number = 0 if last is None else last.number
            self._tell(CampaignStatus(number, refused=reason, ended=self._ended()))
        self._refused = reason
        await self._wait(self._now() + timedelta(seconds=RETRY))

    def remove_old(self) -> None:
        """Remove run folders that are too many; what cannot be removed is reported and stays."""
        for run in self._campaign.removable(self._campaign.runs()):
            try:
                self._campaign.remove(run)
            except (OSError, UserError) as error:
                self._log.warning("not_removed", folder=str(run.path), reason=str(error))
            else:
                self._log.info("removed", folder=str(run.path))

    async def _wait_until_due(self, last: CampaignRun | None, plan: str) -> None:
        due = self._campaign.options.due(self._began if last is None else last.began)
        if due <= self._now():
            return
        moment, number = due.isoformat(timespec="minutes"), 0 if last is None else last.number
        self._log.info("waits", plan=plan, until=moment)
        self._tell(CampaignStatus(number, plan, moment, ended=self._ended()))
        await self._wait(due)

    async def _wait(self, until: datetime) -> None:
        while not self.stopped and (left := (until - self._now()).total_seconds()) > 0:
            await self._clock.sleep(min(left, STOP_POLL))

    def _last(self) -> CampaignRun | None:
        runs = self._campaign.runs()
        return runs[-1] if runs else None

    def _ended(self) -> tuple[EndedRun, ...]:
        ended = [run for run in self._campaign.runs()[-RECENT - 1 :] if run.status in ENDED]
        return tuple(EndedRun.of(run) for run in reversed(ended[-RECENT:]))

    def _tell(self, status: CampaignStatus) -> None:
        self._observer.campaign_changed(status)
