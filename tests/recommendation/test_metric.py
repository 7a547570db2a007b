from math import inf, nan

import pytest

from slotwise.base.errors import InputError
from slotwise.learning import Point
from slotwise.recommendation.candidates import Curve
from slotwise.recommendation.metric import DIVERGED, Metric, MetricName, Target
from slotwise.runs import RunConfig
from slotwise.schedule.costs import Powers, joules, usage_until

POWERS = Powers(computing=2.0, sending=1.0, receiving=0.5)
JOULES = Metric("joules-to-target", Target("loss", 1.0), POWERS)
CONFIG = RunConfig().with_options(devices=6, group_size=2, compute_slots=4, deadline=320)


def point(slot: int, loss: float, accuracy: float = 0.5) -> Point:
    return Point(slot, slot, loss, accuracy, 0)


def curve(slot: int, *points: Point, diverged: bool = False) -> Curve:
    return Curve(CONFIG, slot, points, diverged)


def spent(slot: int) -> float:
    return float(joules(usage_until(CONFIG.simulate(), [slot]), POWERS)[0])


def test_the_present_score_is_the_median_of_the_last_tenth_or_the_last() -> None:
    found = curve(100, point(0, 9.0), point(90, 8.0), *(point(91 + i, i, 0.2 * i) for i in range(4)))
    assert Metric().present(found) == (0, 1.5)
    assert Metric("accuracy").present(found) == (0, pytest.approx(0.7))
    assert Metric().present(curve(100, point(0, 2.3), point(10, 2.0))) == (0, 2.0)
    found = curve(100, point(0, 2.3, nan), point(99, 2.0, nan))
    assert Metric("accuracy").present(found) == (0, 1.0)
    assert Metric("accuracy").optimistic(found)[1] <= 1.0
    diverged = curve(20, diverged=True)
    assert Metric().present(diverged) == Metric().optimistic(diverged) == DIVERGED > (9, 1e9)
    assert Metric().settled(diverged)


@pytest.mark.parametrize("metric", [Metric(), Metric("accuracy")], ids=["loss", "accuracy"])
def test_the_optimistic_score_is_better_than_the_present_one_and_equal_at_the_deadline(
    metric: Metric,
) -> None:
    falling = [point(slot, 2 * 0.99**slot, 1 - 0.9 * 0.99**slot) for slot in range(0, 321, 8)]
    halfway = curve(160, *falling[:21])
    assert metric.optimistic(halfway) < metric.present(halfway)
    assert metric.optimistic(curve(320, *falling)) == metric.present(curve(320, *falling))


def test_joules_are_counted_until_the_target_is_first_reached_or_the_last_round() -> None:
    losses = point(0, 2.0), point(16, 1.5), point(32, 0.9), point(48, 1.2), point(64, 0.5)
    found = curve(320, *losses)
    assert JOULES.present(found) == JOULES.optimistic(found) == (0, spent(32))
    assert JOULES.settled(found)
    assert not JOULES.settled(curve(20, *losses[:2]))
    going = curve(40, point(0, 2.0), point(40, 1.5))
    assert JOULES.present(going) == (1, 1.5)
    assert JOULES.optimistic(going) == (0, spent(40))
    assert JOULES.optimistic(curve(320, point(0, 2.0), point(320, 1.5))) == (1, 1.5)
    slow = CONFIG.with_options(schedule="sync", compute_slots=200)  # one round by the deadline
    timeline = slow.simulate()
    whole = joules(usage_until(timeline, [timeline.last_slot]), POWERS)[0]
    assert JOULES.optimistic(Curve(slow, 300, (point(0, 2.0), point(200, 1.5)))) == (0, whole)


def test_seeds_that_missed_the_target_count_before_the_joules_of_the_others() -> None:
    thrifty, costly = [(0, 10.0)] * 2, [(0, 99.0)] * 2
    half, never, worse = [(0, 1.0), (1, 0.6)], [(1, 0.7)] * 2, [(1, 0.8)] * 2
    worst_first = [[(0, 0.1), DIVERGED], worse, never, half, costly, thrifty]
    assert sorted(worst_first, key=JOULES.over_seeds) == worst_first[::-1]
    assert JOULES.over_seeds(half) == (1, 0.6)
    assert JOULES.over_seeds(worst_first[0]) == DIVERGED


def test_values_are_written_as_people_read_them() -> None:
    assert [
        (m.value_name, m.quantity, m.text(m.value((0, 0.25)))) for m in (Metric(), Metric("accuracy"))
    ] == [
        ("loss", "loss", "0.2500"),
        ("accuracy", "accuracy", "75.00%"),
    ]
    assert (JOULES.value_name, JOULES.quantity, JOULES.text(1234.5)) == ("joules", "loss", "1,234 J")
    assert [JOULES.value((1, 0.5)), Metric().value(DIVERGED)] == [None, None]
    assert [Metric().text(None), Metric().text(-inf)] == ["–", "–"]


@pytest.mark.parametrize(
    ("text", "target"), [("accuracy=0.9", Target("accuracy", 0.9)), ("loss=2", Target("loss", 2.0))]
)
def test_a_target_is_a_quantity_and_a_number(text: str, target: Target) -> None:
    assert Target.parse(text) == target


def test_unknown_metrics_and_impossible_targets_are_refused() -> None:
    with pytest.raises(InputError) as error:
        Target("accuracy", 90)
    assert error.value.parameter == "target"
    with pytest.raises(InputError) as error:
        Metric("acc")  # type: ignore[arg-type]
    assert error.value.parameter == "metric"


@pytest.mark.parametrize(
    "text",
    ["0.9", "accuracy", "accuracy=", "accuracy=90", "accuracy=0", "loss=0", "loss=nan", "loss=inf", "x=1"],
)
def test_other_targets_are_refused(text: str) -> None:
    with pytest.raises(InputError) as error:
        Target.parse(text)
    assert error.value.parameter == "target"


@pytest.mark.parametrize(
    ("metric", "target", "powers", "refused"),
    [
        ("loss", Target("loss", 1.0), None, "target"),
        ("joules-to-target", None, POWERS, "target"),
        ("joules-to-target", Target("loss", 1.0), None, "metric"),
    ],
    ids=["target-without-joules", "joules-without-target", "joules-without-powers"],
)
def test_a_target_is_for_joules_and_joules_need_target_and_powers(
    metric: MetricName, target: Target | None, powers: Powers | None, refused: str
) -> None:
    with pytest.raises(InputError) as error:
        Metric(metric, target, powers)
    assert error.value.parameter == refused
