import pytest

from slotwise.paper.claims import STATEMENTS, Judgement
from slotwise.paper.claims import judge as judge_statements
from slotwise.paper.criteria import DEFINITIONS
from slotwise.paper.evidence import Evidence

SIZES = (1, 5, 10, 25, 50, 100)
# The losses that the paper describes, but for S=1: 1c wants it below S=100 and 4a above.
PAPER_ASYNC = (0.9, 0.8, 0.5, 0.4, 0.2, 0.95)
PAPER_IDFL = (0.3, 0.25, 0.1, 0.15)


class Court:
    """Curves set by a test, and the verdicts on them."""

    def __init__(self, results, evidence_of) -> None:
        self.results, self._evidence_of = results, evidence_of
        self.seeds, self.sizes = 1, SIZES

    def judgement(self, name: str) -> Judgement:
        judgements = judge_statements(self._evidence_of(self.results, self.sizes, self.seeds))
        return next(judgement for judgement in judgements if judgement.statement.name == name)

    def verdict(self, name: str) -> str:
        return self.judgement(name).verdict

    def all_async(self, *losses: float) -> None:
        for size, loss in zip(SIZES, losses, strict=True):
            self.results.set("async", size, loss)

    def all_idfl(self, *losses: float) -> None:
        for size, loss in zip(SIZES, losses, strict=False):
            self.results.set("idfl", size, loss)


@pytest.fixture
def court(synthetic, evidence_of) -> Court:
    return Court(synthetic(), evidence_of)


@pytest.fixture
def papers(court) -> Court:
    """The curves that the paper describes."""
    court.all_async(*PAPER_ASYNC)
    court.all_idfl(*PAPER_IDFL)
    return court


def test_the_figures_of_the_paper_hold(papers) -> None:
    names = [one.name for one in STATEMENTS["mnist"] if one.name[0] in "134" and one.name != "4a"]
    assert {name: papers.verdict(name) for name in names} == dict.fromkeys(names, "held")


def test_1a_is_about_speed_and_1b_about_the_end(papers) -> None:
    # S=10 falls first, and ends above S=50.
    papers.results.set("async", 10, 0.25)
    name = "mnist-async-S10-T50000-seed0"
    points = papers.results.curves[name].points
    early = [point._replace(loss=min(point.loss, 0.25)) for point in points]
    papers.results.curves[name] = papers.results.curves[name].__class__(
        papers.results.curves[name].run, "finished", early
    )
    assert (papers.verdict("1a"), papers.verdict("1b")) == ("not held", "held")


def test_1b_is_open_on_a_tie(papers) -> None:
    papers.results.set("async", 25, 0.2001)
    assert papers.verdict("1b") == "not decided"


def test_1c_compares_a_hundred_with_every_other_size(papers) -> None:
    papers.results.set("async", 1, 0.99)
    assert papers.verdict("1c") == "not held"


def test_an_interrupted_run_decides_nothing_and_is_named(papers) -> None:
    papers.results.set("async", 5, 0.8, status="interrupted")
    judgement = papers.judgement("1b")
    assert judgement.verdict == "not decided"
    assert judgement.figures[1] == "mnist-async-S5-T50000-seed0 is interrupted"


def test_a_run_that_diverged_counts_as_collapsed(papers) -> None:
    papers.results.set("async", 5, 0.8, status="diverged")
    assert (papers.verdict("1b"), papers.verdict("1c"), papers.verdict("3b")) == (
        "held",
        "not decided",
        "not decided",
    )
    assert "S=5 collapsed" in " ".join(papers.judgement("1b").figures)
    papers.results.set("async", 50, 0.2, status="diverged")
    assert (papers.verdict("1a"), papers.verdict("1b")) == ("not held", "not held")


def test_a_missing_run_decides_nothing_but_what_the_schedule_decides(court) -> None:
    verdicts = {statement.name: court.verdict(statement.name) for statement in STATEMENTS["mnist"]}
    assert verdicts.pop("3c") == "held"
    assert set(verdicts.values()) == {"not decided"}


def test_a_collapsed_run_is_compared_with_nothing(papers) -> None:
    papers.results.set("async", 1, 0.99)
    papers.results.set("idfl", 1, 2.3, accuracy=0.1)
    assert papers.verdict("4a") == "not decided"
    assert papers.verdict("3b") == "not decided"
    assert papers.verdict("3a") == "held"  # three of four sizes are enough
    assert "collapsed" in " ".join(papers.judgement("4a").figures)


def test_a_collapsed_run_is_not_the_lowest(papers) -> None:
    papers.results.set("idfl", 1, 0.01, accuracy=0.1)
    assert papers.verdict("4b") == "held"
    papers.results.set("idfl", 10, 0.01, accuracy=0.1)
    assert papers.verdict("4b") == "not held"


def test_a_collapsed_run_is_not_calm(court) -> None:
    for size, shaking in zip(SIZES, (0.3, 0.2, 0.1, 0.05, 0.02, 0.01), strict=True):
        court.results.set("async", size, 0.5, shaking=shaking)
    assert (court.verdict("2a"), court.verdict("2b")) == ("held", "held")
    court.results.set("async", 1, 2.3, shaking=0.0, accuracy=0.1)
    assert (court.verdict("2a"), court.verdict("2b")) == ("held", "held")
    court.results.set("async", 25, 0.5, shaking=0.25)
    assert (court.verdict("2a"), court.verdict("2b")) == ("not held", "not held")


def test_seeds_that_disagree_decide_nothing(papers) -> None:
    papers.seeds = 2
    for size, one, other in zip(SIZES, PAPER_ASYNC, (0.9, 0.8, 0.1, 0.4, 0.2, 0.95), strict=True):
        papers.results.set("async", size, one, other)
    assert (papers.verdict("1b"), papers.verdict("1c")) == ("not decided", "held")


def test_seeds_that_agree_decide(papers) -> None:
    papers.seeds = 3
    for size, loss in zip(SIZES, PAPER_ASYNC, strict=True):
        papers.results.set("async", size, loss, 1.1 * loss, 0.9 * loss)
    assert papers.verdict("1b") == "held"


def test_3a_wants_most_sizes_below(papers) -> None:
    papers.all_idfl(0.3, 0.9, 0.1, 0.15)
    assert papers.verdict("3a") == "held"
    papers.all_idfl(0.3, 0.9, 0.6, 0.5)
    assert papers.verdict("3a") == "not held"


def test_3d_compares_the_speed_of_most_sizes(papers) -> None:
    assert papers.verdict("3d") == "held"
    papers.all_idfl(*PAPER_ASYNC[:4])  # ties
    assert papers.verdict("3d") == "not decided"
    papers.all_idfl(*(2 * loss for loss in PAPER_ASYNC[:4]))
    assert papers.verdict("3d") == "not held"


def test_6b_names_the_run_that_collapsed(court) -> None:
    for compute in (50, 10):
        court.results.set("idfl", 1, 2.3, slots=(compute, 1), accuracy=0.1)
        court.results.set("idfl", 1, 0.2, slots=(compute, 5))
    assert court.verdict("6b") == "not decided"
    assert "r=1 collapsed, r=5 0.2" in " ".join(court.judgement("6b").figures)


def test_3b_compares_small_with_large_groups(papers) -> None:
    papers.all_async(0.9, 0.8, 0.8, 0.9, 0.2, 0.95)
    papers.all_idfl(0.8, 0.7, 0.2, 0.2)
    assert papers.verdict("3b") == "not held"


def test_4a_wants_one_above_a_hundred_before(papers) -> None:
    assert papers.verdict("4a") == "not held"
    papers.results.set("async", 1, 0.99)
    assert papers.verdict("4a") == "held"
    papers.results.set("idfl", 1, 0.97)
    assert papers.verdict("4a") == "not held"


def test_4c_is_open_on_a_tie_and_not_held_at_a_larger_size(papers) -> None:
    papers.all_idfl(0.25, 0.24, 0.23, 0.2)  # ties with S=50, the best of async
    assert papers.verdict("4c") == "not decided"
    papers.all_idfl(0.25, 0.24, 0.23, 0.22)
    assert papers.verdict("4c") == "not held"


def slow_links(court, fast: float, slow: float, slow_idfl: float) -> None:
    for compute in (50, 10):
        court.results.set("async", 1, fast, slots=(compute, 1))
        court.results.set("async", 1, slow, slots=(compute, 5))
        court.results.set("idfl", 1, fast, slots=(compute, 1))
        court.results.set("idfl", 1, slow_idfl, slots=(compute, 5))


@pytest.mark.parametrize(
    ("losses", "verdicts"),
    [
        ((0.5, 0.8, 0.7), ("held", "held")),  # at the same round r=1 is still at 1.5
        ((0.5, 0.8, 0.3), ("not held", "held")),
        ((0.5, 2.2, 2.2), ("held", "not held")),
    ],
)
def test_6_compares_links_against_slots_and_rounds(court, losses, verdicts) -> None:
    slow_links(court, *losses)
    assert (court.verdict("6a"), court.verdict("6b")) == verdicts


def test_5_judges_each_sentence_by_itself(synthetic, evidence_of) -> None:
    court = Court(synthetic("cifar10"), evidence_of)
    court.sizes = (1, 2, 5, 10, 20)
    for size, loss in zip(court.sizes, (2.0, 1.8, 1.5, 1.2, 1.6), strict=True):
        court.results.set("async", size, loss, slots=(4, 1))
    for size, loss in zip(court.sizes, (1.5, 1.3, 1.0), strict=False):
        court.results.set("idfl", size, loss, slots=(4, 1))
    assert [court.verdict(name) for name in ("5a", "5b", "5c")] == ["not held", "held", "held"]


def test_below_the_paper_s_deadline_the_end_is_open(synthetic, evidence_of) -> None:
    court = Court(synthetic(deadline=3000), evidence_of)
    court.all_async(*PAPER_ASYNC)
    court.all_idfl(*PAPER_IDFL)
    assert (court.verdict("1a"), court.verdict("1b"), court.verdict("4a")) == (
        "held",
        "not decided",
        "not decided",
    )


def test_every_statement_says_its_rule_and_its_figures(papers) -> None:
    evidence = Evidence(papers.results.base, SIZES, ((50, 5),), range(1), papers.results)
    for judgement in judge_statements(evidence):
        assert judgement.rule.endswith(".")
        assert judgement.figures
    assert {"final loss", "fluctuation", "verdict"} <= {term for term, _ in DEFINITIONS}


def test_1d_compares_losses_over_the_rounds_of_the_largest_size(court) -> None:
    court.all_async(2.2, 1.8, 1.4, 1.0, 0.6, 0.2)
    assert court.verdict("1d") == "held"
    rounds = 50_000 // 101
    assert f"over {rounds:,} rounds" in court.judgement("1d").figures[1]
    court.results.set("async", 1, 2.2, accuracy=0.1)
    assert court.verdict("1d") == "held"
    for size in SIZES:  # in the same slots down to the same loss: the largest size needs the fewest rounds
        court.results.set("async", size, 0.1)
    assert court.verdict("1d") == "held"
    court.results.set("async", 100, 2.3)
    assert court.verdict("1d") == "not held"


def test_3b_wants_a_gain(court) -> None:
    court.all_async(*[0.2] * 6)
    court.all_idfl(0.25, 0.25, 0.9, 0.9)
    assert (court.verdict("3a"), court.verdict("3b")) == ("not held", "not held")


def test_every_seed_is_judged_by_itself(papers) -> None:
    papers.seeds = 2
    for size, loss in zip(SIZES, PAPER_ASYNC, strict=True):
        papers.results.set("async", size, loss, loss)
    # Below async at three of four sizes with each seed, though at two sizes the seeds disagree.
    for size, finals in zip(SIZES, ((0.3, 0.95), (0.9, 0.25), (0.1, 0.1), (0.15, 0.15)), strict=False):
        papers.results.set("idfl", size, *finals)
    assert papers.verdict("3a") == "held"
    # Not held with both seeds: async is not above S=100 with one, idfl is not below with the other.
    papers.results.set("async", 1, 0.5, 1.5)
    papers.results.set("idfl", 1, 0.3, 1.2)
    assert papers.verdict("4a") == "not held"
