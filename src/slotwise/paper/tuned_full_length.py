"""What the runs of full length of the tuned study say, judged or not, in sentences and a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from statistics import fmean

from slotwise.paper.tuned import DEADLINE, TUNING_SEED
from slotwise.paper.tuned_advice import SCHEDULE_ORDER
from slotwise.paper.tuned_published import PAPER_STEP, at_paper_step
from slotwise.paper.tuned_results import (
    TunedMethod,
    by_group_size,
    listed,
    markdown_table,
    number,
    step_text,
    with_pilots,
)
from slotwise.paper.tuned_rules import Case, Contest, case_of, is_lowest_with_every_seed
from slotwise.report.colours import SCHEDULE_COLOURS

MIN_CONTEST = 2  # schedules that are compared


def judged_lines(methods: Sequence[TunedMethod]) -> Iterator[str]:
    """Yield what judged runs say at each group size: winners, or tuned sync beside idfl that is not tuned."""
    for size, own in by_group_size(with_pilots(methods)).items():
        known = {one.schedule: case_of(one, is_judged=True) for one in own if one.judged}
        compared = {name: known[name] for name in SCHEDULE_ORDER if name in known}
        others = [one.schedule for one in own if one.schedule in SCHEDULE_COLOURS and not one.judged]
        if len(compared) > 1:
            yield _winner(size, compared)
            yield " ".join([*_cautions(own), *([f"Not judged yet: {listed(others)}."] if others else [])])
        elif "sync" in compared:
            yield from _beside_untuned(compared["sync"])


def _cautions(own: Sequence[TunedMethod]) -> Iterator[str]:
    """Yield the test accuracies, and which methods did no better with their tuned steps than untuned."""
    judged = [one for one in own if one.judged and one.schedule in SCHEDULE_COLOURS]
    accuracies = {one.schedule: [100 * curve.final_accuracy for curve in one.judged] for one in judged}
    ranges = {name: (min(seeds), max(seeds)) for name, seeds in accuracies.items()}
    texts = (f"{name} {low:.1f} to {high:.1f} %" for name, (low, high) in ranges.items())
    pairs = [pair for pair in combinations(ranges, 2) if _overlap(*(ranges[name] for name in pair))]
    alike = [name for name in ranges if any(name in pair for pair in pairs)]
    yield f"Test accuracy: {', '.join(texts)}" + (
        f"; seeds do not separate {listed(alike)}." if alike else "."
    )
    for one in judged:
        untuned = at_paper_step(one.schedule, one.method.group_size, DEADLINE)
        loss = fmean(curve.final_loss for curve in one.judged)
        if untuned is not None and untuned.mean < loss:
            yield (
                f"{one.schedule} is no better with {step_text(one.power)}, which one tuning seed chose, than "
                f"with the paper's {PAPER_STEP:g}: {untuned.text()}."
            )


def _overlap(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def tuning_so_far(methods: Sequence[TunedMethod]) -> Iterator[str]:
    """Yield the lowest tuning runs where schedules are not judged yet, and the runs with the paper's step."""
    known = {size: own for size, own in by_group_size(methods).items() if _is_only_tuned(own)}
    if known:
        yield (
            f"At full length, not judged: the lowest tuning runs so far, seed {TUNING_SEED} only, with their "
            "steps in brackets; below them the published runs with the paper's step, of three seeds."
        )
        yield markdown_table([("S", "step", *SCHEDULE_ORDER), *_tuning_rows(known)])
    if ratios := [*_ratios_to_untuned(known)]:
        yield f"Loss of sync, tuned so far, over that of idfl with the paper's step: {listed(ratios)}."


def _is_only_tuned(own: Sequence[TunedMethod]) -> bool:
    return any(one.tuning for one in own) and sum(bool(one.judged) for one in own) < MIN_CONTEST


def _tuning_rows(known: Mapping[int, Sequence[TunedMethod]]) -> Iterator[Sequence[str]]:
    for size, own in known.items():
        tuned = {one.schedule: _lowest(one) for one in own if one.tuning}
        yield (
            str(size),
            "best so far",
            *(
                f"{number(tuned[name][0])} ({step_text(tuned[name][1])})" if name in tuned else ""
                for name in SCHEDULE_ORDER
            ),
        )
        untuned = [at_paper_step(name, size, DEADLINE) for name in SCHEDULE_ORDER]
        yield (str(size), f"{PAPER_STEP:g}", *("" if one is None else one.text() for one in untuned))


def _ratios_to_untuned(known: Mapping[int, Sequence[TunedMethod]]) -> Iterator[str]:
    """Yield the loss of sync over that of idfl with the paper's step: tuned so far, and not tuned either."""
    for size, own in known.items():
        untuned = {name: at_paper_step(name, size, DEADLINE) for name in ("idfl", "sync")}
        tuned = {one.schedule: _lowest(one)[0] for one in own if one.tuning}
        idfl, sync = untuned["idfl"], untuned["sync"]
        if idfl is not None and idfl.learns and "sync" in tuned:
            notes = [] if sync is None else [f"{sync.mean / idfl.mean:.1f} if sync has that step, too"]
            notes += [f"{tuned['sync'] / tuned['idfl']:.1f} if both are tuned"] if "idfl" in tuned else []
            yield f"{tuned['sync'] / idfl.mean:.1f} at S={size} ({', '.join(notes)})"


def _lowest(one: TunedMethod) -> tuple[float, int]:
    """Return the lowest loss of the tuning runs, and the power of its step."""
    return min((curve.final_loss, power) for power, curve in one.tuning.items())


def _winner(size: int, known: Contest) -> str:
    losses = ", ".join(
        f"{name} {number(case.loss)} ({number(min(case.seeds))} to {number(max(case.seeds))})"
        for name, case in known.items()
    )
    if is_lowest_with_every_seed(known):
        best = min(known.values(), key=lambda case: case.loss)
        return (
            f"**Judged at full length, S={size}: {best.schedule} ends lowest with every seed, with the best "
            f"step of each.** Losses: {losses}."
        )
    return f"Judged at full length, S={size}: the seeds disagree. Losses: {losses}."


def _beside_untuned(sync: Case) -> Iterator[str]:
    """Yield tuned sync beside idfl with the paper's step, whose tuned runs are not complete."""
    untuned = at_paper_step("idfl", sync.size, DEADLINE)
    if untuned is not None and untuned.learns:
        below = [other < loss for other, loss in zip(untuned.losses, sync.seeds, strict=True)]
        begin = (
            f"**At full length, S={sync.size}, tuning synchronous FL does not close the gap to intentional "
            "delay:** "
            if all(below)
            else f"At full length, S={sync.size}: "
        )
        end = "" if all(below) else " This decides nothing: idfl may gain by tuning, too."
        yield (
            f"{begin}sync with its best step ends at {number(sync.loss)} ({number(min(sync.seeds))} to "
            f"{number(max(sync.seeds))}), judged on three seeds. Tuned idfl is not judged yet; with the "
            f"paper's step, not tuned, it ends at {untuned.text()} with the same seeds.{end}"
        )
