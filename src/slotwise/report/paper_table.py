"""PaperTable: means with their spread over seeds, as text, CSV, Markdown and TeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import floor, isfinite, log10
from statistics import median
from typing import Literal, NamedTuple

from slotwise.report.curves import Spread, interval

TableKind = Literal["text", "csv", "markdown", "tex"]
TABLE_SUFFIXES: dict[str, TableKind] = {".txt": "text", ".csv": "csv", ".md": "markdown", ".tex": "tex"}
SPREAD_COLUMNS = {"min-max": ("min", "max"), "std": ("std",), "95%": ("ci95",)}
DIGITS = 4  # of a mean without a spread
MOST_DECIMALS = 6
NOT_REACHED = "not reached"
TEX_ESCAPES = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
TEX_ESCAPES |= {character: f"\\{character}" for character in "&%$#_{}"} | {"±": r"$\pm$", "–": "--"}


class Measured(NamedTuple):
    """The values of the seeds in one cell, of so many seeds that could have one."""

    values: tuple[float, ...]
    seeds: int

    @property
    def is_complete(self) -> bool:
        """True if every seed has a value."""
        return len(self.values) == self.seeds


class MeasuredColumn(NamedTuple):
    """A column of means: its name in CSV, its heading, and by what its values are multiplied for readers.

    Costs until a target have it as their ``group``: in TeX a heading above theirs, elsewhere after each.
    """

    name: str
    heading: str
    cells: tuple[Measured, ...]
    scale: float = 1.0
    group: str = ""


@dataclass(frozen=True)
class PaperTable:
    """A table for a paper: names of the rows, the seeds of each, and columns of means with their spread.

    `str` gives it as text; `csv`, `markdown` and `tex` in these formats.
    """

    headings: tuple[str, ...]  # of the names
    names: tuple[tuple[str, ...], ...]  # of each row
    seeds: tuple[tuple[int, int], ...]  # finished, and all
    columns: tuple[MeasuredColumn, ...]
    spread: Spread
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text()

    def _repr_markdown_(self) -> str:
        return self.markdown()

    def render(self, kind: TableKind) -> str:
        """Return the table in one of the formats."""
        forms = {"text": self.text, "csv": self.csv, "markdown": self.markdown, "tex": self.tex}
        return forms[kind]()

    def text(self) -> str:
        """Return the table as lines of text, with a line that says what it shows."""
        rows = [self._head(), *self._rows(_plain)]
        widths = [max(len(row[number]) for row in rows) for number in range(len(rows[0]))]
        lines = ["  ".join(self._aligned(row, widths)) for row in rows]
        return "\n".join([lines[0], "─" * len(lines[0]), *lines[1:], "", self.caption]) + "\n"

    def _aligned(self, row: Sequence[str], widths: Sequence[int]) -> list[str]:
        return [
            cell.ljust(width) if is_text else cell.rjust(width)
            for cell, width, is_text in zip(row, widths, self._are_texts(len(row)), strict=True)
        ]

    def _are_texts(self, width: int) -> list[bool]:
        """Return for each of so many columns whether it is one of names, some of which are no numbers."""
        names = [not all(map(_is_number, column)) for column in zip(*self.names, strict=True)]
        return names + [False] * (width - len(names))

    def markdown(self) -> str:
        """Return a table of Markdown."""
        head = self._head()
        marks = ["---" if is_text else "---:" for is_text in self._are_texts(len(head))]
        rows = [head, marks, *self._rows(_plain)]
        escaped = [[cell.replace("|", "\\|") for cell in row] for row in rows]
        return "\n".join([*(f"| {' | '.join(row)} |" for row in escaped), "", self.caption]) + "\n"

    def tex(self) -> str:
        """Return a tabular environment; it needs the package booktabs."""
        head = [_tex_text(cell) for cell in self._head(grouped=True)]
        kinds = "".join("l" if is_text else "r" for is_text in self._are_texts(len(head)))
        body = [" & ".join(row) + r" \\" for row in self._rows(_tex)]
        return "\n".join(
            [
                f"% {self.caption}",
                r"% Needs \usepackage{booktabs}.",
                rf"\begin{{tabular}}{{{kinds}}}",
                r"\toprule",
                *self._tex_groups(len(head)),
                " & ".join(head) + r" \\",
                r"\midrule",
                *body,
                r"\bottomrule",
                r"\end{tabular}",
                "",
            ]
        )

    def _tex_groups(self, width: int) -> list[str]:
        """Return the headings that several columns share, with a rule below each; none without a group."""
        first, cells, rules = width - len(self.columns), [""] * (width - len(self.columns)), []
        for group, columns in groupby(self.columns, key=lambda column: column.group):
            count = len(list(columns))
            if group:
                cells.append(rf"\multicolumn{{{count}}}{{c}}{{{_tex_text(group)}}}")
                rules.append(rf"\cmidrule(lr){{{first + 1}-{first + count}}}")
            else:
                cells += [""] * count
            first += count
        return [" & ".join(cells) + r" \\", "".join(rules)] if rules else []

    def csv(self) -> str:
        """Return comma-separated values in full precision, with the spread in columns of its own."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        spreads = SPREAD_COLUMNS[self.spread]
        own = [name for c in self.columns for name in (c.name, *(f"{c.name}_{s}" for s in spreads))]
        to_target = [column for column in self.columns if column.group][:1]
        writer.writerow([*self.headings, "seeds", *own, *("reached" for _ in to_target)])
        for number, names in enumerate(self.names):
            cells = [cell for column in self.columns for cell in self._csv_cells(column.cells[number])]
            reached = [len(column.cells[number].values) for column in to_target]
            writer.writerow([*names, self.seeds[number][0], *cells, *reached])
        return text.getvalue()

    def _csv_cells(self, cell: Measured) -> list[str]:
        spreads = SPREAD_COLUMNS[self.spread]
        if not cell.values:
            return [""] * (1 + len(spreads))
        mean, low, high = (float(bound) for bound in interval(cell.values, self.spread))
        own = [low, high] if len(spreads) == 2 else [high - mean]
        alone = len(cell.values) == 1
        return [f"{mean:.10g}", *("" if alone else f"{value:.10g}" for value in own)]

    @property
    def caption(self) -> str:
        """Description of the table in one line."""
        several = any(len(cell.values) > 1 for column in self.columns for cell in column.cells)
        seeds = f"{self.seeds[0][0]} seeds" if self._same_seeds else "the seeds"
        means = {
            "min-max": f"mean over {seeds} (lowest to highest)",
            "std": f"mean ± one standard deviation over {seeds}",
            "95%": f"mean over {seeds} ± half its 95 % confidence interval",
        }
        return "; ".join([means[self.spread] if several else "one seed", *self.notes])

    @property
    def _same_seeds(self) -> bool:
        """True if all rows have the same number of seeds and all are finished: no column says so."""
        return len(set(self.seeds)) == 1 and self.seeds[0][0] == self.seeds[0][1]

    def _head(self, *, grouped: bool = False) -> list[str]:
        own = [c.heading if grouped or not c.group else f"{c.heading} {c.group}" for c in self.columns]
        return [*self.headings, *([] if self._same_seeds else ["seeds"]), *own]

    def _rows(self, form: _Form) -> list[list[str]]:
        """Return the cells of each row, with the same decimals in a column."""
        decimals = [_decimals(column, self.spread) for column in self.columns]
        return [
            [
                *map(form.text, names),
                *([] if self._same_seeds else [str(done) if done == asked else f"{done} of {asked}"]),
                *(
                    _cell_text(column.cells[number], column.scale, places, self.spread, form)
                    for column, places in zip(self.columns, decimals, strict=True)
                ),
            ]
            for number, (names, (done, asked)) in enumerate(zip(self.names, self.seeds, strict=True))
        ]


class _Form(NamedTuple):
    """Functions that write names, a mean ± its spread, and a mean with its range."""

    text: Callable[[str], str]
    number: Callable[[str], str]
    around: Callable[[str, str], str]
    between: Callable[[str, str, str], str]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _tex_text(text: str) -> str:
    return "".join(TEX_ESCAPES.get(character, character) for character in text)


def _tex_number(text: str) -> str:
    return f"${text.replace(',', '{,}')}$"


_plain = _Form(
    str,
    str,
    lambda mean, half: f"{mean} ± {half}",
    lambda mean, low, high: f"{mean} ({low}–{high})",
)
_tex = _Form(
    _tex_text,
    _tex_number,
    lambda mean, half: _tex_number(rf"{mean} \pm {half}"),
    lambda mean, low, high: f"{_tex_number(mean)} ({_tex_number(low)}--{_tex_number(high)})",
)


def _decimals(column: MeasuredColumn, spread: Spread) -> int:
    """Return the decimals of a column: two digits of its median deviation, or four of its median mean."""
    known = [interval(cell.values, spread) for cell in column.cells if cell.values]
    halves = [column.scale * float(high - low) / 2 for _, low, high in known if high > low]
    means = [abs(column.scale * float(mean)) for mean, _, _ in known if mean]
    if not halves and all(value == round(value) for cell in column.cells for value in cell.values):
        return 0
    size, digits = (median(halves), 2) if halves else (median(means) if means else 1.0, DIGITS)
    if not isfinite(size) or size <= 0:
        return 0
    return min(MOST_DECIMALS, max(0, digits - 1 - floor(log10(size))))


def _cell_text(cell: Measured, scale: float, decimals: int, spread: Spread, form: _Form) -> str:
    """Return a cell, with how many seeds have a value where some have none."""
    if not cell.values:
        return form.text(NOT_REACHED if cell.seeds else "–")
    mean, low, high = (f"{scale * float(bound):,.{decimals}f}" for bound in interval(cell.values, spread))
    if len(set(cell.values)) == 1 and (len(cell.values) == 1 or spread == "min-max"):
        text = form.number(mean)
    elif spread == "min-max":
        text = form.between(mean, low, high)
    else:
        bounds = interval(cell.values, spread)
        text = form.around(mean, f"{scale * float(bounds.high - bounds.mean):,.{decimals}f}")
    return text if cell.is_complete else f"{text} ({len(cell.values)} of {cell.seeds})"
