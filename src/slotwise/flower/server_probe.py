"""First messages of a ServerApp: the model it starts from and the configuration that it sends.

The ServerApp runs with a `ProbeGrid`, on which no node ever answers. It is stopped when it has sent its first
messages for training and for evaluation.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from flwr.app import ArrayRecord, Context, Message, MessageType, RecordDict
from flwr.serverapp import Grid, ServerApp
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

from slotwise.base.errors import UserError
from slotwise.base.user_code import describe_error, describe_value
from slotwise.flower.app_call import seeded
from slotwise.flower.app_messages import MessageForm
from slotwise.flower.project import FlowerProject


@dataclass(frozen=True)
class FirstMessages:
    """First messages of a ServerApp.

    Attributes:
        arrays: The model it starts from.
        train: The form of its train messages.
        evaluate: The form of its evaluate messages; Flower's own if it sent none.
    """

    arrays: ArrayRecord
    train: MessageForm
    evaluate: MessageForm


class LocalGrid(Grid):
    """A grid without a SuperLink: it makes messages, and describes a run that is nowhere else."""

    def __init__(self) -> None:
        self._run = Run.create_empty(1)

    def set_run(self, run: Run) -> None:
        """Set what `run` returns."""
        self._run = run

    @property
    def run(self) -> Run:
        """Description of the run, which Flower asks for."""
        return self._run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """Return a new message to a node."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)


class _Stopped(BaseException):
    """Ends a ServerApp. No Exception, so that an ``except Exception`` in the app does not stop it."""


class ProbeGrid(LocalGrid):
    """A grid of nodes that never answer: it only keeps the first messages of each kind."""

    def __init__(self, devices: int) -> None:
        super().__init__()
        self._devices = devices
        self.train: Message | None = None
        self.evaluate: Message | None = None

    def get_node_ids(self) -> Iterable[int]:
        """Return a node for each device."""
        return range(1, self._devices + 1)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Keep the first messages; stop the ServerApp when there are no new ones to expect."""
        sent = list(messages)
        if not sent and self.train is not None:
            raise _Stopped  # a strategy without evaluation; what the app does at its end must not be done
        kinds = {message.metadata.message_type.partition(".")[0]: message for message in reversed(sent)}
        if MessageType.TRAIN in kinds:
            if self.train is not None:
                raise _Stopped
            self.train = kinds[MessageType.TRAIN]
        if MessageType.EVALUATE in kinds:
            self.evaluate = kinds[MessageType.EVALUATE]
            if self.train is not None:
                raise _Stopped
        return [str(number) for number, _ in enumerate(sent)]

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Stop a ServerApp that waits for an answer by itself."""
        del message_ids
        raise _Stopped

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Keep the first messages; no node answers."""
        del timeout
        self.push_messages(messages)
        return []


def first_messages(project: FlowerProject, devices: int, seed: int) -> FirstMessages:
    """Return what the project's ServerApp sends first, with the global random generators seeded.

    Raises:
        UserError: the ServerApp fails, or sends no message for training with one ArrayRecord.
    """
    app = project.load("serverapp")
    label = f"flower_app serverapp {project.components['serverapp']}"
    if not isinstance(app, ServerApp):
        raise UserError(f"{label}: must be a ServerApp; it is {describe_value(app)}")
    if getattr(app, "_server_fn", None) is not None:
        raise UserError(f"{label}: has a server_fn, which is not supported; use @app.main(), the Message API")
    grid = ProbeGrid(devices)
    ensure_task_identity()
    try:
        with quiet_flower(), seeded(seed):
            app(grid, server_context(project))
    except _Stopped:
        pass
    except (Exception, SystemExit) as error:
        if grid.train is None:
            raise UserError(
                f"{label}: failed before its first train message: {describe_error(error)}"
            ) from error
    if grid.train is None:
        raise UserError(f"{label}: sends no train message through the Grid; the Message API is needed")
    train = MessageForm.of(grid.train)
    evaluate = MessageForm.usual(MessageType.EVALUATE)
    if grid.evaluate is not None:
        evaluate = MessageForm.of(grid.evaluate)
    return FirstMessages(grid.train.content[train.arrays], train, evaluate)


def server_context(project: FlowerProject) -> Context:
    """Return the context that a ServerApp is called with."""
    return Context(1, 0, {}, RecordDict(), dict(project.run_config))


def ensure_task_identity() -> None:
    """Let messages be made in this process, unless Flower runs an app in it already."""
    for name in ("task_id", "run_id", "node_id"):
        if getattr(TaskIdentity, f"_{name}") is None:
            setattr(TaskIdentity, name, 1)


@contextmanager
def quiet_flower() -> Iterator[None]:
    """Silence Flower's log below warnings."""
    logger = logging.getLogger("flwr")
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(before)
