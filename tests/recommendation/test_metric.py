import pytest

from slotwise.costs import Powers, joules, usage_until
from slotwise.errors import InputError
from slotwise.learning import Point
from slotwise.recommendation.metric import Metric, MetricName, Reading, Target, confidence
from slotwise.runs import RunConfig

POWERS = Powers(computing=2.0, sending=1.0, receiving=0.5)
CONFIG = RunConfig().with_options(devices=6, group_size=2, compute_slots=4, deadline=320)


def point(slot: int, loss: float, accuracy: float = 0.5) -> Point:
    return Point(slot, slot, loss, accuracy, 0)


def test_the_last_quarter_of_the_slots_so_far_is_judged() -> None:
    curve = [point(0, 9.0), point(75, 8.0), point(76, 2.0, 0.6), point(100, 1.0, 0.8)]
    reading = Metric().read(CONFIG, curve, 100)
    assert reading == Reading((2.0, 1.0), (0.6, 0.8))
    assert Metric().score([reading]) == (1.5,)
    assert Metric("accuracy").value(reading) == pytest.approx(0.7)


def test_a_curve_without_an_evaluation_in_that_quarter_is_judged_by_its_last() -> None:
    assert Metric().read(CONFIG, [point(0, 2.3), point(10, 2.0)], 100).losses == (2.0,)


def test_every_seed_counts_the_same_however_many_evaluations_it_has() -> None:
    readings = [Reading((1.0, 1.0, 1.0), (0.5,) * 3), Reading((3.0,), (0.7,))]
    assert Metric().score(readings) == (2.0,)
    assert Metric("accuracy").score(readings) == (-0.6,)


def test_joules_are_counted_until_the_target_is_first_reached() -> None:
    metric = Metric("joules-to-target", Target("loss", 1.0), POWERS)
    curve = [point(0, 2.0), point(16, 1.5), point(32, 0.9), point(48, 1.2), point(64, 0.5)]
    reading = metric.read(CONFIG, curve, 320)
    assert reading.joules == joules(usage_until(CONFIG.simulate(), [32]), POWERS)[0]
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
    assert [(m.value_name, m.quantity, m.text(0.5)) for m in (Metric(), Metric("accuracy"))] == [
        ("loss", "loss", "0.5000"),
        ("accuracy", "accuracy", "50.00%"),
    ]
    assert (joules.value_name, joules.quantity, joules.text(1234.5)) == ("joules", "accuracy", "1,234 J")


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


def losses(*values: float) -> Reading:
    return Reading(values, tuple(1 / (1 + value) for value in values))


def test_curves_that_never_meet_are_told_apart_in_every_resample() -> None:
    sure = confidence(Metric(), [losses(1.0, 1.1)] * 3, [losses(1.2, 1.3)] * 3)
    assert (sure.seeds, sure.seeds_won, sure.resamples_won) == (3, 3, 1.0)


def test_curves_that_cross_are_told_apart_in_some() -> None:
    sure = confidence(Metric(), [losses(1.0, 2.0, 1.2)], [losses(1.1, 2.1, 1.3)])
    assert sure.seeds_won == 1
    assert 0.5 < (sure.resamples_won or 0) < 0.9


def test_seeds_that_disagree_lower_it() -> None:
    one = confidence(Metric(), [losses(1.0), losses(3.0)], [losses(2.0), losses(2.5)])
    assert one.seeds_won == 1
    assert 0.6 < (one.resamples_won or 0) < 0.9


def test_higher_accuracies_win() -> None:
    sure = confidence(Metric("accuracy"), [losses(1.0, 1.1)], [losses(2.0, 2.1)])
    assert (sure.seeds_won, sure.resamples_won) == (1, 1.0)


def test_one_evaluation_with_one_seed_is_nothing_to_resample() -> None:
    sure = confidence(Metric(), [losses(1.0)], [losses(2.0)])
    assert (sure.seeds_won, sure.resamples_won) == (1, None)


def test_the_same_curves_give_the_same_confidence() -> None:
    curves = [losses(1.0, 2.0, 1.2)], [losses(1.1, 2.1, 1.3)]
    assert confidence(Metric(), *curves) == confidence(Metric(), *curves)


def test_joules_are_resampled_over_seeds_alone_and_only_if_all_are_known() -> None:
    metric = Metric("joules-to-target", Target("loss", 1.0), POWERS)
    best, other = (Reading((1.0,), (0.5,), joules) for joules in (5.0, 6.0))
    never = Reading((1.0,), (0.5,), None)
    assert confidence(metric, [best], [other]).resamples_won is None
    assert confidence(metric, [best, best], [other, never]).resamples_won is None
    assert confidence(metric, [best, best], [other, never]).seeds_won == 2
    assert confidence(metric, [best, best], [other, other]).resamples_won == 1.0
