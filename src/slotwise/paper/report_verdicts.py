"""The verdicts in the report: how every group size ended, the statements, the readings, and remedies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

from slotwise.data import TITLES, Iid
from slotwise.paper.claims import STATEMENTS, VERDICTS, Judgement, judge
from slotwise.paper.criteria import DEFINITIONS, below
from slotwise.paper.evidence import DIGITS, Curve, Evidence, Missing, Results
from slotwise.paper.experiments import BOTH, Reading, Remedies
from slotwise.paper.rules import BELOW, idfl_against_async
from slotwise.report.number_text import counted, loss_text
from slotwise.report.page import (
    Content,
    Html,
    Section,
    badge,
    definitions,
    details,
    heading,
    html,
    paragraph,
    table,
)

CLASSES = 10
REMEDIES = (
    "Beyond the paper: every update divided by its staleness d (steps/d), and group sizes that shrink over "
    "time (S=50@0, 10@10000: 50 from the start, 10 from the first round after slot 10,000), beside async and "
    "idfl as the paper has them. Losses are training losses, the medians over the last tenth of the slots. "
    "steps/d multiplies an update by min(1, 1/d), after the delay-adaptive steps of Mishchenko et al. "
    "(NeurIPS 2022, arXiv:2206.07638) and Koloskova et al. (NeurIPS 2022, arXiv:2206.08307). They compare d "
    "with the average delay instead of with one round, which would change nothing where all updates are "
    "equally old."
)


def summary_section(evidence: Iterable[Evidence]) -> Section:
    """Return the final losses and accuracies of async and idfl side by side, for each data set."""
    parts = tuple(part for one in evidence for part in _summary(one))
    return Section("finals", "Final losses and accuracies", parts)


def _summary(evidence: Evidence) -> Iterator[Content]:
    """Yield what intentional delay changes, size by size, and the runs that learned nothing."""
    delayed, deadline = evidence.delayed_sizes(), evidence.base.deadline
    rows = []
    for size in evidence.group_sizes:
        comparison: Content = "the same run"
        if size in delayed:
            try:
                comparison = badge(BELOW[idfl_against_async(evidence, size)[0]])
            except Missing:
                comparison = "not known yet"
        finals = [evidence.final_texts(schedule, size, "–") for schedule in BOTH]
        losses, accuracies, ages = zip(*finals, strict=True)
        rows.append((str(size), *losses, comparison, *accuracies, *ages))
    yield heading(f"{TITLES[evidence.base.dataset.data]}, T={deadline:,}")
    columns = [f"#{name}, {schedule}" for name in ("test accuracy", "d") for schedule in BOTH]
    yield table(("#S", *(f"#training loss, {schedule}" for schedule in BOTH), "idfl is", *columns), rows)
    seeds = len(evidence.seeds)
    means = f"; means of those of {seeds} seeds that did not collapse, lowest and highest in brackets"
    yield paragraph(
        f"Medians over the last tenth of the slots{means if seeds > 1 else ''}. d, the staleness, is the "
        "number of rounds between the model that an update started from and the model it is applied to.",
        "quiet",
    )
    if guessing := tuple(_guessing(evidence, delayed)):
        yield paragraph(
            f"Collapsed (diverged, or with an accuracy near the {1 / CLASSES:.0%} of guessing among "
            f"{CLASSES} classes): {', '.join(guessing)}.",
            "quiet",
        )


def _guessing(evidence: Evidence, delayed: Sequence[int]) -> Iterator[str]:
    """Yield the runs that collapsed; where no delay is free, idfl is the same run as async."""
    for size in evidence.group_sizes:
        for schedule in BOTH if size in delayed else BOTH[:1]:
            with suppress(Missing):
                curves = evidence.curves(schedule, size)
                if collapsed := sum(curve.has_collapsed for curve in curves):
                    yield f"{schedule} S={size} ({collapsed} of {len(curves)} seeds)"


@dataclass(frozen=True)
class Judged:
    """The runs of one reading of the paper, and the verdicts on them."""

    reading: Reading
    evidence: Evidence

    @property
    def data(self) -> str:
        """Name of the data set."""
        return self.evidence.base.dataset.data

    @cached_property
    def judgements(self) -> tuple[Judgement, ...]:
        """The verdict on every statement about the data set."""
        return judge(self.evidence)

    @property
    def case(self) -> str:
        """Data set, its partition if it is not the paper's, deadline, group sizes and seeds."""
        base, seeds = self.evidence.base, len(self.evidence.seeds)
        iid = ", IID devices" if isinstance(base.dataset.partition, Iid) else ""
        sizes = ", ".join(map(str, self.evidence.group_sizes))
        many = counted(seeds, "seed")
        if seeds < self.evidence.requested_seeds:
            many = f"{seeds} of {self.evidence.requested_seeds} seeds, the others are not finished"
        return f"{TITLES[self.data]}{iid}, T={base.deadline:,}, S={sizes}, {many}"

    @property
    def label(self) -> str:
        """The letter of the reading, how its runs differ from the paper's case, and if it is one seed."""
        base = self.evidence.base
        parts = ["IID"] if isinstance(base.dataset.partition, Iid) else []
        parts += [] if self.evidence.reaches_the_end else [f"T={base.deadline:,}"]
        parts += ["1 seed"] if len(self.evidence.seeds) == 1 else []
        return " ".join((f"({self.reading.letter})", ", ".join(parts))).strip()

    def counts(self, figure: str | None = None) -> str:
        """Return how many statements hold and do not hold, of all or about one figure of the paper."""
        about = [one for one in self.judgements if figure in (None, one.statement.figure)]
        counts = Counter(one.verdict for one in about)
        return ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS.values() if counts[verdict])

    def figures(self) -> Content:
        """Return a list, at first hidden, of the statements with verdict, figures and rule."""
        items = []
        for one in self.judgements:
            figures = "".join(f'<span class="figures">{html(line)}</span>' for line in one.figures)
            rule = f'<span class="rule">Rule: {html(one.rule)}</span>'
            items.append(f"<li><b>{one.statement.name}</b> {html(badge(one.verdict))} {figures}{rule}</li>")
        listed = Html(f'<ul class="statements">{"".join(items)}</ul>')
        runs = paragraph(f"Curves: runs/{self.evidence.histories}/history.csv", "quiet")
        return details(f"Figures and rules: reading ({self.reading.letter}), {self.case}", listed, runs)


def statements_section(judged: Sequence[Judged], notes: Iterable[str]) -> Section:
    """Return the paper's statements, the verdict on each under each reading, and the figures behind it."""
    if not judged:
        return Section("claims", "The paper's statements", ())
    parts: list[Content] = [
        paragraph(
            "What the paper says, judged under each reading of what the server averages. The rules are fixed "
            "in code and the same for all readings; docs/results says which runs are older than they are."
        ),
        *(paragraph(note, "note") for note in notes),
    ]
    for data in dict.fromkeys(one.data for one in judged):
        own = [one for one in judged if one.data == data]
        parts.append(heading(TITLES[data]))
        for one in own:
            sentence = f"{one.label} {one.reading.title}: {one.counts()}. {one.case}."
            if not one.evidence.reaches_the_end:
                sentence += " Shorter than in the paper: statements about the end stay open."
            parts.append(paragraph(sentence))
        rows = statement_rows(own, _cell)
        headings = ("", "Statement", *(one.label for one in own))
        parts += [table(headings, rows, "claims"), *(one.figures() for one in own)]
    parts.append(details("Definitions", definitions(DEFINITIONS)))
    return Section("claims", "The paper's statements", tuple(parts))


def statement_rows(
    judged: Sequence[Judged], cell: Callable[[Judgement], Content]
) -> list[tuple[Content, ...]]:
    """Return a row for each statement, with a cell for each reading and case."""
    together = zip(*(one.judgements for one in judged), strict=True)
    return [(one[0].statement.name, one[0].statement.text, *map(cell, one)) for one in together]


def readings_section(judged: Sequence[Judged]) -> Section:
    """Return the verdicts on every statement under every reading, and how many hold for each figure."""
    letters = [one.label for one in judged]
    figures = dict.fromkeys(statement.figure for statement in STATEMENTS[judged[0].data])
    by_figure = [(figure, *(one.counts(figure) for one in judged)) for figure in figures]
    parts = (
        paragraph(
            "The paper leaves open what is averaged, whether a local update is the sum or the mean of its "
            "gradients, and the scale of the inputs. The first reading is the paper's equation and the "
            "default everywhere else, whatever comes out here."
        ),
        definitions([(one.label, one.reading.title) for one in judged]),
        paragraph(
            f"All have the same runs: {judged[0].case}. So they can be compared with each other; with more "
            "group sizes and seeds, as above, verdicts on (a) and (c) can be others."
        ),
        table(("", "Statement", *letters), statement_rows(judged, _cell), "claims"),
        paragraph("The same, counted by the paper's figure that the statements are about:"),
        table(("Figure", *letters), by_figure),
        *(one.figures() for one in judged),
    )
    return Section("readings", "The readings", parts)


def _cell(judgement: Judgement) -> Html:
    """Return the verdict with its short figure."""
    return Html(f'{html(badge(judgement.verdict))} <span class="figures">{html(judgement.figures[0])}</span>')


@dataclass(frozen=True)
class RemediesTable:
    """The final losses of all remedies, seed by seed, and whether one is below the paper's best."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    verdict: str


def remedies_table(experiment: Remedies, results: Results, seeds: Sequence[int]) -> RemediesTable:
    """Return what the remedies and the paper's runs beside them came to."""
    remedies, fixed = (
        {label: results.of_seeds(config, seeds) for label, config in configs.items()}
        for configs in (experiment.remedies(0), experiment.fixed(0))
    )
    rows = []
    for label, found in (remedies | fixed).items():
        finished = [curve.final_accuracy for curve in found if curve.status == "finished"]
        mean = f"{fmean(finished):.1%}" if len(finished) == len(found) else ""
        rows.append((label, *map(_end_text, found), mean))
    headings = ("", *(f"loss, seed {seed}" for seed in seeds), "test accuracy, mean")
    return RemediesTable(headings, tuple(rows), _verdict(remedies, fixed))


def remedies_section(found: RemediesTable) -> Section:
    """Return the section of the page."""
    headings = [f"#{heading}" if heading else "" for heading in found.headings]
    parts = (paragraph(REMEDIES), table(headings, found.rows), paragraph(found.verdict))
    return Section("remedies", "Remedies", parts)


def _end_text(curve: Curve) -> str:
    """Return the final loss of a run, or why it has none."""
    if not curve.has_ended:
        return "not trained"
    if curve.status == "diverged":
        return "diverged"
    return "collapsed" if curve.has_collapsed else loss_text(curve.final_loss, DIGITS)


def _verdict(remedies: Mapping[str, Sequence[Curve]], fixed: Mapping[str, Sequence[Curve]]) -> str:
    """Say whether a remedy ends below the lowest fixed group size with every seed."""
    curves = [curve for found in (*remedies.values(), *fixed.values()) for curve in found]
    missing = sum(not curve.has_ended for curve in curves)
    if missing:
        return f"Not decided yet: {counted(missing, 'run')} of {len(curves)} not trained."
    alive = {label: found for label, found in fixed.items() if not any(c.has_collapsed for c in found)}
    if not alive:
        return "Not decided: every fixed group size has collapsed with some seed."
    best = min(alive, key=lambda label: fmean(curve.final_loss for curve in alive[label]))
    better = [
        label
        for label, found in remedies.items()
        if all(below(a.comparable_loss, b.comparable_loss) for a, b in zip(found, alive[best], strict=True))
    ]
    seeds, named = counted(len(alive[best]), "seed"), "; ".join(better) or "no remedy"
    return f"Below the best fixed group size here ({best}) with every seed ({seeds}): {named}."
