"""Stalls, and repeated events of devices, as an operator sees them."""

import pytest

from slotwise.live.clock import Clock
from slotwise.live.server.events import REPEATED_INTERVAL, EventLog, LiveObserver
from slotwise.live.server.live_status import SHORTEST_STALL, STALL_ROUNDS, Stalls
from slotwise.live.server.round_log import Round
from slotwise.live.server.state import LiveState
from slotwise.scenario import Scenario
from slotwise.schedule import scheduler_for


class Hands(Clock):
    """A clock that is set by hand."""

    seconds = 0.0

    def now(self):
        return self.seconds


class Lines(LiveObserver):
    def __init__(self):
        self.events = []

    def logged(self, event):
        self.events.append((event.level, event.event, event.fields.get("times")))


@pytest.fixture
def run():
    scenario = Scenario(devices=3, group_size=1, compute_slots=1)
    state, clock = LiveState(scheduler_for(scenario, "async")), Hands()
    state.presence.connect(1, "b")
    stalls = Stalls(state, clock)
    stalls.running = True
    return state, clock, stalls


def end_round(state, seconds):
    state.log.add(Round(1, 2, seconds, [], [], [], []))


def test_a_run_whose_rounds_end_is_not_stalled(run):
    state, clock, stalls = run
    for number in range(20):
        clock.seconds = 50.0 * number
        end_round(state, clock.seconds)
        assert stalls.seconds() == 0.0
    clock.seconds += 0.9 * STALL_ROUNDS * 50.0
    assert stalls.seconds() == 0.0  # its rounds are long
    clock.seconds += 0.2 * STALL_ROUNDS * 50.0
    assert stalls.seconds() == pytest.approx(1.1 * STALL_ROUNDS * 50.0)


def test_without_devices_a_minute_is_a_stall_and_both_ends_are_logged(run):
    state, clock, stalls = run
    lines = Lines()
    log = EventLog(lines)
    end_round(state, 0.0)
    stalls.log_to(log)
    state.presence.disconnect(1)
    clock.seconds = SHORTEST_STALL + 1
    for _ in range(3):
        stalls.log_to(log)
    end_round(state, clock.seconds)
    stalls.log_to(log)
    assert lines.events == [("warning", "stalled", None), ("warning", "progresses", None)]


def test_a_run_that_waits_for_devices_or_has_ended_is_not_stalled(run):
    _, clock, stalls = run
    stalls.running = False
    clock.seconds = 1e6
    assert stalls.seconds() == 0.0


def test_what_a_device_does_again_and_again_is_logged_once_a_minute():
    lines = Lines()
    log = EventLog(lines)
    for second in range(int(2 * REPEATED_INTERVAL)):
        log.repeated("info", "late", float(second), device=2, round=second, what="training")
    log.repeated("info", "late", 5.0, device=3, round=1, what="training")
    minute = int(REPEATED_INTERVAL)
    assert lines.events == [("info", "late", None), ("info", "late", minute), ("info", "late", None)]
