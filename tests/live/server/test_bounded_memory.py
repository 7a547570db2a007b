"""What a device can make the server remember is bounded, however many messages it sends."""

import numpy as np

from live import TOPICS
from slotwise.aggregation.norm_bound import RoundNorms
from slotwise.live.clock import Clock
from slotwise.live.device_report import ERROR_LIMIT, DeviceReport
from slotwise.live.protocol import PROTOCOL, Label, encode
from slotwise.live.server.aggregator import MOST_RECENT, ModelHealth
from slotwise.live.server.events import EventLog
from slotwise.live.server.inbox import (
    INCOMPATIBLE,
    JOIN_BURST,
    JOINS_TOO_OFTEN,
    REPORT_BURST,
    Inbox,
    UpdateCheck,
)
from slotwise.live.server.state import LiveState, Snapshot, encode_state
from slotwise.live.transport import Message, arrival_queue
from slotwise.scenario import Scenario
from slotwise.schedule import scheduler_for

SCENARIO = Scenario(devices=3, group_size=1, compute_slots=1)


class Stopped(Clock):
    """A clock that stands still: no limit of a rate recovers."""

    def now(self):
        return 1.0


class Server:
    """The inbox of a server and its state, without devices."""

    def __init__(self):
        self.state, self.lines = LiveState(scheduler_for(SCENARIO, "async")), []
        self.state.models[0] = np.zeros(2, dtype=np.float32)
        check, clock = UpdateCheck(2), Stopped()
        self.inbox = Inbox(TOPICS, "run", 3, self.state, check, clock, self.lines.append, EventLog())

    def send(self, device, kind, **fields):
        label = Label("" if kind == "gone" else "run", device)
        return self.inbox.take(Message(TOPICS.from_device(device, kind), encode(label, **fields)))

    def checkpoint(self):
        return len(encode_state(Snapshot.of(self.state)))


def test_made_up_versions_are_counted_under_one_reason():
    server = Server()
    server.send(2, "here", protocol=str(PROTOCOL + 1), slotwise="0")
    size = server.checkpoint()
    for number in range(2000):
        server.send(2, "here", protocol=str(PROTOCOL + 1 + number), slotwise=f"build-{number}")
    assert server.state.rejected == {INCOMPATIBLE: 2001}
    assert server.checkpoint() - size < 10
    assert f"slotwise build-{5}" in str(server.lines[6])  # the log says which


def test_device_numbers_that_the_run_does_not_have_are_one_sender():
    server = Server()
    for number in range(4, 2000):
        server.send(number, "here")
    assert len(server.inbox._floods._used) == 1
    assert len(server.lines) < 300  # a flood is counted, and its beginning is logged


def test_a_device_that_restarts_all_the_time_makes_few_events():
    server = Server()
    for number in range(1000):
        reply = server.send(2, "here", boot=str(number))
        server.send(2, "gone", boot=str(number))
    assert len(server.state.presence.changes) <= 2 * JOIN_BURST
    assert server.state.rejected[JOINS_TOO_OFTEN] > 900
    assert reply.device == 2  # it is called, so that it joins when it may
    assert 2 not in server.state.presence.connected


def test_what_devices_say_about_themselves_has_a_bound():
    server = Server()
    for number in range(1000):
        made_up = {f"field-{number}": "x" * 100, "error": "\n\u2028" * 150, "slotwise": "v" * 100}
        server.send(2, "status", memory_mb="9" * 100, uptime="-1", trainings=str(number), **made_up)
    (report,) = server.state.reports.values()
    assert (report.slotwise, report.memory_mb, report.uptime) == ("", 0.0, 0.0)
    assert report.trainings == REPORT_BURST - 1  # further ones are not read
    assert len(report.error) == ERROR_LIMIT
    assert report.error.isprintable()
    assert server.state.rejected == {"status sent too often": 1000 - REPORT_BURST}


def test_a_device_without_a_run_may_say_why():
    server = Server()
    frame = encode(Label("", 3), **DeviceReport("0.1", error="no data here").fields())
    assert server.inbox.take(Message(TOPICS.from_device(3, "status"), frame)) is None
    assert server.state.reports == {3: DeviceReport("0.1", error="no data here")}
    assert not server.state.presence.connected


def test_a_device_alone_does_not_fill_the_memory_of_suspicious_updates():
    health = ModelHealth()
    for number in range(3 * MOST_RECENT):
        health.note_finite(1, number)
        health.note_not_finite(2, number)
        health.note_norms(number, [1], RoundNorms([1.0], [3.0], 1.0))
    assert len(health.recent) == MOST_RECENT
    assert health.recent[-1][0] == 3 * MOST_RECENT - 1
    assert len(health.not_finite[2]) <= 3


def test_messages_that_nobody_reads_are_dropped_beyond_a_limit(monkeypatch):
    monkeypatch.setattr(arrival_queue, "MOST_UNREAD", 10_000)
    queue = arrival_queue.ArrivalQueue()
    queue.put(Message("long", b"x" * 20_000))  # alone: read by a server with a model of that size
    for _ in range(100):
        queue.put(Message("flood", b"x" * 100))
    assert queue.dropped == 100
    assert queue._bytes < 30_000
