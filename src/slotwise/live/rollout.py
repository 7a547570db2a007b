"""Upgrading the devices of a live run: some first, then the others, and all back if one fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from slotwise.base.errors import InputError, UserError
from slotwise.live.server.campaign import Campaign, CampaignOptions
from slotwise.live.server.live_status import DeviceStatus, LiveStatus
from slotwise.options import Range
from slotwise.options.checks import Value
from slotwise.runs import RunFolder

POLL = 2.0  # seconds between two looks at the status
BAD_UPDATES = 2.0  # penalty points; the restart of an upgrade may cost one

Command = Callable[[str, int], bool]  # called with a command and a device; whether it succeeded


@dataclass(frozen=True, kw_only=True)
class RolloutOptions(Value):
    """Options of an upgrade of devices.

    Attributes:
        to_version: Version of slotwise that devices must report afterwards.
        upgrade: Shell command that upgrades a device, or fails and leaves it as it was; {device} stands for
            its number.
        back: Shell command that brings a device back to the version before; likewise.
        canaries: Number of devices that are upgraded first, and watched.
        watch: Seconds for which they are watched before the others follow.
        at_once: Number of devices that are upgraded at once afterwards.
        timeout: Seconds in which an upgraded device must report the version and deliver an update.
    """

    to_version: str
    upgrade: str
    back: str
    canaries: Annotated[int, Range(1)] = 1
    watch: Annotated[float, Range(least=0)] = 600.0
    at_once: Annotated[int, Range(1)] = 10
    timeout: Annotated[float, Range(above=0)] = 600.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("upgrade", "back"):
            if "{device}" not in getattr(self, name):
                raise InputError(name, getattr(self, name), "a command with {device} in place of the number")


def newest_status(path: Path) -> LiveStatus:
    """Return the status of a live run, or of the newest run of a campaign, in a folder."""
    if not RunFolder(path).is_run and (runs := Campaign(path, path, CampaignOptions()).runs()):
        path = runs[-1].path
    return LiveStatus.read(path)


class Rollout:
    """One upgrade of a fleet.

    Args:
        options: Version, commands and times.
        read: Returns the status of the run.
        call: Runs a command for a device.
        notice: Is told each step.
        now, sleep: The clock.
    """

    def __init__(
        self,
        options: RolloutOptions,
        read: Callable[[], LiveStatus],
        call: Command,
        notice: Callable[[str], None] = lambda _: None,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._options, self._read, self._call, self._notice = options, read, call, notice
        self._now, self._sleep = now, sleep
        self._done: list[int] = []  # upgraded devices

    def run(self) -> bool:
        """Upgrade all devices that are connected and report another version; return whether all succeeded."""
        options, status = self._options, self._read()
        if status.phase != "running":
            raise UserError(f"the run is {status.phase}: devices are upgraded while it is played")
        waiting = [
            device.device
            for device in status.devices
            if device.report.slotwise != options.to_version and device.state not in ("absent", "excluded")
        ]
        rest = waiting[options.canaries :]
        groups = [rest[at : at + options.at_once] for at in range(0, len(rest), options.at_once)]
        done = self._done
        for group, watch in ((waiting[: options.canaries], options.watch), *((some, 0.0) for some in groups)):
            trouble = self._upgrade(group) or self._watch(group, watch)
            if trouble:
                self._notice(f"{trouble}; back to the version before: {_listed(done) if done else 'none'}")
                failed = [device for device in reversed(done) if not self._call(options.back, device)]
                if failed:
                    self._notice(f"not brought back, look after them: {_listed(sorted(failed))}")
                return False
        self._notice(f"{options.to_version} on {_listed(done)}" if done else "nothing to upgrade")
        return True

    def _upgrade(self, group: Sequence[int]) -> str:
        """Upgrade devices and wait until each has delivered an update; return what is wrong, or nothing."""
        before = self._status()
        for device in group:
            self._notice(f"device {device}: {self._options.to_version}")
            if not self._call(self._options.upgrade, device):
                return f"device {device}: the upgrade failed"
            self._done.append(device)
        return self._wait(group, before)

    def _watch(self, group: Sequence[int], seconds: float) -> str:
        """Watch devices for some seconds; after that each must deliver another update."""
        until = self._now() + seconds
        while group and self._now() < until:
            self._sleep(POLL)
            for device in self._devices(self._status(), group):
                if device.report.slotwise != self._options.to_version:
                    return f"device {device.device}: reports version {device.report.slotwise or 'unknown'}"
                if trouble := self._trouble(device):
                    return trouble
        return self._wait(group, self._status()) if group and seconds else ""

    def _wait(self, group: Sequence[int], before: LiveStatus) -> str:
        """Wait until devices have delivered an update since ``before``; return what is wrong, or nothing."""
        until = self._now() + self._options.timeout
        while True:
            status = self._status()
            # In another run of a campaign updates are counted anew.
            counted = {d.device: d.updates for d in before.devices if status.run == before.run}
            left = []
            for device in self._devices(status, group):
                is_new = device.report.slotwise == self._options.to_version
                if is_new and (trouble := self._trouble(device)):
                    return trouble
                if not is_new or device.updates <= counted.get(device.device, 0):
                    left.append(device)
            if not left:
                return ""
            if self._now() >= until:
                version = f"version {left[0].report.slotwise or 'unknown'}, {left[0].state}"
                return f"device {left[0].device}: no update in time ({version}{_error(left[0])})"
            self._sleep(POLL)

    def _status(self) -> LiveStatus:
        """Return the status; between two runs of a campaign there may be none for a while."""
        until = self._now() + self._options.timeout
        while True:
            try:
                return self._read()
            except UserError:
                if self._now() >= until:
                    raise
            self._sleep(POLL)

    def _devices(self, status: LiveStatus, group: Sequence[int]) -> list[DeviceStatus]:
        return [device for device in status.devices if device.device in group]

    def _trouble(self, device: DeviceStatus) -> str:
        """Return what is wrong with an upgraded device that waiting does not mend, or nothing."""
        bad = device.state == "excluded" or device.penalty >= BAD_UPDATES
        return f"device {device.device}: bad or missing updates{_error(device)}" if bad else ""


def _error(device: DeviceStatus) -> str:
    return f"; its last error: {device.report.error}" if device.report.error else ""


def _listed(devices: Sequence[int]) -> str:
    return f"device{'s' * (len(devices) != 1)} {', '.join(map(str, devices))}"
