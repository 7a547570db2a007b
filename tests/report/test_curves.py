from slotwise.learning import Point
from slotwise.report.colours import BLUE
from slotwise.report.curves import Line


def curve(*rows: tuple[int, float]) -> list[Point]:
    return [
        Point(round=slot // 2, slot=slot, loss=loss, accuracy=loss / 10, staleness=0.0) for slot, loss in rows
    ]


def line(*seeds: list[Point]) -> Line:
    return Line("run", BLUE, "solid", seeds)


def test_seeds_are_averaged_at_the_same_places_as_far_as_all_have_come() -> None:
    band = line(curve((0, 2.0), (10, 1.0)), curve((0, 4.0), (10, 2.0))).band("slot", "loss")
    assert band.places.tolist() == [0, 10]
    assert band.mean.tolist() == [3.0, 1.5]
    assert (band.low.tolist(), band.high.tolist()) == ([2.0, 1.0], [4.0, 2.0])
    often = curve((0, 4.0), (10, 3.0), (20, 2.0), (30, 1.0), (40, 0.0))
    seldom = curve((0, 4.0), (40, 0.0))
    band = line(often, seldom).band("slot", "loss")
    assert band.places.tolist() == [0, 10, 20, 30, 40]
    assert band.low.tolist() == band.high.tolist() == [4.0, 3.0, 2.0, 1.0, 0.0]
    band = line(curve((0, 4.0), (10, 2.0), (20, 1.0)), curve((0, 4.0), (15, 1.0))).band("slot", "loss")
    assert band.places.tolist() == [0, 10, 15]
    assert band.mean.tolist() == [4.0, 2.0, 1.25]


def test_accuracies_are_in_per_cent_and_without_evaluations_nothing_is_drawn() -> None:
    band = line(curve((0, 2.0), (10, 1.0))).band("round", "accuracy")
    assert band.places.tolist() == [0, 5]
    assert band.mean.tolist() == [20.0, 10.0]
    for nothing in (line(), line([]), line(curve((0, 1.0)), [])):
        assert [len(row) for row in nothing.band("slot", "loss")] == [0, 0, 0, 0]
