"""The explorer in a real browser: every control, the address, copies, downloads, the chart."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import Browser, Page
from serving import Served, served

from slotwise.cli.app import run as run_command
from slotwise.runs import RunConfig
from slotwise.schedule import Timeline
from slotwise.schedule.costs import Costs, Powers
from slotwise.setting.planning import plan
from slotwise.web.controls import CASE
from slotwise.web.explorer_app import Explorer

SMALL = {"devices": 12, "group_size": 3, "compute_slots": 6, "deadline": 200}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(Explorer(None, tmp_path_factory.mktemp("web") / "runs").app) as found:
        yield found


@pytest.fixture
def page(server: Served, browser: Browser) -> Iterator[Page]:
    with browser.page(address(server, SMALL)) as found:
        yield found
        assert [url for url in found.requests if not url.startswith((server.address, "data:", "blob:"))] == []


def address(server: Served, options: dict[str, Any]) -> str:
    return server.address + "?" + "&".join(f"{name}={value}" for name, value in options.items())


def timeline(options: dict[str, Any], schedule: str | None = None) -> Timeline:
    chosen = options | ({} if schedule is None else {"schedule": schedule})
    if chosen.get("schedule", "idfl") != "idfl":
        chosen.pop("delay", None)
    if chosen.get("schedule", "idfl") != "sync":
        chosen.pop("participation", None)
    if "compute_distribution" in chosen:
        chosen.pop("compute_slots", None)
    return RunConfig.from_options(chosen, defaults=dict(CASE)).simulate()


def figures(page: Page, schedule: str) -> dict[str, str]:
    script = (
        f"Object.fromEntries([...document.querySelectorAll('[data-schedule={schedule}] [data-figure]')]"
        ".map(cell => [cell.dataset.figure, cell.textContent]))"
    )
    found: dict[str, str] = page.run(script)
    return found


def check_figures(page: Page, options: dict[str, Any], powers: Powers | None = None) -> None:
    """The numbers of all cards are those of the Python API."""
    for schedule in ("sync", "async", "idfl"):
        drawn, expected = figures(page, schedule), timeline(options, schedule)
        costs = Costs.of(expected, powers)
        assert drawn["rounds"] == f"{expected.rounds:,}"
        assert drawn["updates"] == f"{len(expected):,}"
        assert drawn["max_staleness"] == f"{expected.max_staleness():,}"
        assert float(drawn["mean_staleness"].replace(",", "")) == pytest.approx(
            expected.mean_staleness(), rel=5e-3, abs=1e-9
        )
        assert drawn.get("lost", "0") == f"{len(expected.lost):,}"
        least, _, most = costs.air_slots
        assert drawn["air_slots"] == (f"{most:,} slots" if least == most else f"{least:,}–{most:,} slots")
        if powers is not None:
            assert float(drawn["joules"].rstrip(" J").replace(",", "")) == pytest.approx(
                costs.joules, rel=1e-3, abs=1
            )


CHANGES = [
    ("devices", "15"),
    ("group_size", "5"),
    ("compute_slots", "9"),
    ("link_slots", "2"),
    ("sub_channels", "3"),
    ("deadline", "350"),
    ("uplink_loss", "0.2"),
    ("jitter", "0.3"),
    ("fleet_seed", "7"),
]


def test_every_number_changes_what_is_drawn(page: Page) -> None:
    options: dict[str, Any] = dict(SMALL)
    check_figures(page, options)
    for name, text in CHANGES:
        page.type(name, text)
        options[name] = json.loads(text)
        check_figures(page, options)
    assert page.text("#gantt-title").startswith("idfl, just in time")


def test_sliders_choices_and_distributions(page: Page, server: Served) -> None:
    options: dict[str, Any] = dict(SMALL)
    page.run(
        "(() => { const slider = document.querySelector('[data-name=group_size] input[type=range]'); "
        "slider.value = 1000; slider.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )
    page.settle()
    options["group_size"] = 12
    check_figures(page, options)
    page.run("document.querySelector('[data-name=group_size] input[type=range]').focus()")
    for _ in range(6):
        page.key("ArrowLeft")
    page.settle()
    options["group_size"] = 6
    check_figures(page, options)
    page.run("document.querySelector('[data-name=compute_distribution] summary, details.more').open = true")
    for name, value in (("compute_distribution", "two-classes"), ("selection", "random")):
        page.run(
            f"(() => {{ const menu = document.querySelector('[data-name={name}] select'); "
            f"menu.value = '{value}'; menu.dispatchEvent(new Event('change', {{bubbles: true}})); }})()"
        )
        page.settle()
    options |= {"compute_distribution": "two-classes:3:12:0.3", "selection": "random"}
    assert page.run("document.querySelector('[data-name=compute_slots] input').disabled")
    check_figures(page, options)


def test_a_schedule_is_chosen_and_options_without_effect_are_switched_off(page: Page) -> None:
    options: dict[str, Any] = dict(SMALL)
    page.run("document.querySelector('[data-name=delay] input[type=checkbox]').click()")
    page.type("delay", "1")
    options["delay"] = 1
    check_figures(page, options)
    page.click("[data-schedule=sync]")
    page.settle()
    assert page.run("document.querySelector('[data-name=delay] input[type=range]').disabled")
    assert page.text("#gantt-title").startswith("sync")
    page.click("[data-name=schedule] .segments label:nth-child(3)")
    page.settle()
    assert page.text("#gantt-title").startswith("idfl, delay 1")


def test_group_sizes_that_change_and_batteries(server: Served, browser: Browser) -> None:
    with browser.page(address(server, SMALL)) as page:
        page.run("[...document.querySelectorAll('#controls details')].forEach(one => { one.open = true; })")
        page.run(
            "(() => { const field = document.querySelector('[data-name=group_size_changes] input'); "
            "field.value = '6@50, 2@100'; field.dispatchEvent(new Event('change', {bubbles: true})); })()"
        )
        page.settle()
        check_figures(page, {**SMALL, "group_size": "3@0, 6@50, 2@100"})
        page.type("battery_joules", "20")  # which needs another option
        assert "above 0" in page.text("[data-name=computing_joules] .wrong")
        page.type("computing_joules", "1")
        page.type("harvest_joules", "1")
        batteries = {"battery_joules": 20.0, "computing_joules": 1.0, "harvest_joules": 1.0}
        check_figures(page, {**SMALL, "group_size": "3@0, 6@50, 2@100", **batteries})
        page.errors[:] = [error for error in page.errors if "422" not in error]


def test_a_radio_link(server: Served, browser: Browser) -> None:
    with browser.page(address(server, {**SMALL, "deadline": 600})) as page:
        page.run(
            "(() => { const menu = document.querySelector('[data-name=radio_link] select'); "
            "menu.value = 'rate-adaptive'; menu.dispatchEvent(new Event('change', {bubbles: true})); })()"
        )
        page.settle()
        check_figures(page, {**SMALL, "deadline": 600, "radio_link": "rate-adaptive"})
        assert page.run("document.querySelector('[data-name=link_slots] input').disabled")
        page.type("radio_radius_m", "5")  # nearer than the nearest
        assert page.run("document.querySelector('[data-name=radio_nearest_m] .wrong').offsetHeight > 0")
        page.errors[:] = [error for error in page.errors if "422" not in error]


def test_sub_channels_are_drawn_side_by_side(server: Served, browser: Browser) -> None:
    with browser.page(address(server, {**SMALL, "sub_channels": 3})) as page:
        assert page.run("sw.gantt.part.lanes") == 3
        assert set(page.run("sw.gantt.part.lane")) == {-1, 0, 1, 2}
        x, y = page.run(
            "(() => { const box = sw.gantt.canvas.getBoundingClientRect(); "
            "return [box.left + sw.gantt.x(sw.gantt.part.channel.start[0] + 0.5), box.top + 63]; })()"
        )
        page.mouse("mouseMoved", x, y)
        assert page.text("#hint").startswith("device 3: sending")  # on the last sub-channel


def test_the_free_delay_is_marked(page: Page) -> None:
    page.click("#reset")
    page.settle()
    assert page.text("[data-name=delay] .mark") == "free: 4"
    assert page.run("document.querySelector('[data-name=delay] input[type=range]').value") == "4"
    check_figures(page, {})


def test_energy(page: Page) -> None:
    page.run(
        "[...document.querySelectorAll('button')].find(one => one.textContent.includes('example')).click()"
    )
    page.settle()
    powers = Powers(computing=2, sending=1, receiving=0.5, idle=0.1, slot_seconds=0.01)
    check_figures(page, SMALL, powers)


def test_a_reloaded_address_shows_the_same(page: Page) -> None:
    page.type("group_size", "4")
    page.click("[data-schedule=async]")
    page.settle()
    before = page.text("#cards")
    page.go(page.run("location.href"))
    assert page.text("#cards") == before
    assert page.run("document.querySelector('[data-name=group_size] input').value") == "4"
    check_figures(page, {**SMALL, "group_size": 4})


def test_what_is_wrong_is_said_at_its_control(server: Served, browser: Browser) -> None:
    with browser.page(address(server, SMALL)) as page:
        for name, text, part in (
            ("deadline", "3", "at least"),
            ("group_size", "0", "at least 1"),
            ("uplink_loss", "2", "must be"),
            ("compute_slots", "1.5", "whole number"),
        ):
            page.type(name, text)
            assert part in page.text(f"[data-name={name}] .wrong")
            assert page.run("document.querySelector('.content').classList.contains('stale')")
            page.type(name, str(SMALL.get(name, 0)))
            assert page.text(f"[data-name={name}] .wrong") == ""
        # A refused request is an answer that the browser logs.
        page.errors[:] = [error for error in page.errors if "422" not in error]
        check_figures(page, SMALL)


def test_an_address_that_is_refused_shows_why_and_can_be_corrected(server: Served, browser: Browser) -> None:
    with browser.page(address(server, {**SMALL, "deadline": 3})) as page:
        assert "at least" in page.text("[data-name=deadline] .wrong")
        assert page.run("document.querySelector('.content').classList.contains('nothing')")
        page.run("document.querySelectorAll('#gantt-tools button').forEach(one => one.click())")
        page.errors[:] = [error for error in page.errors if "422" not in error]
        page.type("deadline", "200")
        check_figures(page, SMALL)


def test_the_curves_over_group_sizes_are_those_of_the_plan(page: Page) -> None:
    rows = page.run("sw.plots.rounds.content.lines.map(line => [line.label, line.points])")
    stale = page.run("sw.plots.staleness.content.lines.map(line => [line.label, line.points])")
    sizes = range(1, 13)
    table = [row.figures() for row in plan(devices=12, compute_slots=6, deadline=200, group_sizes=sizes)]
    assert dict(rows)["async"] == [[row["group_size"], row["rounds"]] for row in table]
    assert dict(rows)["sync"] == [[row["group_size"], row["sync_rounds"]] for row in table]
    assert dict(stale)["idfl"] == [[row["group_size"], row["staleness_idfl"]] for row in table]
    assert page.run("sw.plots.rounds.content.marks[0].x") == 3


def test_a_group_size_is_picked_in_a_curve(page: Page) -> None:
    x, y = page.run(
        "(() => { document.querySelector('#plot-rounds').scrollIntoView({block: 'center'}); "
        "const box = sw.plots.rounds.svg.getBoundingClientRect(); "
        "return [box.left + sw.plots.rounds.px(6), box.top + 60]; })()"
    )
    page.mouse("mouseMoved", x, y)
    page.mouse("mousePressed", x, y)
    page.mouse("mouseReleased", x, y)
    page.settle()
    check_figures(page, {**SMALL, "group_size": 6})


def test_the_uplink_at_the_pointer_is_described(page: Page) -> None:
    expected = timeline(SMALL)
    row = 7
    device, start = int(expected.device[row]), int(expected.start[row])
    x, y = page.run(
        "(() => { const box = sw.gantt.canvas.getBoundingClientRect(); "
        f"return [box.left + sw.gantt.x({start} + 0.5), box.top + sw.gantt.y({device} + 0.5)]; }})()"
    )
    page.mouse("mouseMoved", x, y)
    said = page.text("#hint")
    assert said.splitlines() == [
        f"device {device}: sending",
        f"slot {start}",
        f"model w{expected.version[row]}",
        f"round {expected.round[row]}, staleness {expected.staleness[row]}",
    ]


def test_the_chart_is_usable_with_the_keyboard(page: Page) -> None:
    page.run("document.querySelector('.gantt').focus()")
    page.key(".")
    assert page.text("#said").startswith("device 1: sending")
    before = page.run("sw.gantt.slot")
    page.key("+")
    assert page.run("sw.gantt.slot") > before
    page.run("sw.gantt.box.scrollLeft = 1e6")
    page.settle()
    assert page.run("sw.gantt.part.slots[1]") == timeline(SMALL).last_slot
    page.key("0")
    assert page.run("sw.gantt.slot") == before


def test_bars_are_those_of_the_timeline(page: Page) -> None:
    columns = page.run("sw.gantt.part.bars")
    expected = timeline(SMALL)
    kind = page.run("sw.activity['sending'].kind")
    end = page.run("sw.gantt.part.slots[1]")
    drawn = {
        (device, start, version)
        for device, start, version, found in zip(
            columns["device"], columns["start"], columns["version"], columns["kind"], strict=True
        )
        if found == kind
    }
    sent = zip(expected.device.tolist(), expected.start.tolist(), expected.version.tolist(), strict=True)
    assert drawn == {row for row in sent if row[1] < end}


def test_copies_say_the_same(
    page: Page, browser: Browser, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page.type("uplink_loss", "0.1")
    options: dict[str, Any] = {**SMALL, "uplink_loss": 0.1}
    browser.call(
        "Browser.grantPermissions",
        permissions=["clipboardReadWrite", "clipboardSanitizedWrite"],
        browserContextId=page.context,
    )
    page.call("Emulation.setFocusEmulationEnabled", enabled=True)
    expected, copies = timeline(options), {}
    for form in ("command", "toml", "python", "link"):
        page.click(f"[data-form={form}]")
        page.wait(f"document.querySelector('[data-form={form}]').textContent === 'copied'")
        copies[form] = page.run("navigator.clipboard.readText()")
    assert run_command([*shlex.split(copies["command"])[1:], "--json"]) == 0
    assert Timeline.from_json(capsys.readouterr().out) == expected
    (tmp_path / "run.toml").write_text(copies["toml"])
    assert RunConfig.from_toml(tmp_path / "run.toml").simulate() == expected
    names: dict[str, Any] = {}
    exec(copies["python"], names)
    assert names["timeline"] == expected
    assert copies["link"] == page.run("location.href")


def test_downloads(page: Page, browser: Browser, tmp_path: Path) -> None:
    done: list[str] = []
    browser.handlers[""] = lambda message: (
        done.append(message["params"]["guid"])
        if message["method"] == "Browser.downloadProgress" and message["params"]["state"] == "completed"
        else None
    )
    browser.call(
        "Browser.setDownloadBehavior",
        behavior="allowAndName",
        downloadPath=str(tmp_path),
        browserContextId=page.context,
        eventsEnabled=True,
    )
    contents = []
    for label in ("SVG", "PNG", "CSV"):
        page.run(
            "[...document.querySelectorAll('#gantt-tools button')]"
            f".find(one => one.textContent === '{label}').click()"
        )
        while len(done) == len(contents):
            browser.wait_for_message()
        contents.append((tmp_path / done[-1]).read_bytes())
    del browser.handlers[""]
    svg, png, csv = contents
    assert b"<svg" in svg
    assert png.startswith(b"\x89PNG")
    header, *rows = csv.decode().splitlines()
    assert header == "round,device,version,staleness,start,end"
    expected = timeline(SMALL)
    assert rows[-1].split(",")[:2] == [str(expected.round[-1]), str(expected.device[-1])]
    assert len(rows) == len(expected)


def test_ten_thousand_devices_scroll(server: Served, browser: Browser) -> None:
    options = {"devices": 10_000, "group_size": 100, "deadline": 20_000}
    with browser.page(address(server, options)) as page:
        check_figures(page, options)
        page.run("sw.gantt.box.scrollTop = 1e9")
        page.settle()
        assert page.run("sw.gantt.part.devices[1]") == 10_001
        assert page.run("sw.gantt.seen.high") == 10_000
        assert 10_000 in page.run("sw.gantt.part.bars.device")


@pytest.mark.parametrize(("width", "height"), [(390, 844), (820, 1180), (1920, 1080)])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_no_size_scrolls_sideways(
    server: Served, browser: Browser, width: int, height: int, *, dark: bool
) -> None:
    with browser.page(server.address, width, height, dark=dark) as page:
        assert page.run("document.documentElement.scrollWidth") <= width
        page.run("document.getElementById('controls-box').open = true")
        assert page.run("document.documentElement.scrollWidth") <= width
        paper = page.run("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, paper[4:-1].split(","))) < 200) == dark


def test_access_schemes_are_side_by_side_and_chosen_by_their_row(server: Served, browser: Browser) -> None:
    place = address(server, SMALL | {"radio_link": "rate-adaptive", "radio_radius_m": 200})
    with browser.page(place) as page:
        rows = "[...document.querySelectorAll('.scheme')].map(row => row.dataset.access)"
        assert page.run(rows) == ["tdma", "ofdma", "noma", "over-the-air"]
        bars = "document.querySelectorAll('[data-access=ofdma] rect').length"
        assert page.run(bars) > 3
        page.run("document.querySelector('[data-access=ofdma]').click()")
        page.settle()
        assert page.run("sw.view.access") == "ofdma"
        assert page.run("document.querySelector('[data-access=ofdma]').ariaChecked") == "true"
        rounds = page.run("document.querySelector('[data-access=ofdma] [data-figure=rounds]').textContent")
        assert rounds == figures(page, "idfl")["rounds"]
        page.run("sw.form.give('radio_link', '')")
        page.settle()
        assert page.run("document.getElementById('access').hidden")
