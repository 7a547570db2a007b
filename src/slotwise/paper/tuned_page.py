"""The page of the tuned study: every table and sentence with a number is made from the trained curves.

``python -m slotwise.paper.tuned_page DIR`` adds the curves of a folder of `tune` to those that the package
contains, and writes docs/tuned.md and its figures again; without DIR it only writes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf, isfinite
from pathlib import Path
from statistics import fmean, median

from slotwise.base.files import write_atomically
from slotwise.paper.histories import Histories, TrainedCurve
from slotwise.paper.tuned import (
    DEADLINE,
    FEWEST_POWER,
    JUDGING_SEEDS,
    LEARNS,
    METHODS,
    MOST_POWER,
    PILOT_DEADLINE,
    TUNING_SEED,
)
from slotwise.paper.tuned_figures import draw_figures
from slotwise.paper.tuned_findings import findings
from slotwise.paper.tuned_results import (
    TunedMethod,
    by_group_size,
    number,
    sine,
    step_text,
    tuned_methods,
    with_pilots,
)
from slotwise.paper.tuned_runs import TRAINED
from slotwise.report.number_text import counted

Rows = Iterator[Sequence[str]]
FORMULA = "[formula](model-average.md#d--1-chains)"
FIGURES = "results/tuned"  # folder of the figures of the documentation
ACCURACIES = (0.90, 0.95, 0.97)
TITLE = "Tuned: every schedule with its best step"
QUESTION = f"""\
The paper gives every schedule and group size the same step, 0.01. Does intentional delay (idfl) still win
when each method has the step that suits it best, and how does synchronous FL do then, with S < N devices
a round, which take turns? This is our own study, on the paper's MNIST case: 100 devices with one label
each, 50 compute slots, averaged updates, {DEADLINE:,} slots."""
RULE = f"""\
The rule was fixed before the results. Steps are 0.0005·2^k. For each method:

1. **Pilots** of {PILOT_DEADLINE:,} slots, seed {TUNING_SEED}: a step in proportion to sin(π/(2(2d+1))),
   twice and half of it.
2. **Tuning**, {DEADLINE:,} slots, seed {TUNING_SEED}: the best step of the pilots, twice and half of it.
3. **Judging**, {DEADLINE:,} slots, seeds {", ".join(map(str, JUDGING_SEEDS))}: the best step of the
   tuning runs.

The best step has the lowest final training loss, the median over the last tenth of the slots. Where it is
the smallest or the largest that was tried, the next one is tried too; where no run of a search gets below
{LEARNS:g}, the next smaller one. Two things changed before any run of full length. At first there were ten
pilots for each method, and a search needs half as many; 16 of those pilots had been seen (S=25 and S=50),
and the constant of the first guess is from them. And the limit was ln 10 = 2.3 until the pilots of async S=5
ended at a step with which it does not learn (a loss of 2.1; guessing labels by their frequencies has 2.26).

With equal devices every update is equally old. So dividing updates by their staleness, delay-adaptive
steps and the sine step only rescale the step: tuned, they are the same method, and the question is which
of them predicts the best step."""
PILOTS = f"""\
T={PILOT_DEADLINE:,}, seed {TUNING_SEED}: one seed, on which the step was chosen too, so these losses are
optimistic and decide nothing about the end of a long run. d is the staleness of the updates in rounds; a
model at its best step."""
REPEAT = """\
```console
$ slotwise reproduce tuned --out runs/tuned
```

Curves that the package contains are not trained again; all others are, and `Ctrl-C` loses at most a few
seconds of work. With nothing left to train, the page and its figures are written in seconds. A run of
full length takes about four minutes of one core; synchronous ones less, because they have fewer updates."""


def write_page(path: Path, histories: Histories) -> Path:
    """Write tuned.md and its figures in a folder; return the path of the page."""
    methods = tuned_methods(histories)
    names = draw_figures(path / "figures", methods)
    page = path / "tuned.md"
    write_atomically(page, page_text(methods, {name: f"figures/{name}.png" for name in names}))
    return page


def publish(docs: Path, trained: Path | None = None) -> None:
    """Add the curves of a folder to the package, if one is given, and write the page of the documentation."""
    histories = Histories(TRAINED)
    if trained is not None:
        histories.add_all(Histories(trained / "histories"), [method.name for method in METHODS])
    methods, figures = tuned_methods(histories), docs / FIGURES
    write_atomically(docs / "tuned.md", docs_text(methods, draw_figures(figures, methods)))


def docs_text(methods: Sequence[TunedMethod], drawn: Iterable[str]) -> str:
    """Return the page of the documentation, with the figures that have been drawn."""
    return page_text(methods, {name: f"{FIGURES}/{name}.png" for name in drawn}, FORMULA)


def page_text(
    methods: Sequence[TunedMethod], figures: Mapping[str, str], formula: str = "docs/model-average.md"
) -> str:
    """Return the page as Markdown, as far as the study has been trained.

    Args:
        methods: All methods, with what has been trained.
        figures: Paths of the figures that have been drawn, by name.
        formula: Where the formula of the stable step is derived, as text or link.
    """
    parts = [f"# {TITLE}", QUESTION, "## How far it is", *_progress(methods)]
    parts += ["## Findings", *findings(methods)]
    parts += ["## Judged runs", *_judged_part(methods), *_picture(figures, "judged")]
    parts += ["## Pilots", PILOTS, _table(_pilot_rows(methods)), *_picture(figures, "steps")]
    parts += [
        "Training losses of all pilots, by step; – was not tried, × diverged:",
        _table(_step_rows(methods)),
    ]
    parts += [
        "## Best step against staleness",
        *_staleness_part(methods, formula),
        *_picture(figures, "staleness"),
    ]
    parts += ["## Rule", RULE, "## Repeat it", REPEAT]
    return "\n\n".join(part for part in parts if part) + "\n"


def _progress(methods: Sequence[TunedMethod]) -> Iterator[str]:
    piloted, judged = with_pilots(methods), [one for one in methods if one.judged]
    total, left = len(methods), sum(one.runs_left for one in methods)
    if left:
        yield (
            f"**Not complete.** Of {total} methods, the pilots of {len(piloted)} are finished and "
            f"{len(judged)} are judged. At least {counted(left, 'run')} of full length are left."
        )
    else:
        yield f"Complete: all {total} methods are judged."
    yield _table(_progress_rows(methods))


def _progress_rows(methods: Sequence[TunedMethod]) -> Rows:
    yield ("S", "judged", "pilots finished", "pilots not finished")
    for size, own in by_group_size(methods).items():
        judged = [one.schedule for one in own if one.judged]
        piloted = [one.schedule for one in with_pilots(own) if not one.judged]
        others = [one.schedule for one in own if one.pilot_power is None]
        yield (str(size), *(", ".join(names) for names in (judged, piloted, others)))


def _judged_part(methods: Sequence[TunedMethod]) -> Iterator[str]:
    if any(one.judged for one in methods):
        yield (
            "Means of three seeds that were not used for tuning, lowest and highest in brackets; slots to an "
            "accuracy: median of the seeds, – if a seed does not reach it."
        )
        yield _table(_judged_rows(methods))
    else:
        yield "None yet."


def _judged_rows(methods: Sequence[TunedMethod]) -> Rows:
    yield (
        "S",
        "schedule",
        "d",
        "step",
        "training loss",
        "test accuracy",
        *(f"slots to {a:.0%}" for a in ACCURACIES),
    )
    for one in methods:
        if one.judged:
            losses = [curve.final_loss for curve in one.judged]
            accuracies = [curve.final_accuracy for curve in one.judged]
            shown = f"{number(fmean(losses))} ({number(min(losses))} to {number(max(losses))})"
            percent = f"{fmean(accuracies):.1%} ({100 * min(accuracies):.1f} to {100 * max(accuracies):.1f})"
            slots = [_slots([curve.slots_to(wanted) for curve in one.judged]) for wanted in ACCURACIES]
            yield (*_names(one), step_text(one.power), shown, percent, *slots)


def _slots(slots: Sequence[float]) -> str:
    return f"{median(slots):,.0f}" if max(slots) < inf else "–"


def _pilot_rows(methods: Sequence[TunedMethod]) -> Rows:
    yield ("S", "schedule", "d", "rounds", "best step", "training loss", "test accuracy")
    for one in with_pilots(methods):
        curve, rounds = one.best_pilot, f"{one.rounds(PILOT_DEADLINE):,}"
        step = step_text(one.pilot_power) + _edge(one.pilot_power)
        yield (*_names(one), rounds, step, number(curve.final_loss), f"{curve.final_accuracy:.1%}")


def _edge(power: int | None) -> str:
    return " (edge of the search)" if power in (FEWEST_POWER, MOST_POWER) else ""


def _step_rows(methods: Sequence[TunedMethod]) -> Rows:
    tried = [one for one in methods if one.pilots]
    powers = sorted({power for one in tried for power in one.pilots})
    yield ("S", "schedule", "d", *(step_text(power) for power in powers))
    for one in tried:
        yield (*_names(one), *(_loss_at(one.pilots.get(power)) for power in powers))


def _loss_at(curve: TrainedCurve | None) -> str:
    if curve is None:
        return "–"
    return number(curve.final_loss) if isfinite(curve.final_loss) else "×"


def _staleness_part(methods: Sequence[TunedMethod], formula: str) -> Iterator[str]:
    yield (
        "A quadratic with updates d rounds old is stable for steps below 2·sin(π/(2(2d+1))) over its "
        f"curvature ({formula}). If that alone decides, step over sine is the "
        "same for all d at one S, and the product of step and rounds, how far a run can go, hardly grows "
        "with d:"
    )
    yield _table(_staleness_rows(methods))


def _staleness_rows(methods: Sequence[TunedMethod]) -> Rows:
    yield ("S", "schedule", "d", "best step (pilots)", "step / sine", "step · d", "step · rounds")
    for one in with_pilots(methods):
        step, age = one.best_step, one.method.staleness
        travel = step * one.rounds(PILOT_DEADLINE)
        products = (step / sine(age), step * age, travel)
        yield (*_names(one), f"{step:g}", *(f"{product:.3g}" for product in products))


def _names(one: TunedMethod) -> tuple[str, str, str]:
    return str(one.method.group_size), one.schedule, str(one.method.staleness)


def _picture(figures: Mapping[str, str], name: str) -> Iterator[str]:
    captions = {
        "judged": "Final training loss and test accuracy of the judged runs against the group size",
        "steps": "Training loss of the pilots against the step size, a panel for each group size",
        "staleness": "Best step against staleness, next to the sine of the formula",
    }
    if name in figures:
        yield f"![{captions[name]}]({figures[name]})"


def _table(rows: Rows) -> str:
    heading, *others = rows
    lines = [heading, ["---"] * len(heading), *others]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines).replace(" --- ", "---")


if __name__ == "__main__":
    publish(Path("docs"), *map(Path, sys.argv[1:]))
