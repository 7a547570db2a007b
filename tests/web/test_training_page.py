"""Training in the explorer: started, watched and stopped in a real browser; the folder is an ordinary run."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser, Page
from serving import Served, served

from slotwise.runs import RunFolder
from slotwise.web.controls import CASE, effective
from slotwise.web.explorer_app import Explorer

SMALL = "devices=10&group_size=2&compute_slots=4&deadline=60"
QUICK = (("local_steps", "1"), ("batch_size", "4"), ("samples_per_device", "20"))


def make_quick(page: Page) -> None:
    """Choose options with which a training is quick."""
    for name, value in QUICK:
        page.run(
            f"(() => {{ const field = document.querySelector('#training [data-name={name}] input'); "
            f"field.value = '{value}'; field.dispatchEvent(new Event('input', {{bubbles: true}})); }})()"
        )


@pytest.fixture
def page(explorer: Served, browser: Browser) -> Iterator[Page]:
    with browser.page(f"{explorer.address}?{SMALL}") as found:
        make_quick(found)
        yield found


@pytest.mark.slow
def test_a_training_is_watched_to_its_end(page: Page, tmp_path: Path) -> None:
    page.click("#train")
    page.wait("document.querySelector('#training [data-status=finished]')")
    folder = RunFolder.open(next((tmp_path / "runs").iterdir()))
    assert folder.status == "finished"
    config = folder.parameters()
    options = {"devices": 10, "group_size": 2, "compute_slots": 4, "deadline": 60}
    training = {"local_steps": 1, "batch_size": 4, "samples_per_device": 20}
    assert config == effective({**options, **training})[0]
    assert config.training.learning_rate == effective(dict(CASE))[0].training.learning_rate
    drawn = page.run("sw.training.all[0].points")
    assert [point[:2] for point in drawn] == [[point.slot, point.round] for point in folder.points()]
    assert drawn[-1][2] == pytest.approx(folder.points()[-1].loss)
    planned = page.run("sw.training.all[0].planned")
    timeline = config.simulate()
    assert planned[-1] == [timeline.last_slot, timeline.rounds]
    # The results show it too.
    page.click("#tab-results")
    page.wait("document.querySelectorAll('#results tbody tr[data-run]').length === 1")
    assert folder.path.name in page.text("#results tbody")


@pytest.mark.slow
def test_a_training_is_stopped_with_a_checkpoint(page: Page, tmp_path: Path) -> None:
    page.type("deadline", "60000")
    page.click("#train")
    page.wait("sw.training.all.length && sw.training.all[0].points.length")
    assert page.run("document.getElementById('train').disabled")
    page.click("#training .stop")
    page.wait("document.querySelector('#training [data-status=interrupted]')")
    folder = RunFolder.open(next((tmp_path / "runs").iterdir()))
    assert folder.status == "interrupted"
    assert 0 < folder.history().rounds < folder.parameters().simulate().rounds
    assert page.run("!document.getElementById('train').disabled")


def test_a_refused_training_says_why(explorer: Served, browser: Browser, tmp_path: Path) -> None:
    with browser.page(f"{explorer.address}?{SMALL}") as page:
        page.run(
            "(() => { const field = document.querySelector('#training [data-name=learning_rate] input'); "
            "field.value = '-1'; field.dispatchEvent(new Event('input', {bubbles: true})); })()"
        )
        page.click("#train")
        page.wait("document.querySelector('#training [data-name=learning_rate] .wrong').textContent")
        assert "must be a number" in page.text("#training [data-name=learning_rate] .wrong")
        page.errors[:] = [error for error in page.errors if "422" not in error]
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_a_server_that_ends_stops_its_training(browser: Browser, tmp_path: Path) -> None:
    with served(Explorer(None, tmp_path / "runs").app) as server:
        address = f"{server.address}?devices=10&group_size=2&compute_slots=4&deadline=60000"
        with browser.page(address) as page:
            make_quick(page)
            page.click("#train")
            page.wait("sw.training.all.length && sw.training.all[0].points.length")
    folder = RunFolder.open(next((tmp_path / "runs").iterdir()))
    assert folder.status == "interrupted"
    with folder.held():  # no process is left in it
        pass
