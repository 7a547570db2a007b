"""serve: the Scheduler on Flower's nodes, inside a ServerApp.

The live server and its devices are those of MQTT, in memory. A device stands for a node: it sends the model
on as a train message, holds the reply until the channel is granted to it, and leaves if its node is lost.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord, MessageType
from flwr.serverapp import Grid

from slotwise.base.errors import InputError, UserError
from slotwise.base.files import write_atomically
from slotwise.base.observer import BaseObserver, Observers
from slotwise.base.user_code import describe_error
from slotwise.flower.app_messages import MessageForm
from slotwise.flower.node_messages import Latency, NodeLost, NodeMessages
from slotwise.flower.node_task import NodeTask
from slotwise.flower.task import EvaluateFunction
from slotwise.live.device.client import Device
from slotwise.live.protocol import Topics
from slotwise.live.server.live_run import LiveOutcome, run_live
from slotwise.live.server.server_config import LARGEST_PACKET, LivePlan, ServerConfig
from slotwise.live.server.serving import new_live_folder
from slotwise.live.transport import MemoryBroker
from slotwise.options import loaded
from slotwise.runs import RunConfig, RunFolder

MOST_FAILURES = 3  # of a node in a row; then it gets no more work
REJOIN_DELAY = 1.0  # seconds


@dataclass(frozen=True)
class NodesOutcome:
    """Outcome of a run on Flower's nodes.

    Attributes:
        live: Status, models and comparison of plan and measurement.
        latency: Seconds that messages took.
        arrays: The last model.
        folder: The run folder.
    """

    live: LiveOutcome
    latency: Latency
    arrays: ArrayRecord
    folder: Path


def serve(
    grid: Grid,
    config: RunConfig | Mapping[str, Any],
    *,
    arrays: ArrayRecord,
    out: Path | str,
    train_config: Mapping[str, Any] | None = None,
    evaluate_config: Mapping[str, Any] | None = None,
    evaluate_fn: EvaluateFunction | None = None,
    message_timeout: float = 600.0,
    resume: bool = False,
    observer: BaseObserver | None = None,
    **options: Any,
) -> NodesOutcome:
    """Train on Flower's nodes in the order that the schedule plans; call it in the main of a ServerApp.

    Args:
        grid: The grid of the ServerApp.
        config: What to run: a RunConfig, or a table of its options. Its devices are nodes, in the order in
            which they connect; options of data, model and local training are the app's and have no effect.
        arrays: The first model.
        out: The run folder; it must be new or empty.
        train_config: Configuration of the train messages; server-round is added.
        evaluate_config: Configuration of the evaluate messages; server-round is added, and is always 1.
        evaluate_fn: Server-side evaluation, ``evaluate_fn(server_round, arrays)``, instead of the nodes' own;
            server_round is always 0.
        message_timeout: Seconds after which a node that has not answered counts as lost.
        resume: Continue the run in ``out`` from its last checkpoint.
        observer: Receives the progress, and may ask to stop.
        options: Fields of `ServerConfig`, such as ``slot_ms``, ``wait`` and ``checkpoint_every``.

    Raises:
        UserError: an option is wrong, and nothing is written then; or the connection to Flower failed, and
            the run can be resumed from its last checkpoint.
    """
    chosen = config if isinstance(config, RunConfig) else RunConfig.from_options(config)
    if not 0 < message_timeout < inf:
        raise InputError("message_timeout", message_timeout, "a finite number of seconds above 0")
    server = _server_config(options, message_timeout)
    plan = LivePlan.of(chosen)  # this and the rule are made for their checks, before anything is written
    loaded(chosen.rule)
    if not isinstance(arrays, ArrayRecord):
        raise InputError("arrays", type(arrays).__name__, "an ArrayRecord with the first model")
    nodes = _Nodes(chosen.channel.devices, BaseObserver.of(observer))
    train = MessageForm.usual(MessageType.TRAIN, train_config)
    evaluate = MessageForm.usual(MessageType.EVALUATE, evaluate_config)
    # A copy of the table, because trainings read it in their own threads.
    task = NodeTask(arrays, train, evaluate, evaluate_fn, lambda: dict(nodes.of_device))
    folder = RunFolder.open(Path(out)) if resume else _new_folder(Path(out), chosen, server)
    with NodeMessages(grid, message_timeout, nodes.notify) as messages:
        task.messages = messages
        try:
            live = asyncio.run(_run(folder, plan, server, task, nodes, messages))
        finally:
            messages.refuse_failure()  # also if the run ended with an error, which is only a consequence then
        latency = messages.latency
    write_atomically(folder.path / "messages.json", latency.to_json())
    nodes.observer.notice(_described(latency, chosen))
    model = live.state.models[live.state.round]
    return NodesOutcome(live, latency, task.layout.record(model), folder.path)


def _new_folder(path: Path, config: RunConfig, server: ServerConfig) -> RunFolder:
    return new_live_folder(RunFolder.check_new(path).path, config, server)


async def _run(
    folder: RunFolder,
    plan: LivePlan,
    server: ServerConfig,
    task: NodeTask,
    nodes: _Nodes,
    messages: NodeMessages,
) -> LiveOutcome:
    broker, topics = MemoryBroker(), Topics(server.name)
    observer = Observers(nodes.observer, _StopOnFailure(messages))
    # Each training waits for a reply in a thread, and so does an evaluation.
    with ThreadPoolExecutor(plan.config.channel.devices + 1, thread_name_prefix="node") as pool:
        devices = asyncio.create_task(nodes.run(broker, topics, task, pool))
        try:
            async with broker.connect() as channel:
                return await run_live(folder, plan, task, channel, server=server, observer=observer)
        finally:
            devices.cancel()
            await asyncio.wait([devices])
            # Nobody needs the trainings that are under way, and the pool would wait for their replies.
            messages.close()


class _StopOnFailure(BaseObserver):
    """Stops the run with a checkpoint if messages cannot be sent any more: no node would ever answer."""

    def __init__(self, messages: NodeMessages) -> None:
        self._messages = messages

    def wants_stop(self) -> bool:
        return self._messages.failure is not None


class _Nodes:
    """The nodes as devices: a `Device` runs for each node that is connected."""

    def __init__(self, devices: int, observer: BaseObserver) -> None:
        self._devices, self.observer = devices, observer
        self.of_device: dict[int, int] = {}
        """Node of each device that is present."""
        self._connected: frozenset[int] = frozenset()
        self._failures: Counter[int] = Counter()  # of nodes that are connected
        self._changed: Callable[[], object] = lambda: None

    def notify(self, connected: frozenset[int]) -> None:
        """Receive the connected nodes; called in another thread."""
        # A node that has disconnected may have been repaired, and begins without failures.
        for node in set(self._failures) - connected:
            del self._failures[node]
        self._connected = connected
        self._changed()

    async def run(
        self, broker: MemoryBroker, topics: Topics, task: NodeTask, pool: ThreadPoolExecutor
    ) -> None:
        """Give devices to nodes as they come, until cancelled."""
        loop, changed = asyncio.get_running_loop(), asyncio.Event()
        self._changed = lambda: loop.call_soon_threadsafe(changed.set)
        running: set[asyncio.Task[None]] = set()
        try:
            while True:
                # Before the nodes are read, so that a change that comes meanwhile is not missed.
                changed.clear()
                for device, node in self._assign():
                    started = asyncio.create_task(self._play(device, node, broker, topics, task, pool))
                    running.add(started)
                    started.add_done_callback(running.discard)
                    started.add_done_callback(lambda _: changed.set())
                await changed.wait()
        finally:
            # The other thread may still report nodes when this loop is closed.
            self._changed = lambda: None
            for started in running:
                started.cancel()

    def _assign(self) -> list[tuple[int, int]]:
        """Return new pairs of device and node: free numbers from the lowest on, nodes in their order."""
        usable = [node for node in sorted(self._connected) if self._failures[node] < MOST_FAILURES]
        waiting = [node for node in usable if node not in self.of_device.values()]
        free = [number for number in range(1, self._devices + 1) if number not in self.of_device]
        pairs = list(zip(free, waiting, strict=False))
        self.of_device.update(pairs)
        return pairs

    async def _play(
        self,
        number: int,
        node: int,
        broker: MemoryBroker,
        topics: Topics,
        task: NodeTask,
        pool: ThreadPoolExecutor,
    ) -> None:
        """Take part as a device until the run is over or the node fails."""
        boot = secrets.token_hex(8)
        will = Device.last_will(topics, number, boot)

        async def make_task(_: Mapping[str, str]) -> NodeTask:
            return task

        async with broker.connect() as channel:
            device = Device(number, topics, channel, make_task, pool, boot, self.observer.notice)
            try:
                await device.run()
                # The number stays taken, so that `run` starts no other device in a run that is over.
                return
            except NodeLost as error:
                self._failures[node] = MOST_FAILURES  # until it has disconnected and connects again
                self.observer.notice(f"device {number} has left: {error}")
            except Exception as error:  # of a wrong reply; a device that ended silently would be waited for
                self._failures[node] += 1
                reason = error if isinstance(error, UserError) else describe_error(error)
                last = self._failures[node] == MOST_FAILURES
                ending = "; it gets no more work" if last else ""
                self.observer.notice(f"device {number} has left: {reason}{ending}")
            # The memory broker does not notice that a client is lost, so its last will is published here.
            broker.pass_on(will)
        # Only then number and node are free again: a node that fails at once must not rejoin without a pause.
        await asyncio.sleep(REJOIN_DELAY)
        del self.of_device[number]


def _server_config(options: Mapping[str, Any], message_timeout: float) -> ServerConfig:
    """Return the options of the live server, with the defaults that fit Flower."""
    # In memory nothing is sent in parts, and how long a training may take is the timeout of its message.
    longest = 2 * message_timeout if options.get("slot_ms") is None else None
    usual = ServerConfig(clip_norm="off", packet_kib=LARGEST_PACKET, longest_training=longest)
    return replace(usual, **options)


def _described(latency: Latency, config: RunConfig) -> str:
    """Return a line about the messages, and the slot length for which the plan would hold."""
    if not latency.messages:
        return "no message was answered"
    slots = config.channel.compute_slots
    times = f"{latency.median:.1f} s (median) to {latency.longest:.1f} s"
    return (
        f"{latency.messages} messages answered in {times}, {latency.unanswered} unanswered: with {slots} "
        f"compute slots the plan holds in real time for slots of {latency.longest / slots:.1f} s and more"
    )
