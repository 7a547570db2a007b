"""NodeMessages: messages to Flower's nodes and their replies, each as a future; and how long they took."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from statistics import median

from flwr.app import Message, RecordDict
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid

from slotwise.base.errors import UserError

POLL = 0.2  # seconds between two looks for replies
UNREACHABLE = (ErrorCode.MESSAGE_UNAVAILABLE, ErrorCode.REPLY_MESSAGE_UNAVAILABLE, ErrorCode.NODE_UNAVAILABLE)
NODES_POLL = 1.0  # seconds between two looks at the list of nodes


class NodeLost(Exception):
    """A node has gone, or has not answered in time."""


@dataclass(frozen=True)
class Latency:
    """Seconds from sending a message until its reply was here, the work of the node included.

    Attributes:
        messages: Messages that were answered.
        median: Median of their seconds.
        longest: The longest.
        unanswered: Messages whose node was lost.
    """

    messages: int
    median: float
    longest: float
    unanswered: int

    def to_json(self) -> str:
        """Return a JSON document."""
        return json.dumps(asdict(self), indent=2) + "\n"


@dataclass
class _Sent:
    node: int
    reply: Future[Message]
    at: float


class NodeMessages:
    """Sends messages through a grid and waits for replies, in a thread of its own. Use it as a context.

    Only this thread uses the grid. ``nodes_changed`` is called with the nodes whenever they change.
    """

    def __init__(self, grid: Grid, timeout: float, nodes_changed: Callable[[frozenset[int]], None]) -> None:
        """Count a node as lost if it does not answer a message within ``timeout`` seconds."""
        self.timeout = timeout
        """Seconds after which a node that does not answer is lost."""
        self._grid, self._nodes_changed = grid, nodes_changed
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._outbox: list[tuple[Message, _Sent]] = []
        self._sent: dict[str, _Sent] = {}
        self._nodes: frozenset[int] = frozenset()
        self._looked = 0.0
        self._seconds: list[float] = []
        self._unanswered = 0
        self.failure: BaseException | None = None
        """Error that ended the thread, if one did."""
        self._thread = threading.Thread(target=self._run, name="flower-messages", daemon=True)

    def __enter__(self) -> NodeMessages:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the thread; messages without a reply fail with NodeLost. May be called again."""
        self._ended.set()
        # The table of sent messages belongs to that thread until it has ended.
        self._thread.join()
        self._fail_all("the run is over")

    @property
    def ended(self) -> bool:
        """True if no more messages are sent."""
        return self._ended.is_set() or self.failure is not None

    def refuse_failure(self) -> None:
        """Raise a UserError if the connection to Flower has failed."""
        if self.failure is not None:
            raise UserError(f"the connection to Flower failed: {self.failure}") from self.failure

    @property
    def latency(self) -> Latency:
        """Seconds of the messages so far."""
        with self._lock:
            seconds = list(self._seconds)
        middle, longest = (median(seconds), max(seconds)) if seconds else (0.0, 0.0)
        return Latency(len(seconds), round(middle, 3), round(longest, 3), self._unanswered)

    def send(self, node: int, content: RecordDict, message_type: str, group: str) -> Future[Message]:
        """Send a message; the future has the reply, or the exception NodeLost."""
        lifetime = 2 * self.timeout  # the SuperLink must not give up first
        message = self._grid.create_message(content, message_type, node, group, lifetime)
        sent = _Sent(node, Future(), time.monotonic())
        with self._lock:
            # Checked under the lock: `_fail_all` empties the outbox under it after the end, so no message can
            # be added afterwards and wait forever.
            if self.ended:
                sent.reply.set_exception(NodeLost("the run is over"))
            else:
                self._outbox.append((message, sent))
        return sent.reply

    def _run(self) -> None:
        try:
            while not self._ended.wait(POLL):
                self._look_at_nodes()
                self._push()
                # Before messages expire: a reply that came in time must count.
                self._pull()
                self._expire()
        except BaseException as error:
            # First: `send` refuses messages from now on, so that `_fail_all` does not miss one.
            self.failure = error
            self._fail_all(f"the connection to Flower failed: {error}")

    def _look_at_nodes(self) -> None:
        now = time.monotonic()
        if now - self._looked < NODES_POLL:
            return
        self._looked = now
        nodes = frozenset(self._grid.get_node_ids())
        if nodes != self._nodes:
            self._nodes = nodes
            self._nodes_changed(nodes)

    def _push(self) -> None:
        with self._lock:
            waiting = list(self._outbox)
        if not waiting:
            return
        # The time in the outbox is not the node's.
        for sent in (sent for _, sent in waiting):
            sent.at = time.monotonic()
        identifiers = list(self._grid.push_messages([message for message, _ in waiting]))
        pushed = list(zip(identifiers, waiting, strict=True))
        # They stay in the outbox until here, so that `_fail_all` finds them if the grid raises an error.
        with self._lock:
            del self._outbox[: len(pushed)]
        for identifier, (_, sent) in pushed:
            if identifier:
                self._sent[identifier] = sent
            else:  # the SuperLink does not know the node any more
                self._lose(sent, "it cannot be reached")

    def _pull(self) -> None:
        if not self._sent:
            return
        for reply in self._grid.pull_messages(list(self._sent)):
            sent = self._sent.pop(reply.metadata.reply_to_message_id, None)
            if sent is None:
                continue
            if reply.has_error() and reply.error.code in UNREACHABLE:  # the SuperLink answers for the node
                self._lose(sent, str(reply.error.reason))
            else:
                with self._lock:
                    self._seconds.append(time.monotonic() - sent.at)
                sent.reply.set_result(reply)

    def _expire(self) -> None:
        now = time.monotonic()
        for identifier, sent in list(self._sent.items()):
            gone, late = sent.node not in self._nodes, now - sent.at > self.timeout
            if gone or late:
                del self._sent[identifier]
                self._lose(sent, "it has left" if gone else f"no answer in {self.timeout:g} s")

    def _lose(self, sent: _Sent, reason: str) -> None:
        self._unanswered += 1
        sent.reply.set_exception(NodeLost(f"node {sent.node}: {reason}"))

    def _fail_all(self, reason: str) -> None:
        with self._lock:
            waiting, self._outbox = self._outbox, []
        for sent in (*self._sent.values(), *(sent for _, sent in waiting)):
            sent.reply.set_exception(NodeLost(reason))
        self._sent.clear()
