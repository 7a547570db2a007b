"""A campaign with real processes over a real broker; the server is killed in the middle."""

import pytest
from processes import Mosquitto, Process, Trial, free_port, until

from slotwise.live.enroll.enrolment import Enrolment
from slotwise.live.enroll.enrolment_folder import create_enrolment
from slotwise.live.server.campaign import Campaign, CampaignOptions

pytestmark = pytest.mark.slow

PLAN = """\
devices = 5
group-size = 2
compute-slots = 4
deadline = 60
task = "tasks:make"
"""


@pytest.fixture
def trial(tmp_path):
    broker = Mosquitto(tmp_path)
    started = Trial(tmp_path, broker)
    yield started
    started.close()
    broker.kill()


def test_the_server_is_killed_in_the_second_run_and_the_devices_stay_to_the_end(trial):
    plans = trial.folder / "plans"
    plans.mkdir()
    for name in ("a", "b"):
        (plans / f"{name}.toml").write_text(PLAN)
    (plans / "c.toml").write_text(PLAN.replace("60", "30"))
    campaign = Campaign(plans, trial.out, CampaignOptions())
    command = ["serve", *trial.where, "--campaign", plans, "--out", trial.out, "--checkpoint-every", "0"]
    server = trial.process(*command)
    fleet = trial.fleet(gated_from=1, seconds="0.05")
    trial.open_gate()
    until(lambda: len(campaign.runs()) == 2, "second run")
    trial.wire.wait_for(lambda topic, frame: topic == "all/end" and frame.fields.get("more") == "1", "end")
    until(lambda: list((campaign.runs()[1].path / "live").glob("*.checkpoint")), "checkpoint of it")
    server.kill9()
    server = trial.process(*command)
    server.ends()
    fleet.ends()
    assert "the campaign in" in server.text
    assert [(run.plan, run.status) for run in campaign.runs()] == [(n, "finished") for n in "abc"]
    again = trial.process(*command)  # there is nothing left to do
    again.ends()
    assert len(campaign.runs()) == 3


def test_over_udp_devices_stay_too_and_learn_of_the_end(tmp_path):
    fleet = tmp_path / "fleet"
    create_enrolment(fleet, Enrolment(["127.0.0.1"], free_port(), udp=True), 5)
    plans = tmp_path / "plans"
    plans.mkdir()
    for name in ("a", "b"):
        (plans / f"{name}.toml").write_text(PLAN)
    out, task = tmp_path / "out", ["--task", "tasks:make"]
    campaign = ["--campaign", plans, "--out", out]
    server = Process(tmp_path, "serve", "--credentials", fleet / "server.toml", *campaign)
    devices = Process(tmp_path, "fleet", "--devices", 5, "--credentials", fleet, *task)
    try:
        server.ends()
        devices.ends(seconds=60)
    finally:
        for process in (server, devices):
            process.kill9()
    runs = Campaign(plans, out, CampaignOptions()).runs()
    assert [(run.plan, run.status) for run in runs] == [("a", "finished"), ("b", "finished")]
