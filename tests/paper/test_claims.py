"""The verdicts on synthetic curves."""

from typing import Any

import pytest

from slotwise.paper.claims import STATEMENTS, Judgement
from slotwise.paper.claims import judge as judge_statements
from slotwise.paper.criteria import DEFINITIONS

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

    def verdicts(self, *names: str) -> dict[str, str]:
        return {name: self.judgement(name).verdict for name in names}

    def verdict(self, name: str) -> str:
        return self.judgement(name).verdict

    def set_all(self, schedule: str, *losses: float | tuple[float, ...], **options: Any) -> None:
        """Set the final loss of each size, or those of its seeds."""
        for size, finals in zip(self.sizes, losses, strict=False):
            self.results.set(schedule, size, *(finals if isinstance(finals, tuple) else (finals,)), **options)


@pytest.fixture
def court(synthetic, evidence_of) -> Court:
    return Court(synthetic(), evidence_of)


@pytest.fixture
def papers(court) -> Court:
    """The curves that the paper describes."""
    court.set_all("async", *PAPER_ASYNC)
    court.set_all("idfl", *PAPER_IDFL)
    return court


def test_the_figures_of_the_paper_hold(papers) -> None:
    names = [one.name for one in STATEMENTS["mnist"] if one.name[0] in "134" and one.name != "4a"]
    assert papers.verdicts(*names) == dict.fromkeys(names, "held")


def one(schedule: str, size: int, final: float, **options: Any) -> Any:
    """Return a change of the paper's curves: another run of one group size."""
    return lambda court: court.results.set(schedule, size, final, **options)


def every(schedule: str, *finals: float) -> Any:
    """Return a change of the paper's curves: other runs of all group sizes."""
    return lambda court: court.set_all(schedule, *finals)


LOW = {"accuracy": 0.1}  # of a collapsed run
DIVERGED = {"status": "diverged"}
# Changes of the curves of the paper, and the verdicts that follow.
CHANGES = {
    "1b is open on a tie": ([one("async", 25, 0.2001)], {"1b": "not decided"}),
    "1c is about every other size": ([one("async", 1, 0.99)], {"1c": "not held"}),
    "3a wants most sizes below": ([every("idfl", 0.3, 0.9, 0.1, 0.15)], {"3a": "held"}),
    "3a fails at most sizes": ([every("idfl", 0.3, 0.9, 0.6, 0.5)], {"3a": "not held"}),
    "3b compares small with large groups": (
        [every("async", 0.9, 0.8, 0.8, 0.9, 0.2, 0.95), every("idfl", 0.8, 0.7, 0.2, 0.2)],
        {"3b": "not held"},
    ),
    "3b wants a gain": (
        [every("async", *[0.2] * 6), every("idfl", 0.25, 0.25, 0.9, 0.9)],
        {"3a": "not held", "3b": "not held"},
    ),
    "3d is open on ties": ([every("idfl", *PAPER_ASYNC[:4])], {"3d": "not decided"}),
    "3d is about speed": ([every("idfl", *(2 * loss for loss in PAPER_ASYNC[:4]))], {"3d": "not held"}),
    "4a wants one above a hundred before": ([], {"4a": "not held"}),
    "4a holds": ([one("async", 1, 0.99)], {"4a": "held"}),
    "4a wants one below a hundred after": (
        [one("async", 1, 0.99), one("idfl", 1, 0.97)],
        {"4a": "not held"},
    ),
    "4c is open on a tie": ([every("idfl", 0.25, 0.24, 0.23, 0.2)], {"4c": "not decided"}),
    "4c fails at a larger size": ([every("idfl", 0.25, 0.24, 0.23, 0.22)], {"4c": "not held"}),
    "a run that diverged counts as collapsed": (
        [one("async", 5, 0.8, **DIVERGED)],
        {"1b": "held", "1c": "not held", "3b": "held"},
    ),
    "the best run diverged": ([one("async", 50, 0.2, **DIVERGED)], {"1a": "not held", "1b": "not held"}),
    "a collapsed run is worse than one that learns": (
        [one("async", 1, 0.99), one("idfl", 1, 2.3, **LOW)],
        {"4a": "not held", "3a": "held"},  # below at three of four sizes
    ),
    "and so it is whatever its loss": (
        [one("async", 1, 0.2, **LOW), one("async", 5, 0.1, **LOW)],
        {"1c": "not held", "3a": "held", "3d": "held", "4a": "held"},
    ),
    "two collapsed runs are left out": (
        [one("async", 1, 2.3, **LOW), one("idfl", 1, 2.3, **LOW), one("idfl", 25, 0.5)],
        {"3a": "held", "3b": "held", "3d": "held"},  # two of the three sizes that are left
    ),
    "nothing is left": (
        [one(schedule, size, 2.3, **LOW) for schedule in ("async", "idfl") for size in SIZES[:4]],
        {"3a": "not decided", "3b": "not decided", "3d": "not decided"},
    ),
    "async is slower than all devices at most sizes": (
        [every("async", 2.3, 2.2, 2.1, 0.4, 0.2, 0.95)],
        {"7a": "not held"},
    ),
    "a collapsed run is not the lowest": ([one("idfl", 1, 0.01, **LOW)], {"4b": "held"}),
    "the best run collapsed": ([one("idfl", 10, 0.01, **LOW)], {"4b": "not held"}),
}


def test_7b_compares_with_synchronous_runs_of_the_same_size(papers) -> None:
    assert papers.verdicts("7a", "7b") == {"7a": "held", "7b": "not decided"}
    papers.results.set("sync", 5, 0.9)
    papers.results.set("sync", 10, 0.6)
    assert papers.verdict("7b") == "held"
    assert papers.judgement("7b").figures[0] == "below at 2 of 2"
    papers.results.set("sync", 5, 0.3)
    assert papers.verdict("7b") == "not held"


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_the_curves_changes_the_verdict(papers, name: str) -> None:
    changes, verdicts = CHANGES[name]
    for change in changes:
        change(papers)
    assert papers.verdicts(*verdicts) == verdicts


def test_1a_is_about_speed_and_1b_about_the_end(papers) -> None:
    # S=10 falls first, and ends above S=50.
    papers.results.set("async", 10, 0.25)
    name = "mnist-async-S10-T50000-seed0"
    curve = papers.results.curves[name]
    early = [point._replace(loss=min(point.loss, 0.25)) for point in curve.points]
    papers.results.curves[name] = type(curve)(curve.run, "finished", early)
    assert papers.verdicts("1a", "1b") == {"1a": "not held", "1b": "held"}


def test_an_interrupted_run_decides_nothing_and_is_named(papers) -> None:
    papers.results.set("async", 5, 0.8, status="interrupted")
    judgement = papers.judgement("1b")
    assert judgement.verdict == "not decided"
    assert judgement.figures[1] == "mnist-async-S5-T50000-seed0 is interrupted"


def test_a_missing_run_decides_nothing_but_what_the_schedule_decides(court) -> None:
    verdicts = court.verdicts(*(statement.name for statement in STATEMENTS["mnist"]))
    assert verdicts.pop("3c") == "held"
    assert set(verdicts.values()) == {"not decided"}


def test_a_collapsed_run_is_not_calm(court) -> None:
    for size, shaking in zip(SIZES, (0.3, 0.2, 0.1, 0.05, 0.02, 0.01), strict=True):
        court.results.set("async", size, 0.5, shaking=shaking)
    assert court.verdicts("2a", "2b") == {"2a": "held", "2b": "held"}
    court.results.set("async", 1, 2.3, shaking=0.0, accuracy=0.1)
    assert court.verdicts("2a", "2b") == {"2a": "held", "2b": "held"}
    court.results.set("async", 25, 0.5, shaking=0.25)
    assert court.verdicts("2a", "2b") == {"2a": "not held", "2b": "not held"}


def test_seeds_that_agree_decide_and_seeds_that_disagree_do_not(papers) -> None:
    papers.seeds = 3
    papers.set_all("async", *((loss, 1.1 * loss, 0.9 * loss) for loss in PAPER_ASYNC))
    assert papers.verdict("1b") == "held"
    papers.seeds = 2
    papers.results.set("async", 10, 0.5, 0.1)
    assert papers.verdicts("1b", "1c") == {"1b": "not decided", "1c": "held"}


def test_every_seed_is_judged_by_itself(papers) -> None:
    papers.seeds = 2
    papers.set_all("async", *((loss, loss) for loss in PAPER_ASYNC))
    # Below async at three of four sizes with each seed, though at two sizes the seeds disagree.
    papers.set_all("idfl", (0.3, 0.95), (0.9, 0.25), (0.1, 0.1), (0.15, 0.15))
    assert papers.verdict("3a") == "held"
    # Not held with both seeds: async is not above S=100 with one, idfl is not below with the other.
    papers.results.set("async", 1, 0.5, 1.5)
    papers.results.set("idfl", 1, 0.3, 1.2)
    assert papers.verdict("4a") == "not held"


def test_1d_compares_losses_over_the_rounds_of_the_largest_size(court) -> None:
    court.set_all("async", 2.2, 1.8, 1.4, 1.0, 0.6, 0.2)
    assert court.verdict("1d") == "held"
    rounds = 50_000 // 101
    assert f"over {rounds:,} rounds" in court.judgement("1d").figures[1]
    court.results.set("async", 1, 2.2, accuracy=0.1)
    assert court.verdict("1d") == "held"
    # In the same slots down to the same loss: the largest size needs the fewest rounds.
    court.set_all("async", *[0.1] * 6)
    assert court.verdict("1d") == "held"
    court.results.set("async", 100, 2.3)
    assert court.verdict("1d") == "not held"


@pytest.mark.parametrize(
    ("fast", "slow", "slow_idfl", "verdicts"),
    [
        (0.5, 0.8, 0.7, {"6a": "held", "6b": "held"}),  # at the same round r=1 is still at 1.5
        (0.5, 0.8, 0.3, {"6a": "not held", "6b": "held"}),
        (0.5, 2.2, 2.2, {"6a": "held", "6b": "not held"}),
    ],
)
def test_6_compares_links_against_slots_and_rounds(court, fast, slow, slow_idfl, verdicts) -> None:
    for compute in (50, 10):
        for schedule, loss in (("async", slow), ("idfl", slow_idfl)):
            court.results.set(schedule, 1, fast, slots=(compute, 1))
            court.results.set(schedule, 1, loss, slots=(compute, 5))
    assert court.verdicts("6a", "6b") == verdicts


def test_6b_names_the_run_that_collapsed(court) -> None:
    for compute in (50, 10):
        court.results.set("idfl", 1, 2.3, slots=(compute, 1), accuracy=0.1)
        court.results.set("idfl", 1, 0.2, slots=(compute, 5))
    assert court.verdict("6b") == "held"
    assert "r=1 collapsed, r=5 0.2" in " ".join(court.judgement("6b").figures)


def test_5_judges_each_sentence_by_itself(synthetic, evidence_of) -> None:
    court = Court(synthetic("cifar10"), evidence_of)
    court.sizes = (1, 2, 5, 10, 20)
    court.set_all("async", 2.0, 1.8, 1.5, 1.2, 1.6, slots=(4, 1))
    court.set_all("idfl", 1.5, 1.3, 1.0, slots=(4, 1))
    assert court.verdicts("5a", "5b", "5c") == {"5a": "not held", "5b": "held", "5c": "held"}


def test_below_the_paper_s_deadline_the_end_is_open(synthetic, evidence_of) -> None:
    court = Court(synthetic(deadline=3000), evidence_of)
    court.set_all("async", *PAPER_ASYNC)
    court.set_all("idfl", *PAPER_IDFL)
    assert court.verdicts("1a", "1b", "4a") == {"1a": "held", "1b": "not decided", "4a": "not decided"}


def test_every_statement_says_its_rule_and_its_figures(papers) -> None:
    for statement in STATEMENTS["mnist"]:
        judgement = papers.judgement(statement.name)
        assert judgement.rule.endswith(".")
        assert "{" not in judgement.rule
        assert judgement.figures
    assert {"final loss", "fluctuation", "verdict"} <= {term for term, _ in DEFINITIONS}
