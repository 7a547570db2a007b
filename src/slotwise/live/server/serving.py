"""serve and resume_live: a live run over MQTT or UDP, from its configuration to its folder."""

from __future__ import annotations

import asyncio
import secrets
import shlex
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slotwise.base.errors import ConflictError, InputError, NoEffectError, UserError
from slotwise.base.machine import allow_open_files
from slotwise.base.observer import BaseObserver
from slotwise.base.service_watchdog import watched_by_systemd
from slotwise.learning import Task
from slotwise.learning.checked_task import CheckedTask
from slotwise.live.clock import Clock
from slotwise.live.enroll.enrolment import last_enrolled
from slotwise.live.protocol import DEFAULT_NAME, Topics
from slotwise.live.server.events import EventLog
from slotwise.live.server.live_run import END_TIMEOUT, LiveOutcome, run_live
from slotwise.live.server.outbox import publish_end_again
from slotwise.live.server.server_config import LivePlan, OverUdp, ServerConfig
from slotwise.live.server.slot_beacons import slots_of_run
from slotwise.live.transport import Channel
from slotwise.live.transport.broker import (
    PORT,
    Broker,
    BrokerOptions,
    channel_name,
    embedded_broker,
    listen_address,
    public_address_warning,
)
from slotwise.live.transport.udp_login import UdpLogin, parse_group
from slotwise.live.udp.datagrams import LARGEST_MESSAGE
from slotwise.options import loaded
from slotwise.runs import RunConfig, RunFolder, SavedRun
from slotwise.runs.execution import build_task, check_task

LARGEST_UDP_PACKET = LARGEST_MESSAGE >> 10  # KiB
BROKER_WAIT = 60.0  # seconds for a broker that cannot be reached, as devices wait by default
UDP_RETURN = 5.0  # seconds in which devices open a new session with a server that was started again
RESUMED_WAIT = 300.0  # seconds; a device that has died meanwhile should not hold up the run for an hour


def serve(
    config: RunConfig,
    out: Path | str,
    *,
    broker: BrokerOptions | None = None,
    observer: BaseObserver | None = None,
    **options: Any,
) -> LiveOutcome:
    """Run a plan with real devices: grant the channel, collect updates, broadcast models.

    The folder ``out`` must be new or empty. Without ``broker`` one is started in this process. ``observer``
    receives the progress, and may ask to stop; ``options`` are fields of `ServerConfig`.
    Raises a UserError if an option is out of range or the broker cannot be used; nothing is written then.
    """
    outcome = prepare_serve(config, out, broker=broker, **options).run(observer)
    assert outcome is not None  # a new run is not finished already
    return outcome


def resume_live(
    path: Path | str,
    *,
    broker: BrokerOptions | None = None,
    observer: BaseObserver | None = None,
    **options: Any,
) -> LiveOutcome | None:
    """Resume the live run in a folder, also after a crash; the arguments are those of `serve`.

    The run keeps its configuration and its channel, timeout, clip norm and slot length, unless they are
    given. For a run that is finished already it returns None, after telling devices that may not know it.
    """
    return prepare_resume(path, broker=broker, **options).run(observer)


def prepare_serve(
    config: RunConfig, out: Path | str, *, broker: BrokerOptions | None = None, **options: Any
) -> PreparedRun:
    """Return a new run that is ready to begin, or raise a UserError for what `serve` refuses at once."""
    login, server = _server(options, broker)
    credentials = None if broker is None else broker.credentials
    last = max(login.keys, default=0) if isinstance(login, UdpLogin) else _last_enrolled(credentials)
    if last is not None and config.channel.devices > last:
        raise InputError("devices", config.channel.devices, f"at most {last}, as many as are enrolled")
    plan = LivePlan.of(config)
    check_task(config)
    return PreparedRun(RunFolder.check_new(Path(out)), plan, server, broker or BrokerOptions(), login)


def _last_enrolled(credentials: Path | None) -> int | None:
    return None if credentials is None else last_enrolled(Path(credentials))


def prepare_resume(path: Path | str, *, broker: BrokerOptions | None = None, **options: Any) -> PreparedRun:
    """Return a run that is ready to go on, or raise a UserError for what `resume_live` refuses at once."""
    folder = RunFolder.open(Path(path))
    if "live_run" not in folder.description():
        raise UserError(f"{path}: a simulated run; resume it with slotwise train --resume")
    if folder.status == "diverged":
        raise UserError(f"{path}: diverged, and would again; start anew with other options")
    ended = prepare_ended(path, broker=broker, **options)
    return ended if folder.status == "finished" else replace(ended, plan=LivePlan.of(folder.parameters()))


def prepare_ended(path: Path | str, *, broker: BrokerOptions | None = None, **options: Any) -> PreparedRun:
    """Return a run that has ended, to tell its devices so; the options that it has kept are used."""
    folder = RunFolder.open(Path(path))
    kept = dict(folder.description().get("live_options", {}))
    if "clip_norm" in kept and kept["clip_norm"] is None:  # as earlier builds wrote it
        kept["clip_norm"] = "off"
    kept = {
        name: value for name, value in kept.items() if name in ServerConfig().kept() and value is not None
    }
    login, server = _server(options, broker, {"wait": RESUMED_WAIT, **kept})
    return PreparedRun(folder, None, server, broker or BrokerOptions(), login)


def config_like(path: Path, given: Mapping[str, Any]) -> RunConfig:
    """Return the configuration of the run in a folder with the options in ``given`` on top."""
    return RunConfig.from_options(given, defaults=SavedRun.read(path).config.options())


def new_live_folder(path: Path, config: RunConfig, server: ServerConfig) -> RunFolder:
    """Create the folder of a live run, which can be resumed from its first moment on."""
    key = secrets.randbits(62)  # of the bound on updates; devices are never told
    return RunFolder.create(
        path, config, live_run=secrets.token_hex(8), live_key=key, live_options=server.kept()
    )


@dataclass(frozen=True)
class PreparedRun:
    """A live run whose options are checked; nothing is written or connected before `run`."""

    folder: RunFolder
    plan: LivePlan | None  # None if the run is finished already
    server: ServerConfig
    options: BrokerOptions
    login: Broker | UdpLogin | None  # None: a broker is started in this process

    def run(self, observer: BaseObserver | None = None) -> LiveOutcome | None:
        """Run to the end, or until ``observer`` asks to stop; None if the run was finished already."""
        watching = BaseObserver.of(observer)
        self.warn(watching)
        if self.plan is not None:
            return asyncio.run(self._play(self.build(), watching))
        # An embedded broker ended together with its server, so there is nobody left to tell.
        if self.login is not None:
            try:
                asyncio.run(self.end_again(self.login))
            except (UserError, TimeoutError) as error:  # the run is finished all the same
                reason = error or "the broker is lost"
                watching.notice(f"devices were not told that the run is over: {reason}")
        return None

    def warn(self, observer: BaseObserver) -> None:
        """Report what is unsafe about the broker and its login."""
        log = EventLog(observer)
        for warning in self.options.warnings():
            log.warning("unsafe", reason=warning)
        if self.login is None and (public := public_address_warning(self.server.listen)) is not None:
            log.warning("unsafe", reason=public)

    def build(self) -> Task:
        """Return the task of the run; before a broker is started or a folder is made."""
        assert self.plan is not None
        loaded(self.plan.config.rule)
        task = build_task(self.plan.config)
        slots_of_run(self.plan, CheckedTask.of(task), self.server)
        return task

    async def _play(self, task: Task, observer: BaseObserver) -> LiveOutcome:
        async with watched_by_systemd(), self.broker(observer) as broker:
            return await self.play_on(broker, task, observer)

    @asynccontextmanager
    async def broker(self, observer: BaseObserver) -> AsyncIterator[Broker | UdpLogin]:
        """Yield the broker of the run, which is started here if none was given."""
        if self.login is not None:
            yield self.login
            return
        assert self.plan is not None
        allow_open_files("devices", self.plan.config.channel.devices, "each connects to the broker in here")
        host, port = listen_address(self.server.listen)
        async with embedded_broker(port, host) as started:
            command = ["slotwise", "fleet", "--devices", str(self.plan.config.channel.devices)]
            command += [] if started.port == PORT else ["--broker", str(started)]
            command += [] if self.server.name == DEFAULT_NAME else ["--name", self.server.name]
            observer.notice(f"broker at {started}; start devices with: {shlex.join(command)}")
            yield started

    async def play_on(
        self, broker: Broker | UdpLogin, task: Task, observer: BaseObserver, *, more: bool = False
    ) -> LiveOutcome:
        """Play the run on a broker; with ``more``, devices are told to wait for another run at its end."""
        folder, plan, server = self.folder, self.plan, self.server
        assert plan is not None
        async with self._channel(broker, observer, min(BROKER_WAIT, server.wait)) as channel:
            if not folder.is_run:  # nothing is written before there is a broker
                new_live_folder(folder.path, plan.config, server)
            return await run_live(folder, plan, task, channel, server=server, observer=observer, more=more)

    @asynccontextmanager
    async def _channel(
        self, login: Broker | UdpLogin, observer: BaseObserver | None = None, timeout: float = 0.0
    ) -> AsyncIterator[Channel]:
        """Open the channel of the server; each kind loads its own packages."""
        watching = BaseObserver.of(observer)
        if isinstance(login, UdpLogin):
            from slotwise.live.udp.sockets import listening_hub  # noqa: PLC0415

            group = None if self.server.multicast is None else parse_group(self.server.multicast)
            topics, frame_bytes = Topics(self.server.name), self.server.frame_bytes
            async with listening_hub(login, topics, frame_bytes, group) as hub:
                watching.notice(f"listening at {login} for {len(login.keys)} enrolled devices")
                yield hub
            sent = {"to_devices": hub.bytes_sent, "to_group": hub.group.bytes_sent if hub.group else 0}
            EventLog(watching).info("bytes_sent", **sent)
        else:
            from slotwise.live.transport.mqtt import connected_channel  # noqa: PLC0415

            how: Any = {"notice": watching.notice, "timeout": timeout, "stopped": watching.wants_stop}
            async with connected_channel(login, self._client_id(), **how) as channel:
                yield channel

    async def end_again(self, login: Broker | UdpLogin) -> None:
        """Tell devices that the run is over, in case its server was killed before it did."""
        async with asyncio.timeout(END_TIMEOUT), self._channel(login) as channel:
            run = str(self.folder.description()["live_run"])
            await publish_end_again(run, channel, Topics(self.server.name), Clock())
            if isinstance(login, UdpLogin):  # no broker keeps the end for devices that are not back yet
                await asyncio.sleep(UDP_RETURN)

    def _client_id(self) -> str:
        """Return a new identifier: a second server must not disconnect the first before it is superseded."""
        return Topics(self.server.name).client_id(f"server-{secrets.token_hex(4)}")


def _server(
    options: Mapping[str, Any], broker: BrokerOptions | None, kept: Mapping[str, Any] | None = None
) -> tuple[Broker | UdpLogin | None, ServerConfig]:
    """Return the login and the options of the server, with those it keeps from before."""
    login = (broker or BrokerOptions()).login("server")
    if login is not None and "listen" in options:
        raise ConflictError("listen", "broker", "it is the address of the embedded broker")
    for only in ServerConfig.marked(OverUdp):
        if only in options and not isinstance(login, UdpLogin):
            raise NoEffectError(only, options[only], "without a broker of udp://")
    name = channel_name(options.get("name"), login)
    named = {} if name is None else {"name": name}
    server = ServerConfig(**{**(kept or {}), **options, **named})
    if server.grants_ahead and not isinstance(login, UdpLogin):  # of a run that is resumed
        raise NoEffectError("grants_ahead", True, "without a broker of udp://")
    if isinstance(login, UdpLogin) and server.packet_kib > LARGEST_UDP_PACKET:
        raise InputError("packet_kib", server.packet_kib, f"at most {LARGEST_UDP_PACKET} with udp://")
    return login, server
