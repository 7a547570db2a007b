"""The page in a real browser: drawn without an error, and its legend works."""

import json
import os
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pytest

from slotwise.learning import Point
from slotwise.report.colours import BLUE, ORANGE
from slotwise.report.curves import CurveFigure, Line, loss_and_accuracy
from slotwise.report.page import Page, Section, curve_figure, render

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None and not os.environ.get("SLOTWISE_REQUIRE_BROWSER"), reason="chromium is not installed"
)

FLAGS = (  # noqa: SIM905
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --enable-logging=stderr --virtual-time-budget=20000 --dump-dom"
).split()

LISTEN = """<script>window.errors = [];
addEventListener("error", event => errors.push(event.message));
addEventListener("unhandledrejection", event => errors.push(String(event.reason)));</script>"""

CHECK = """<pre id="check"></pre><script>
const pause = () => new Promise(done => setTimeout(done, 300));
const curves = () => [...document.querySelectorAll(".panel")].map(panel =>
  panel.querySelectorAll(".scatterlayer .trace path.js-line").length);
const bands = () => document.querySelectorAll(".fills path, .js-fill").length;
(async () => {
  await window.drawn;
  const found = {curves: curves(), bands: bands(), width: document.documentElement.scrollWidth};
  const [first, second] = document.querySelectorAll(".legend button");
  first.click();
  await pause();
  found.hidden = curves();
  found.pressed = first.getAttribute("aria-pressed");
  first.click();
  await pause();
  found.again = curves();
  second.dispatchEvent(new MouseEvent("dblclick"));
  await pause();
  found.alone = curves();
  found.labels = [...document.querySelectorAll(".legend button")].map(button => button.textContent);
  found.leftmost = [...document.querySelectorAll(".panel")].map(panel =>
    Math.min(...panel.data.flatMap(trace => trace.x)));
  found.first = [...document.querySelectorAll(".panel")].map(panel => panel.data.at(-1).y[0]);
  found.ticks = [...document.querySelectorAll(".ytick text")].map(tick => tick.textContent);
  found.errors = errors;
  document.getElementById("check").textContent = JSON.stringify(found);
})();
</script>"""


def points(scale: float, rounds: int = 30) -> tuple[Point, ...]:
    return tuple(Point(50 * k, k, scale * 2.3 / (1 + k), 0.1 + k / 40, 1) for k in range(rounds))


@pytest.fixture(scope="module")
def page() -> str:
    return page_of(
        Line("S=1, d=99", BLUE, "solid", (points(1.0), points(1.3))),
        Line("S=50, d=1", ORANGE, "dashed", (points(0.4),)),
    )


def page_of(*lines: Line) -> str:
    figure = CurveFigure("async-mnist", "Async", "Caption.", loss_and_accuracy(lines))
    return render(Page("Test", (), (Section("curves", "Curves", (curve_figure(figure),)),), (figure,)))


def look(page: str, folder: Path, width: int) -> tuple[dict[str, object], str]:
    """What the page's own check found, and what the browser logged."""
    path = folder / "page.html"
    checked = page.replace("<head>", "<head>" + LISTEN, 1).replace(
        "</body>\n</html>", CHECK + "</body></html>"
    )
    path.write_text(checked, encoding="utf-8")
    command = [str(CHROMIUM), *FLAGS, f"--user-data-dir={folder / 'profile'}", f"--window-size={width},900"]
    done = subprocess.run([*command, path.as_uri()], capture_output=True, text=True, timeout=120, check=True)
    found = re.search(r'<pre id="check">(.*?)</pre>', done.stdout, flags=re.DOTALL)
    assert found is not None
    assert found[1], done.stderr
    return json.loads(unescape(found[1])), done.stderr


@pytest.fixture(scope="module")
def seen(page: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, object], str]:
    return look(page, tmp_path_factory.mktemp("browser"), 1200)


def test_no_errors(seen: tuple[dict[str, object], str]) -> None:
    found, log = seen
    assert found["errors"] == []
    assert "CONSOLE" not in log


def test_the_curves_are_drawn(seen: tuple[dict[str, object], str]) -> None:
    found, _ = seen
    assert found["curves"] == [2, 2, 2]
    assert found["bands"]
    assert found["labels"] == ["S=1, d=99", "S=50, d=1"]
    assert "0.1" in found["ticks"]


def test_the_legend_hides_and_shows_a_curve_in_all_panels(seen: tuple[dict[str, object], str]) -> None:
    found, _ = seen
    assert (found["hidden"], found["pressed"]) == ([1, 1, 1], "false")
    assert found["again"] == [2, 2, 2]
    assert found["alone"] == [1, 1, 1]


def test_a_logarithmic_axis_starts_at_round_1(tmp_path: Path) -> None:
    """Loss and accuracy against slots start with w_0, whose loss is 2.3; after round 1 it is 1.15."""
    page = page_of(
        Line("S=50", BLUE, "solid", (points(1.0, 3), points(1.3, 3))),
        Line("S=1", ORANGE, "solid", (points(1.0, 30),)),
    )
    found, _ = look(page, tmp_path, 1200)
    assert found["leftmost"] == [0, 0, 1]
    assert found["first"] == [2.3, 10, 1.15]
