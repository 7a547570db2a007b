"""SlotGrid: a Grid in this process that charges virtual slots, so any strategy of Flower gets a time axis.

A call of `send_and_receive` with train messages is one synchronous round: its devices have the model when its
broadcast ends (the first model from slot 0 on), compute, send one after another when all have finished, and
the next model is broadcast. That is the schedule "sync". Messages of other types take no slots, as
evaluations in slotwise do not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from flwr.app import Context, Error, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import Result

from slotwise.base.errors import InputError, UserError
from slotwise.base.user_code import describe_error, describe_value
from slotwise.fleet import Fleet
from slotwise.flower.app_call import CALLING, seed_of, seeded
from slotwise.flower.app_messages import evaluation_of, mean_metrics, reply_content, reply_metrics
from slotwise.flower.project import FlowerProject
from slotwise.flower.server_probe import LocalGrid, ensure_task_identity, quiet_flower, server_context
from slotwise.learning import Evaluation, History, Point
from slotwise.learning.randomness import Purpose
from slotwise.options.checks import LARGEST_SEED, whole
from slotwise.scenario import Scenario
from slotwise.schedule import Record, Timeline

APP_FAILED = 2  # Flower's code of an error in a ClientApp


class DeadlineReached(BaseException):
    """The next round would end after the deadline. No Exception, so that no app hides it."""


class SlotGrid(LocalGrid):
    """A grid whose nodes 1 to N are calls of a ClientApp in this process, one after another.

    Every node keeps its own ``context.state``. An app that fails answers with an error message, as in
    Flower's simulation.
    """

    def __init__(
        self,
        app: ClientApp,
        scenario: Scenario,
        *,
        fleet: Fleet | None = None,
        seed: int = 0,
        run_config: Mapping[str, Any] | None = None,
    ) -> None:
        """Call ``app`` with the devices of the scenario, or of a fleet without faults."""
        if not isinstance(app, ClientApp):
            raise InputError("app", type(app).__name__, "a ClientApp")
        self._fleet = Fleet.equal(scenario) if fleet is None else fleet.of_scenario(scenario)
        if not self._fleet.faultless:
            raise InputError("fleet", "with losses or absences", "one without: a strategy knows none")
        super().__init__()
        self._app, self._scenario = app, scenario
        self._seed = whole("seed", seed, 0, LARGEST_SEED)
        self._config = dict(run_config or {})
        self._states = {device: RecordDict() for device in range(1, scenario.devices + 1)}
        self._trainings: Counter[int] = Counter()
        self._record = Record([], [], [], [])
        self._points: list[Point] = []
        self._replies: dict[str, Message] = {}
        self._numbers = count(1)
        ensure_task_identity()  # a strategy makes messages by itself

    @property
    def slot(self) -> int:
        """The slot in which the newest model was complete."""
        return self._record.broadcasts[-1][1] if self._record.broadcasts else 0

    @property
    def rounds(self) -> int:
        """Rounds of training so far."""
        return len(self._record.broadcasts)

    def timeline(self) -> Timeline:
        """Return what the channel carried so far.

        Raises:
            UserError: there was no round.
        """
        if not self.rounds:
            raise UserError("no train message was sent, so there is no timeline")
        # Nobody has received the last model: its round has not begun.
        received = Record(*self._record[:3], [*self._record.receivers, ()])
        return Timeline.of(self._scenario, "sync", 0, received, self._fleet)

    def history(self, result: Result | None = None) -> History:
        """Return the loss against slots, from evaluate messages or from the server-side part of a result."""
        points = list(self._points)
        if result is not None and result.evaluate_metrics_serverapp:
            ends = [0, *(end for _, end in self._record.broadcasts)]
            evaluations = sorted(result.evaluate_metrics_serverapp.items())
            points = [_point(ends[k], k, evaluation_of(record)) for k, record in evaluations]
        return History(tuple(points), {}, self.rounds)

    def get_node_ids(self) -> Iterable[int]:
        """Return the numbers of the devices."""
        return list(self._states)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Call the app with each message; the replies are kept until they are pulled."""
        sent = list(messages)
        for device in (message.metadata.dst_node_id for message in sent):
            if device not in self._states:
                raise UserError(f"SlotGrid: there is no node {device}, only 1 to {self._scenario.devices}")
        trained = [m.metadata.dst_node_id for m in sent if _kind(m) == MessageType.TRAIN]
        if trained:
            # Before the apps are called: a round that would end after the deadline is not computed.
            self._charge(trained)
        identifiers = []
        for message in sent:
            identifier = f"message-{next(self._numbers)}"
            # In Flower the SuperLink sets the identifier, and a message has no public way to do it.
            message.metadata.__dict__["_message_id"] = identifier
            self._replies[identifier] = self._call(message)
            identifiers.append(identifier)
        self._note_evaluation([self._replies[i] for i in identifiers])
        return identifiers

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return replies; each is returned once."""
        return [self._replies.pop(i) for i in list(message_ids) if i in self._replies]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Call the app with each message and return the replies."""
        del timeout  # nobody waits here
        return self.pull_messages(self.push_messages(messages))

    def _charge(self, devices: Sequence[int]) -> None:
        """Add a round of these devices to the record, or stop if it would end after the deadline."""
        if len(set(devices)) != len(devices):
            raise UserError("SlotGrid: two train messages to one device in a round cannot be scheduled")
        fleet, start, k = self._fleet, self.slot, self.rounds
        ready = {n: start + fleet.compute_slots[n - 1] for n in devices}
        slot = max(ready.values())  # all send when all have finished
        uplinks = []
        # The order of the Scheduler: the first one ready sends first, and ties go to the lower number.
        for device in sorted(devices, key=lambda n: (ready[n], n)):
            end = slot + fleet.link_slots[device - 1]
            uplinks.append((k, device, k, slot, end))
            slot = end
        complete, deadline = slot + self._scenario.link_slots, self._scenario.deadline
        if deadline is not None and complete > deadline:
            raise DeadlineReached
        self._record.uplinks.extend(uplinks)
        self._record.receivers.append(sorted(devices))
        self._record.broadcasts.append((slot, complete))

    def _call(self, message: Message) -> Message:
        device = message.metadata.dst_node_id
        trains = _kind(message) == MessageType.TRAIN
        purpose = Purpose.APP_TRAINING if trains else Purpose.APP_EVALUATION
        seed = seed_of(self._seed, purpose, device, self._trainings[device] if trains else 0)
        # Counted also if the app fails, because the slots of its training are charged in any case.
        self._trainings[device] += trains
        node = {"partition-id": device - 1, "num-partitions": self._scenario.devices}
        context = Context(1, device, node, self._states[device], dict(self._config))
        try:
            with CALLING, seeded(seed):
                reply = self._app(message, context)
        except Exception as error:
            return Message(Error(APP_FAILED, describe_error(error)), reply_to=message)
        self._states[device] = context.state
        return reply

    def _note_evaluation(self, replies: Iterable[Message]) -> None:
        """Keep the weighted mean of the replies to evaluate messages as a point, if they have a loss."""
        means = mean_metrics(
            reply_metrics(reply_content(reply))
            for reply in replies
            if _kind(reply) == MessageType.EVALUATE and not reply.has_error()
        )
        if any(name.lower().endswith("loss") for name in means):
            point = _point(self.slot, self.rounds, evaluation_of(means))
            # A strategy may evaluate a round in several calls; the last one counts.
            self._points = [*(p for p in self._points if p.round != self.rounds), point]


@dataclass(frozen=True)
class StrategyRun:
    """A ServerApp with its strategy on virtual slots.

    Attributes:
        timeline: What the channel carried.
        history: Loss against slots, if the strategy evaluates on devices.
    """

    timeline: Timeline
    history: History


def run_strategy(
    project: str | Path,
    scenario: Scenario,
    *,
    fleet: Fleet | None = None,
    seed: int = 0,
    run_config: str | Mapping[str, Any] | None = None,
) -> StrategyRun:
    """Run a project's unmodified ServerApp and ClientApp in virtual slots, up to the scenario's deadline.

    Raises:
        UserError: an app of the project is missing or fails.
    """
    found = FlowerProject.read(project, run_config)
    client, server = found.load("clientapp"), found.load("serverapp")
    if not isinstance(server, ServerApp):
        raise UserError(f"flower_app {found.folder}: its serverapp is {describe_value(server)}")
    grid = SlotGrid(client, scenario, fleet=fleet, seed=seed, run_config=found.run_config)
    try:
        # The app seeds are set for each call inside; this one is for what the ServerApp draws.
        with quiet_flower(), seeded(seed_of(seed, Purpose.MODEL, 0)):
            server(grid, server_context(found))
    except DeadlineReached:
        pass
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        raise UserError(f"flower app {found.name}: its ServerApp failed: {describe_error(error)}") from error
    return StrategyRun(grid.timeline(), grid.history())


def _point(slot: int, round_number: int, found: Evaluation) -> Point:
    return Point(slot, round_number, found.loss, found.accuracy, 0, found.metrics)


def _kind(message: Message) -> str:
    return str(message.metadata.message_type).partition(".")[0]
