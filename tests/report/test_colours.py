from slotwise.report.colours import (
    BLUE,
    COLOURS,
    GREEN,
    MOST_LOOKS,
    SCHEDULE_COLOURS,
    VERMILLION,
    LineLook,
    Subject,
    line_looks,
    palette_look,
    size_colour,
)
from slotwise.schedule.policies import POLICIES

PAPER_SIZES = (1, 5, 10, 25, 50, 100)


def lightness(colour: str) -> float:
    red, green, blue = bytes.fromhex(colour[1:])
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_lines_have_the_colours_of_their_schedules_and_differ_in_dashes() -> None:
    assert set(SCHEDULE_COLOURS) == set(POLICIES)
    for order in (("sync", "async", "idfl"), ("idfl", "sync")):
        looks = line_looks([Subject(name, 5) for name in order])
        assert looks == [LineLook(SCHEDULE_COLOURS[name]) for name in order]
    looks = line_looks([Subject("async", 1), Subject("idfl", 1), Subject("async", 5), Subject("idfl", 5)])
    assert [look.colour.light for look in looks] == [BLUE.light, GREEN.light] * 2
    assert [look.dash for look in looks] == ["solid", "solid", "dashed", "dashed"]
    assert len({look.colour.marker for look in looks}) == 4
    first, second = line_looks([Subject("mine:policy"), Subject("idfl")])
    assert second.colour == GREEN
    assert first.colour not in SCHEDULE_COLOURS.values()


def test_group_sizes_are_lighter_the_larger_they_are_with_own_markers() -> None:
    looks = line_looks([Subject("idfl", size) for size in PAPER_SIZES])
    assert [look.colour for look in looks] == [size_colour(size) for size in PAPER_SIZES]
    assert len({look.colour.marker for look in looks}) == len(PAPER_SIZES)
    shades = [lightness(size_colour(size).light) for size in (1, 2, 3, 5, 10, 20, 25, 50, 100)]
    assert shades == sorted(shades)
    assert len(set(shades)) == len(shades)
    assert size_colour(1000).light == size_colour(100).light
    assert not {size_colour(size).light for size in range(1, 200)} & {colour.light for colour in COLOURS}
    looks = line_looks([Subject("idfl", size) for size in (8, 9, 10, 15, 16)])
    assert len({look.colour.marker for look in looks}) == 5
    looks = line_looks([Subject("idfl", 5)] * 3)
    assert [look.colour for look in looks] == [BLUE, VERMILLION, GREEN]
    assert len({palette_look(number) for number in range(MOST_LOOKS)}) == MOST_LOOKS


def test_hollow_markers_of_two_schedules_can_be_told_apart() -> None:
    looks = line_looks([Subject(name, 1) for _ in range(4) for name in ("async", "idfl")])
    hollow = {look.colour.marker for look in looks if look.dash != "solid"}
    assert len(hollow) == 6
    assert not hollow & {"P", "X", "o", "^"}
