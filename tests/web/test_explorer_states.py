"""States of the explorer in a real browser: computing, refused, and a radio cell with its map and times."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser, Page
from serving import Served, served

from slotwise.web.explorer_app import Explorer

CELL = "radio_link=rate-adaptive&devices=12&group_size=3&compute_slots=6&deadline=200&radio_slot_ms=250"
# Requests that contain the text in `held` are never answered.
HOLD = (
    "(() => { const real = window.fetch; window.fetch = (address, options) => "
    "String(address).includes(window.held) ? new Promise(() => {}) : real(address, options); })()"
)
BUSY = "[...document.querySelectorAll('#explore .busy')].map(place => place.dataset.busy)"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(Explorer(None, tmp_path_factory.mktemp("web") / "runs").app) as found:
        yield found


@pytest.fixture
def cell(server: Served, browser: Browser) -> Iterator[Page]:
    with browser.page(f"{server.address}?{CELL}") as page:
        yield page


def test_panels_say_that_they_are_being_computed(cell: Page) -> None:
    assert cell.run(BUSY) == []
    cell.run(f"window.held = 'api/sizes'; {HOLD}; sw.form.give('jitter', '0.1')")
    cell.wait(f"{BUSY}.length === 2")  # both curves over group sizes
    cell.run("window.held = 'api/view'; sw.form.give('jitter', '0.2')")
    cell.wait(f"{BUSY}.length >= 4 && {BUSY}.every(text => text.startsWith('computing'))")


def test_an_empty_page_says_at_once_what_is_being_computed(server: Served, browser: Browser) -> None:
    with browser.page(server.address) as page:
        page.call("Page.addScriptToEvaluateOnNewDocument", source=f"window.held = 'api/'; {HOLD}")
        page.call("Page.navigate", url=server.address + "?devices=20")
        page.wait(f"sw.form.value('devices') === '20' && {BUSY}.length === 6")  # cards, chart, two curves


def test_the_option_at_fault_is_named_above_the_page_and_can_be_gone_to(
    server: Served, browser: Browser
) -> None:
    with browser.page(f"{server.address}?{CELL}&radio_radius_m=5000") as page:
        page.errors.clear()  # a refused request is logged
        assert page.text("#error").startswith("Radius (m) 5000")
        assert "smaller" in page.text("[data-name=radio_radius_m] .wrong")
        page.click("#error button")
        assert page.run("document.activeElement.closest('[data-name]').dataset.name") == "radio_radius_m"
        page.type("radio_radius_m", "500")
        assert page.run("document.querySelector('#error').hidden")


def test_a_server_that_is_gone_is_told(cell: Page) -> None:
    gone = "window.fetch = () => Promise.reject(new TypeError('wording of a browser'))"
    cell.run(f"{gone}; sw.form.give('jitter', '0.1')")
    cell.settle()
    assert cell.text("#error").startswith("The server does not answer")


def test_the_map_describes_the_device_at_the_pointer(cell: Page) -> None:
    assert cell.run("sw.map.places.length") == 12
    x, y = cell.run(
        "(() => { sw.map.canvas.scrollIntoView({block: 'center'}); "
        "const box = sw.map.canvas.getBoundingClientRect(); const [x, y] = sw.map.places[6]; "
        "return [box.left + x, box.top + y]; })()"
    )
    cell.settle()
    cell.mouse("mouseMoved", x, y)
    hint, distance = cell.text("#hint"), cell.run("sw.map.cell.distance_m[6]")
    assert hint.startswith(f"device 7, {distance:g} m")
    assert "SNR" in hint
    cell.run("(() => { sw.map.pick(null); sw.map.canvas.focus(); })()")
    cell.key(".")
    nearest = cell.run("sw.map.cell.distance_m.indexOf(Math.min(...sw.map.cell.distance_m)) + 1")
    assert cell.text("#said").startswith(f"device {nearest},")


def test_times_are_shown_where_the_length_of_a_slot_is_known(server: Served, browser: Browser) -> None:
    with browser.page(f"{server.address}?{CELL}") as page:
        assert page.run("sw.gantt.seconds") == 0.25
        page.run("sw.gantt.box.focus()")
        page.key(".")
        assert page.text("#said").splitlines()[1].endswith("from 1.5 s")  # the first is ready after slot 6
        assert page.text("[data-name=deadline] .note") == "200 slots = 50 s"
        page.run("sw.form.give('radio_link', '')")
        page.settle()
        assert page.run("sw.gantt.seconds") is None
        assert page.run("document.querySelector('[data-name=deadline] .note').hidden")
        assert page.run("document.querySelector('#cell').hidden")


def test_runs_are_being_read(browser: Browser, tmp_path: Path) -> None:
    with served(Explorer(None, tmp_path).app) as server, browser.page(server.address) as page:
        page.run(f"window.held = 'api/runs'; {HOLD}; sw.open('results')")
        page.wait("document.querySelector('#results .table-box').dataset.busy.startsWith('reading')")
