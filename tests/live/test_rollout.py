"""Upgrades of a fleet: some devices first, then the others, and all back if one fails."""

from dataclasses import replace

import pytest
from memory_run import serve_in_memory

from slotwise.base.errors import InputError, UserError
from slotwise.live.device_report import DeviceReport
from slotwise.live.rollout import POLL, Rollout, RolloutOptions, newest_status
from slotwise.live.server.live_status import DeviceStatus, LiveStatus

NEW, OLD = "0.2.0", "0.1.0"
OPTIONS = RolloutOptions(to_version=NEW, upgrade="up {device}", back="back {device}", canaries=2, at_once=3)


class Fleet:
    """Ten devices that deliver an update every ten seconds, and are upgraded as they are told."""

    def __init__(self, devices=10, missing=()):
        self.now, self.calls, self.notices, self.run = 0.0, [], [], "a"
        self.versions = dict.fromkeys(range(1, devices + 1), OLD)
        self.missing, self.changed, self.phase = set(missing), {}, "running"

    def read(self):
        devices = tuple(self.changed.get(n, lambda one: one)(self._device(n)) for n in self.versions)
        nothing = dict.fromkeys(("slot", "lost", "excluded", "clipped", "rollbacks"), 0)
        about = {"run": self.run, "time": "", "round": 1, "rounds": 9, "evaluation": None, "rejected": {}}
        counts = {"updates": 0, "connected": len(devices), "seconds": self.now}
        return LiveStatus(phase=self.phase, devices=devices, **nothing, **about, **counts)

    def _device(self, number):
        state = "absent" if number in self.missing else "computing"
        report = DeviceReport(self.versions[number], error="no data" if number in self.missing else "")
        return DeviceStatus(number, state, 1, int(self.now / 10), 0, 0.0, 0.0, 0, 0.0, 0.0, 0.0, report)

    def call(self, command, device):
        self.calls.append(command.replace("{device}", str(device)))
        self.versions[device] = NEW if command.startswith("up") else OLD
        return True

    def sleep(self, seconds):
        self.now += seconds

    def rollout(self, options=OPTIONS, **replaced):
        parts = {"read": self.read, "call": self.call, "now": lambda: self.now, **replaced}
        return Rollout(options, notice=self.notices.append, sleep=self.sleep, **parts).run()


def ups(*devices):
    return [f"up {device}" for device in devices]


def backs(*devices):
    return [f"back {device}" for device in devices]


def test_canaries_are_watched_before_the_others_follow():
    fleet = Fleet()
    times = {}

    def call(command, device):
        times[device] = fleet.now
        return fleet.call(command, device)

    assert fleet.rollout(call=call)
    assert fleet.calls == ups(*range(1, 11))
    assert times[1] == times[2] == 0.0
    assert times[3] == times[5] >= OPTIONS.watch + 10
    assert times[5] + 10 <= times[6] <= times[5] + 20 + 2 * POLL
    assert set(fleet.versions.values()) == {NEW}


def test_a_canary_without_updates_brings_all_back_and_says_its_error():
    fleet = Fleet()
    fleet.changed[2] = lambda one: replace(one, updates=0, report=replace(one.report, error="no data"))
    assert not fleet.rollout()
    assert fleet.calls == ups(1, 2) + backs(2, 1)
    assert "device 2: no update in time" in fleet.notices[-1]
    assert "its last error: no data" in fleet.notices[-1]
    assert OPTIONS.timeout <= fleet.now < OPTIONS.timeout + 20


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"state": "excluded"}, "bad or missing updates"),
        ({"penalty": 2.5}, "bad or missing updates"),
        ({"report": DeviceReport(OLD)}, f"reports version {OLD}"),
    ],
)
def test_a_canary_that_fails_while_it_is_watched_is_noticed_at_once(change, reason):
    fleet = Fleet()
    fleet.changed[1] = lambda one: replace(one, **change) if fleet.now > 100 else one
    assert not fleet.rollout()
    assert fleet.calls == ups(1, 2) + backs(2, 1)
    assert f"device 1: {reason}" in fleet.notices[-1]
    assert fleet.now < 110


def test_a_command_that_fails_later_brings_the_canaries_back_too():
    fleet = Fleet()

    def call(command, device):
        fleet.call(command, device)
        return (command[:2], device) not in (("up", 4), ("ba", 1))

    assert not fleet.rollout(call=call)
    # Device 4 is as it was, because its command failed, and device 5 was not upgraded.
    assert fleet.calls == ups(1, 2, 3, 4) + backs(3, 2, 1)
    assert fleet.notices[-1] == "not brought back, look after them: device 1"


def test_devices_that_are_absent_or_have_the_version_are_left_out():
    fleet = Fleet(missing={3})
    fleet.versions[1] = NEW
    assert fleet.rollout(replace(OPTIONS, at_once=20))
    assert fleet.calls == ups(2, *range(4, 11))
    fleet.calls.clear()
    assert fleet.rollout()
    assert fleet.calls == []
    assert fleet.notices[-1] == "nothing to upgrade"


def test_in_another_run_of_a_campaign_updates_count_anew():
    fleet = Fleet(devices=1)

    def next_run(one):
        return (
            replace(one, updates=int((fleet.now - 30) / 10)) if fleet.now >= 30 else replace(one, updates=99)
        )

    def read():
        fleet.run = "b" if fleet.now >= 30 else "a"
        if 30 <= fleet.now < 35:
            raise UserError("status.json: No such file or directory")
        return Fleet.read(fleet)

    fleet.changed[1] = next_run
    assert fleet.rollout(replace(OPTIONS, watch=0.0), read=read)
    assert 40 <= fleet.now < 45


def test_a_run_that_is_over_is_refused():
    fleet = Fleet()
    fleet.phase = "finished"
    with pytest.raises(UserError, match="the run is finished"):
        fleet.rollout()
    assert fleet.calls == []


def test_a_command_names_the_device():
    with pytest.raises(InputError, match="in place of the number"):
        replace(OPTIONS, back="ssh pi")


def test_the_status_is_that_of_the_newest_run_of_a_campaign(tmp_path):
    for number in (1, 2):
        serve_in_memory(tmp_path / f"2026-11-18T02000{number}Z-000{number}-a")
    newest = LiveStatus.read(tmp_path / "2026-11-18T020002Z-0002-a")
    assert newest_status(tmp_path) == newest
    assert newest_status(tmp_path / "2026-11-18T020001Z-0001-a") != newest
