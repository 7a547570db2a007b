"""What a device says about itself, and when."""

import pytest
from memory_run import Logging, serve_in_memory

from slotwise.base.machine import resident_memory
from slotwise.live.device import client, self_report
from slotwise.live.device.client import NotUnderstood
from slotwise.live.device.self_report import INTERVAL, SelfReport
from slotwise.live.device_report import DeviceReport
from slotwise.live.protocol import installed_version
from slotwise.live.server.live_status import LiveStatus
from slotwise.web.live_app import metrics
from slotwise.web.live_page import LivePage


@pytest.fixture
def moment(monkeypatch):
    class Time:
        now = 1000.0

        @classmethod
        def monotonic(cls):
            return cls.now

    monkeypatch.setattr(self_report, "time", Time)
    return Time


def test_one_a_minute_and_one_after_each_error(moment):
    report = SelfReport("0.1")
    report.is_wanted = True
    assert report.due(0).uptime == 0.0
    moment.now += INTERVAL / 2
    assert report.due(1) is None
    report.note_error("no data")
    moment.now += 1
    assert (report.due(1).error, report.due(1)) == ("no data", None)
    moment.now += INTERVAL
    again = report.due(2)
    assert (again.error, again.error_age, again.trainings) == ("no data", 1 + INTERVAL, 2)
    assert again.uptime == INTERVAL / 2 + 1 + INTERVAL


def test_nothing_for_a_server_that_does_not_take_reports(moment):
    report = SelfReport("0.1")
    report.note_error("no data")
    assert report.due(0) is None


def test_fields_are_read_as_they_are_written():
    report = DeviceReport("0.1.0", 45.2, 100.0, 7, "it's broken: é", 3.5)
    read = DeviceReport.in_fields(report.fields())
    assert read == DeviceReport("0.1.0", 45.2, 100.0, 7, "it's broken: \\xe9", 3.5)
    assert DeviceReport.in_fields({}) == DeviceReport()


def test_the_status_and_the_metrics_of_a_run_have_what_devices_report(tmp_path):
    page, snapshots = LivePage(), []
    page.publish_with(lambda: snapshots.append(page.snapshot))
    watching = Logging()
    watching.live_started = page.live_started
    watching.status_changed = page.status_changed
    serve_in_memory(tmp_path / "run", observer=watching)
    reports = [device.report for device in LiveStatus.read(tmp_path / "run").devices]
    assert {report.slotwise for report in reports} == {installed_version()}
    assert all(0.2 * resident_memory() < 1e6 * report.memory_mb < 2e10 for report in reports)
    text = metrics(snapshots[-1], 0.0)
    assert f'slotwise_devices_by_version{{version="{installed_version()}"}} 6' in text
    assert text.count("slotwise_device_memory_bytes{") == 6
    assert "slotwise_device_error_age_seconds" not in text


def test_a_device_that_cannot_take_part_says_why_in_the_status(tmp_path, monkeypatch):
    async def make(fields):
        raise NotUnderstood("the run cannot be trained here: no data")

    real = client.Device.__init__

    def begin(self, number, topics, channel, make_task, *more):
        real(self, number, topics, channel, make if number == 3 else make_task, *more)

    monkeypatch.setattr(client.Device, "__init__", begin)
    serve_in_memory(tmp_path / "run", wait=5.0)
    status = LiveStatus.read(tmp_path / "run")
    assert "no data" in status.devices[2].report.error
    assert status.devices[2].state == "absent"
    assert not status.devices[0].report.error
