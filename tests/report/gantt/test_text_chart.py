import pytest

from slotwise.fleet import Absence, Fleet
from slotwise.report.gantt.chart import Window
from slotwise.report.gantt.text_chart import Row, choose_rows, gantt_text
from slotwise.scenario import Scenario
from slotwise.schedule import Timeline, simulate

ASYNC = """\
6 devices, 2 uplinks a round, 2 slots to compute, 1 per uplink or broadcast
async: 6 rounds in 20 slots; staleness 2 at most, 1.50 on average

slot      0  1  2  3  4  5  6  7  8  9  10 11 12 13 14 15 16 17 18 19
round     │0             │1       │2       │3       │4       │5
channel         1▲ 2▲ w1 3▲ 4▲ w2 5▲ 6▲ w3 1▲ 2▲ w4 3▲ 4▲ w5 5▲ 6▲ w6
device 1  w0▒▒▒▒▲▲▲   ▼▼▼w1▒▒▒▒············▲▲▲   ▼▼▼w4▒▒▒▒············
device 2  w0▒▒▒▒···▲▲▲▼▼▼w1▒▒▒▒···············▲▲▲▼▼▼w4▒▒▒▒············
device 3  w0▒▒▒▒·········▲▲▲   ▼▼▼w2▒▒▒▒············▲▲▲   ▼▼▼w5▒▒▒▒···
device 4  w0▒▒▒▒············▲▲▲▼▼▼w2▒▒▒▒···············▲▲▲▼▼▼w5▒▒▒▒···
device 5  w0▒▒▒▒··················▲▲▲   ▼▼▼w3▒▒▒▒············▲▲▲   ▼▼▼
device 6  w0▒▒▒▒·····················▲▲▲▼▼▼w3▒▒▒▒···············▲▲▲▼▼▼

▒ computing   ▲ sending   ▼ receiving   · ready, waiting for the channel
blank: waiting for a model   wN: model N   channel: the sender"""

IDFL = """\
6 devices, 2 uplinks a round, 2 slots to compute, 1 per uplink or broadcast
idfl, delay 1: 6 rounds in 20 slots; staleness 1 at most, 0.83 on average

slot      0  1  2  3  4  5  6  7  8  9  10 11 12 13 14 15 16 17 18 19
round     │0             │1       │2       │3       │4       │5
channel         1▲ 2▲ w1 3▲ 4▲ w2 5▲ 6▲ w3 1▲ 2▲ w4 3▲ 4▲ w5 5▲ 6▲ w6
device 1  w0▒▒▒▒▲▲▲            ▼▼▼w2▒▒▒▒···▲▲▲            ▼▼▼w5▒▒▒▒···
device 2  w0▒▒▒▒···▲▲▲         ▼▼▼w2▒▒▒▒······▲▲▲         ▼▼▼w5▒▒▒▒···
device 3  w0▒▒▒▒·········▲▲▲            ▼▼▼w3▒▒▒▒···▲▲▲            ▼▼▼
device 4  w0▒▒▒▒············▲▲▲         ▼▼▼w3▒▒▒▒······▲▲▲         ▼▼▼
device 5              ▼▼▼w1▒▒▒▒···▲▲▲            ▼▼▼w4▒▒▒▒···▲▲▲
device 6              ▼▼▼w1▒▒▒▒······▲▲▲         ▼▼▼w4▒▒▒▒······▲▲▲

▒ computing   ▲ sending   ▼ receiving   · ready, waiting for the channel
blank: waiting for a model   wN: model N   channel: the sender"""

NARROW_ASCII = """\
slot      0    5    10   15
round     |0   |1 |2 |3 |4 |5
channel     12v34v56v12v34v56v
device 1  ##^    v##.^    v##.
device 2  ##.^   v##..^   v##.
device 3  ##...^    v##.^    v
device 4  ##....^   v##..^   v
device 5      v##.^    v##.^
device 6      v##..^   v##..^"""

GROUPS = """\
slot            50   55   60   65   70   75   80   85   90   95   100  105  110
round           …0         │1         │2         │3         │4         │5
                         1 1111111112 2222222223 3333333334 4444444445 555555555
channel         1234567890▼1234567890▼1234567890▼1234567890▼1234567890▼123456789
devices 1–10    ▲▲▲▲▲▲▲▲▲▲                                            ▼w5▒▒▒▒▒▒▒
devices 11–20   ···········▲▲▲▲▲▲▲▲▲▲"""

LONG_LINKS = """\
slot        20   25   30   35
round     │1        │2        │3
channel   2▲▲▲ w2▼▼ 3▲▲▲ w3▼▼ 1
device 1  w1▒▒▒▒▒▒············▲▲
device 2  ▲▲▲▲▲▼▼▼▼▼w2▒▒▒▒▒▒····
device 3  ··········▲▲▲▲▲▼▼▼▼▼▒▒"""


def chart(text: str) -> list[str]:
    """The lines between the words above and the words below."""
    return text.split("\n\n")[1].split("\n")


def test_both_examples_and_a_narrow_terminal_without_unicode(six_async: Timeline, six_idfl: Timeline) -> None:
    assert gantt_text(six_async).plain == ASYNC
    assert gantt_text(six_idfl).plain == IDFL
    text = gantt_text(six_idfl, width=42, ascii_only=True).plain
    assert chart(text) == NARROW_ASCII.split("\n")
    assert text.isascii()


def test_groups_read_downwards_and_what_is_left_out_is_said(hundred: Timeline) -> None:
    assert chart(gantt_text(hundred, window=Window(50, 270)).plain)[:6] == GROUPS.split("\n")
    last = gantt_text(hundred).plain.split("\n")[-1]
    assert last == "not shown: slots 64–269; see --slots 64:128, or --out FILE.html"
    assert "not shown" not in gantt_text(hundred, window=Window(60, 100)).plain


def test_transfers_of_several_slots_carry_their_label_once() -> None:
    scenario = Scenario(devices=3, group_size=1, compute_slots=8, link_slots=5)
    timeline = simulate(scenario, "async", rounds=6)
    text = gantt_text(timeline, width=32, window=Window(18, 60)).plain
    assert chart(text) == LONG_LINKS.split("\n")


def test_of_many_rows_those_that_send_are_shown_and_the_others_counted(hundred_alone: Timeline) -> None:
    assert "\n… 89 more devices (11–99)\n" in gantt_text(hundred_alone).plain
    rows = choose_rows(hundred_alone, Window(100, 130))
    assert rows == [
        Row(1, 25, shown=False),
        *(Row(n, n) for n in range(26, 36)),
        Row(36, 99, shown=False),
        Row(100, 100),
    ]


def test_each_activity_has_its_colour(six_async: Timeline) -> None:
    styles = {str(span.style) for span in gantt_text(six_async).spans}
    assert styles == {"bright_blue", "bold", "dark_orange3", "dim"}


@pytest.mark.parametrize("width", [30, 40, 80, 133])
@pytest.mark.parametrize("size", [1, 7, 10, 50, 100])
def test_no_line_is_wider_than_the_terminal(size: int, width: int) -> None:
    timeline = simulate(Scenario(devices=100, group_size=size, compute_slots=50), "async", rounds=12)
    for window in (Window(0, timeline.last_slot), Window(55, 58), Window(33, 200)):
        text = gantt_text(timeline, width=width, window=window).plain
        assert max(map(len, text.split("\n"))) <= width
        assert all(line == line.rstrip() for line in text.split("\n"))


UNEQUAL = """\
slot      0         5         10        15        20        25
round     │0              │1        │2      │3          │4    │5
channel       1✗2✗3 4▲▲ ▼ 1     3 ▼ 6▲▲ 1 ▼ 3   1✗2✗5 ▼ 1 2 ▼ 6▲▲ 1 ▼
device 1  w0▒▒✗✗··········▲▲      ▼▼w2▒▒▲▲▼▼w3▒▒✗✗······▲▲  ▼▼w5▒▒▲▲▼▼
device 2  w0▒▒··✗✗······──────────────────▼▼w3▒▒··✗✗······▲▲▼▼w5▒▒····
device 3  w0▒▒▒▒··▲▲    ▼▼w1▒▒▒▒▲▲▼▼w2▒▒▒▒··▲▲              ▼▼w5▒▒▒▒··
device 4  w0▒▒▒▒····▲▲▲▲▼▼w1▒▒────────────────────────────────────────
device 5  ──────────────────────  ▼▼w2▒▒▒▒▒▒▒▒▒▒····▲▲      ▼▼w5▒▒▒▒▒▒
device 6  w0▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒····▲▲▲▲  ▼▼w3▒▒▒▒▒▒▒▒▒▒▒▒····▲▲▲▲  ▼▼"""


def test_losses_and_absences_are_shown_and_explained(unequal: Timeline) -> None:
    text = gantt_text(unequal, width=72, window=Window(0, 30)).plain
    assert UNEQUAL in text
    assert "✗ sending, lost   ─ away" in text
    assert "x sending, lost   - away" in gantt_text(unequal, ascii_only=True).plain
    assert gantt_text(unequal, ascii_only=True).plain.isascii()


def test_few_devices_have_a_row_each_and_many_share_one_with_their_group(
    six_async: Timeline, hundred: Timeline
) -> None:
    assert choose_rows(six_async, Window(0, 20)) == [Row(n, n) for n in range(1, 7)]
    rows = choose_rows(hundred, Window(0, 60))
    assert rows == [Row(first, first + 9) for first in range(1, 101, 10)]
    assert rows[0].label == "devices 1–10"


def test_gaps_random_participants_and_unequal_devices_have_no_groups() -> None:
    assert Row(12, 99, shown=False).label == "… 88 more devices (12–99)"
    scenario = Scenario(devices=20, group_size=4, compute_slots=2)
    timeline = simulate(scenario, "sync", rounds=6, participation="random")
    assert all(row.first == row.last for row in choose_rows(timeline, Window(0, 40)) if row.shown)
    fleet = Fleet(compute_slots=tuple(range(1, 21)), link_slots=(1,) * 20)
    timeline = simulate(scenario, "sync", fleet=fleet, rounds=6)
    assert all(row.first == row.last for row in choose_rows(timeline, Window(0, 40)) if row.shown)
    fleet = Fleet(compute_slots=(2, 2), link_slots=(1, 1), absences=(Absence(1, 0, 5), Absence(2, 0)))
    timeline = simulate(Scenario(devices=2, group_size=1, compute_slots=2), fleet=fleet, rounds=1)
    assert "device 1  ───────────────▼▼▼" in gantt_text(timeline).plain


@pytest.mark.parametrize("size", [1, 3, 7])
@pytest.mark.parametrize("first", [0, 40, 90])
def test_every_device_is_in_a_row_or_in_a_gap_of_several(size: int, first: int) -> None:
    timeline = simulate(Scenario(devices=50, group_size=size, compute_slots=9), "async", rounds=100)
    rows = choose_rows(timeline, Window(first, first + 30))
    covered = [device for row in rows for device in range(row.first, row.last + 1)]
    assert covered == list(range(1, 51))
    assert all(row.last > row.first for row in rows if not row.shown)
