"""Timings: how long trainings take, and how long one is waited for."""

import pytest

from slotwise.live.protocol import Work
from slotwise.live.server.timings import LEAST_MULTIPLE, MULTIPLE, UNKNOWN_MULTIPLE, Timings

WORK = Work(0, 0)


class Watch(Timings):
    """Timings with hands."""

    def __init__(self):
        super().__init__(lambda: self.seconds)
        self.seconds = 0.0

    def at(self, seconds):
        self.seconds = seconds
        return self


@pytest.fixture
def watch():
    return Watch()


def test_the_limit_is_a_multiple_of_what_trainings_took_and_at_least_of_the_timeout(watch):
    assert watch.limit(1, 60.0) == UNKNOWN_MULTIPLE * 60.0
    for began, ended in ((0.0, 10.0), (20.0, 32.0), (40.0, 1000.0)):
        watch.at(began).model_sent([1], 0)
        watch.at(ended).ready(1, WORK, "")
    assert watch.limit(1, 20.0) == MULTIPLE * 12.0
    assert watch.limit(1, 600.0) == LEAST_MULTIPLE * 600.0


def test_a_first_training_is_compared_with_those_of_others_by_their_planned_slots(watch):
    for device in (1, 2, 3):
        watch.at(0.0).model_sent([device], 0)
        watch.at(10.0 * device).ready(device, WORK, "")
    assert watch.limit(9, 1.0) == MULTIPLE * 20.0
    assert watch.limit(9, 600.0) == 600.0
    slots = {1: 1, 2: 2, 3: 3, 9: 5}
    assert watch.limit(9, 1.0, slots.__getitem__) == MULTIPLE * 10.0 * 5
    watch.ended_late(9)
    assert watch.limit(9, 1.0) == UNKNOWN_MULTIPLE


def test_a_training_is_counted_from_its_assignment_or_from_a_reconnect(watch):
    watch.at(5.0).model_sent([1], 0)
    assert watch.at(8.0).waited(1) == 3.0
    watch.at(10.0).restart()
    assert watch.at(12.0).waited(1) == 2.0
    assert watch.waited(2) == 0.0  # assigned before this server was started
    assert watch.at(15.0).waited(2) == 3.0


def test_a_first_training_is_counted_from_the_model_that_is_sent_again_but_not_without_end(watch):
    watch.at(0.0).model_sent([1], 0)
    for second in range(1, 100):
        watch.at(second).model_sent_again(1)
        assert watch.waited(1) == max(0, second - UNKNOWN_MULTIPLE)
    watch.at(200.0).ready(1, WORK, "")
    watch.model_sent([1], 1)
    watch.at(210.0).model_sent_again(1)
    assert watch.waited(1) == 10.0


def test_an_end_without_a_beginning_is_ignored(watch):
    watch.at(5.0).ready(1, WORK, "")
    assert watch.limit(1, 60.0) == UNKNOWN_MULTIPLE * 60.0
