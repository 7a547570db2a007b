from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotwise.base.errors import InputError, shown
from slotwise.fleet import Absence, Fleet
from slotwise.fleet.distributions import (
    Constant,
    Distribution,
    Lognormal,
    TwoClasses,
    Uniform,
    distribution_from,
    draw_slots,
    random_absences,
)

MANY = 4000
slots = st.integers(1, 10**9)
distributions = st.one_of(
    slots.map(Constant),
    st.tuples(slots, slots).map(sorted).map(lambda pair: Uniform(*pair)),
    st.builds(Lognormal, st.floats(1, 1e9), st.floats(0, 10)),
    st.tuples(slots, slots, st.floats(0, 1)).map(lambda t: TwoClasses(min(t[:2]), max(t[:2]), t[2])),
)
ALMOST_1 = 1 - 2.0**-53


@given(distributions, st.one_of(st.floats(0, ALMOST_1), st.sampled_from([0.0, ALMOST_1])))
def test_slots_are_whole_and_at_least_one(distribution: Distribution, number: float) -> None:
    drawn = distribution(number)
    assert type(drawn) is int
    assert 1 <= drawn <= 10**9


@given(distributions, st.integers(0, 10**9), st.integers(1, 30), st.integers(1, 30))
def test_a_device_s_speed_does_not_depend_on_how_many_there_are(
    distribution: Distribution, seed: int, few: int, more: int
) -> None:
    small, large = (draw_slots(distribution, n, seed=seed) for n in (few, few + more))
    assert large[:few] == small


def test_seeds_and_purposes_are_drawn_apart() -> None:
    one, other = (draw_slots(Uniform(1, 100), 20, seed=seed) for seed in (0, 1))
    assert one != other
    compute, link = (draw_slots(Uniform(1, 100), 20, of=of) for of in ("compute", "link"))  # type: ignore[arg-type]
    assert compute != link


def test_constant_and_uniform_are_as_their_formulas_say() -> None:
    assert draw_slots(Constant(7), 3) == (7, 7, 7)
    counts = Counter(draw_slots(Uniform(3, 6), MANY))
    assert sorted(counts) == [3, 4, 5, 6]
    assert all(900 < count < 1100 for count in counts.values())  # 1000 each, deviation 27
    assert [Uniform(3, 6)(number) for number in (0.0, 0.24, 0.25, 0.5, 0.75, ALMOST_1)] == [3, 3, 4, 5, 6, 6]


def test_lognormal_has_its_median_and_its_deviations() -> None:
    # One deviation above the median, at 0.8413447, it is e^sigma times it; one below, as many times less.
    draw = Lognormal(1000, 0.5)
    assert [draw(number) for number in (0.15865525, 0.5, 0.84134475)] == [607, 1000, 1649]
    assert draw_slots(Lognormal(50, 0), 4) == (50, 50, 50, 50)
    faster = sum(drawn < 1000 for drawn in draw_slots(Lognormal(1000, 1), MANY))
    assert 1850 < faster < 2150  # 2000, deviation 32
    counts = Counter(draw_slots(TwoClasses(10, 80, 0.25), MANY))
    assert sorted(counts) == [10, 80]
    assert 860 < counts[80] < 1140  # 1000, deviation 27


@pytest.mark.parametrize(("share", "expected"), [(0, (10, 10, 10)), (1, (80, 80, 80))])
def test_a_share_of_none_or_all_is_none_or_all(share: float, expected: tuple[int, ...]) -> None:
    assert draw_slots(TwoClasses(10, 80, share), 3) == expected


def test_the_numbers_are_the_ones_of_earlier_versions() -> None:
    # A change here changes every result ever published with a seed.
    assert draw_slots(Uniform(1, 100), 6) == (24, 51, 33, 87, 15, 15)
    assert draw_slots(Lognormal(50, 0.5), 6) == (35, 50, 40, 87, 30, 30)
    assert random_absences(2, 60, mean_present=20, mean_away=10) == (
        Absence(2, 9, 14),
        Absence(1, 43, 49),
        Absence(1, 53, 71),
        Absence(2, 53, 68),
    )


def test_absences_make_a_fleet_and_a_huge_mean_is_as_good_as_for_good() -> None:
    assert random_absences(20, 1000, mean_present=1e308, mean_away=1e308) == ()
    found = random_absences(20, 1000, mean_present=30, mean_away=1e308)
    assert {absence.returns for absence in found} == {None}
    absences = random_absences(5, 1000, mean_present=30, mean_away=10, seed=3)
    fleet = Fleet(compute_slots=(4,) * 5, link_slots=(1,) * 5, absences=absences)
    assert fleet.absences == absences
    assert {absence.device for absence in absences} == {1, 2, 3, 4, 5}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Constant(0), "slots = 0: must be a whole number of at least 1"),
        (lambda: Constant(2.5), "slots = 2.5: must be a whole number of at least 1"),
        (lambda: Uniform(-1, 5), "low = -1: must be a whole number of at least 1"),
        (lambda: Uniform(6, 5), "high = 5: must be at least low, 6"),
        (lambda: Lognormal(0.5, 1), "median = 0.5: must be a number from 1 to 1,000,000,000"),
        (lambda: Lognormal(50, -1), "sigma = -1: must be a number from 0 to 10"),
        (lambda: TwoClasses(0, 5, 0.5), "fast = 0: must be a whole number of at least 1"),
        (lambda: TwoClasses(10, 5, 0.5), "slow = 5: must be at least fast, 10"),
        (lambda: TwoClasses(1, 5, 1.5), "slow_share = 1.5: must be a share from 0 to 1"),
        (lambda: TwoClasses(1, 5, float("nan")), "slow_share = nan: must be a share from 0 to 1"),
        (lambda: draw_slots(Constant(1), 0), "devices = 0: must be a whole number of at least 1"),
        (
            lambda: draw_slots(Constant(1), 1, seed=-1),
            "seed = -1: must be a whole number from 0 to 18446744073709551615",
        ),
        (lambda: draw_slots(Constant(1), 1, of="colour"), "of = colour: must be compute or link"),
        (
            lambda: random_absences(1, 10, mean_present=0, mean_away=5),
            "mean_present = 0: must be a finite number of slots, at least 1",
        ),
        (
            lambda: random_absences(1, 10, mean_present=5, mean_away=float("inf")),
            "mean_away = inf: must be a finite number of slots, at least 1",
        ),
        (
            lambda: random_absences(1, 0, mean_present=5, mean_away=5),
            "horizon = 0: must be a whole number of at least 1",
        ),
    ],
)
def test_a_mistake_is_told_in_one_line(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        make()
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("constant:50", Constant(50)),
        ("uniform:10:90", Uniform(10, 90)),
        ("lognormal:50:0.5", Lognormal(50, 0.5)),
        ("two-classes:10:100:0.25", TwoClasses(10, 100, 0.25)),
    ],
)
def test_a_distribution_is_read_from_text(text: str, expected: Distribution) -> None:
    assert distribution_from("compute", text) == expected


@pytest.mark.parametrize("text", ["", "50", "normal:5:1", "uniform:10", "uniform:a:b", "uniform:1.5:3"])
def test_a_text_that_is_no_distribution_is_refused(text: str) -> None:
    with pytest.raises(InputError) as caught:
        distribution_from("compute", text)
    assert str(caught.value) == (
        f"compute = {shown(text)}: must be constant:SLOTS, uniform:LOW:HIGH, lognormal:MEDIAN:SIGMA or "
        "two-classes:FAST:SLOW:SLOW_SHARE"
    )


def test_a_text_with_a_number_out_of_range_says_which() -> None:
    with pytest.raises(InputError) as caught:
        distribution_from("compute", "uniform:-3:9")
    assert str(caught.value) == (
        "compute = uniform:-3:9: must be one whose low is a whole number of at least 1"
    )


@given(st.integers(0, 999), st.integers(1, 8), st.integers(1, 300), st.integers(0, 300))
def test_more_devices_and_a_longer_horizon_only_add_absences(
    seed: int, devices: int, horizon: int, more: int
) -> None:
    means = {"mean_present": 20, "mean_away": 10, "seed": seed}
    few = random_absences(devices, horizon, **means)  # type: ignore[arg-type]
    many = random_absences(devices + 2, horizon + more, **means)  # type: ignore[arg-type]
    assert few == tuple(a for a in many if a.device <= devices and a.leaves < horizon)


@pytest.mark.parametrize(("mean_present", "mean_away"), [(1, 1), (1, 1.5), (1.5, 1), (2, 3), (30, 10)])
def test_devices_are_there_and_away_for_the_given_means(mean_present: float, mean_away: float) -> None:
    absences = random_absences(1, 200_000, mean_present=mean_present, mean_away=mean_away)
    away = [a.returns - a.leaves for a in absences if a.returns is not None]
    present = [after.leaves - (a.returns or 0) for a, after in pairwise(absences)]
    # 5,000 turns or more: the mean deviates by 1.4 %.
    assert fmean(away) == pytest.approx(mean_away, rel=0.05)
    assert fmean(present) == pytest.approx(mean_present, rel=0.05)
