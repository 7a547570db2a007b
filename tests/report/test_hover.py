from slotwise.report.activity import activities
from slotwise.report.channel import broadcasts, lost_uplinks, uplinks
from slotwise.report.hover import (
    broadcast_words,
    device_list,
    interval_words,
    lost_uplink_words,
    uplink_words,
)
from slotwise.report.window import Window
from slotwise.schedule import Timeline


def words_of(device: int, timeline: Timeline) -> list[str]:
    return [interval_words(row) for row in activities(timeline) if row.device == device]


def test_a_device_of_the_example_in_words(six_idfl: Timeline) -> None:
    assert words_of(5, six_idfl)[:6] == [
        "device 5, slots 0–3: waits for w1",
        "device 5, slot 4: receives w1 at the end of round 0",
        "device 5, slots 5–6: computes on w1; sent in round 2, staleness 1",
        "device 5, slot 7: ready, waits for the channel with its update from w1; "
        "sent in round 2, staleness 1",
        "device 5, slot 8: sends its update from w1; round 2, staleness 1",
        "device 5, slots 9–12: waits for w4",
    ]


def test_what_the_timeline_does_not_reach_is_said(six_idfl: Timeline) -> None:
    assert words_of(5, six_idfl)[-1] == "device 5, slots 18–19: waits for a model that comes later"
    assert words_of(1, six_idfl)[-2] == (
        "device 1, slots 17–18: computes on w5; sent after the last round here"
    )


def test_an_uplink_in_words(six_async: Timeline) -> None:
    (uplink,) = uplinks(six_async, Window(8, 9))
    assert uplink_words(uplink) == "channel, slot 8: device 5 sends its update from w0; round 2, staleness 2"


def test_a_broadcast_in_words(six_idfl: Timeline) -> None:
    (broadcast,) = broadcasts(six_idfl, Window(4, 5))
    assert broadcast_words(broadcast, [5, 6]) == (
        "channel, slot 4: broadcast of w1 to devices 5–6; ends round 0"
    )


def test_lists_of_devices() -> None:
    assert [device_list(devices) for devices in ([], [4], [1, 2, 3, 7])] == [
        "",
        "device 4",
        "devices 1–3, 7",
    ]


def test_losses_and_departures_in_words(unequal: Timeline) -> None:
    assert words_of(2, unequal)[:6] == [
        "device 2, slots 0–1: computes on w0; never sent, the device leaves",
        "device 2, slot 2: ready, waits for the channel with its update from w0; "
        "sent in round 0, staleness 0",
        "device 2, slot 3: sends its update from w0 in vain, it is lost; round 0",
        "device 2, slots 4–6: ready, waits for the channel with its update from w0; "
        "never sent, the device leaves",
        "device 2, slots 7–15: away",
        "device 2, slot 16: receives w3 at the end of round 2",
    ]


def test_a_lost_uplink_in_words(unequal: Timeline) -> None:
    (uplink,) = lost_uplinks(unequal, Window(2, 3))
    assert lost_uplink_words(uplink) == "channel, slot 2: the update of device 1 from w0 is lost; round 0"
