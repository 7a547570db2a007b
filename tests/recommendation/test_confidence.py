from slotwise.costs import Powers
from slotwise.recommendation.confidence import confidence
from slotwise.recommendation.metric import Metric, Reading, Target

JOULES = Metric("joules-to-target", Target("loss", 1.0), Powers(computing=1.0, sending=1.0, receiving=1.0))


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
    best, other = (Reading((1.0,), (0.5,), joules) for joules in (5.0, 6.0))
    never = Reading((1.0,), (0.5,), None)
    assert confidence(JOULES, [best], [other]).resamples_won is None
    assert confidence(JOULES, [best, best], [other, never]).resamples_won is None
    assert confidence(JOULES, [best, best], [other, never]).seeds_won == 2
    assert confidence(JOULES, [best, best], [other, other]).resamples_won == 1.0
