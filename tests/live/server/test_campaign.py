"""Campaigns: which plan comes next, when, and what a crash or an edited plan leaves."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from memory_run import Logging, devices_on, half_a_second, live_run
from virtual_time import run_virtual

from live import TOPICS
from slotwise.base.errors import InputError, UserError
from slotwise.live import ServerConfig
from slotwise.live.server.campaign import Campaign, CampaignOptions, CampaignRun
from slotwise.live.server.campaign_run import play_campaign
from slotwise.live.server.outbox import publish_end
from slotwise.live.server.serving import new_live_folder
from slotwise.live.transport import MemoryBroker
from slotwise.runs import RunConfig, RunFolder

START = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)
PLAN = 'devices = 6\ngroup-size = 2\ncompute-slots = 4\ndeadline = {}\ntask = "tasks:make"\n'
CONFIG = RunConfig.from_options({"devices": 3, "group_size": 1})


class Watching(Logging):
    """Also keeps what the campaign says, and may ask to stop after some runs."""

    def __init__(self, stop_after=None):
        super().__init__()
        self.campaign, self._stop_after = [], stop_after

    def campaign_changed(self, status):
        self.campaign.append(status)

    def wants_stop(self):
        return self._stop_after is not None and len(self.named("ended")) >= self._stop_after


def write_plans(folder, **deadlines):
    folder.mkdir(exist_ok=True)
    for name, deadline in deadlines.items():
        (folder / f"{name}.toml").write_text(PLAN.format(deadline))


def made(tmp_path, **options):
    return Campaign(tmp_path / "plans", tmp_path / "out", CampaignOptions(**options))


def play_in_memory(campaign, *, observer=None, prepare=None, meanwhile=None):
    """Play with six devices that are started once; return how it ended, and the devices that are left."""
    observer = observer or Watching()

    async def scenario(clock):
        broker, server = MemoryBroker(), ServerConfig(name=TOPICS.name, checkpoint_every=0)
        campaign.out.mkdir(exist_ok=True)
        campaign.clean()

        def usual(run):
            folder = RunFolder(run.path)
            if folder.is_run:
                return folder, folder.parameters()
            config = campaign.config(run.plan)
            return new_live_folder(run.path, config, server), config

        async def play(prepared):
            folder, config = prepared
            async with broker.connect() as channel:
                how = {"server": server, "clock": clock, "observer": observer, "more": True}
                return await live_run(folder, channel, config, **how)

        async with devices_on(broker, half_a_second(clock)) as devices:
            beside = None if meanwhile is None else asyncio.create_task(meanwhile(clock))
            status = await play_campaign(
                campaign,
                prepare or usual,
                play,
                observer=observer,
                clock=clock,
                now=lambda: START + timedelta(seconds=clock.now()),
            )
            if beside is not None:
                await beside
            waiting = sum(not device.done() for device in devices)
            if status == "finished":
                run = RunFolder(campaign.runs()[-1].path).description()["live_run"]
                async with broker.connect() as channel:
                    await publish_end(run, channel, TOPICS)
                    await clock.sleep(1)
            return status, waiting, sum(not device.done() for device in devices)

    return run_virtual(scenario)


def played(campaign):
    return [(run.number, run.plan, run.status) for run in campaign.runs()]


def test_plans_are_played_in_order_by_devices_that_stay(tmp_path):
    campaign, observer = made(tmp_path), Watching()
    write_plans(campaign.plans, b=40, a=80)
    # Devices stay until they are told that no other run follows.
    assert play_in_memory(campaign, observer=observer) == ("finished", 6, 0)
    assert played(campaign) == [(1, "a", "finished"), (2, "b", "finished")]
    assert [run.path.name[:11] for run in campaign.runs()] == ["2026-11-18T"] * 2
    begun = [(status.number, status.plan, len(status.ended)) for status in observer.campaign]
    assert begun == [(1, "a", 0), (2, "b", 1)]
    assert observer.campaign[-1].ended[0].rounds == RunFolder(campaign.runs()[0].path).read().rounds > 0
    assert observer.named("left") == []


def test_each_model_is_that_of_the_run_by_itself(tmp_path):
    campaign = made(tmp_path)
    write_plans(campaign.plans, a=80, b=80)
    play_in_memory(campaign)
    first, second = (RunFolder(run.path).description() for run in campaign.runs())
    assert first["model_sha256"] == second["model_sha256"]
    assert first["live_run"] != second["live_run"]


def test_an_interrupted_campaign_goes_on_in_the_middle_of_its_run(tmp_path):
    campaign = made(tmp_path)
    write_plans(campaign.plans, a=80, b=80, c=40)

    class Stopping(Watching):
        """Asks to stop in round 5 of the second run."""

        rounds = 0

        def round_done(self, round_number):
            self.rounds += len(self.named("ended")) == 1

        def wants_stop(self):
            return self.rounds >= 5

    status, waiting, _ = play_in_memory(campaign, observer=Stopping())
    assert (status, waiting) == ("interrupted", 6)
    assert played(campaign) == [(1, "a", "finished"), (2, "b", "interrupted")]
    observer = Watching()
    assert play_in_memory(campaign, observer=observer)[0] == "finished"
    assert played(campaign) == [(n, plan, "finished") for n, plan in enumerate("abc", 1)]
    assert len(observer.named("resumed")) == 1
    same = [RunFolder(run.path).description()["model_sha256"] for run in campaign.runs()[:2]]
    assert same[0] == same[1]


def test_a_repeated_campaign_keeps_the_newest_runs(tmp_path):
    campaign = made(tmp_path, repeat=True, keep_runs=2)
    write_plans(campaign.plans, a=40, b=40)
    assert play_in_memory(campaign, observer=Watching(stop_after=5))[0] == "interrupted"
    assert played(campaign) == [(4, "b", "finished"), (5, "a", "finished")]
    assert [run.number for run in campaign.runs()] == [4, 5]
    assert sorted(campaign.out.iterdir()) == [run.path for run in campaign.runs()]


def test_runs_begin_at_the_time_of_day(tmp_path):
    campaign, observer = made(tmp_path, start_at=("02:00", "13:30")), Watching()
    write_plans(campaign.plans, a=40, b=40, c=40)
    assert play_in_memory(campaign, observer=observer)[0] == "finished"
    began = [run.began.strftime("%d %H:%M") for run in campaign.runs()]
    assert began == ["18 13:30", "19 02:00", "19 13:30"]
    assert [status.waits_until[:16] for status in observer.campaign if status.waits_until] == [
        "2026-11-18T13:30",
        "2026-11-19T02:00",
        "2026-11-19T13:30",
    ]


def test_a_run_that_was_due_while_the_server_was_down_begins_at_once(tmp_path):
    options = CampaignOptions(start_at=("02:00",))
    assert options.due(START) == datetime(2026, 11, 19, 2, tzinfo=UTC)
    assert options.due(datetime(2026, 11, 18, 2, tzinfo=UTC)) == datetime(2026, 11, 19, 2, tzinfo=UTC)
    campaign = Campaign(tmp_path / "plans", tmp_path / "out", options)
    write_plans(campaign.plans, a=40, b=40)
    days_ago = CampaignRun.new(campaign.out, 1, START - timedelta(days=3), "a")
    RunFolder.create(days_ago.path, CONFIG).write_description(CONFIG, "finished", live_run="x")
    play_in_memory(campaign)
    assert campaign.runs()[-1].began == START


def test_plans_may_be_changed_while_devices_wait(tmp_path):
    campaign, observer = made(tmp_path), Watching()
    write_plans(campaign.plans, a=40, b=40)
    (campaign.plans / "b.toml").write_text("devices = none\n")

    async def correct(clock):
        await clock.sleep(300)
        write_plans(campaign.plans, b=40, c=40)

    assert play_in_memory(campaign, observer=observer, meanwhile=correct) == ("finished", 6, 0)
    assert [plan for _, plan, _ in played(campaign)] == ["a", "b", "c"]
    refused = observer.named("plan_refused")
    assert len(refused) == 1  # said once, though it is tried every half a minute
    assert "b.toml" in refused[0]["reason"]
    assert [bool(status.refused) for status in observer.campaign] == [False, True, False, False]


def test_a_diverged_run_does_not_end_the_campaign(tmp_path):
    campaign = made(tmp_path)
    write_plans(campaign.plans, a=40, b=40)
    diverged = CampaignRun.new(campaign.out, 7, START, "a")
    RunFolder.create(diverged.path, CONFIG).write_description(CONFIG, "diverged", live_run="x")
    assert play_in_memory(campaign)[0] == "finished"
    assert played(campaign)[1:] == [(8, "b", "finished")]


def test_what_a_killed_server_leaves_is_removed_and_nothing_else(tmp_path):
    campaign = made(tmp_path)
    write_plans(campaign.plans, a=40)
    begun = CampaignRun.new(campaign.out, 1, START, "a").path  # killed before run.json was written
    half = campaign.out / ".removed-2026-11-17T120000Z-0001-a"
    for path in (begun, half, campaign.out / "notes"):
        path.mkdir(parents=True)
    (half / "model.npz").touch()
    assert campaign.runs() == []
    campaign.clean()
    assert [path.name for path in campaign.out.iterdir()] == ["notes"]


@pytest.mark.parametrize("text", ["24:00", "2:00", "02:60", "noon"])
def test_times_of_day_are_checked(text):
    with pytest.raises(InputError, match="times of day from 00:00 to 23:59"):
        CampaignOptions(start_at=("02:00", text))


def test_a_folder_without_plans_or_with_a_wrong_name_is_refused(tmp_path):
    campaign = made(tmp_path)
    with pytest.raises(InputError, match="a folder with plans"):
        campaign.names()
    campaign.plans.mkdir()
    with pytest.raises(InputError, match="at least one plan"):
        campaign.names()
    (campaign.plans / "with space.toml").touch()
    with pytest.raises(UserError, match="letters, digits"):
        campaign.names()


def test_a_plan_is_relative_to_its_file_and_refused_by_its_name(tmp_path):
    campaign = made(tmp_path)
    write_plans(campaign.plans, a=40)
    (campaign.plans / "a.toml").write_text("devices = 0\n")
    with pytest.raises(UserError, match=r"a\.toml: devices = 0"):
        campaign.config("a")


def test_the_status_is_plain_values(tmp_path):
    campaign, observer = made(tmp_path), Watching()
    write_plans(campaign.plans, a=40, b=40)
    play_in_memory(campaign, observer=observer)
    ended = observer.campaign[-1].ended[0]
    assert json.loads(json.dumps(vars(ended))) == vars(ended)
    assert Path(campaign.runs()[0].path).name.endswith("-0001-a")
