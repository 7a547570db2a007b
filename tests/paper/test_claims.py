import pytest

from slotwise.paper.claims import Judgement
from slotwise.paper.claims import judge as judge_claims
from slotwise.paper.criteria import DEFINITIONS
from slotwise.paper.evidence import Evidence

SIZES = (1, 5, 10, 25, 50, 100)


def claim(judgements: tuple[Judgement, ...], number: int) -> Judgement:
    return next(judgement for judgement in judgements if judgement.number == number)


@pytest.fixture
def judge(synthetic, evidence_of):
    """Set curves, then read the verdict on a claim."""

    class Court:
        def __init__(self) -> None:
            self.results = synthetic()
            self.seeds = 1

        def verdict(self, number: int) -> str:
            return claim(judge_claims(evidence_of(self.results, seeds=self.seeds)), number).verdict

        def parts(self, number: int) -> list[bool | None]:
            judgement = claim(judge_claims(evidence_of(self.results, seeds=self.seeds)), number)
            return [part.truth for part in judgement.parts]

        def all_async(self, *losses: float) -> None:
            for size, loss in zip(SIZES, losses, strict=True):
                self.results.set("async", size, loss)

        def all_idfl(self, *losses: float) -> None:
            for size, loss in zip(SIZES, losses, strict=False):
                self.results.set("idfl", size, loss)

    return Court()


def test_claim_1_held(judge) -> None:
    judge.all_async(0.9, 0.8, 0.5, 0.4, 0.2, 0.3)
    assert judge.verdict(1) == "held"


def test_claim_1_not_held_if_another_size_is_best(judge) -> None:
    judge.all_async(0.9, 0.8, 0.1, 0.4, 0.2, 0.3)
    assert judge.verdict(1) == "not held"
    assert judge.parts(1) == [False, True]


def test_claim_1_not_held_if_a_hundred_is_only_a_little_worse(judge) -> None:
    judge.all_async(0.9, 0.8, 0.5, 0.4, 0.2, 0.21)
    assert judge.parts(1) == [True, False]


def test_claim_1_not_decided_on_a_tie(judge) -> None:
    judge.all_async(0.9, 0.8, 0.5, 0.2001, 0.2, 0.3)
    assert judge.verdict(1) == "not decided"


@pytest.mark.parametrize("status", ["interrupted", "diverged"])
def test_a_run_that_did_not_finish_decides_nothing_and_is_named(judge, evidence_of, status) -> None:
    judge.all_async(0.9, 0.8, 0.5, 0.4, 0.2, 0.3)
    judge.results.set("async", 5, 0.8, status=status)
    judgement = claim(judge_claims(evidence_of(judge.results)), 1)
    assert judgement.verdict == "not decided"
    assert judgement.parts[0].figures == (f"mnist-async-S5-T50000-seed0 is {status}",)
    assert judgement.parts[1].truth is True


def test_a_missing_run_decides_nothing(judge) -> None:
    assert [judge.verdict(number) for number in (1, 2, 3, 4, 6)] == ["not decided"] * 5


def test_seeds_that_disagree_decide_nothing(judge) -> None:
    judge.seeds = 2
    judge.all_async(0.9, 0.8, 0.5, 0.4, 0.2, 0.3)
    for size, loss in zip(SIZES, (0.9, 0.8, 0.1, 0.4, 0.2, 0.3), strict=True):
        judge.results.set(
            "async", size, judge.results.curves[f"mnist-async-S{size}-T50000-seed0"].points[-1].loss, loss
        )
    assert judge.parts(1) == [None, True]
    assert judge.verdict(1) == "not decided"


def test_seeds_that_agree_decide(judge) -> None:
    judge.seeds = 3
    for size, loss in zip(SIZES, (0.9, 0.8, 0.5, 0.4, 0.2, 0.3), strict=True):
        judge.results.set("async", size, loss, 1.1 * loss, 0.9 * loss)
    assert judge.verdict(1) == "held"


def test_claim_2_held_and_not_held(judge) -> None:
    for size, shaking in zip(SIZES, (0.3, 0.2, 0.1, 0.05, 0.02, 0.01), strict=True):
        judge.results.set("async", size, 0.5, shaking=shaking)
    assert judge.verdict(2) == "held"
    judge.results.set("async", 25, 0.5, shaking=0.25)
    assert judge.verdict(2) == "not held"


def test_claim_3_held(judge) -> None:
    judge.all_async(0.9, 0.8, 0.5, 0.4, 0.2, 0.3)
    judge.all_idfl(0.2, 0.2, 0.3, 0.35)
    assert judge.verdict(3) == "held"


def test_claim_3_not_held_if_one_size_is_above(judge) -> None:
    judge.all_async(0.9, 0.8, 0.5, 0.4, 0.2, 0.3)
    judge.all_idfl(0.2, 0.9, 0.3, 0.35)
    assert judge.parts(3) == [False, True, True]


def test_claim_3_not_held_if_large_groups_gain_more(judge) -> None:
    judge.all_async(0.9, 0.8, 0.8, 0.9, 0.2, 0.3)
    judge.all_idfl(0.8, 0.7, 0.2, 0.2)
    assert judge.parts(3) == [True, False, True]


def test_claim_4_held_not_held_and_not_decided(judge) -> None:
    judge.all_async(0.9, 0.8, 0.5, 0.4, 0.2, 0.3)
    judge.all_idfl(0.25, 0.2, 0.1, 0.15)
    assert judge.verdict(4) == "held"
    judge.all_idfl(0.35, 0.2, 0.1, 0.15)
    assert judge.parts(4) == [True, False]
    judge.all_idfl(0.25, 0.24, 0.23, 0.22)
    assert judge.parts(4) == [False, True]
    judge.all_idfl(0.25, 0.24, 0.23, 0.2)  # ties with S=50, the best of async
    assert judge.parts(4) == [None, True]


def slow_links(judge, fast: float, slow: float, slow_idfl: float) -> None:
    for compute in (50, 10):
        judge.results.set("async", 1, fast, slots=(compute, 1))
        judge.results.set("async", 1, slow, slots=(compute, 5))
        judge.results.set("idfl", 1, fast, slots=(compute, 1))
        judge.results.set("idfl", 1, slow_idfl, slots=(compute, 5))


def test_claim_6_held(judge) -> None:
    slow_links(judge, fast=0.5, slow=0.8, slow_idfl=0.7)  # at the same round r=1 is still at 1.5
    assert judge.verdict(6) == "held"


def test_claim_6_not_held_if_slow_links_end_lower(judge) -> None:
    slow_links(judge, fast=0.5, slow=0.8, slow_idfl=0.3)
    assert judge.parts(6) == [False, True]


def test_claim_6_not_held_if_rounds_do_not_help(judge) -> None:
    slow_links(judge, fast=0.5, slow=2.2, slow_idfl=2.2)
    assert judge.parts(6) == [True, False]


def test_claim_5_held_not_held_and_not_decided(synthetic, evidence_of) -> None:
    results = synthetic("cifar10")
    sizes = (1, 2, 5, 10, 20)

    def verdict() -> str:
        return claim(judge_claims(evidence_of(results, sizes)), 5).verdict

    assert verdict() == "not decided"
    for size, loss in zip(sizes, (2.0, 1.8, 1.5, 1.2, 1.6), strict=True):
        results.set("async", size, loss, slots=(4, 1))
    for size, loss in zip(sizes, (1.5, 1.3, 1.0), strict=False):
        results.set("idfl", size, loss, slots=(4, 1))
    assert verdict() == "held"
    results.set("idfl", 1, 0.5, slots=(4, 1))
    assert verdict() == "not held"


def test_every_statement_says_its_rule_and_its_figures(judge) -> None:
    judge.all_async(0.9, 0.8, 0.5, 0.4, 0.2, 0.3)
    for judgement in judgements_of(judge):
        for part in judgement.parts:
            assert part.rule.endswith(".")
            assert part.figures
    assert {"final loss", "fluctuation", "verdict"} <= {term for term, _ in DEFINITIONS}


def judgements_of(judge) -> tuple[Judgement, ...]:
    return judge_claims(Evidence(judge.results.base, SIZES, ((50, 5),), range(1), judge.results))
