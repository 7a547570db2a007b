from slotwise.report.picture import compose
from slotwise.report.window import Window
from slotwise.scenario import Scenario
from slotwise.schedule import Timeline, simulate


def test_a_whole_timeline_leaves_nothing_to_say(six_async: Timeline) -> None:
    assert len(compose(six_async, Window(0, 20)).head) == 2


def test_a_part_says_which_slots_it_shows(hundred_alone: Timeline) -> None:
    head = compose(hundred_alone, Window(0, 400)).head
    assert head[-1] == "shown: slots 0–399 of 450 (others with --slots A:B)"


def test_of_very_many_devices_the_first_are_shown_and_said() -> None:
    timeline = simulate(Scenario(devices=1000, group_size=500, compute_slots=5), rounds=1)
    picture = compose(timeline, Window(0, timeline.last_slot))
    assert picture.head[-1] == "shown: devices 1–200 of 1,000"
    assert picture.visible.device.max() == 200


def test_only_intervals_of_the_window_are_visible(six_async: Timeline) -> None:
    picture = compose(six_async, Window(0, 2))
    assert len(picture.visible) == 6
