"""Topics: a broadcast reaches its receivers, and its name says who they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.client import topic_matches_sub

from slotwise.base.errors import InputError
from slotwise.live.protocol import SEATS, Topics

TOPICS = Topics("test")
DEVICES = st.integers(1, 5 * SEATS)
SOME = st.lists(DEVICES, unique=True, max_size=40)


def times_read(device, topics):
    return sum(topic_matches_sub(TOPICS.as_receiver(device), topic) for topic in topics)


@given(receivers=SOME, others=SOME)
def test_a_broadcast_is_read_once_by_its_receivers_and_by_nobody_else(receivers, others):
    topics = TOPICS.to_receivers(receivers)
    for device in {*receivers, *others}:
        assert times_read(device, topics) == (device in receivers)


@given(st.sets(st.integers(1, SEATS)))
def test_a_broadcast_within_a_hundred_devices_is_one_publish(receivers):
    assert len(TOPICS.to_receivers(receivers)) == 1


@given(first=st.integers(1, 10_000), count=st.integers(1, SEATS))
def test_a_broadcast_to_a_group_of_neighbours_is_one_publish(first, count):
    assert len(TOPICS.to_receivers(range(first, first + count))) == 1


def test_no_topic_has_more_levels_than_brokers_take():
    everybody = range(1, 2 * SEATS + 1)
    assert max(topic.count("/") for topic in TOPICS.to_receivers(everybody)) < 128
    assert max(TOPICS.as_receiver(device).count("/") for device in everybody) < 128


@pytest.mark.parametrize(
    ("topic", "kind"),
    [
        ("slotwise/test/all/model/-/2/-/4", "model"),
        ("slotwise/test/all/model", "model"),
        ("slotwise/test/all/end", "end"),
        ("slotwise/test/to/7/grant", "grant"),
    ],
)
def test_a_topic_says_what_kind_of_message_it_is(topic, kind):
    assert TOPICS.kind(topic) == kind


@pytest.mark.parametrize("name", ["", "a/b", "+", "#", "a" * 65, ".hidden", "a b"])
def test_a_name_that_could_not_be_one_level_of_a_topic_is_refused(name):
    with pytest.raises(InputError) as error:
        Topics(name)
    assert error.value.parameter == "name"
