"""serve_campaign: a campaign on an MQTT broker; devices stay connected to it from run to run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slotwise.base.errors import InputError, UserError
from slotwise.base.files import held
from slotwise.base.observer import BaseObserver
from slotwise.base.service_watchdog import watched_by_systemd
from slotwise.learning import Task
from slotwise.live.server.campaign import ENDED, Campaign, CampaignOptions, CampaignRun
from slotwise.live.server.campaign_run import CampaignEnd, play_campaign
from slotwise.live.server.live_run import LiveOutcome
from slotwise.live.server.serving import PreparedRun, prepare_ended, prepare_resume, prepare_serve
from slotwise.live.transport.broker import BrokerOptions
from slotwise.runs import RunFolder

RunEnded = Callable[[CampaignRun, LiveOutcome], None]


def serve_campaign(
    plans: Path | str,
    out: Path | str,
    *,
    campaign: CampaignOptions | None = None,
    broker: BrokerOptions | None = None,
    observer: BaseObserver | None = None,
    **options: Any,
) -> CampaignEnd:
    """Run the plans in a folder with real devices, one after another, each in a folder below ``out``.

    It goes on where it was, also after a crash. ``options`` are fields of `ServerConfig`, for all runs.
    Raises a UserError if an option or a plan is refused; nothing is written then.
    """
    chosen = Campaign(Path(plans), Path(out), campaign or CampaignOptions())
    return prepare_campaign(chosen, broker=broker, **options).run(observer)


def prepare_campaign(
    campaign: Campaign, *, broker: BrokerOptions | None = None, **options: Any
) -> PreparedCampaign:
    """Return a campaign whose plans are checked, or raise a UserError for what is wrong with one."""
    for name in campaign.names():
        campaign.config(name)
    if RunFolder(campaign.out).is_run:
        raise InputError("out", campaign.out, "the folder of a campaign, and this is the folder of a run")
    how = {"broker": broker, **options}
    runs = campaign.runs()
    last = runs[-1] if runs else None
    plan = campaign.plan_after(last)
    if last is not None and last.status not in ENDED:
        first = prepare_resume(last.path, **how)
    elif last is not None and plan is None:
        first = prepare_ended(last.path, **how)
    else:
        assert plan is not None
        first = prepare_serve(campaign.config(plan), campaign.out / plan, **how)
    return PreparedCampaign(campaign, first, how)


@dataclass(frozen=True)
class PreparedCampaign:
    """A campaign whose options are checked; nothing is written or connected before `run`.

    Attributes:
        campaign: The campaign.
        first: The run that it begins with; the last one if all are over.
        how: Broker and options of the server, for all runs.
    """

    campaign: Campaign
    first: PreparedRun
    how: Mapping[str, Any]

    def run(self, observer: BaseObserver | None = None, ended: RunEnded = lambda *_: None) -> CampaignEnd:
        """Run to the last end, or until ``observer`` asks to stop; ``ended`` is told of each run."""
        watching, out = BaseObserver.of(observer), self.campaign.out
        if self.first.plan is None:  # all runs are over
            self.first.run(watching)
            return "finished"
        self.first.warn(watching)
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError("out", out, f"a folder that can be written ({error.strerror})") from None
        with held(out, "another server plays this campaign"):
            self.campaign.clean()
            return asyncio.run(self._play(watching, ended))

    async def _play(self, observer: BaseObserver, ended: RunEnded) -> CampaignEnd:
        last = self.first

        def prepare(run: CampaignRun) -> tuple[PreparedRun, Task]:
            begun = RunFolder(run.path).is_run
            prepared = (
                prepare_resume(run.path, **self.how)
                if begun
                else prepare_serve(self.campaign.config(run.plan), run.path, **self.how)
            )
            return prepared, prepared.build()

        async with watched_by_systemd(), self.first.broker(observer) as broker:

            async def play(ready: tuple[PreparedRun, Task]) -> LiveOutcome:
                nonlocal last
                last, task = ready
                # After the last run, too: it is known only then that no plan was added meanwhile.
                return await last.play_on(broker, task, observer, more=True)

            status = await play_campaign(self.campaign, prepare, play, observer=observer, ended=ended)
            if status == "finished" and last.folder.is_run:
                try:
                    await last.end_again(broker)
                except (UserError, TimeoutError) as error:
                    reason = error or "the broker is lost"
                    observer.notice(f"devices were not told that the campaign is over: {reason}")
            return status
