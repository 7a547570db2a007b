import pytest

from slotwise.costs import Powers, joules, usage_until
from slotwise.errors import InputError
from slotwise.learning import Point
from slotwise.recommendation.metric import Metric, Reading, Target
from slotwise.runs import RunConfig

POWERS = Powers(computing=2.0, sending=1.0, receiving=0.5)
PARAMETERS = RunConfig().with_options(devices=6, group_size=2, compute_slots=4, deadline=320)


def point(slot: int, loss: float, accuracy: float = 0.5) -> Point:
    return Point(slot, slot, loss, accuracy, 0)


def test_the_last_quarter_of_the_slots_so_far_is_judged() -> None:
    curve = [point(0, 9.0), point(75, 8.0), point(76, 2.0, 0.6), point(100, 1.0, 0.8)]
    reading = Metric().read(PARAMETERS, curve, 100)
    assert reading == Reading((2.0, 1.0), (0.6, 0.8))
    assert Metric().score([reading]) == (1.5,)
    assert Metric("accuracy").value(reading) == pytest.approx(0.7)


def test_a_curve_without_an_evaluation_in_that_quarter_is_judged_by_its_last() -> None:
    assert Metric().read(PARAMETERS, [point(0, 2.3), point(10, 2.0)], 100).losses == (2.0,)


def test_every_seed_counts_the_same_however_many_evaluations_it_has() -> None:
    readings = [Reading((1.0, 1.0, 1.0), (0.5,) * 3), Reading((3.0,), (0.7,))]
    assert Metric().score(readings) == (2.0,)
    assert Metric("accuracy").score(readings) == (-0.6,)


def test_joules_are_counted_until_the_target_is_first_reached() -> None:
    metric = Metric("joules-to-target", Target("loss", 1.0), POWERS)
    curve = [point(0, 2.0), point(16, 1.5), point(32, 0.9), point(48, 1.2), point(64, 0.5)]
    reading = metric.read(PARAMETERS, curve, 320)
    assert reading.joules == joules(usage_until(PARAMETERS.simulate(), [32]), POWERS)[0]
    assert metric.settled(curve)
    assert not metric.settled(curve[:2])


def test_who_has_not_reached_the_target_comes_after_by_loss() -> None:
    metric = Metric("joules-to-target", Target("loss", 0.5), POWERS)
    reached, costly = [Reading((9.0,), (0.1,), 10.0)] * 2, [Reading((0.1,), (0.9,), 99.0)] * 2
    half = [Reading((0.4,), (0.5,), 1.0), Reading((0.6,), (0.5,), None)]
    never, worse = [Reading((0.7,), (0.5,), None)] * 2, [Reading((0.8,), (0.5,), None)] * 2
    worst_first = [worse, never, half, costly, reached]
    assert sorted(worst_first, key=metric.score) == worst_first[::-1]


def test_the_loss_of_a_seed_that_has_reached_the_target_is_of_no_account() -> None:
    metric = Metric("joules-to-target", Target("loss", 0.5), POWERS)
    # Both have reached it with one seed, whose training ended there: at once, or after overshooting.
    better = [Reading((0.49,), (0.5,), 10.0), Reading((0.80,), (0.5,), None)]
    worse = [Reading((0.30,), (0.5,), 90.0), Reading((0.85,), (0.5,), None)]
    assert metric.score(better) == (1, 0.80) < metric.score(worse) == (1, 0.85)


def test_values_are_said_as_people_read_them() -> None:
    joules = Metric("joules-to-target", Target("accuracy", 0.5), POWERS)
    assert [(m.word, m.quantity, m.text(0.5)) for m in (Metric(), Metric("accuracy"))] == [
        ("loss", "loss", "0.5000"),
        ("accuracy", "accuracy", "50.00%"),
    ]
    assert (joules.word, joules.quantity, joules.text(1234.5)) == ("joules", "accuracy", "1,234 J")


@pytest.mark.parametrize(
    ("text", "target"), [("accuracy=0.9", Target("accuracy", 0.9)), ("loss=2", Target("loss", 2.0))]
)
def test_a_target_is_a_quantity_and_a_number(text: str, target: Target) -> None:
    assert Target.parse(text) == target


@pytest.mark.parametrize(
    "text",
    ["0.9", "accuracy", "accuracy=", "accuracy=90", "accuracy=0", "loss=0", "loss=nan", "loss=inf", "x=1"],
)
def test_other_targets_are_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"target = .*accuracy=X"):
        Target.parse(text)


def test_a_target_is_for_joules_and_joules_need_target_and_powers() -> None:
    with pytest.raises(InputError, match="target = loss=1: must be left out"):
        Metric("loss", Target("loss", 1.0))
    with pytest.raises(InputError, match="target = missing"):
        Metric("joules-to-target", None, POWERS)
    with pytest.raises(InputError, match=r"\[powers\]"):
        Metric("joules-to-target", Target("loss", 1.0))
