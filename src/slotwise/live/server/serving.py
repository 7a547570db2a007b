"""serve and resume_live: a live run on an MQTT broker, from its configuration to its folder."""

from __future__ import annotations

import asyncio
import secrets
import shlex
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from slotwise.errors import ConflictError, UserError
from slotwise.live.clock import Clock
from slotwise.live.protocol import DEFAULT_NAME, Topics
from slotwise.live.server.events import EventLog
from slotwise.live.server.live_run import END_TIMEOUT, LiveOutcome, run_live
from slotwise.live.server.outbox import publish_end_again
from slotwise.live.server.server_config import KEPT, ServerConfig, live_plan
from slotwise.live.transport.broker import (
    PORT,
    Broker,
    BrokerOptions,
    channel_name,
    embedded_broker,
    listen_address,
    public_address_warning,
)
from slotwise.observer import BaseObserver
from slotwise.options import loaded
from slotwise.runs import RunConfig, RunFolder
from slotwise.runs.config import REPLACED_BY
from slotwise.runs.execution import build_task, check_task

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
    folder, login, server = check_serve(config, out, broker=broker, **options)
    _warn(broker, login, server, observer)
    return _run(folder, config, server, login, BaseObserver.of(observer))


def check_serve(
    config: RunConfig, out: Path | str, *, broker: BrokerOptions | None = None, **options: Any
) -> tuple[RunFolder, Broker | None, ServerConfig]:
    """Return folder, login and options of a new run; a UserError for what `serve` would refuse at once."""
    login, server = _server(options, broker)
    live_plan(config)
    check_task(config)
    return RunFolder.check_new(Path(out)), login, server


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
    folder, login, server = check_resume(path, broker=broker, **options)
    watching = BaseObserver.of(observer)
    _warn(broker, login, server, observer)
    if folder.status == "finished":
        # An embedded broker ended together with its server, so there is nobody left to tell.
        if login is not None:
            _end_again(folder, login, server, watching)
        return None
    return _run(folder, folder.parameters(), server, login, watching)


def check_resume(
    path: Path | str, *, broker: BrokerOptions | None = None, **options: Any
) -> tuple[RunFolder, Broker | None, ServerConfig]:
    """Return folder, login and options of a run; a UserError for what `resume_live` would refuse at once."""
    folder = RunFolder.open(Path(path))
    description = folder.description()
    if "live_run" not in description:
        raise UserError(f"{path}: a simulated run; resume it with slotwise train --resume")
    if folder.status == "diverged":
        raise UserError(f"{path}: diverged, and would again; start anew with other options")
    kept = dict(description.get("live_options", {}))
    if "clip_norm" in kept and kept["clip_norm"] is None:  # as earlier builds wrote it
        kept["clip_norm"] = "off"
    kept = {name: value for name, value in kept.items() if name in KEPT and value is not None}
    return folder, *_server(options, broker, {"wait": RESUMED_WAIT, **kept})


def config_like(path: Path, given: Mapping[str, Any]) -> RunConfig:
    """Return the configuration of the run in a folder with the options in ``given`` on top."""
    replaced = {name for option in given for name in REPLACED_BY.get(option, ())}
    options = RunFolder.open(path).parameters().options()
    kept = {name: value for name, value in options.items() if name not in replaced}
    return RunConfig.from_options(given, defaults=kept)


def _server(
    options: Mapping[str, Any], broker: BrokerOptions | None, kept: Mapping[str, Any] | None = None
) -> tuple[Broker | None, ServerConfig]:
    """Return the login and the options of the server, with those it keeps from before."""
    login = (broker or BrokerOptions()).login("server")
    if login is not None and "listen" in options:
        raise ConflictError("listen", "broker", "it is the address of the embedded broker")
    name = channel_name(options.get("name"), login)
    named = {} if name is None else {"name": name}
    return login, ServerConfig(**{**(kept or {}), **options, **named})


def _warn(
    options: BrokerOptions | None, login: Broker | None, server: ServerConfig, observer: BaseObserver | None
) -> None:
    """Log what is unsafe about the way to the broker."""
    log = EventLog(observer)
    for warning in (options or BrokerOptions()).warnings():
        log.warning("unsafe", reason=warning)
    if login is None and (public := public_address_warning(server.listen)) is not None:
        log.warning("unsafe", reason=public)


def _run(
    folder: RunFolder, config: RunConfig, server: ServerConfig, broker: Broker | None, observer: BaseObserver
) -> LiveOutcome:
    from slotwise.live.transport.mqtt import connected_channel  # noqa: PLC0415

    task = build_task(config)  # errors are reported before a broker is started or a folder is made
    loaded(config.rule)

    async def run() -> LiveOutcome:
        async with AsyncExitStack() as stack:
            used = broker
            if used is None:
                host, port = listen_address(server.listen)
                used = await stack.enter_async_context(embedded_broker(port, host))
                command = ["slotwise", "fleet", "--devices", str(config.channel.devices)]
                command += [] if used.port == PORT else ["--broker", str(used)]
                command += [] if server.name == DEFAULT_NAME else ["--name", server.name]
                observer.notice(f"broker at {used}; start devices with: {shlex.join(command)}")
            channel = await stack.enter_async_context(
                connected_channel(used, _client_id(server), notice=observer.notice)
            )
            if not folder.is_run:  # nothing is written before there is a broker
                new_live_folder(folder.path, config, server)
            return await run_live(folder, config, task, channel, server=server, observer=observer)

    return asyncio.run(run())


def new_live_folder(path: Path, config: RunConfig, server: ServerConfig) -> RunFolder:
    """Create the folder of a live run, which can be resumed from its first moment on."""
    return RunFolder.create(path, config, live_run=secrets.token_hex(8), live_options=server.kept())


def _client_id(server: ServerConfig) -> str:
    """Return a new identifier: a second server must not disconnect the first before it is superseded."""
    return Topics(server.name).client_id(f"server-{secrets.token_hex(4)}")


def _end_again(folder: RunFolder, broker: Broker, server: ServerConfig, observer: BaseObserver) -> None:
    """Tell devices that a run is over, in case its server was killed before it did.

    The run is finished all the same, so a broker that is lost is not an error.
    """
    from slotwise.live.transport.mqtt import connected_channel  # noqa: PLC0415

    async def publish() -> None:
        async with asyncio.timeout(END_TIMEOUT), connected_channel(broker, _client_id(server)) as channel:
            run = str(folder.description()["live_run"])
            await publish_end_again(run, channel, Topics(server.name), Clock())

    try:
        asyncio.run(publish())
    except (UserError, TimeoutError) as error:
        observer.notice(f"devices were not told that the run is over: {error or 'the broker is lost'}")
