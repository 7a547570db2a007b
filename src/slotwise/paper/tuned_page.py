"""The page of the tuned study: every table and sentence with a number is made from the trained curves.

``python -m slotwise.paper.tuned_page DIR`` adds the curves of a folder of `tune` to those that the package
contains, and writes docs/tuned.md, the note paper/tuned.md and their figures; without DIR it only writes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf, isfinite
from pathlib import Path
from statistics import fmean, median

from slotwise.base.files import write_atomically
from slotwise.paper import tuned_note
from slotwise.paper.histories import Histories, TrainedCurve
from slotwise.paper.tuned import (
    DEADLINE,
    FEWEST_POWER,
    JUDGING_SEEDS,
    LEARNS,
    MOST_POWER,
    PILOT_DEADLINE,
    TUNING_SEED,
)
from slotwise.paper.tuned_advice import rules_part, staleness_part, waiting_part
from slotwise.paper.tuned_cases import PARTS, USUAL_PARTS
from slotwise.paper.tuned_figures import draw_column_figures, draw_figures
from slotwise.paper.tuned_findings import answer, details
from slotwise.paper.tuned_results import (
    TunedMethod,
    by_group_size,
    markdown_table,
    names,
    number,
    step_text,
    tuned_methods,
    with_pilots,
)
from slotwise.paper.tuned_runs import TRAINED
from slotwise.report.number_text import counted

Rows = Iterator[Sequence[str]]
PRODUCTS = "[table](#best-step-against-staleness)"
CHAINS = "[averaging updates or models](model-average.md#d--1-chains)"
FIGURES = "results/tuned"  # folder of the figures of the documentation
ACCURACIES = (0.90, 0.95, 0.97)
TITLE = "Tuned: every schedule with its best step"
QUESTION = f"""\
The paper gives every schedule and group size the same step, 0.01. But the older an update is, the shorter the
step must be, so the best group size partly says which one suits 0.01. Does intentional delay still win when
each method has the step that suits it best, and how does synchronous FL do then with S < N devices a round,
which the paper never plots? This is our own study, on the paper's MNIST case: 100 devices with one label
each, 50 compute slots, averaged updates, {DEADLINE:,} slots. A loss is the training loss at the end, over
the data of all devices; S is the number of devices a round.

| schedule | the devices of a round | staleness d of their updates, in rounds |
|---|---|---|
| sync: synchronous | compute while the channel is unused, then send; groups take turns | 0 |
| idfl: intentional delay | start from the freshest model that costs no slot (Algorithm 2) | d* = ⌈50/(S+1)⌉ |
| async: asynchronous | start as soon as they have sent (Algorithm 1) | G − 1 = N/S − 1 |"""
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
$ slotwise reproduce tuned --group-sizes 5,1 --out runs/tuned     # these first; the others later
$ slotwise reproduce tuned --parts iid --out runs/tuned           # further cases by the same rule
```

Further parts are `remedies` (averaged models, FedAsync, FedBuff, steps/d, momentum of the server, rules with
memory), `iid` (IID data) and `fast-devices` (2 compute slots in place of 50); they get sections here once
they are trained.

Curves that the package contains are not trained again; all others are, and `Ctrl-C` loses at most a few
seconds of work. With nothing left to train, the page and its figures are written in seconds. A run of
full length takes about four minutes of one core; synchronous ones less, because they have fewer updates."""


def write_page(path: Path, histories: Histories) -> Path:
    """Write tuned.md and its figures in a folder; return the path of the page."""
    methods = tuned_methods(histories)
    names = draw_figures(path / "figures", methods)
    page = path / "tuned.md"
    paths = {name: f"figures/{name}.png" for name in names}
    write_atomically(page, page_text(methods, paths, further=further_parts(histories)))
    return page


def publish(root: Path, trained: Path | None = None) -> None:
    """Add the curves of a folder to the package, if one is given, and write page, note and figures.

    Args:
        root: Folder of the source, with docs/ and paper/.
        trained: Folder of `tune`.
    """
    histories = Histories(TRAINED)
    if trained is not None:
        all_names = [method.name for own in PARTS.values() for method in own]
        histories.add_all(Histories(trained / "histories"), all_names)
    methods, docs, note = tuned_methods(histories), root / "docs", root / tuned_note.FOLDER
    drawn = draw_figures(docs / FIGURES, methods)
    write_atomically(docs / "tuned.md", docs_text(histories, drawn))
    drawn = draw_column_figures(note / tuned_note.FIGURES, methods)
    write_atomically(note / tuned_note.NAME, tuned_note.note_text(methods, drawn))


def docs_text(histories: Histories, drawn: Iterable[str]) -> str:
    """Return the page of the documentation, with the figures that have been drawn."""
    paths = {name: f"{FIGURES}/{name}.png" for name in drawn}
    return page_text(tuned_methods(histories), paths, CHAINS, further_parts(histories))


def page_text(
    methods: Sequence[TunedMethod],
    figures: Mapping[str, str],
    chains: str = "docs/model-average.md",
    further: Mapping[str, Sequence[TunedMethod]] | None = None,
) -> str:
    """Return the page as Markdown, as far as the study has been trained.

    Args:
        methods: All methods, with what has been trained.
        figures: Paths of the figures that have been drawn, by name.
        chains: Where averaged models and the formula of the stable step are explained, as text or link.
        further: Methods of further parts, by their part.
    """
    parts = [f"# {TITLE}", QUESTION, "## In short", *answer(methods), *details(methods, chains, PRODUCTS)]
    parts += [*waiting_part(methods), *_picture(figures, "map"), *rules_part(methods)]
    parts += ["## How far it is", *_progress(methods)]
    parts += ["## Judged runs", *_judged_part(methods), *_picture(figures, "judged")]
    parts += ["## Pilots", PILOTS, markdown_table(_pilot_rows(methods)), *_picture(figures, "steps")]
    parts += [
        "Training losses of all pilots, by step; – was not tried, × diverged:",
        markdown_table(_step_rows(methods)),
    ]
    parts += [
        "## Best step against staleness",
        *staleness_part(methods, chains),
        *_picture(figures, "staleness"),
    ]
    parts += _further_parts(further)
    parts += ["## Rule of the study", RULE, "## Repeat it", REPEAT]
    return "\n\n".join(part for part in parts if part) + "\n"


def further_parts(histories: Histories) -> dict[str, tuple[TunedMethod, ...]]:
    """Return the methods of the parts that are not trained by default, with what has been trained."""
    return {part: tuned_methods(histories, own) for part, own in PARTS.items() if part not in USUAL_PARTS}


def _further_parts(further: Mapping[str, Sequence[TunedMethod]] | None) -> Iterator[str]:
    """Yield a section for each part of which the pilots of a method are finished."""
    for part, methods in (further or {}).items():
        if with_pilots(methods):
            yield f"## Further case: {part}"
            yield from _judged_part(methods)
            yield markdown_table(_pilot_rows(methods))


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
    yield markdown_table(_progress_rows(methods))


def _progress_rows(methods: Sequence[TunedMethod]) -> Rows:
    yield ("S", "judged", "pilots finished", "pilots not finished", "runs of full length left")
    for size, own in by_group_size(methods).items():
        judged = [one.schedule for one in own if one.judged]
        piloted = [one.schedule for one in with_pilots(own) if not one.judged]
        others = [one.schedule for one in own if one.pilot_power is None]
        left = str(sum(one.runs_left for one in own))
        yield (str(size), *(", ".join(names) for names in (judged, piloted, others)), left)


def _judged_part(methods: Sequence[TunedMethod]) -> Iterator[str]:
    if any(one.judged for one in methods):
        yield (
            "Means of three seeds that were not used for tuning, lowest and highest in brackets; slots to an "
            "accuracy: median of the seeds, – if a seed does not reach it."
        )
        yield markdown_table(_judged_rows(methods))
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
            yield (*names(one), step_text(one.power), shown, percent, *slots)


def _slots(slots: Sequence[float]) -> str:
    return f"{median(slots):,.0f}" if max(slots) < inf else "–"


def _pilot_rows(methods: Sequence[TunedMethod]) -> Rows:
    yield ("S", "schedule", "d", "rounds", "best step", "training loss", "test accuracy")
    for one in with_pilots(methods):
        curve, rounds = one.best_pilot, f"{one.rounds(PILOT_DEADLINE):,}"
        step = step_text(one.pilot_power) + _edge(one.pilot_power)
        yield (*names(one), rounds, step, number(curve.final_loss), f"{curve.final_accuracy:.1%}")


def _edge(power: int | None) -> str:
    return " (edge of the search)" if power in (FEWEST_POWER, MOST_POWER) else ""


def _step_rows(methods: Sequence[TunedMethod]) -> Rows:
    tried = [one for one in methods if one.pilots]
    powers = sorted({power for one in tried for power in one.pilots})
    yield ("S", "schedule", "d", *(step_text(power) for power in powers))
    for one in tried:
        yield (*names(one), *(_loss_at(one.pilots.get(power)) for power in powers))


def _loss_at(curve: TrainedCurve | None) -> str:
    if curve is None:
        return "–"
    return number(curve.final_loss) if isfinite(curve.final_loss) else "×"


def _picture(figures: Mapping[str, str], name: str) -> Iterator[str]:
    captions = {
        "judged": "Final training loss and test accuracy of the judged runs against the group size",
        "steps": "Training loss of the pilots against the step size, a panel for each group size",
        "map": "Final training loss at the best step of each method, by group size and staleness; * judged",
        "staleness": "Best step against staleness, next to the sine of the formula",
    }
    if name in figures:
        yield f"![{captions[name]}]({figures[name]})"


if __name__ == "__main__":
    publish(Path(), *map(Path, sys.argv[1:]))
