"""The note on the tuned study, paper/tuned.md, for readers who know the paper but not this project.

Like the page of the documentation, it is made from the curves in the package: it states only what was
trained.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import pi, sin

from slotwise.paper.tuned import DEADLINE, JUDGING_SEEDS, PILOT_DEADLINE, TUNING_SEED
from slotwise.paper.tuned_advice import rule_of_thumb, schedule_table, step_table, waiting_tables
from slotwise.paper.tuned_findings import answer, details
from slotwise.paper.tuned_results import TunedMethod, listed, with_pilots
from slotwise.paper.tuned_rules import FIRST_CURVATURE, contests, fitted_turns

FOLDER, NAME = "paper", "tuned.md"
FIGURES = "figures"  # folder of the figures of the note
CHAINS = "docs/model-average.md in the repository"
PRODUCTS = "table in docs/tuned.md"
HEADER = """\
---
title: 'Does intentional delay still win when every schedule has its best step?'
authors:
  - name: The slotwise developers
    affiliation: 1
affiliations:
  - index: 1
    name: To be named before submission
bibliography: paper.bib
---"""
QUESTION = """\
In federated learning over a shared uplink, devices send one after another in slots. Synchronous federated
learning [@mcmahan2017] leaves the channel unused while devices compute. Asynchronous methods [@xie2019;
@nguyen2022] overlap both, and apply updates that were computed from outdated models. Song and Hong
[@song_hong] let devices wait for a fresher model as long as that costs no slot, which they call intentional
delay. They compare asynchronous training with and without the delay for group sizes S from 1 to N, with one
step size, 0.01, for all.

Descent with outdated gradients is stable only for shorter steps, and steps that adapt to the delay have
been proposed and analysed [@mishchenko2022; @koloskova2022]. So with one step for all, a comparison of
schedules is also one of which schedule suits this step. And S < N devices in synchronous rounds, the plain
alternative, do not appear in the paper's figures. We ask what is left of the order when each schedule and
each group size has the step that suits it best."""
SYSTEM = f"""\
There are N = 100 devices with one MNIST [@mnist] label each. A local training of H = 5 steps of 64 samples
takes 50 slots, an uplink one slot, the broadcast of a new model one slot; training ends after {DEADLINE:,}
slots. A round averages the updates of S devices. A *synchronous* round (sync) starts when its devices have
the current model, and groups take turns. *Asynchronous* devices (async) start as soon as they have sent, so
their updates are d = N/S − 1 rounds old. With *intentional delay* (idfl) they are d* = ⌈50/(S+1)⌉ rounds
old if that is less, and no slot is lost. The network is the paper's: two convolutional and two dense
layers, 21,840 weights. All schedules are exact; they are computed before training by slotwise, with which
everything here was made."""
RULE = f"""\
Steps are 0.0005·2^k. For each schedule and S, pilots of {PILOT_DEADLINE:,} slots with seed {TUNING_SEED}
begin around 0.128·sin(π/(2(2d+1))), and go on until the best step is not at the edge of what was tried.
Then runs of full length with the same seed try the best step of the pilots, twice and half of it. A method
is judged on three runs of full length with other seeds ({listed(JUDGING_SEEDS)}) at the best step of those.
The loss of a run is the training loss over the data of all devices, the median over the last tenth of its
slots. This rule was fixed before any run of full length; two details changed after pilots had been seen,
which docs/tuned.md in the repository tells."""
STABILITY = """\
On a quadratic with curvature λ, descent with gradients that are d rounds old is stable for steps below
2·sin(π/(2(2d+1)))/λ. Overlapping multiplies the rounds by about d* + 1, if computing takes that many
rounds. The product of both, times λ, is {products} for d = 0, 1, 2, 5, 25, and tends to π/2. So where
stability limits the step, overlapping gains nothing: the model moves no further. What it gains must come
from elsewhere, such as the mean of more updates.

If a server averages *models*, idfl is d* + 1 synchronous trainings that take turns and never meet, each
with no more rounds than synchronous FL has: under that reading it cannot gain, by counting alone."""
LIMITS = f"""\
This is one network on one data set, with one label on each device and one ratio of computing to sending. A
pilot is one seed, on which its step was chosen, and a fifth of the slots: it says nothing about the end of
a long run. Rules were formed when the pilots had been seen; only their constants were tested on held-out
group sizes. The curvature of the first model, {FIRST_CURVATURE:g} here, differs between seeds by a factor
of two. Remedies for stale updates, averaged models, IID data, faster devices and CIFAR-10 were not trained
with tuned steps."""
REPEAT = """\
`slotwise reproduce tuned --out runs/tuned` trains what is missing, and `python -m
slotwise.paper.tuned_page` makes this note, its figures and the page docs/tuned.md from the curves, which
the repository contains. A test recomputes every number."""


def note_text(methods: Sequence[TunedMethod], figures: Iterable[str]) -> str:
    """Return the note as Markdown with citations.

    Args:
        methods: All methods, with what has been trained.
        figures: Names of the figures that have been drawn.
    """
    drawn = set(figures)
    parts = [HEADER, "# Summary", _progress(methods), *answer(methods), "# Question", QUESTION]
    parts += [
        "# Setting",
        SYSTEM,
        "# What stability alone says",
        _stability(),
        "# How steps were chosen",
        RULE,
    ]
    parts += [
        "# Results",
        *waiting_tables(methods),
        *_picture(drawn, "tuned-map"),
        *details(methods, CHAINS, PRODUCTS),
    ]
    parts += [*_picture(drawn, "tuned-staleness"), "# Rules for engineers", *_rules(methods)]
    parts += ["# Limits", LIMITS, "# Repeat it", REPEAT, "# References"]
    return "\n\n".join(part for part in parts if part) + "\n"


def _progress(methods: Sequence[TunedMethod]) -> str:
    judged, piloted = sum(bool(one.judged) for one in methods), len(with_pilots(methods))
    if judged == len(methods):
        return ""
    return (
        f"*Draft: of {len(methods)} schedules and group sizes, {judged} are judged at full length, "
        f"{piloted} have pilots.*"
    )


def _stability() -> str:
    """Return the argument of stability, with the first values of the product."""
    products = [2 * (age + 1) * sin(pi / (2 * (2 * age + 1))) for age in (0, 1, 2, 5, 25)]
    texts = ", ".join(f"{product:.2f}" for product in products)
    return STABILITY.format(products=texts)


def _rules(methods: Sequence[TunedMethod]) -> Iterator[str]:
    found = contests(methods)
    if len(found) > 1:
        yield rule_of_thumb(methods, found)
    yield from step_table(methods)
    yield from schedule_table(found)
    if len(found) > 1:
        yield f"Fitted to all sizes, the limit of turns is {fitted_turns(found.values()):.3g}."


def _picture(drawn: set[str], name: str) -> Iterator[str]:
    captions = {
        "tuned-map": "Final training loss at the best step of each schedule, by S and staleness; * judged.",
        "tuned-staleness": "Best step of the pilots against staleness, beside the sine of the stable step.",
    }
    if name in drawn:
        yield f"![{captions[name]}]({FIGURES}/{name}.pdf){{width=3.5in}}"
