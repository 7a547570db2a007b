"""NodeTask: the learning problem of Flower's nodes, as the live server sees it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np
from flwr.app import ArrayRecord, Message
from numpy.typing import NDArray

from slotwise.aggregation import Vector
from slotwise.base.errors import UserError
from slotwise.flower.app_messages import (
    MessageForm,
    evaluation_of,
    mean_metrics,
    reply_arrays,
    reply_content,
    reply_metrics,
)
from slotwise.flower.array_layout import ArrayLayout
from slotwise.flower.node_messages import NODES_POLL, NodeLost, NodeMessages
from slotwise.flower.task import EvaluateFunction
from slotwise.learning.task import Evaluation, Task, TrainingStart

EVALUATION_TIMEOUTS = 5  # of a message, until an evaluation without any answer is given up


class NodeTask(Task):
    """A task whose local trainings happen on nodes: a train message goes out, and the reply is the update.

    What the SuperNode keeps in ``context.state`` stays there.
    """

    def __init__(
        self,
        arrays: ArrayRecord,
        train: MessageForm,
        evaluate: MessageForm,
        evaluate_fn: EvaluateFunction | None,
        nodes: Callable[[], Mapping[int, int]],
    ) -> None:
        """Start from ``arrays``; ``nodes`` returns the node of each device that is present."""
        self.layout = ArrayLayout.of(arrays)
        self._first = self.layout.vector(arrays)
        self._train, self._evaluate, self._evaluate_fn = train, evaluate, evaluate_fn
        self._nodes = nodes
        self._samples: dict[int, int] = {}
        self.messages: NodeMessages | None = None
        """Connection to the nodes, once there is one."""

    def initial_model(self) -> Vector:
        """Return the first model."""
        return self._first.copy()

    def sample_count(self, device: int) -> int:
        """Return num-examples of the device's last reply."""
        return self._samples.get(device, 1)

    def local_update(self, model: Vector, start: TrainingStart) -> Vector:
        """Train on the device's node.

        Raises:
            NodeLost: the node has gone.
            UserError: it answered with an error, or not with a model.
        """
        node = self._nodes().get(start.device)
        if node is None:
            raise NodeLost(f"device {start.device} has no node")
        content = self._ask(node, self._train, model, start.round + 1)
        try:
            records = reply_content(content)
            end = self.layout.vector(reply_arrays(records))
            self._samples[start.device], _ = reply_metrics(records)
        except UserError as error:
            raise UserError(f"node {node}: {self._train.message_type} {error}") from None
        return model - end

    def evaluate(self, model: Vector) -> Evaluation:
        """Return the server-side evaluation, or the weighted mean over the nodes that answer."""
        if self._evaluate_fn is not None:
            # A task is not told which model it evaluates, so the round is always 0.
            found = self._evaluate_fn(0, self.layout.record(model))
            try:
                return evaluation_of(found)
            except UserError as error:
                raise UserError(f"evaluate_fn {error}") from None
        assert self.messages is not None
        until = time.monotonic() + EVALUATION_TIMEOUTS * self.messages.timeout
        # The first model is evaluated when there are nodes; and a node may be lost meanwhile.
        while not self.messages.ended and time.monotonic() < until:
            if metrics := self._evaluate_on_nodes(model):
                return evaluation_of(metrics)
            time.sleep(NODES_POLL)
        raise UserError("no node has answered an evaluate message")

    def _evaluate_on_nodes(self, model: Vector) -> dict[str, float]:
        """Return the metrics of the nodes that answer, weighted by num-examples."""
        found = []
        for node in sorted(set(self._nodes().values())):
            try:
                # The round is not known here either: every message says 1, the first round of Flower.
                records = reply_content(self._ask(node, self._evaluate, model, 1))
                found.append(reply_metrics(records))
            except (NodeLost, UserError):
                continue  # its next training tells what is wrong
        return mean_metrics(found)

    def named_arrays(self, model: Vector) -> Mapping[str, NDArray[np.float32]]:
        """Return the arrays by name."""
        return self.layout.named_arrays(model)

    def _ask(self, node: int, form: MessageForm, model: Vector, server_round: int) -> Message:
        assert self.messages is not None
        content = form.content(self.layout.record(model), server_round)
        # Without a timeout: NodeMessages gives up a node that does not answer.
        return self.messages.send(node, content, form.message_type, str(server_round)).result()
