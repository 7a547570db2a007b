"""Alert rules and the dashboard use metrics that the page has, and can be read by their programs."""

import json
import re
import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slotwise.live.server.campaign_run import CampaignStatus
from slotwise.live.server.live_status import LiveStatus
from slotwise.report.gantt.chart import Window
from slotwise.web.live_app import LiveApp, metrics
from slotwise.web.live_page import LivePage
from slotwise.web.live_snapshot import LiveSnapshot

MONITORING = Path(__file__).parents[2] / "deploy/monitoring"


def status(phase: Any = "running", connected: int = 3) -> LiveStatus:
    counts: dict[str, Any] = {
        "updates": 9,
        "lost": 1,
        "excluded": 0,
        "clipped": 0,
        "rollbacks": 0,
    }
    about: dict[str, Any] = {"run": "x", "time": "", "round": 4, "rounds": 9, "slot": 8, "evaluation": None}
    more: dict[str, Any] = {"seconds": 5.0, "rejected": {"late": 1}, "devices": ()}
    return LiveStatus(phase=phase, connected=connected, **counts, **about, **more)


def snapshot(moment: float = 1e9, stalled_for: float = 0.0, **more: Any) -> LiveSnapshot:
    shown: dict[str, Any] = {"overdue": (), "rejected_by": {}, "rejections": (), "carried": (), "planned": ()}
    about: dict[str, Any] = {
        "schedule": "idfl",
        "heard": {1: 2.0},
        "points": ((1, 1, 0.5, 0.9),),
        "window": Window(0, 9),
        "rates": None,
    }
    return LiveSnapshot(status=status(**more), moment=moment, stalled_for=stalled_for, **shown, **about)


def known() -> set[str]:
    # Of devices and of a campaign, which this run has none of.
    devices = {
        "slotwise_device_updates_total",
        "slotwise_device_certificate_days",
        "slotwise_campaign_plan_refused",
    }
    return devices | set(re.findall(r"^# TYPE (\w+)", metrics(snapshot(), 0.0), re.MULTILINE))


@pytest.mark.parametrize("name", ["slotwise-alerts.yml", "slotwise-dashboard.json"])
def test_rules_and_panels_use_metrics_that_there_are(name: str) -> None:
    used = set(re.findall(r"slotwise_[a-z_]+", (MONITORING / name).read_text()))
    assert len(used) > 5
    assert used <= known()


def test_the_dashboard_is_json_with_panels_that_do_not_overlap() -> None:
    dashboard = json.loads((MONITORING / "slotwise-dashboard.json").read_text())
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard["panels"]]
    assert len(set(places)) == len(places) == 9


def test_every_alert_has_an_expression_a_severity_and_a_summary() -> None:
    yaml = pytest.importorskip("yaml")
    (group,) = yaml.safe_load((MONITORING / "slotwise-alerts.yml").read_text())["groups"]
    for rule in group["rules"]:
        assert rule["expr"]
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["summary"]
    if promtool := shutil.which("promtool"):
        command = [promtool, "check", "rules", str(MONITORING / "slotwise-alerts.yml")]
        assert subprocess.run(command, check=False, capture_output=True).returncode == 0


@pytest.mark.parametrize(
    ("shown", "healthy"),
    [
        (snapshot(), True),
        (snapshot(stalled_for=90.0), False),
        (snapshot(stalled_for=90.0, phase="waiting for devices"), True),
        (snapshot(phase="diverged"), False),
        (snapshot(moment=0.0), False),
        (snapshot(moment=0.0, phase="finished"), True),
    ],
    ids=["running", "stalled", "waiting", "diverged", "hangs", "finished"],
)
def test_health_is_that_of_the_run(
    shown: LiveSnapshot, healthy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slotwise.web.live_app.time.monotonic", lambda: max(shown.moment, 100.0))
    assert LiveApp(LivePage())._health_of(shown)[1] == healthy


def test_a_plan_that_is_refused_is_unhealthy_and_counted() -> None:
    refused = CampaignStatus(3, refused="b.toml: devices = 0")
    shown = replace(snapshot(moment=time.monotonic()), campaign=refused)
    document, healthy = LiveApp(LivePage())._health_of(shown)
    assert not healthy
    assert "b.toml" not in document["status"]  # it is read without the token
    text = metrics(shown, 0.0)
    assert "slotwise_campaign_run 3\n" in text
    assert "slotwise_campaign_plan_refused 1\n" in text


def test_the_page_shows_a_campaign_between_two_runs() -> None:
    page = LivePage()
    page.campaign_changed(CampaignStatus(1, "a"))
    page._publish(snapshot())
    page.campaign_changed(CampaignStatus(1, "b", "2026-11-19T02:00+00:00"))
    assert page.snapshot is not None
    assert json.loads(page.snapshot.as_json())["campaign"]["plan"] == "b"
