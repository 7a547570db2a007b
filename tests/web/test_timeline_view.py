"""A timeline as one HTML file: drawn in a real browser, without a server."""

from pathlib import Path

import pytest
from browser import Browser

from slotwise import InputError, Scenario, Timeline, UserError, simulate, timeline_view
from slotwise.web import timeline_view as module


@pytest.fixture
def timeline() -> Timeline:
    scenario = Scenario(devices=12, group_size=3, compute_slots=6, deadline=300)
    return simulate(scenario, "idfl")


def test_the_file_is_complete(timeline: Timeline, browser: Browser, tmp_path: Path) -> None:
    path = timeline_view(timeline).save(tmp_path / "timeline.html")
    with browser.page(path.as_uri(), 900, 640) as page:
        assert page.requests == [path.as_uri()]
        assert page.text("#title").startswith(f"idfl, delay {timeline.delay}: {timeline.rounds} rounds")
        assert page.run("sw.gantt.frame.last") == timeline.last_slot
        assert page.run("sw.gantt.part.bars.device.length") > len(timeline)
        page.run("document.querySelector('.gantt').focus()")
        page.key(".")
        first = (
            f"device {timeline.device[0]}: sending\nslot {timeline.start[0]}\nmodel w{timeline.version[0]}"
        )
        assert page.text("#said").startswith(first)


def test_a_notebook_shows_it_in_a_frame(timeline: Timeline, browser: Browser, tmp_path: Path) -> None:
    html = timeline_view(timeline)._repr_html_()
    path = tmp_path / "notebook.html"
    path.write_text(f"<!doctype html><script>var sw = {{settled: () => Promise.resolve()}};</script>{html}")
    with browser.page(path.as_uri()) as page:
        page.wait("document.querySelector('iframe')")
        assert page.errors == []


def test_some_slots(timeline: Timeline, browser: Browser, tmp_path: Path) -> None:
    path = timeline_view(timeline, (100, 160)).save(tmp_path / "part.html")
    with browser.page(path.as_uri()) as page:
        assert page.run("[sw.gantt.seen.first, sw.gantt.frame.last]") == [100, 160]
        assert "slots 100–159" in page.text("#note")


def test_a_long_timeline_is_cut() -> None:
    scenario = Scenario(devices=1_200, group_size=100, compute_slots=5, deadline=20_000)
    view = timeline_view(simulate(scenario, "async"))
    assert len(view.html) < 10_000_000
    assert "devices 1\\u20131,000" in view.html


@pytest.mark.parametrize("slots", [(5, 5), (-1, 3), (0, 10**9), "ab", 3], ids=str)
def test_slots_that_are_not_there(timeline: Timeline, slots: object) -> None:
    with pytest.raises(InputError, match="slots"):
        timeline_view(timeline, slots)  # type: ignore[arg-type]


def test_a_file_name_of_another_kind(timeline: Timeline, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="html"):
        timeline_view(timeline).save(tmp_path / "timeline.txt")


def test_a_timeline_without_rounds_is_refused(timeline: Timeline) -> None:
    with pytest.raises(UserError, match="no rounds"):
        timeline_view(timeline.first(0))


def test_slots_with_more_bars_than_a_page_holds_are_refused(
    timeline: Timeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_BARS", 100)
    with pytest.raises(InputError) as raised:
        timeline_view(timeline, (0, 250))
    assert raised.value.parameter == "slots"
    assert timeline_view(timeline, (0, 10)).html
