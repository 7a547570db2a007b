import json
import re
from html import unescape

import pytest
from plotly.offline import get_plotlyjs

from slotwise.learning import Point
from slotwise.report.colours import BLUE, Dash
from slotwise.report.curves import CurveFigure, Line, loss_and_accuracy
from slotwise.report.page import (
    Html,
    Page,
    Section,
    badge,
    curve_figure,
    figure_numbers,
    html,
    picture,
    render,
    table,
)


def points(*losses: float) -> tuple[Point, ...]:
    return tuple(Point(10 * i, 2 * i, loss, 0.5, 3) for i, loss in enumerate(losses))


def line(label: str, *seeds: tuple[Point, ...], dash: Dash = "solid") -> Line:
    return Line(label, BLUE, dash, seeds)


def figure(*lines: Line) -> CurveFigure:
    return CurveFigure("async-mnist", "Async & <friends>", "A caption.", loss_and_accuracy(lines))


@pytest.fixture
def page() -> Page:
    drawn = figure(line("S=1, d=99", points(2.3, 1.0, 0.5)), line("S=10, d=9", points(2.3, 0.4, 0.2)))
    parts = (
        curve_figure(drawn),
        table(("name", "#number"), [("<a>", "1"), (badge("not held"), "2")]),
        picture(b"<svg/>", "A & B"),
    )
    return Page("The title", (Html("<p>Lead.</p>"),), (Section("curves", "Curves", parts),), (drawn,))


def own_text(page: Page) -> str:
    """The page without the library."""
    text = render(page)
    assert text.count(get_plotlyjs()) == 1
    return text.replace(get_plotlyjs(), "")


def test_figures_have_bands_clipped_spikes_and_logarithmic_rounds() -> None:
    short, long = points(2.0, 1.0), points(*[1.0] * 30)
    assert [panel.has_log_rounds for panel in figure(line("S=1", short)).panels] == [False] * 3
    numbers = figure_numbers(figure(line("S=1", long), line("S=100", short)))
    assert [panel["log"] for panel in numbers["panels"]] == [False, False, True]
    numbers = figure_numbers(figure(line("S=1", points(2.0, 1.0), points(4.0, 3.0, 9.9))))
    (found,) = numbers["lines"]
    assert (found["loss"], found["loss_low"], found["loss_high"]) == ([3, 2], [2, 1], [4, 3])
    assert found["slot"] == [0, 10]
    spiky = figure(line("S=1", points(2.3, 1e6, 2.0, 1.5, 1.0)))
    assert spiky.losses == (1.0, 10.0, True)
    assert "ends at 10; higher points are not shown" in html(curve_figure(spiky))
    high = figure(line("S=1", points(700.0, 1e6, 700.0, 700.0, 1.0)))
    assert high.losses == (1.0, 2000.0, True)
    assert figure(line("S=1", points(2.3, 1.0))).losses == (1.0, 2.3, False)
    assert "No curves yet" in html(curve_figure(figure()))
    drawn = figure(line("</script><b>", points(1.0)))
    text = render(Page("t", (), (), (drawn,)))
    assert "</script><b>" not in text


def test_the_page_needs_nothing_from_elsewhere(page: Page) -> None:
    text = unescape(own_text(page))
    targets = re.findall(r"""\b(?:src|href|action|data-src)\s*=\s*["']?([^"'\s>]*)""", text)
    assert {target.partition(",")[0] for target in targets} == {
        "data:",
        "data:image/svg+xml;base64",
        "#curves",
    }
    assert "http" not in text
    assert "@import" not in text
    assert "url(" not in text


def test_the_page_has_its_parts_escaped_and_the_numbers_of_its_figures(page: Page) -> None:
    text = own_text(page)
    assert "<title>The title</title>" in text
    assert "Async &amp; &lt;friends&gt;" in text
    assert '<td>&lt;a&gt;</td><td class="number">1</td>' in text
    assert '<span class="badge not-held">not held</span>' in text
    assert 'alt="A &amp; B" src="data:image/svg+xml;base64,PHN2Zy8+"' in text
    assert text.count('class="panel"') == 3
    assert "$" not in re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    found = re.search(r'<script type="application/json" id="figures">(.*?)</script>', own_text(page))
    assert found is not None
    (numbers,) = json.loads(found[1])
    assert numbers["lines"][1]["loss"] == [2.3, 0.4, 0.2]
    assert numbers["lines"][1]["accuracy"] == [50, 50, 50]
    assert [panel["across"] for panel in numbers["panels"]] == ["slot", "slot", "round"]
