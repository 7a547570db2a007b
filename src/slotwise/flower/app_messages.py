"""Messages to a ClientApp, what is taken from its replies, and its state as arrays of a checkpoint."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.app.metadata import Metadata
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
from flwr.proto.recorddict_pb2 import RecordDict as ProtoRecordDict

from slotwise.base.errors import UserError
from slotwise.base.user_code import describe_value
from slotwise.learning.task import METRIC_NAME, NO_DEVICE_STATE, RESERVED, DeviceState, Evaluation

WEIGHT = "num-examples"
ROUND = "server-round"
STATE = "records"  # name of the array that holds a context's state
TTL = 12 * 3600.0  # seconds


@dataclass(frozen=True)
class MessageForm:
    """A message of the ServerApp without its arrays: the type, and all records but the model.

    Attributes:
        message_type: Such as "train" or "evaluate".
        arrays: Name of the ArrayRecord with the model.
        records: The other records by name.
        order: Names of all records, in their order.
    """

    message_type: str
    arrays: str
    records: Mapping[str, Any]
    order: tuple[str, ...]

    @classmethod
    def of(cls, message: Message) -> MessageForm:
        """Return the form of a message; it must have one ArrayRecord."""
        content, kind = message.content, message.metadata.message_type
        names = list(content.array_records)
        if len(names) != 1:
            found = f"its {kind} messages have {len(names)} ArrayRecords"
            raise UserError(f"flower app: must send one ArrayRecord, the model; {found}")
        others = {name: record for name, record in content.items() if name != names[0]}
        return cls(kind, names[0], others, tuple(content))

    @classmethod
    def usual(cls, message_type: str, config: Mapping[str, Any] | None = None) -> MessageForm:
        """Return the form that Flower's strategies use, with a configuration."""
        records = {"config": ConfigRecord({**(config or {}), ROUND: 1})}
        return cls(message_type, "arrays", records, ("arrays", "config"))

    def content(self, arrays: ArrayRecord, server_round: int) -> RecordDict:
        """Return the records of a message with this model; the configuration gets the number of the round."""
        content = RecordDict()
        for name in self.order:
            if name == self.arrays:
                content[name] = arrays
                continue
            record = self.records[name]
            copied = type(record)(dict(record))
            if isinstance(copied, ConfigRecord) and ROUND in copied:
                copied[ROUND] = server_round
            content[name] = copied
        return content

    def message(self, arrays: ArrayRecord, server_round: int, node: int) -> Message:
        """Return a message to a node in this process."""
        metadata = Metadata(
            run_id=1,
            message_id=f"{self.message_type}-{server_round}-{node}",
            src_node_id=0,
            dst_node_id=node,
            reply_to_message_id="",
            group_id=str(server_round),
            created_at=time.time(),
            ttl=TTL,
            message_type=self.message_type,
        )
        return Message(content=self.content(arrays, server_round), metadata=metadata)


def reply_content(reply: object) -> RecordDict:
    """Return the records of a reply; raise a UserError if it is an error or no message."""
    if not isinstance(reply, Message):
        raise UserError(f"must return a Message; it returned {describe_value(reply)}")
    if reply.has_error():
        raise UserError(f"returned an error: {' '.join(str(reply.error.reason).split())}")
    if not reply.has_content():
        raise UserError("returned a message without content")
    return reply.content


def reply_arrays(content: RecordDict) -> ArrayRecord:
    """Return the one ArrayRecord of a reply."""
    records = list(content.array_records.values())
    if len(records) != 1:
        raise UserError(f"must return one ArrayRecord; it returned {len(records)}")
    return records[0]


def reply_metrics(content: RecordDict) -> tuple[int, dict[str, float]]:
    """Return ``num-examples`` and the other numbers of a reply; lists of numbers are left out."""
    found: dict[str, float] = {}
    for record in content.metric_records.values():
        found |= {name: float(value) for name, value in record.items() if isinstance(value, int | float)}
    weight = found.pop(WEIGHT, None)
    if weight is None:
        names = ", ".join(found) or "none"
        raise UserError(f"must return {WEIGHT} in a MetricRecord; its metrics are: {names}")
    if not weight.is_integer() or weight < 1:
        raise UserError(f"must return {WEIGHT} as a whole number of at least 1; it returned {weight:g}")
    return int(weight), found


def mean_metrics(replies: Iterable[tuple[int, Mapping[str, float]]]) -> dict[str, float]:
    """Return the mean of each metric over the replies that have it, weighted by their samples."""
    totals, sums = Counter[str](), dict[str, float]()
    for samples, metrics in replies:
        for name, value in metrics.items():
            totals[name] += samples
            sums[name] = sums.get(name, 0.0) + samples * value
    return {name: value / totals[name] for name, value in sums.items()}


def evaluation_of(metrics: Any) -> Evaluation:
    """Return loss, accuracy and further metrics of a mapping or MetricRecord; lists of numbers are left out.

    The loss is ``loss`` or the first that ends in it, such as eval_loss of Flower's templates; the accuracy
    likewise, also as acc.
    """
    if not isinstance(metrics, Mapping):
        raise UserError(f"must return a MetricRecord; it returned {describe_value(metrics)}")
    numbers = {name: float(value) for name, value in metrics.items() if not isinstance(value, list)}
    loss, accuracy = _first(numbers, ("loss",)), _first(numbers, ("accuracy", "acc"))
    if loss is None:
        names = ", ".join(numbers) or "none"
        raise UserError(f"must return a metric whose name ends in loss; its metrics are: {names}")
    others = {_column(name): value for name, value in numbers.items() if name not in (loss, accuracy, WEIGHT)}
    return Evaluation(numbers[loss], numbers[accuracy] if accuracy else float("nan"), others)


def state_of(records: RecordDict) -> DeviceState:
    """Return a context's state as arrays; an empty one takes none."""
    if not records:
        return NO_DEVICE_STATE
    data = recorddict_to_proto(records).SerializeToString(deterministic=True)
    return {STATE: np.frombuffer(data, dtype=np.uint8)}


def records_of(state: DeviceState) -> RecordDict:
    """Return a context's state from its arrays."""
    if STATE not in state:
        return RecordDict()
    return recorddict_from_proto(ProtoRecordDict.FromString(state[STATE].tobytes()))


def _first(metrics: Mapping[str, float], endings: tuple[str, ...]) -> str | None:
    """Return the metric with one of these names, or else the first that ends in one."""
    exact = [name for name in metrics if name in endings]
    return next(iter([*exact, *(name for name in metrics if name.lower().endswith(endings))]), None)


def _column(name: str) -> str:
    """Return a name that a column of history.csv may have."""
    clean = re.sub("[^A-Za-z0-9_./-]", "_", name)
    usable = re.fullmatch(METRIC_NAME, clean) and clean not in RESERVED
    return clean if usable else f"client/{clean}"
