"""The findings of the tuned study in sentences; what the runs do not decide yet is said to be open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from slotwise.paper.criteria import COLLAPSED
from slotwise.paper.tuned import DEADLINE, JUDGING_SEEDS, PILOT_DEADLINE
from slotwise.paper.tuned_advice import best_schedule_rule, step_sentence
from slotwise.paper.tuned_full_length import judged_lines, tuning_so_far
from slotwise.paper.tuned_published import at_paper_step, seed_spread
from slotwise.paper.tuned_results import (
    TunedMethod,
    by_group_size,
    listed,
    markdown_table,
    number,
    step_text,
    with_pilots,
)
from slotwise.paper.tuned_rules import Case, Contest, contests, is_lowest_with_every_seed
from slotwise.report.colours import SCHEDULE_COLOURS

PAPER_CHOICE = ("idfl", 10)  # schedule and group size that the paper recommends
HALF = 0.5  # accuracy from which a run that collapsed with another step is said to learn


def answer(methods: Sequence[TunedMethod]) -> Iterator[str]:
    """Yield the short answer: what is judged, who ends lowest, what tuning changes."""
    found = contests(methods)
    if not found:
        yield "Nothing is known yet: no group size has two schedules with tuned steps."
        return
    judged = [*judged_lines(methods)]
    yield from (*judged, _answer(found), *_effect_of_tuning(found), _best_sizes(methods, found))
    if not judged:
        yield "Nothing is judged yet: which schedule wins at full length when all are tuned is open."
    yield from tuning_so_far(methods)


def details(methods: Sequence[TunedMethod], chains: str, products: str) -> Iterator[str]:
    """Yield a table of the questions that the study began with.

    Args:
        methods: All methods, with what has been trained.
        chains: Where the chains of averaged models are explained, as text or link.
        products: Where the products of best step and rounds are listed, as text or link.
    """
    if found := contests(methods):
        rows = _questions(methods, found, chains, products)
        yield markdown_table([("question", "as far as it is trained"), *rows])


def _answer(found: Mapping[int, Contest]) -> str:
    """Return who ends lowest at which group size, and where no lead is clear."""
    leaders: dict[str, list[int]] = {}
    unclear = []
    for size, contest in found.items():
        name, lead = _lead(contest)
        if lead > _least_lead(contest):
            leaders.setdefault(name, []).append(size)
        else:
            unclear.append(size)
    parts = [f"at S={listed(sizes)} {name} ends lowest" for name, sizes in leaders.items()]
    if unclear:
        parts.append(f"at S={listed(unclear)} no schedule leads clearly")
    sentence = f"**With the best step of each schedule, {', and '.join(parts)}.**"
    return f"{sentence} {_kind_of_runs(found)}"


def _lengths(found: Mapping[int, Contest]) -> str:
    """Return whether contests are of pilots or of judged runs, as a sentence."""
    lengths = {_deadline(contest) for contest in found.values()}
    return {frozenset({DEADLINE}): "Judged runs.", frozenset({PILOT_DEADLINE}): "Pilots."}.get(
        frozenset(lengths), "Judged runs and pilots."
    )


def _lead(contest: Contest) -> tuple[str, float]:
    """Return the schedule with the lowest loss, and the next loss as a multiple of it."""
    first, second, *_ = sorted(contest.values(), key=lambda case: case.loss)
    return first.schedule, second.loss / first.loss


def _least_lead(contest: Contest) -> float:
    """Return the factor that a lead must exceed: one seed differs from the next, so pilots need more."""
    judged = next(iter(contest.values())).is_judged
    return 1.0 if judged and is_lowest_with_every_seed(contest) else seed_spread(_deadline(contest))


def _deadline(contest: Contest) -> int:
    return DEADLINE if next(iter(contest.values())).is_judged else PILOT_DEADLINE


def _kind_of_runs(found: Mapping[int, Contest]) -> str:
    judged = [size for size, contest in found.items() if _deadline(contest) == DEADLINE]
    pilots = [size for size in found if size not in judged]
    texts = []
    if judged:
        texts.append(f"S={listed(judged)}: judged runs of full length, {len(JUDGING_SEEDS)} seeds.")
    if pilots:
        texts.append(
            f"S={listed(pilots)}: pilots, one seed and {PILOT_DEADLINE:,} of {DEADLINE:,} slots, so a lead "
            f"counts only above a factor of {seed_spread(PILOT_DEADLINE):.2f}, by which seeds of one "
            "published method differ after as many slots. The end of a long run is open there."
        )
    return " ".join(texts)


def _effect_of_tuning(found: Mapping[int, Contest]) -> Iterator[str]:
    """Yield the loss of sync as a multiple of that of idfl, with the paper's step and with the best ones."""
    changes, is_less = [], True
    for size, contest in found.items():
        if {"sync", "idfl"} <= contest.keys():
            before = [at_paper_step(name, size, _deadline(contest)) for name in ("sync", "idfl")]
            if all(one is not None and one.learns for one in before):
                sync, idfl = (one.mean for one in before if one is not None)
                after = contest["sync"].loss / contest["idfl"].loss
                is_less &= after * seed_spread(_deadline(contest)) < sync / idfl
                changes.append(f"from {sync / idfl:.1f} to {after:.2g} at S={size}")
    if changes:
        begin = (
            "**Much of intentional delay's lead over synchronous FL is the common step.** " if is_less else ""
        )
        yield (
            f"{begin}As a multiple of the loss of idfl at the same S, after as many slots, that of sync goes "
            f"{listed(changes)} when both have their best step in place of 0.01."
        )


def _best_sizes(methods: Sequence[TunedMethod], found: Mapping[int, Contest]) -> str:
    """Return each schedule at its best S, among runs of one length; the lowest first."""
    is_judged = all(_deadline(contest) == DEADLINE for contest in found.values())
    cases = _all_cases(found if is_judged else contests(methods, pilots=True))
    best = {name: [case for case in cases if case.schedule == name] for name in SCHEDULE_COLOURS}
    lowest = [min(own, key=lambda case: case.loss) for own in best.values() if own]
    texts = [
        f"{case.schedule} {number(case.loss)} (S={case.size})"
        for case in sorted(lowest, key=lambda case: case.loss)
    ]
    return f"With the best S too{'' if is_judged else ', in pilots'}: {', '.join(texts)}."


def _all_cases(found: Mapping[int, Contest]) -> list[Case]:
    return [case for contest in found.values() for case in contest.values()]


def _questions(
    methods: Sequence[TunedMethod], found: Mapping[int, Contest], chains: str, products: str
) -> Iterator[tuple[str, str]]:
    """Yield each question that the study began with, and what the runs say."""
    yield from _collapse(methods)
    yield from _travel(methods, products)
    if sentence := step_sentence(methods):
        yield "Which rule predicts the best step?", sentence
    yield from _joint_choice(methods, found)
    if sentence := best_schedule_rule(found):
        yield "Which schedule, if nothing can be tried?", f"{sentence} {_lengths(found)}"
    yield (
        "Averaged models in place of updates?",
        "Not trained with tuned steps. By counting, intentional delay cannot gain: each of its chains of "
        f"models has no more rounds than synchronous FL has in all ({chains}).",
    )


def _collapse(methods: Sequence[TunedMethod]) -> Iterator[tuple[str, str]]:
    """Yield whether methods that collapse with the paper's step learn with their own."""
    texts, all_learn = [], True
    for one in with_pilots(methods):
        if one.schedule in ("async", "idfl") and one.method.group_size == 1:
            accuracy = one.best_pilot.final_accuracy
            all_learn &= accuracy > COLLAPSED
            learns = "learns" if accuracy > HALF else "hardly learns" if accuracy > COLLAPSED else "does not"
            texts.append(f"{one.schedule} {learns} with {step_text(one.pilot_power)} ({accuracy:.1%})")
    if texts:
        begin = "Yes" if all_learn else "Not in all cases"
        yield (
            "Is the collapse at S=1 a matter of the step?",
            f"{begin}: with 0.01 both collapse; {', '.join(texts)}. Pilots, test accuracy.",
        )


def _travel(methods: Sequence[TunedMethod], products: str) -> Iterator[tuple[str, str]]:
    """Yield where the best step times the rounds is largest: the stability argument."""
    furthest: dict[str, list[int]] = {}
    for size, own in by_group_size(with_pilots(methods)).items():
        if len(own) > 1:
            best = max(own, key=lambda one: one.best_step * one.rounds(PILOT_DEADLINE))
            furthest.setdefault(best.schedule, []).append(size)
    if furthest:
        where = "; ".join(f"{name} at S={listed(sizes)}" for name, sizes in furthest.items())
        if set(furthest) == {"sync"}:
            begin, end = (
                "No",
                "What overlapping gains must come from elsewhere, such as the mean of more updates.",
            )
        else:
            begin, end = "In part", "Elsewhere, what it gains must come from the mean of more updates."
        yield (
            "Does overlapping allow more steps in all (best step times rounds)?",
            f"{begin}: the product is largest for {where} ({products}). {end} Pilots.",
        )


def _joint_choice(methods: Sequence[TunedMethod], found: Mapping[int, Contest]) -> Iterator[tuple[str, str]]:
    """Yield whether schedule, S and step chosen together beat the paper's choice."""
    has_delays = any(one.method.part == "delays" for one in with_pilots(methods))
    cases = _all_cases(found)
    judged = [case for case in cases if case.is_judged]
    best = min(judged or cases, key=lambda case: case.loss)
    deadline = DEADLINE if best.is_judged else PILOT_DEADLINE
    paper = at_paper_step(*PAPER_CHOICE, deadline)
    if paper is not None and paper.learns:
        sure = best.loss * (1 if best.is_judged else seed_spread(deadline)) < min(paper.losses)
        seeds = ", judged," if best.is_judged else " (one seed, on which it was chosen)"
        further = "" if has_delays else " Delays beyond the free one are not trained yet."
        yield (
            "Does choosing S and step together beat the paper's choice (idfl, S=10, step 0.01)?",
            f"{'Yes' if sure else 'Not shown'}: {best.schedule} S={best.size} with {best.step:g} ends at "
            f"{number(best.loss)}{seeds} and the paper's choice after as many slots at {paper.text()}."
            f"{further}",
        )
