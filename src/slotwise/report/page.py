"""Elements of a results page: one HTML file that opens offline, with tables and interactive curves (plotly).

The library is embedded once. The page's own script draws the curves from their numbers, so that colours
follow the reader's dark mode and one legend hides a line in all panels of a figure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np

from slotwise.report.curves import AXIS_TITLES, CurveFigure, Line, Numbers


@dataclass(frozen=True)
class Html:
    """Text that is HTML already, whereas plain strings are escaped."""

    text: str


Content = Html | str


@dataclass(frozen=True)
class Section:
    """A part of a page under a heading."""

    name: str
    title: str
    parts: tuple[Content, ...]


@dataclass(frozen=True)
class Page:
    """Title, introduction, sections and figures of a page."""

    title: str
    lead: tuple[Content, ...]
    sections: tuple[Section, ...]
    figures: tuple[CurveFigure, ...]


def render(page: Page) -> str:
    """Return the text of the HTML file."""
    from plotly.offline import get_plotlyjs  # noqa: PLC0415  (slow to import, and only needed here)

    template = Template(files("slotwise.report").joinpath("page_template.html").read_text("utf-8"))
    numbers = json.dumps([figure_numbers(figure) for figure in page.figures], separators=(",", ":"))
    return template.substitute(
        title=escape(page.title),
        lead="\n".join(map(html, page.lead)),
        contents=" ".join(f'<a href="#{s.name}">{escape(s.title)}</a>' for s in page.sections),
        sections="\n".join(map(_section, page.sections)),
        figures=numbers.replace("</", "<\\/"),
        plotly=get_plotlyjs(),
    )


def html(content: Content) -> str:
    """Return content as HTML; plain strings are escaped."""
    return content.text if isinstance(content, Html) else escape(content)


def paragraph(text: Content, style: str = "") -> Html:
    """Return an HTML paragraph."""
    return Html(f"<p{_class(style)}>{html(text)}</p>")


def heading(text: str) -> Html:
    """Return a heading within a section."""
    return Html(f"<h3>{escape(text)}</h3>")


def badge(text: str) -> Html:
    """Return a coloured label; its colour depends on its text."""
    return Html(f'<span class="badge {text.replace(" ", "-")}">{escape(text)}</span>')


def table(headings: Sequence[str], rows: Iterable[Sequence[Content]], style: str = "") -> Html:
    """Return a table; columns whose heading begins with # hold numbers."""
    numeric = [heading.startswith("#") for heading in headings]
    head = "".join(
        f'<th scope="col"{_class("number" if number else "")}>{escape(text.lstrip("#"))}</th>'
        for text, number in zip(headings, numeric, strict=True)
    )
    body = "\n".join(f"<tr>{_cells(row, numeric)}</tr>" for row in rows)
    return Html(
        f'<div class="scroll"><table{_class(style)}><thead><tr>{head}</tr></thead>'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def definitions(pairs: Iterable[tuple[str, Content]]) -> Html:
    """Return a list of names and their descriptions."""
    items = "\n".join(f"<dt>{escape(name)}</dt><dd>{html(text)}</dd>" for name, text in pairs)
    return Html(f"<dl>\n{items}\n</dl>")


def details(summary: str, *parts: Content) -> Html:
    """Return content that the reader can unfold."""
    content = "\n".join(map(html, parts))
    return Html(f"<details><summary>{escape(summary)}</summary>\n{content}\n</details>")


def code(*lines: str) -> Html:
    """Return lines of code."""
    return Html(f"<pre><code>{escape(chr(10).join(lines))}</code></pre>")


def embedded_page(document: str, title: str) -> Html:
    """Return a frame with another self-contained page."""
    return Html(f'<iframe title="{escape(title)}" srcdoc="{escape(document)}"></iframe>')


def curve_figure(figure: CurveFigure) -> Html:
    """Return the place of a figure, which the page's script draws."""
    if not figure.lines:
        return Html(
            f"<h3>{escape(figure.title)}</h3>\n"
            f'<figure id="figure-{figure.name}"><p class="quiet">No curves yet.</p></figure>'
        )
    panels = "\n".join(
        f'<div class="panel" role="img" aria-label="{escape(_spoken(figure, number))}"></div>'
        for number in range(len(figure.panels))
    )
    return Html(
        f'<h3>{escape(figure.title)}</h3>\n<figure id="figure-{figure.name}">\n'
        f'<div class="legend" role="group" aria-label="Curves to show"></div>\n'
        f'<div class="panels{" wide" if len(figure.panels) % 2 == 0 else ""}">\n{panels}\n</div>\n'
        f"<figcaption>{escape(_caption(figure))}</figcaption>\n</figure>"
    )


def figure_numbers(figure: CurveFigure) -> dict[str, Any]:
    """Return the numbers from which the page's script draws a figure."""
    lines = figure.lines
    numbers = {line.label: number for number, line in enumerate(lines)}
    return {
        "name": figure.name,
        **figure.losses._asdict(),
        "lines": [_line_numbers(line) for line in lines],
        "panels": [
            {
                "title": panel.title,
                "across": panel.across,
                "up": panel.up,
                "lines": [numbers[line.label] for line in panel.lines],
            }
            for panel in figure.panels
        ],
    }


def _line_numbers(line: Line) -> dict[str, Any]:
    slots = line.band("slot", "loss").places
    result: dict[str, Any] = {
        "label": line.label,
        "light": line.colour.light,
        "dark": line.colour.dark,
        "dashed": line.dashed,
        "seeds": len(line.seeds),
        "slot": [round(slot) for slot in slots],
        "round": [round(number) for number in _rounds(line, slots)],
    }
    for quantity in ("loss", "accuracy"):
        band = line.band("slot", "loss" if quantity == "loss" else "accuracy")
        result[quantity] = _short(band.mean)
        if len(line.seeds) > 1:
            result[f"{quantity}_low"], result[f"{quantity}_high"] = _short(band.low), _short(band.high)
    return result


def _rounds(line: Line, slots: Numbers) -> Numbers:
    """Return the mean round of all seeds in each slot; one row of numbers serves all panels."""
    if not len(slots):
        return slots
    seeds = zip(line.places("slot"), line.places("round"), strict=True)
    rounds: Numbers = np.mean([np.interp(slots, *seed) for seed in seeds], axis=0)
    return rounds


def _short(values: Numbers) -> list[float]:
    """Round to five digits: more than a screen shows, and a third of the file size."""
    return [float(f"{value:.5g}") for value in values]


def _caption(figure: CurveFigure) -> str:
    parts = [figure.caption]
    seeds = max((len(line.seeds) for line in figure.lines), default=1)
    if seeds > 1:
        parts.append(f"Lines are means of up to {seeds} seeds, bands reach from the lowest to the highest.")
    if figure.losses.cut:
        parts.append(f"The loss axis ends at {figure.losses.high:,g}; higher points are not shown.")
    return " ".join(parts)


def _spoken(figure: CurveFigure, number: int) -> str:
    panel = figure.panels[number]
    return f"{figure.title}. {panel.title}: {AXIS_TITLES[panel.up]} against {panel.across_title}"


def _section(section: Section) -> str:
    content = "\n".join(map(html, section.parts))
    return f'<section id="{section.name}">\n<h2>{escape(section.title)}</h2>\n{content}\n</section>'


def _cells(row: Sequence[Content], numeric: Sequence[bool]) -> str:
    return "".join(
        f"<td{_class('number' if number else '')}>{html(cell)}</td>"
        for cell, number in zip(row, numeric, strict=True)
    )


def _class(style: str) -> str:
    return f' class="{style}"' if style else ""
