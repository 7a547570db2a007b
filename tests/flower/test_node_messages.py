"""Messages to nodes: no failure leaves a future without a result."""

from collections.abc import Iterable

import pytest
from flwr.app import Message, RecordDict
from flwr.clientapp import ClientApp

from slotwise import Scenario
from slotwise.flower import SlotGrid, node_messages
from slotwise.flower.node_messages import NodeLost, NodeMessages


class UnreachableGrid(SlotGrid):
    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        raise ConnectionError("no route")


class ForgetfulGrid(SlotGrid):
    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        return ["1" for _ in messages][1:]


@pytest.mark.parametrize("kind", [UnreachableGrid, ForgetfulGrid])
def test_messages_that_cannot_be_pushed_fail(kind: type[SlotGrid], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_messages, "POLL", 0.0)
    grid = kind(ClientApp(), Scenario(devices=2, group_size=1, compute_slots=4))
    messages = NodeMessages(grid, 60.0, lambda nodes: None)
    replies = [messages.send(node, RecordDict(), "train", "1") for node in (1, 2)]
    messages._run()  # here and not in a thread, until it fails
    assert messages.failure is not None
    assert messages.ended
    for reply in (*replies, messages.send(1, RecordDict(), "train", "1")):
        assert isinstance(reply.exception(timeout=0), NodeLost)
