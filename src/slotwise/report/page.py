"""Elements of a results page: one HTML file that opens offline, with tables and interactive curves (plotly).

The library is embedded once. The page's own script draws the curves from their numbers, so that colours
follow the reader's dark mode and one legend hides a line in all panels of a figure.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np

from slotwise.base.extras import require
from slotwise.report.colours import page_strokes
from slotwise.report.curves import CurveFigure, Line, Numbers

# The markers of matplotlib as those of plotly, and as letters for the legend.
SYMBOLS = {
    "o": ("circle", "●"),
    "s": ("square", "■"),
    "^": ("triangle-up", "▲"),
    "D": ("diamond", "◆"),
    "v": ("triangle-down", "▼"),
    "P": ("cross", "✚"),
    "X": ("x", "✖"),
    "p": ("pentagon", "⬟"),
    "h": ("hexagon", "⬢"),
    ">": ("triangle-right", "▶"),
    "<": ("triangle-left", "◀"),
}


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
    require("plotly")
    from plotly.offline import get_plotlyjs  # noqa: PLC0415  (slow to import, and only needed here)

    template = Template(files("slotwise.report").joinpath("page_template.html").read_text("utf-8"))
    numbers = json.dumps([figure_numbers(figure) for figure in page.figures], separators=(",", ":"))
    return template.substitute(
        title=escape(page.title),
        lead=_lines(page.lead),
        contents=" ".join(f'<a href="#{s.name}">{escape(s.title)}</a>' for s in page.sections),
        sections="\n".join(
            f'<section id="{s.name}">\n<h2>{escape(s.title)}</h2>\n{_lines(s.parts)}\n</section>'
            for s in page.sections
        ),
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
    styles = [_class("number" if heading.startswith("#") else "") for heading in headings]
    head = "".join(
        f'<th scope="col"{kind}>{escape(text.lstrip("#"))}</th>'
        for text, kind in zip(headings, styles, strict=True)
    )
    # A styled table may be laid out as a list on small screens, where a cell has to name its column.
    names = [f' data-heading="{escape(text.lstrip("#"))}"' if style else "" for text in headings]
    cells = [f"<td{kind}{name}>" for kind, name in zip(styles, names, strict=True)]
    body = "\n".join(
        "<tr>"
        # Numbers do not wrap, except between a value and its range in brackets.
        + "".join(
            f"{start}{html(cell).replace(' (', ' <wbr>(')}</td>"
            for start, cell in zip(cells, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
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
    return Html(f"<details><summary>{escape(summary)}</summary>\n{_lines(parts)}\n</details>")


def code(*lines: str) -> Html:
    """Return lines of code."""
    return Html(f"<pre><code>{escape(chr(10).join(lines))}</code></pre>")


def picture(svg: bytes, title: str) -> Html:
    """Return an SVG picture; readers of a screen reader get the title."""
    content = b64encode(svg).decode()
    return Html(f'<img class="picture" alt="{escape(title)}" src="data:image/svg+xml;base64,{content}">')


def curve_figure(figure: CurveFigure) -> Html:
    """Return the place of a figure, which the page's script draws."""
    start = f'<h3>{escape(figure.title)}</h3>\n<figure id="figure-{figure.name}">'
    if not figure.lines:
        return Html(f'{start}<p class="quiet">No curves yet.</p></figure>')
    spoken = (
        f"{figure.title}. {panel.heading}: {panel.up_title} against {panel.across_title}"
        for panel in figure.panels
    )
    panels = "\n".join(f'<div class="panel" role="img" aria-label="{escape(s)}"></div>' for s in spoken)
    caption = [figure.caption]
    seeds = max(len(line.seeds) for line in figure.lines)
    if seeds > 1:
        caption.append(
            f"Lines are means of up to {seeds} seeds, without those that collapsed if others learned; bands "
            "reach from the lowest to the highest of these seeds."
        )
    if figure.losses.cut:
        caption.append(f"The loss axis ends at {figure.losses.high:,g}; higher points are not shown.")
    return Html(
        f'{start}\n<div class="legend" role="group" aria-label="Curves to show"></div>\n'
        f'<div class="panels{" wide" if len(figure.panels) % 2 == 0 else ""}">\n{panels}\n</div>\n'
        f"<figcaption>{escape(' '.join(caption))}</figcaption>\n</figure>"
    )


def figure_numbers(figure: CurveFigure) -> dict[str, Any]:
    """Return the numbers from which the page's script draws a figure."""
    # A label may stand for other runs in each panel; a run that is in several panels is stored once.
    lines = {id(line): line for panel in figure.panels for line in panel.lines}
    numbers = {key: number for number, key in enumerate(lines)}
    panels = [
        {"title": panel.heading, "across": panel.across, "up": panel.up}
        | {"lines": [numbers[id(line)] for line in panel.lines], "log": panel.has_log_rounds}
        for panel in figure.panels
    ]
    every = [_line_numbers(line) for line in lines.values()]
    return {"name": figure.name, **figure.losses._asdict(), "lines": every, "panels": panels}


def _line_numbers(line: Line) -> dict[str, Any]:
    loss, accuracy = line.band("slot", "loss"), line.band("slot", "accuracy")
    rounds = slots = loss.places
    if len(slots):  # the mean round of all seeds in each slot: one row of numbers serves all panels
        seeds = zip(line.places("slot"), line.places("round"), strict=True)
        rounds = np.mean([np.interp(slots, *seed) for seed in seeds], axis=0)
    result: dict[str, Any] = {
        "label": line.label,
        "light": line.colour.light,
        "dark": line.colour.dark,
        "symbol": SYMBOLS[line.colour.marker][0],
        "letter": SYMBOLS[line.colour.marker][1],
        "dash": line.dash,
        "strokes": page_strokes(line.dash),
        "seeds": len(line.seeds),
        "slot": [round(slot) for slot in slots],
        "round": [round(number) for number in rounds],
    }
    for quantity, band in (("loss", loss), ("accuracy", accuracy)):
        result[quantity] = _short(band.mean)
        if len(line.seeds) > 1:
            result[f"{quantity}_low"], result[f"{quantity}_high"] = _short(band.low), _short(band.high)
    return result


def _short(values: Numbers) -> list[float | None]:
    """Round to five digits: more than a screen shows, and a third of the file size. NaN becomes None."""
    return [None if np.isnan(value) else float(f"{value:.5g}") for value in values]


def _lines(parts: Iterable[Content]) -> str:
    return "\n".join(map(html, parts))


def _class(style: str) -> str:
    return f' class="{style}"' if style else ""
