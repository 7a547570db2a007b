"""The search on curves that are given, without training."""

from collections.abc import Callable, Sequence
from math import inf

import pytest

from slotwise.base.errors import InputError, UserError
from slotwise.learning import Point
from slotwise.recommendation.candidates import Candidate, Curve, Pilot
from slotwise.recommendation.elimination import Finding, Question, Search

Ask = Callable[..., Question]
Loss = Callable[[str, int, float], float]  # of a run, a seed and a slot as a part of the deadline
BEST = "async-S2"


def search(question: Question, loss: Loss) -> tuple[Finding, list[Pilot]]:
    """Return the finding and every pilot that was asked for; a loss of inf is a divergence."""
    asked: list[Pilot] = []

    def train(pilots: Sequence[Pilot]) -> list[Curve]:
        asked.extend(pilots)
        return list(map(curve, pilots))

    def curve(pilot: Pilot) -> Curve:
        config = pilot.run.config
        name = f"{config.schedule}-S{config.channel.group_size}"
        losses = [
            (slot, loss(name, config.seed, slot / config.deadline)) for slot in range(0, pilot.slot + 1, 4)
        ]
        points = tuple(Point(slot, slot, value, 0.5, 0) for slot, value in losses)
        return Curve(config, pilot.slot, points, diverged=any(value == inf for _, value in losses))

    return Search(question, train).run(), asked


def names(candidates: Sequence[Candidate]) -> list[str]:
    return [candidate.name for candidate in candidates]


def reached(asked: Sequence[Pilot], seed: int = 0) -> dict[str, int]:
    """Return the last slot of each run with a seed."""
    pilots = [pilot for pilot in asked if pilot.run.config.seed == seed]
    return {pilot.run.name.rpartition("-")[0]: pilot.slot for pilot in pilots}


def separate(name: str, seed: int, part: float) -> float:
    """One candidate falls far below all others, which stand still at another level each from early on."""
    end = 0.1 if name == BEST else 1.0
    return end + 2 * 0.5 ** (40 * part) + 0.001 * seed


def test_who_cannot_become_the_best_is_dropped_and_the_best_is_trained_to_the_deadline(
    question: Ask, no_grid_is_small: None
) -> None:
    finding, asked = search(question(), separate)
    assert names(finding.choices) == [BEST]
    slots = reached(asked)
    assert slots.pop(BEST) == 320
    assert max(slots.values()) < 320
    assert finding.complete


def test_other_seeds_are_only_for_finalists(question: Ask, no_grid_is_small: None) -> None:
    finding, asked = search(question(), separate)
    assert not reached(asked, seed=1)
    assert finding.search_steps < finding.question.grid_steps / 2

    def close(name: str, seed: int, part: float) -> float:
        return separate(BEST if name == "sync-S3" else name, seed, part) + (0.001 if name == BEST else 0)

    finding, asked = search(question(), close)
    assert set(reached(asked, seed=1)) == {BEST, "sync-S3"}
    assert names(finding.choices) == ["sync-S3"]


def test_who_starts_late_or_was_dropped_early_may_still_win(question: Ask, no_grid_is_small: None) -> None:
    def late(name: str, seed: int, part: float) -> float:
        if name == BEST:
            return 2.3 if part < 0.6 else 2.3 * 0.05 ** ((part - 0.6) / 0.4)
        return separate("others", seed, part)

    finding, _ = search(question(seeds=(0,)), late)
    assert names(finding.choices) == [BEST]

    def collapsing(name: str, seed: int, part: float) -> float:
        level = separate(name, seed, part)
        return 2.0 if name == BEST and part > 0.8 else level - (0.3 if name == "sync-S1" else 0)

    finding, asked = search(question(seeds=(0,)), collapsing)
    assert names(finding.choices) == ["sync-S1"]
    assert reached(asked)["sync-S1"] == 320


def test_close_candidates_need_seeds_that_agree(question: Ask, no_grid_is_small: None) -> None:
    def disagreeing(name: str, seed: int, part: float) -> float:
        level = separate(BEST if name == "sync-S3" else name, 0, part)
        return level + (0.005 if name == BEST and seed else 0.002 if name == "sync-S3" and not seed else 0)

    finding, _ = search(question(), disagreeing)
    assert names(finding.choices) == ["sync-S3", BEST]

    def close(name: str, seed: int, part: float) -> float:
        return separate(BEST if name in ("sync-S3", "sync-S1") else name, seed, part) * (
            1.05 if name == "sync-S3" else 1.5 if name == "sync-S1" else 1
        )

    finding, _ = search(question(seeds=(0,)), close)
    assert names(finding.choices) == [BEST, "sync-S3"]


def test_a_small_grid_is_trained_as_a_whole_within_the_budget(question: Ask) -> None:
    finding, asked = search(question(), separate)
    assert set(reached(asked).values()) == set(reached(asked, seed=1).values()) == {320}
    assert finding.search_steps == finding.question.grid_steps
    assert names(finding.choices) == [BEST]
    asked_for = question()
    finding, _ = search(question(budget=asked_for.grid_steps - 1), separate)
    assert finding.search_steps < asked_for.grid_steps
    with pytest.raises(UserError, match="every candidate diverged"):
        search(question(), lambda *_: inf)
    finding, asked = search(question(sizes=(6,)), separate)
    assert names(finding.choices) == ["sync-S6"]
    assert finding.search_steps == 0
    assert [pilot.rounds for pilot in asked] == [0]
    with pytest.raises(InputError, match="at most 20") as error:
        question(evaluate_every=21)
    assert error.value.parameter == "evaluate_every"


@pytest.mark.parametrize("part", [0.1, 0.3, 0.5])
def test_a_budget_is_kept_and_who_may_be_best_is_named(question: Ask, part: float) -> None:
    budget = int(part * question().grid_steps)
    finding, _ = search(question(budget=budget), lambda name, _, part: separate(name, 0, part / 8))
    assert finding.search_steps <= budget
    assert BEST in names(finding.choices)
    assert not finding.complete or len(finding.choices) == 1


def test_a_budget_below_the_smallest_search_is_refused_with_its_size(question: Ask) -> None:
    with pytest.raises(InputError) as error:
        search(question(budget=1), separate)
    assert error.value.parameter == "budget"
    smallest = int(error.value.allowed.split(",")[0].split()[-1])
    assert search(question(budget=smallest), separate)[0].search_steps == smallest


def test_finalists_that_diverge_with_another_seed_make_room_for_others(
    question: Ask, no_grid_is_small: None
) -> None:
    def unstable(name: str, seed: int, part: float) -> float:
        if name in (BEST, "sync-S3"):
            return inf if seed and part > 0.5 else separate(BEST, 0, part)
        return separate(name, seed, part) - (0.5 if name == "sync-S1" else 0)

    finding, _ = search(question(), unstable)
    assert names(finding.choices) == ["sync-S1"]


def test_who_was_dropped_after_more_seeds_is_compared_with_others_by_the_seeds_that_both_have(
    question: Ask, no_grid_is_small: None
) -> None:
    by_seed = {
        "sync-S1": (1.00, 1.05, 1.2, inf),
        "sync-S2": (1.02, 1.04, 0.8, inf),
        "sync-S3": (1.06, 1.05, 1.3, 1.0),  # dropped after three seeds, and the best once the others diverge
        "sync-S6": (1.15, 1.20, 1.4, 1.2),  # a finalist only then
    }

    def loss(name: str, seed: int, part: float) -> float:
        return by_seed.get(name, (9.0,) * 4)[seed] + 2 * 0.5 ** (40 * part)

    finding, _ = search(question(seeds=(0, 1, 2, 3)), loss)
    assert names(finding.choices) == ["sync-S3"]
