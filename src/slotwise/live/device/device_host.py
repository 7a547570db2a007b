"""run_device and run_fleet: one device on MQTT, or many in one process."""

from __future__ import annotations

import asyncio
import secrets
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from slotwise.base.daemon_threads import DaemonThreads
from slotwise.base.errors import InputError, UserError
from slotwise.base.extras import MissingPackage
from slotwise.base.machine import allow_open_files, available_cores
from slotwise.base.service_watchdog import watched_by_systemd
from slotwise.base.user_code import load_function
from slotwise.data.facts import DataName
from slotwise.live.device.client import Device, NotUnderstood
from slotwise.live.protocol import DEFAULT_NAME, MAX_DEVICES, Topics
from slotwise.live.transport import KEEPALIVE, Channel, Message
from slotwise.live.transport.broker import DEFAULT_BROKER, Broker, BrokerOptions, channel_name
from slotwise.live.transport.outages import Outages
from slotwise.live.transport.udp_login import UdpLogin
from slotwise.options import Range, loaded, resolved
from slotwise.options.checks import Value, whole

if TYPE_CHECKING:
    from slotwise.learning.task import Task

LAST_WILL_TIMEOUT = 5.0  # seconds
MAX_KEEPALIVE = 65535  # MQTT has two bytes for it
MOST_NOTICES = 1000  # different ones that are remembered, so as not to repeat them

Notice = Callable[[str], None]  # called with lines about the connection and the run


class Excluded(UserError):
    """Devices were excluded by the server, after bad or missing updates, when the run ended."""

    def __init__(self, devices: Sequence[int]) -> None:
        self.devices = tuple(devices)
        named = f"device{'s' * (len(devices) > 1)} {', '.join(map(str, devices))}"
        super().__init__(f"{named}: excluded by the server after bad or missing updates when the run ended")


@dataclass(frozen=True, kw_only=True)
class DeviceConfig(Value):
    """Options of a device.

    Attributes:
        name: Name of the channel on the broker; server and devices must use the same. Default: that of the
            credentials, or trial.
        data: Data set. Default: as announced by the server.
        partition: Partition of the data set among devices. Default: as announced by the server; your own,
            module:function, must be given.
        data_folder: Folder with the samples of this device in device-1.npz, device-2.npz or so on, if the run
            uses a data folder.
        task: Your own task with your own data: module:function.
        local_step: The step of the optimiser that the run uses, if it is not a built-in one: module:function.
        timeout: Seconds to wait for the broker to be reachable.
        keepalive: Seconds of silence after which broker and device check the connection; after one and a
            half times as long the device counts as disconnected.
    """

    name: str | None = None
    data: DataName | None = None
    partition: str | None = None
    data_folder: str | None = None
    task: str | None = None
    local_step: str | None = None
    timeout: Annotated[float, Range(least=0)] = 60.0
    keepalive: Annotated[int, Range(1, MAX_KEEPALIVE)] = KEEPALIVE

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.task is not None:
            load_function("task", self.task, 1)  # reported at once, not when a server announces a run
        if self.local_step is not None:
            load_function("local_step", self.local_step, 3)
        if self.partition is not None:
            from slotwise.data.partitions import PARTITION  # noqa: PLC0415  (not for a device that waits)

            loaded(resolved(PARTITION, self.partition))


def run_device(
    number: int, *, broker: BrokerOptions | None = None, notice: Notice = lambda _: None, **options: Any
) -> bool:
    """Run device ``number`` (from 1) until the run is over; ``options`` are fields of `DeviceConfig`.

    It waits for broker (default: mqtt://127.0.0.1:1883) and server, and survives their restarts. Returns
    False if SIGINT or SIGTERM came before the end; raises `Excluded` if the device was excluded then.
    """
    login = _login(broker or BrokerOptions(), whole("id", number))
    for warning in (broker or BrokerOptions()).warnings():
        notice(f"warning: {warning}")
    return _run({number: login}, DeviceConfig(**options), 1, notice)


def run_fleet(
    devices: int = 20,
    *,
    first: int = 1,
    workers: int | None = None,
    broker: BrokerOptions | None = None,
    notice: Notice = lambda _: None,
    **options: Any,
) -> bool:
    """Run many devices in one process, each with its own connection, for a trial on one machine.

    Like `run_device`, with ``workers`` (default: all cores) parallel trainings. The ``credentials`` of the
    broker, if given, are a folder with device-1.toml and so on.
    """
    if whole("devices", devices) > MAX_DEVICES:
        raise InputError("devices", devices, f"at most {MAX_DEVICES:,}, as each has its own connection")
    allow_open_files("devices", devices, "each has a connection")
    threads = available_cores() if workers is None else whole("workers", workers)
    chosen, numbers = broker or BrokerOptions(), range(whole("first", first), first + devices)
    logins = {number: fleet_login(chosen, number) for number in numbers}
    return _run(logins, DeviceConfig(**options), threads, notice)


def fleet_login(broker: BrokerOptions, number: int) -> Broker | UdpLogin:
    """Return the login of a device whose credentials, if there are any, are in a folder."""
    folder = broker.credentials
    file = None if folder is None else Path(folder) / f"device-{number}.toml"
    return _login(replace(broker, credentials=file), number)


def _login(broker: BrokerOptions, number: int) -> Broker | UdpLogin:
    login = broker.login(f"device-{number}", DEFAULT_BROKER)
    assert login is not None
    return login


def _run(logins: Mapping[int, Broker | UdpLogin], config: DeviceConfig, workers: int, notice: Notice) -> bool:
    names = {channel_name(config.name, broker) for broker in logins.values()}
    if len(names) > 1:
        raise UserError(f"the credentials are for different channels: {', '.join(sorted(map(str, names)))}")
    devices = asyncio.run(_host(logins, Topics(names.pop() or DEFAULT_NAME), config, workers, notice))
    if devices is None:
        return False
    trainings, ignored = sum(one.trainings for one in devices), sum(one.ignored for one in devices)
    more = f"; {ignored} messages ignored that were not for them" if ignored else ""
    notice(f"the run is over: {trainings} trainings by {len(devices)} device{'s' * (len(devices) > 1)}{more}")
    if excluded := [device.number for device in devices if device.excluded]:
        raise Excluded(excluded)
    return True


async def _host(
    logins: Mapping[int, Broker | UdpLogin],
    topics: Topics,
    config: DeviceConfig,
    workers: int,
    notice: Notice,
) -> list[Device] | None:
    """Run devices until the run is over; None if a signal comes before."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    over_udp = any(isinstance(login, UdpLogin) for login in logins.values())
    host = _DeviceHost(topics, config, [*logins], workers, notice, "server" if over_udp else "broker")
    tasks = [asyncio.create_task(host.run(number, broker)) for number, broker in logins.items()]
    stopping = asyncio.create_task(stop.wait())
    waiting: set[asyncio.Task[Any]] = set(tasks)
    try:
        async with watched_by_systemd():
            while waiting and not stop.is_set():
                done, _ = await asyncio.wait({*waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
                for task in done & waiting:
                    task.result()  # one device that fails ends all
                waiting -= done
    finally:
        for task in (*tasks, stopping):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        host.pool.shutdown(wait=False, cancel_futures=True)  # a training under way is not needed any more
    return None if stop.is_set() else [task.result() for task in tasks]


class _DeviceHost:
    """Shared resources of the devices in one process; their task is made when the first learns of the run."""

    def __init__(
        self,
        topics: Topics,
        config: DeviceConfig,
        numbers: Sequence[int],
        workers: int,
        notice: Notice,
        peer: str = "broker",  # what devices are connected with: over UDP the server
    ) -> None:
        self._topics, self._config, self._numbers, self._notice = topics, config, numbers, notice

        # A training that never ends does not keep the process alive.
        self.pool = DaemonThreads(workers, "device")
        self._outages, self._lock = Outages(notice, peer), asyncio.Lock()
        self._noticed: set[str] = set()
        self._made: tuple[str, Task] | None = None

    @asynccontextmanager
    async def _channel(self, number: int, login: Broker | UdpLogin, will: Message) -> AsyncIterator[Channel]:
        """Open the channel of a device; each kind loads its own packages."""
        how: dict[str, Any] = {"will": will, "outages": self._outages}
        how |= {name: getattr(self._config, name) for name in ("keepalive", "timeout")}
        if isinstance(login, UdpLogin):
            from slotwise.live.udp.sockets import connected_device  # noqa: PLC0415

            async with connected_device(login, number, **how) as over_udp:
                yield over_udp
        else:
            from slotwise.live.transport.mqtt import connected_channel  # noqa: PLC0415

            client = self._topics.client_id(f"device-{number}")
            async with connected_channel(login, client, notice=self._notice_once, **how) as over_mqtt:
                yield over_mqtt

    async def run(self, number: int, login: Broker | UdpLogin) -> Device:
        """Run one device, from its connection to its end."""
        # The boot identifies this start of the device: a last will of an earlier one may arrive after it.
        topics, boot = self._topics, secrets.token_hex(8)
        will = Device.last_will(topics, number, boot)
        async with self._channel(number, login, will) as channel:
            self._notice_once(f"connected to {login}")
            about = (boot, self._notice_once, getattr(login, "certificate", None))
            device = Device(number, topics, channel, self._task, self.pool, *about)
            try:
                await device.run()
            except BaseException:
                # A client that closes its connection leaves no last will, so the device publishes it itself.
                if channel.connected:
                    publishing = channel.publish(will.topic, will.payload)
                    with suppress(TimeoutError):
                        await asyncio.wait_for(publishing, LAST_WILL_TIMEOUT)
                raise
            return device

    def _notice_once(self, text: str) -> None:
        # All devices of a fleet report the same about the broker.
        if text not in self._noticed:
            if len(self._noticed) >= MOST_NOTICES:  # texts have names of options from the network
                self._noticed.clear()
            self._noticed.add(text)
            self._notice(text)

    async def _task(self, fields: Mapping[str, str]) -> Task:
        announced = fields.get("parameters", "")
        # All devices of this process share one task: the first one builds it, the others wait.
        async with self._lock:
            if self._made is None or self._made[0] != announced:
                loop = asyncio.get_running_loop()
                self._made = announced, await loop.run_in_executor(self.pool, self._build, announced)
        return self._made[1]

    def _build(self, announced: str) -> Task:
        """Return the task of an announced run; whatever is announced, the device waits if it cannot."""
        # Imported when a run needs it: a device that waits for one takes little memory.
        from slotwise.learning.task import TrainingStart  # noqa: PLC0415
        from slotwise.live.device.announced_run import announced_config  # noqa: PLC0415
        from slotwise.runs.execution import build_task  # noqa: PLC0415

        names = ("data", "partition", "data_folder", "task", "local_step")
        config = announced_config(announced, {name: getattr(self._config, name) for name in names})
        try:
            task = build_task(config, devices=[n for n in self._numbers if n <= config.channel.devices])
            if not config.model.is_own:  # compile the kernels before this device says that it is here
                task.local_update(task.initial_model(), TrainingStart(1, 0))
        except MissingPackage as missing:
            raise NotUnderstood(f"the run needs a built-in network here, and {missing}") from None
        except (UserError, MemoryError) as error:
            raise NotUnderstood(f"the run cannot be trained here: {error or 'too little memory'}") from None
        return task
