import re
from html.parser import HTMLParser

import pytest

from slotwise.report.gantt.chart import Window, activities, transfers
from slotwise.report.gantt.drawing import compose
from slotwise.report.gantt.page_chart import describe_interval, describe_transfer, device_list, gantt_page
from slotwise.schedule import Timeline

ALONE = {"meta", "path"}


class Reader(HTMLParser):
    """Checks that tags are closed in order; gathers attributes and the words of bars."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs
        if tag not in ALONE:
            self.open.append(tag)

    def handle_startendtag(self, _: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-2:] == ["rect", "title"]:
            self.words.append(data)


@pytest.fixture
def page(six_idfl: Timeline) -> str:
    return gantt_page(compose(six_idfl, Window(0, 20)))


def test_the_page_is_well_formed(page: str) -> None:
    Reader(page)


def test_the_page_needs_nothing_from_elsewhere(page: str) -> None:
    assert "://" not in page
    assert "@import" not in page
    assert not {"src", "href", "srcset"} & {name for name, _ in Reader(page).attributes}


def test_each_bar_has_its_words(page: str) -> None:
    words = Reader(page).words
    assert "device 5, slots 5–6: computes on w1; sent in round 2, staleness 1" in words
    assert "channel, slot 4: broadcast of w1 to devices 5–6; ends round 0" in words
    assert "channel, slot 8: device 5 sends its update from w1; round 2, staleness 1" in words


def test_head_and_legend_are_there(page: str) -> None:
    assert "<h1>6 devices, 2 uplinks a round, 2 slots to compute, 1 per uplink or broadcast</h1>" in page
    assert "<p>idfl, delay 1: 6 rounds in 20 slots; staleness 1 at most, 0.83 on average</p>" in page
    assert page.count("<li>") == 5


def test_both_colour_schemes_have_every_colour(page: str) -> None:
    for kind in ("computing", "sending", "receiving", "waiting-for-channel", "waiting-for-model"):
        assert len(re.findall(rf"--{kind}: #", page)) == 2


def test_a_window_shows_bars_cut_but_tells_their_true_slots(six_async: Timeline) -> None:
    words = Reader(gantt_page(compose(six_async, Window(8, 10)))).words
    assert "device 1, slots 7–10: ready, waits for the channel with its update from w1; " in "".join(words)


def test_a_hundred_devices_make_a_small_file(hundred: Timeline) -> None:
    assert len(gantt_page(compose(hundred, Window(0, 270)))) < 400_000


def test_losses_and_absences_are_drawn_and_explained(unequal: Timeline) -> None:
    page = gantt_page(compose(unequal, Window(0, 42)))
    words = Reader(page).words
    assert "device 2, slots 7–15: away" in words
    assert "channel, slot 2: the update of device 1 from w0 is lost; round 0" in words
    assert page.count("<li>") == 7
    assert "--lost: #a3195b;" in page


def words_of(device: int, timeline: Timeline) -> list[str]:
    return [describe_interval(row) for row in activities(timeline) if row.device == device]


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
        "device 1, slots 17–18: computes on w5; sent after the last round shown"
    )


def test_an_uplink_in_words(six_async: Timeline) -> None:
    (uplink,) = transfers(six_async, Window(8, 9))
    assert (
        describe_transfer(uplink)
        == "channel, slot 8: device 5 sends its update from w0; round 2, staleness 2"
    )


def test_a_broadcast_in_words(six_idfl: Timeline) -> None:
    (broadcast,) = transfers(six_idfl, Window(4, 5))
    assert describe_transfer(broadcast, [5, 6]) == (
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
        "device 2, slot 3: sends its update from w0, which is lost; round 0",
        "device 2, slots 4–6: ready, waits for the channel with its update from w0; "
        "never sent, the device leaves",
        "device 2, slots 7–15: away",
        "device 2, slot 16: receives w3 at the end of round 2",
    ]


def test_a_lost_uplink_in_words(unequal: Timeline) -> None:
    (uplink,) = transfers(unequal, Window(2, 3))
    assert describe_transfer(uplink) == "channel, slot 2: the update of device 1 from w0 is lost; round 0"
