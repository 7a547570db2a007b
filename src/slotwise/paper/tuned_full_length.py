"""What the runs of full length of the tuned study say, judged or not, in sentences and a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

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
)
from slotwise.paper.tuned_rules import Case, Contest, case_of, is_lowest_with_every_seed
from slotwise.report.colours import SCHEDULE_COLOURS

MIN_CONTEST = 2  # schedules that are compared


def full_length(methods: Sequence[TunedMethod]) -> Iterator[str]:
    """Yield what judged runs say: winners, and tuned sync beside idfl that is not tuned."""
    judged = [one for one in methods if one.judged and one.schedule in SCHEDULE_COLOURS]
    if not judged:
        yield "Nothing is judged yet: which schedule wins at full length when all are tuned is open."
    for size, own in by_group_size(judged).items():
        known = {one.schedule: case_of(one, is_judged=True) for one in own}
        if len(known) > 1:
            yield _winner(size, known)
        elif "sync" in known:
            yield from _beside_untuned(known["sync"])
    yield from _tuning_so_far(methods)


def _tuning_so_far(methods: Sequence[TunedMethod]) -> Iterator[str]:
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
        idfl, sync = (at_paper_step(name, size, DEADLINE) for name in ("idfl", "sync"))
        tuned = [_lowest(one)[0] for one in own if one.schedule == "sync" and one.tuning]
        if idfl is not None and idfl.learns and tuned:
            before = "" if sync is None else f" ({sync.mean / idfl.mean:.1f} if sync has that step, too)"
            yield f"{tuned[0] / idfl.mean:.1f} at S={size}{before}"


def _lowest(one: TunedMethod) -> tuple[float, int]:
    """Return the lowest loss of the tuning runs, and the power of its step."""
    return min((curve.final_loss, power) for power, curve in one.tuning.items())


def _winner(size: int, known: Contest) -> str:
    means = ", ".join(f"{name} {number(case.loss)}" for name, case in known.items())
    if is_lowest_with_every_seed(known):
        best = min(known.values(), key=lambda case: case.loss)
        return f"Judged at full length, S={size}: {best.schedule} ends lowest with every seed ({means})."
    return f"Judged at full length, S={size}: the seeds disagree ({means})."


def _beside_untuned(sync: Case) -> Iterator[str]:
    """Yield tuned sync beside idfl with the paper's step, whose tuned runs are not complete."""
    untuned = at_paper_step("idfl", sync.size, DEADLINE)
    if untuned is not None and untuned.learns:
        below = [other < loss for other, loss in zip(untuned.losses, sync.seeds, strict=True)]
        verdict = (
            "so tuning synchronous FL does not close the gap there"
            if all(below)
            else "so this decides nothing: idfl may gain by tuning, too"
        )
        yield (
            f"Judged at full length, S={sync.size}: sync with its best step ends at {number(sync.loss)} "
            f"({number(min(sync.seeds))} to {number(max(sync.seeds))}). Tuned idfl is not judged yet; with "
            f"the paper's step, not tuned, it ends at {untuned.text()} with the same seeds, {verdict}."
        )
