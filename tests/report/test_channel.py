from slotwise.report.channel import Broadcast, Uplink, broadcasts, lost_uplinks, rounds, uplinks
from slotwise.report.window import Window
from slotwise.scenario import Scenario
from slotwise.schedule import Timeline, simulate


def test_uplinks_of_a_window(six_async: Timeline) -> None:
    assert list(uplinks(six_async, Window(5, 9))) == [
        Uplink(5, 6, 3, 1, 0),
        Uplink(6, 7, 4, 1, 0),
        Uplink(8, 9, 5, 2, 0),
    ]


def test_broadcasts_of_a_window(six_async: Timeline) -> None:
    assert list(broadcasts(six_async, Window(4, 8))) == [Broadcast(4, 5, 1), Broadcast(7, 8, 2)]


def test_a_transfer_that_only_reaches_into_the_window_counts() -> None:
    timeline = simulate(Scenario(devices=2, group_size=1, compute_slots=1, link_slots=4), rounds=1)
    assert [uplink.device for uplink in uplinks(timeline, Window(4, 5))] == [1]


def test_rounds_of_a_window(six_async: Timeline) -> None:
    assert rounds(six_async, Window(4, 9)) == range(3)


def test_a_round_that_ends_where_the_window_begins_is_outside(six_async: Timeline) -> None:
    assert rounds(six_async, Window(5, 8)) == range(1, 2)


def test_lost_uplinks_of_a_window(unequal: Timeline, six_async: Timeline) -> None:
    assert list(lost_uplinks(unequal, Window(2, 10))) == [Uplink(2, 3, 1, 0, 0), Uplink(3, 4, 2, 0, 0)]
    assert list(lost_uplinks(six_async, Window(0, 20))) == []
