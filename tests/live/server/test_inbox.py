"""Checks of the devices' messages, and what they change."""

import numpy as np
import pytest

from live import TOPICS
from slotwise.learning.quantisation import Packing
from slotwise.live.clock import Clock
from slotwise.live.protocol import Label, Work, digest, encode
from slotwise.live.server.inbox import READY_TWICE, Inbox, Rejection, Reply, UpdateCheck
from slotwise.live.server.state import LiveState
from slotwise.live.transport import Message
from slotwise.scenario import Scenario
from slotwise.schedule import Joined, Left, scheduler_for

GOOD = np.array([3, 4], dtype=np.float32)
GRANT = Label("run", 2, 5, 4, 1)
SCENARIO = Scenario(devices=3, group_size=1, compute_slots=1)


class ManualClock(Clock):
    seconds = 100.0

    def now(self):
        return self.seconds


class Box:
    """An inbox, its state, and device 2 with work."""

    def __init__(self, check=None):
        check = check or UpdateCheck(2)
        self.state, self.log, self.clock = LiveState(scheduler_for(SCENARIO, "async")), [], ManualClock()
        self.inbox = Inbox(TOPICS, "run", 3, self.state, check, self.clock, self.log.append)
        self.send(2, "here", boot="b")
        self.state.presence.take_changes()
        self.state.assignments.delivered[2] = 1
        self.state.assignments.assign(2, 4)

    @property
    def presence(self):
        return self.state.presence

    @property
    def rejected(self):
        return self.state.rejected

    def send(self, device, kind, label=None, vector=None, **fields):
        label = label or Label("run", device)
        return self.inbox.take(Message(TOPICS.from_device(device, kind), encode(label, vector, **fields)))

    def grant(self):
        awaited = self.state.assignments.work.get(2) == Work(4, 1)
        return self.state.grant.begin(GRANT, 7, awaited=awaited)

    def update(self, label=GRANT, vector=GOOD, grant="1", device=2):
        self.send(device, "update", label, vector, grant=grant)

    def end(self):
        """End the grant as the server does."""
        ended = self.state.grant.end()
        if ended.spoiled and self.state.penalties.add(2):
            self.state.disconnect(2)
        return ended

    def expire(self, seconds=0.0):
        for device in self.presence.expired(self.clock.now() - seconds):
            self.state.disconnect(device)


@pytest.fixture
def box():
    return Box()


def test_the_granted_update_is_accepted(box):
    box.grant()
    assert box.state.grant.is_waiting
    box.update()
    assert not box.state.grant.is_waiting
    assert np.array_equal(box.end().update, GOOD)
    assert not box.rejected


@pytest.mark.parametrize(
    ("label", "grant", "reason"),
    [
        (GRANT._replace(run="other"), "1", "message of another run"),
        (GRANT._replace(device=3), "1", "label names another device"),
        (GRANT._replace(round=4), "1", "update for an earlier grant"),
        (GRANT._replace(version=3), "1", "update for an earlier grant"),
        (GRANT._replace(training=0), "1", "update for an earlier grant"),
        (GRANT, "0", "update for an earlier grant"),
    ],
)
def test_an_update_counts_only_for_its_own_grant(box, label, grant, reason):
    box.grant()
    box.update(label, grant=grant)
    assert box.rejected == {reason: 1}
    assert box.state.grant.is_waiting


def test_an_update_sent_twice_counts_once(box):
    box.grant()
    box.update()
    box.update(vector=GOOD * 2)
    assert box.rejected == {"update sent twice": 1}
    assert np.array_equal(box.end().update, GOOD)


def test_an_update_without_a_grant_is_rejected(box):
    box.update()
    assert box.rejected == {"update without a grant": 1}


@pytest.mark.parametrize(
    ("vector", "reason"),
    [
        (None, "no float32 numbers"),
        (np.ones(3, dtype=np.float32), "not 2 numbers"),
        (np.array([1, np.nan], dtype=np.float32), "numbers are not finite"),
        (np.array([1, -np.inf], dtype=np.float32), "numbers are not finite"),
        (np.ones(5000, dtype=np.float32), "message too large"),
    ],
    ids=["none", "too long", "nan", "infinite", "too large"],
)
def test_a_bad_update_is_rejected_and_ends_the_wait(box, vector, reason):
    box.grant()
    box.update(vector=vector)
    assert box.rejected == {reason: 1}
    assert not box.state.grant.is_waiting
    ended = box.end()
    assert (ended.update, ended.spoiled, ended.silent) == (None, True, False)
    assert ended.finite == (reason != "numbers are not finite")


def test_bad_updates_exclude_a_device(box):
    for number in range(3):
        box.grant()
        box.update(vector=GOOD * np.float32(np.nan), grant=str(number + 1))
        box.end()
    assert box.presence.changes == [Left(2)]
    box.send(2, "here")
    assert 2 not in box.presence.connected
    assert box.state.penalties.excluded == {2}
    assert box.log[-1].reason.startswith("excluded")


def test_bad_bytes_of_others_do_not_spoil_a_grant(box):
    box.send(3, "here")
    box.grant()
    box.inbox.take(Message(TOPICS.from_device(3, "update"), b"garbage"))
    assert box.state.grant.is_waiting


def test_a_grant_to_a_device_that_has_left_waits_for_nothing(box):
    box.state.disconnect(2)
    box.grant()
    assert not box.state.grant.is_waiting


def test_a_device_that_leaves_while_it_may_send_ends_the_wait(box):
    box.grant()
    box.send(2, "gone", boot="b")
    box.expire()
    assert not box.state.grant.is_waiting
    assert box.presence.changes == [Left(2)]


def test_a_last_will_does_not_count_at_once(box):
    box.send(2, "gone", boot="b")
    box.expire(seconds=1.0)
    assert box.presence.changes == []
    assert box.state.assignments.work.get(2) == (4, 1)


def test_a_device_that_returns_soon_was_never_gone(box):
    box.send(2, "gone", boot="b")
    box.send(2, "here", boot="b")
    box.expire()
    assert box.presence.changes == []
    assert box.state.assignments.work.get(2) == (4, 1)


def test_a_reconnected_server_gives_devices_the_full_time_to_return(box):
    box.send(2, "gone", boot="b")
    box.clock.seconds += 10
    box.presence.restart_last_wills(box.clock.now())
    box.expire(seconds=3)
    assert 2 in box.presence.connected


def test_a_last_will_of_a_device_whose_start_is_unknown_does_no_harm(box):
    box.presence.connected.add(3)  # as after a restart of the server
    box.send(3, "gone")
    box.send(3, "here", boot="c")
    assert 3 in box.presence.connected


def test_a_restarted_device_was_gone_however_soon_it_returns(box):
    box.send(2, "gone", boot="b")
    box.send(2, "here", boot="c")
    assert box.presence.changes == [Left(2), Joined(2)]
    assert box.state.assignments.work.get(2) is None


def test_an_update_that_came_before_its_device_left_counts(box):
    box.grant()
    box.update()
    box.send(2, "gone", boot="b")
    box.expire()
    assert np.array_equal(box.end().update, GOOD)


def test_the_last_will_of_an_earlier_connection_does_not_count(box):
    box.send(2, "gone", boot="another")
    assert 2 in box.presence.connected
    assert list(box.rejected) == ["last will of an earlier connection"]


def test_ready_counts_for_what_was_assigned_and_once(box):
    box.send(2, "ready", Label("run", 2, 0, 3, 0))
    assert not box.state.assignments.is_ready(2)
    for _ in range(2):
        box.send(2, "ready", Label("run", 2, 0, 4, 1))
    assert box.state.assignments.is_ready(2)
    assert box.rejected == {"ready with work that was not assigned": 1, READY_TWICE: 1}


def test_a_device_that_counts_as_disconnected_is_answered(box):
    assert box.send(3, "ready") == Reply(3)
    assert 3 not in box.presence.connected


def test_connecting_is_an_event_and_saying_here_again_is_none(box):
    for _ in range(2):
        assert box.send(3, "here", boot="c", holds="4:1") == Reply(3, "4:1")
    assert box.presence.changes == [Joined(3)]


@pytest.mark.parametrize(("holds", "confirmed"), [("4:1:abc", True), ("3:1:abc", False), ("", False)])
def test_a_device_confirms_only_the_work_it_was_assigned(box, holds, confirmed):
    box.send(2, "here", boot="b", holds=holds)
    assert box.inbox.confirmed_since(2, box.clock.now()) == confirmed


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        ("slotwise/test/from/4/here", "unknown device number"),
        ("slotwise/test/from/0/here", "not the topic of a device"),
        ("slotwise/test/from/02/here", "not the topic of a device"),
        ("slotwise/test/from/x/here", "not the topic of a device"),
        ("slotwise/test/from/2/other", "not the topic of a device"),
        ("slotwise/test/from/2/here/more", "not the topic of a device"),
    ],
)
def test_other_topics_are_rejected(box, topic, reason):
    box.inbox.take(Message(topic, encode(Label("run", 2))))
    assert box.rejected == {reason: 1}


def test_a_rejection_is_one_plain_line_whatever_the_topic_is():
    assert str(Rejection("a\n\x1b[31mb", "too large")) == "a\\n\\x1b[31mb: too large"
    assert len(str(Rejection("x" * 60_000, ""))) < 200


def test_text_that_is_too_long_is_not_decoded(box):
    box.send(2, "ready", Label("run", 2, 0, 4, 1), padding="x" * 5000)
    assert box.rejected == {"message too large": 1}


PACKING = Packing(np.array([2], dtype=np.int64), 8)


@pytest.fixture
def packed():
    box = Box(UpdateCheck(2, packing=PACKING))
    box.grant()
    return box


def test_a_packed_update_is_unpacked(packed):
    packed.update(vector=PACKING.pack(np.array([127, -1], dtype=np.float32)))
    assert packed.end().update.tolist() == [127, -1]


@pytest.mark.parametrize(
    ("numbers", "reason"),
    [
        (GOOD, "not the 6 bytes of 2 packed numbers"),
        (b"12345", "not the 6 bytes of 2 packed numbers"),
        (b"1234567", "not the 6 bytes of 2 packed numbers"),
        (np.array([np.inf], dtype="<f4").tobytes() + b"12", "numbers are not finite"),
    ],
    ids=["not packed", "too short", "too long", "not finite"],
)
def test_a_badly_packed_update_is_rejected(packed, numbers, reason):
    packed.update(vector=numbers)
    assert packed.rejected == {reason: 1}
    assert packed.end().update is None


def test_packed_numbers_are_rejected_where_none_are_expected(box):
    box.grant()
    box.update(vector=b"12345678")
    assert box.rejected == {"no float32 numbers": 1}


def test_an_excluded_device_is_answered_when_it_says_here_and_only_then(box):
    assert box.state.penalties.add(2, points=3)
    assert box.send(2, "ready") is None
    assert box.send(2, "here", boot="b") == Reply(2)


LONG = np.arange(1000, dtype=np.float32)
TOTAL = LONG.nbytes


def long_box():
    box = Box(UpdateCheck(len(LONG)))
    box.state.models[4] = LONG
    box.grant()
    return box


def send_part(box, offset, piece=None, *, total=TOTAL, checksum_of=LONG, grant="1"):
    piece = LONG.tobytes()[offset : offset + 1024] if piece is None else piece
    fields = {"offset": str(offset), "total": str(total), "sum": digest(checksum_of)}
    return box.send(2, "update", GRANT, piece, grant=grant, **fields)


def test_an_update_in_parts_is_accepted_with_its_last_part():
    box = long_box()
    for offset in (0, 1024, 2048):
        assert send_part(box, offset) is None
        assert box.state.grant.is_waiting
    send_part(box, 3072)
    assert np.array_equal(box.end().update, LONG)
    assert not box.rejected


def test_a_missing_part_is_asked_for_once_and_parts_outlast_the_grant():
    box = long_box()
    send_part(box, 0)
    reply = send_part(box, 2048)
    assert (reply.device, reply.holds) == (2, f"4:1:{digest(LONG)}")
    assert send_part(box, 3072) is None
    assert box.end().update is None
    box.grant()
    assert box.state.uploads.partial(2, Work(4, 1)) == f"4:1:{digest(LONG)}:1024"
    for offset in (1024, 2048, 3072):
        send_part(box, offset, grant="2")
    assert np.array_equal(box.end().update, LONG)


@pytest.mark.parametrize(
    "wrong",
    [
        {"offset": 0, "total": 8},
        {"offset": 0, "total": 10**11},
        {"offset": 3072, "piece": bytes(1024)},
        {"offset": 0, "piece": bytes(10)},
        {"offset": 0, "piece": b""},
        {"offset": -5},
        {"offset": "x", "piece": bytes(1024)},
    ],
    ids=["short", "huge", "too far", "tiny", "empty", "negative", "text"],
)
def test_a_part_that_does_not_fit_spoils_the_grant(wrong):
    box = long_box()
    send_part(box, **wrong)
    assert sum(box.rejected.values()) == 1
    assert box.end().spoiled


def test_an_update_in_parts_with_another_checksum_spoils_the_grant():
    box = long_box()
    for offset in (0, 1024, 2048, 3072):
        send_part(box, offset, checksum_of=LONG + 1)
    assert box.rejected == {"wrong checksum": 1}
    assert box.end().spoiled


def test_parts_of_an_update_that_is_not_finite_spoil_the_grant():
    box, bad = long_box(), np.full(1000, np.nan, dtype=np.float32)
    for offset in (0, 1024, 2048, 3072):
        send_part(box, offset, bad.tobytes()[offset : offset + 1024], checksum_of=bad)
    assert box.end().spoiled


def test_a_device_of_another_protocol_is_rejected_and_told():
    box = Box()
    reply = box.send(3, "here", boot="b", protocol="9", oldest="8", slotwise="2.0")
    assert not reply.compatible
    assert 3 not in box.presence.connected
    reply = box.send(2, "here", boot="b", protocol="9", oldest="8")  # replaced by another version
    assert not reply.compatible
    assert 2 not in box.presence.connected
