import time

import numpy as np
import pytest

from slotwise.learning.quantisation import Packing
from slotwise.live.channel import Message
from slotwise.live.mailbox import STRIKES, Admission, Mailbox, Rejection
from slotwise.live.topics import Topics
from slotwise.live.wire import Frame, Label, encode
from slotwise.schedule import Joined, Left

TOPICS = Topics("test")
GOOD = np.array([3, 4], dtype=np.float32)
GRANT = Label("run", 2, 5, 4, 1)


@pytest.fixture
def mailbox():
    told = []
    box = Mailbox(TOPICS, "run", 3, Admission(2), told.append)
    box.told = told
    say(box, 2, "here", boot="b")
    box.unplanned.clear()
    box.assigned[2] = (4, 1)
    return box


def say(box, device, kind, label=None, vector=None, **words):
    label = label or Label("run", device)
    box.take(Message(TOPICS.from_device(device, kind), encode(label, vector, **words)))


def update(box, label=GRANT, vector=GOOD, grant="1", device=2):
    say(box, device, "update", label, vector, grant=grant)


def test_the_granted_update_is_taken(mailbox):
    mailbox.expect(GRANT, "1")
    assert mailbox.waits_for_update
    update(mailbox)
    assert not mailbox.waits_for_update
    assert np.array_equal(mailbox.close(), GOOD)
    assert not mailbox.rejected


@pytest.mark.parametrize(
    ("label", "grant", "reason"),
    [
        (GRANT._replace(run="other"), "1", "of another run"),
        (GRANT._replace(device=3), "1", "speaks for another device"),
        (GRANT._replace(round=4), "1", "an update of an earlier grant"),
        (GRANT._replace(version=3), "1", "an update of an earlier grant"),
        (GRANT._replace(training=0), "1", "an update of an earlier grant"),
        (GRANT, "0", "an update of an earlier grant"),
    ],
)
def test_an_update_counts_only_for_its_own_grant(mailbox, label, grant, reason):
    mailbox.expect(GRANT, "1")
    update(mailbox, label, grant=grant)
    assert mailbox.rejected == {reason: 1}
    assert mailbox.waits_for_update


def test_an_update_sent_twice_counts_once(mailbox):
    mailbox.expect(GRANT, "1")
    update(mailbox)
    update(mailbox, vector=GOOD * 2)
    assert mailbox.rejected == {"an update sent twice": 1}
    assert np.array_equal(mailbox.close(), GOOD)


def test_an_update_without_a_grant_is_not_taken(mailbox):
    update(mailbox)
    assert mailbox.rejected == {"an update without a grant": 1}


@pytest.mark.parametrize(
    ("vector", "reason"),
    [
        (None, "no float32 numbers"),
        (np.ones(3, dtype=np.float32), "not 2 numbers"),
        (np.array([1, np.nan], dtype=np.float32), "numbers that are not finite"),
        (np.array([1, -np.inf], dtype=np.float32), "numbers that are not finite"),
        (np.ones(5000, dtype=np.float32), "too large"),
    ],
)
def test_a_bad_update_is_rejected_and_ends_the_wait(mailbox, vector, reason):
    mailbox.expect(GRANT, "1")
    update(mailbox, vector=vector)
    assert mailbox.rejected == {reason: 1}
    assert not mailbox.waits_for_update
    assert mailbox.close() is None


def test_bad_updates_in_a_row_bar_a_device_for_good(mailbox):
    for _ in range(STRIKES):
        mailbox.expect(GRANT, "1")
        update(mailbox, vector=GOOD * np.float32(np.nan))
        mailbox.close()
    assert mailbox.unplanned == [Left(2)]
    say(mailbox, 2, "here")
    assert 2 not in mailbox.present
    assert mailbox.told[-1].reason == f"out since {STRIKES} bad or missing updates in a row"


def test_a_good_update_wipes_out_bad_ones(mailbox):
    for number in range(2 * STRIKES):
        mailbox.expect(GRANT, "1")
        update(mailbox, vector=GOOD * np.float32(np.nan) if number % 2 else GOOD)
        mailbox.close()
    assert 2 in mailbox.present


def test_bad_bytes_of_others_do_not_spoil_a_grant(mailbox):
    say(mailbox, 3, "here")
    mailbox.expect(GRANT, "1")
    mailbox.take(Message(TOPICS.from_device(3, "update"), b"garbage"))
    assert mailbox.waits_for_update


def test_long_updates_are_clipped_and_short_ones_left_to_the_bit():
    assert np.allclose(Admission(2, clip_norm=1.0).admitted(Frame(GRANT, {}, GOOD)), [0.6, 0.8])
    assert Admission(2, clip_norm=5.0).admitted(Frame(GRANT, {}, GOOD)) is GOOD


def test_a_grant_to_a_device_that_has_gone_waits_for_nothing(mailbox):
    mailbox.vanish(2)
    mailbox.expect(GRANT, "1")
    assert not mailbox.waits_for_update


def test_a_device_that_goes_while_it_may_send_ends_the_wait(mailbox):
    mailbox.expect(GRANT, "1")
    say(mailbox, 2, "gone", boot="b")
    mailbox.let_go(time.monotonic())
    assert not mailbox.waits_for_update
    assert mailbox.unplanned == [Left(2)]


def test_a_farewell_does_not_count_at_once(mailbox):
    before = time.monotonic()
    say(mailbox, 2, "gone", boot="b")
    mailbox.let_go(before)
    assert mailbox.unplanned == []
    assert mailbox.assigned == {2: (4, 1)}


def test_who_comes_back_soon_was_never_gone(mailbox):
    say(mailbox, 2, "gone", boot="b")
    say(mailbox, 2, "here", boot="b")
    mailbox.let_go(time.monotonic())
    assert mailbox.unplanned == []
    assert mailbox.assigned == {2: (4, 1)}


def test_a_farewell_of_a_device_whose_start_is_not_known_deafens_nobody(mailbox):
    mailbox.present.add(3)  # as after a restart of the server
    say(mailbox, 3, "gone")
    say(mailbox, 3, "here", boot="c")
    assert 3 in mailbox.present


def test_who_is_started_again_was_gone_however_soon_it_is_back(mailbox):
    say(mailbox, 2, "gone", boot="b")
    say(mailbox, 2, "here", boot="c")
    assert mailbox.unplanned == [Left(2), Joined(2)]
    assert mailbox.assigned == {}


def test_an_update_that_came_before_its_device_went_counts(mailbox):
    mailbox.expect(GRANT, "1")
    update(mailbox)
    say(mailbox, 2, "gone", boot="b")
    mailbox.let_go(time.monotonic())
    assert np.array_equal(mailbox.close(), GOOD)


def test_the_farewell_of_an_earlier_life_does_not_count(mailbox):
    say(mailbox, 2, "gone", boot="another")
    assert 2 in mailbox.present
    assert list(mailbox.rejected) == ["a farewell of somebody who had gone before"]


def test_ready_counts_for_what_was_assigned_and_once(mailbox):
    say(mailbox, 2, "ready", Label("run", 2, 0, 3, 0))
    assert not mailbox.is_ready(2)
    for _ in range(2):
        say(mailbox, 2, "ready", Label("run", 2, 0, 4, 1))
    assert mailbox.is_ready(2)
    assert mailbox.rejected == {"ready with something that was not asked for": 1, "ready, said twice": 1}


def test_a_device_that_counts_as_gone_is_asked_to_say_here(mailbox):
    say(mailbox, 3, "ready")
    assert mailbox.said_here == {2: "", 3: ""}
    assert 3 not in mailbox.present


def test_coming_is_an_event_and_saying_here_again_is_none(mailbox):
    say(mailbox, 3, "here", boot="c", holds="4:1")
    say(mailbox, 3, "here", boot="c", holds="4:1")
    assert mailbox.unplanned == [Joined(3)]
    assert mailbox.said_here[3] == "4:1"


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        ("slotwise/test/from/4/here", "a stranger: no device of this run"),
        ("slotwise/test/from/0/here", "a topic of no device"),
        ("slotwise/test/from/02/here", "a topic of no device"),
        ("slotwise/test/from/x/here", "a topic of no device"),
        ("slotwise/test/from/2/other", "a topic of no device"),
        ("slotwise/test/from/2/here/more", "a topic of no device"),
    ],
)
def test_other_topics_are_not_heard(mailbox, topic, reason):
    mailbox.take(Message(topic, encode(Label("run", 2))))
    assert mailbox.rejected == {reason: 1}


def test_a_rejection_is_told_in_one_plain_line_whatever_the_topic_is():
    assert str(Rejection("a\n\x1b[31mb", "too large")) == "a\\n\\x1b[31mb: too large"
    assert len(str(Rejection("x" * 60_000, ""))) < 200


def test_words_that_are_too_long_are_not_read(mailbox):
    say(mailbox, 2, "ready", Label("run", 2, 0, 4, 1), padding="x" * 5000)
    assert mailbox.rejected == {"too large": 1}


PACKING = Packing(np.array([2], dtype=np.int64), 8)


@pytest.fixture
def packed_mailbox(mailbox):
    mailbox._admission = Admission(2, packing=PACKING)
    mailbox.expect(GRANT, "1")
    return mailbox


def test_a_packed_update_is_taken_unpacked(packed_mailbox):
    update(packed_mailbox, vector=PACKING.pack(np.array([127, -1], dtype=np.float32)))
    assert packed_mailbox.close().tolist() == [127, -1]


@pytest.mark.parametrize(
    ("numbers", "reason"),
    [
        (GOOD, "not the 6 bytes of 2 packed numbers"),
        (b"12345", "not the 6 bytes of 2 packed numbers"),
        (b"1234567", "not the 6 bytes of 2 packed numbers"),
        (np.array([np.inf], dtype="<f4").tobytes() + b"12", "numbers that are not finite"),
    ],
    ids=["not packed", "too short", "too long", "not finite"],
)
def test_a_badly_packed_update_is_rejected(packed_mailbox, numbers, reason):
    update(packed_mailbox, vector=numbers)
    assert packed_mailbox.rejected == {reason: 1}
    assert packed_mailbox.close() is None


def test_packed_numbers_are_no_update_where_none_are_expected(mailbox):
    mailbox.expect(GRANT, "1")
    update(mailbox, vector=b"12345678")
    assert mailbox.rejected == {"no float32 numbers": 1}


def test_who_is_out_is_told_so_and_told_again_when_it_says_that_it_is_here(mailbox):
    for _ in range(STRIKES):
        mailbox.strike(2)
    assert mailbox.turned_away == {2}
    mailbox.turned_away.clear()
    say(mailbox, 2, "ready")
    assert not mailbox.turned_away
    say(mailbox, 2, "here", boot="b")
    assert mailbox.turned_away == {2}
