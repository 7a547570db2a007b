"""The results browser, on the published results of the paper and of recommend."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from browser import Browser, Page
from serving import Served, served

from slotwise.batch.batch_folder import BatchFolder
from slotwise.recommendation.search import recommend
from slotwise.report.colours import BLUE
from slotwise.report.curves import Line
from slotwise.runs import RunConfig, RunFolder, run
from slotwise.schedule.costs import Powers
from slotwise.web.explorer_app import Explorer
from slotwise.web.results_browser import ResultsBrowser

PUBLISHED = Path(__file__).parents[2] / "docs/results"
GRID = PUBLISHED / "paper/runs"


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served(Explorer(PUBLISHED, PUBLISHED).app) as found:
        yield found


@pytest.fixture
def page(server: Served, browser: Browser) -> Iterator[Page]:
    with browser.page(server.address) as found:
        found.wait("sw.results.listing && document.querySelector('#results tbody tr')")
        found.settle()
        yield found


def shown(page: Page) -> list[str]:
    names: list[str] = page.run(
        "[...document.querySelectorAll('#results tr[data-run]')].map(row => row.dataset.run)"
    )
    return names


def write(page: Page, text: str) -> None:
    page.run(
        "(() => { const field = document.querySelector('#results input[type=search]'); "
        f"field.value = '{text}'; "
        "field.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )


def test_all_runs_are_listed_and_sorted(page: Page) -> None:
    every = sorted(path.parent.relative_to(PUBLISHED).as_posix() for path in PUBLISHED.rglob("run.json"))
    assert sorted(shown(page)) == every
    page.click("#results th button[data-key=loss]")
    losses = [RunFolder(PUBLISHED / name).description()["final"]["loss"] for name in shown(page)]
    known = [loss for loss in losses if np.isfinite(loss)]
    assert known == sorted(known)
    page.click("#results th button[data-key=loss]")
    assert RunFolder(PUBLISHED / shown(page)[0]).description()["final"]["loss"] == max(known)


def test_runs_are_filtered_by_any_option(page: Page) -> None:
    write(page, "schedule=idfl group_size>=25 seed=1")
    found = shown(page)
    assert found
    for name in found:
        config = RunFolder(PUBLISHED / name).parameters()
        assert (config.schedule, config.seed) == ("idfl", 1)
        assert config.channel.group_size >= 25
    write(page, "schedule=idfl no-such-name")
    assert shown(page) == []


def test_all_seeds_of_the_first_lines_are_chosen(page: Page) -> None:
    lines = page.run("sw.resultPlots.loss.content.lines.map(line => line.label)")
    assert 1 < len(lines) <= 6
    assert any("S=50@0, 10@10000, 5@30000" in label for label in lines)
    assert all(label.endswith("(3 seeds)") for label in lines)
    assert page.run("sw.results.chosen.size") == 3 * len(lines)


def test_a_damaged_run_is_shown_and_an_own_metric_is_drawn(browser: Browser, tmp_path: Path) -> None:
    shutil.copytree(GRID / "mnist-async-S50-T50000-seed1", tmp_path / "good")
    good = RunFolder(tmp_path / "good")
    good.write_points([point._replace(metrics={"f1": 0.5}) for point in good.points()])
    (tmp_path / "half").mkdir()
    (tmp_path / "half/run.json").write_text('{"format": 1')
    with served(Explorer(tmp_path, tmp_path).app) as server, browser.page(server.address) as page:
        page.wait("sw.results.listing && document.querySelector('#results tbody tr')")
        page.settle()
        assert shown(page) == ["good", "half"]
        assert "damaged" in page.text("tr[data-run=half]")
        assert page.run("document.querySelector('tr[data-run=half] input').disabled")
        menu = "document.querySelector('#results select[aria-label^=Metric]')"
        page.run(f"(() => {{ {menu}.value = 'f1'; {menu}.dispatchEvent(new Event('change')); }})()")
        page.settle()
        (line,) = page.run("sw.resultPlots.metric.content.lines")
        assert {value for _, value in line["points"]} == {0.5}


def test_seeds_are_a_band(page: Page) -> None:
    page.run("(() => { document.querySelectorAll('#results .tools button')[1].click(); })()")  # choose none
    write(page, "paper/runs schedule=idfl group_size=10 aggregation=mean update=sum input_scale=standard")
    page.run(
        "(() => { document.querySelectorAll('#results .tools button')[0].click(); })()"
    )  # choose all shown
    page.settle()
    (line,) = page.run("sw.resultPlots.loss.content.lines")
    assert line["label"].endswith("(3 seeds)")
    folders = [RunFolder(GRID / f"mnist-idfl-S10-T50000-seed{seed}") for seed in range(3)]
    band = Line("", BLUE, "solid", tuple(folder.points() for folder in folders)).band("slot", "loss")
    assert [point[0] for point in line["points"]] == band.places.tolist()
    assert [point[1] for point in line["points"]] == pytest.approx(band.mean.tolist())
    assert [point[2] for point in line["band"]] == pytest.approx(band.high.tolist())


def test_the_timeline_of_a_run_is_shown_and_opened_in_the_explorer(page: Page) -> None:
    write(page, "paper/runs data=mnist schedule=async group_size=25 seed=1 aggregation=mean")
    page.click("#results tbody tr td button")
    page.wait("sw.resultGantt.part")
    expected = RunFolder(PUBLISHED / shown(page)[0]).parameters().simulate()
    assert page.run("sw.resultGantt.frame.last") == expected.last_slot
    page.run(
        "[...document.querySelectorAll('#results button')]"
        ".find(one => one.textContent.includes('explorer')).click()"
    )
    page.settle()
    assert page.text("[data-schedule=async] [data-figure=rounds]") == f"{expected.rounds:,}"
    assert "group_size=25" in page.run("location.search")


def test_cases_metrics_and_the_map_of_a_batch_over_the_radio(browser: Browser, tmp_path: Path) -> None:
    batch, points = BatchFolder(tmp_path / "sweep"), []
    options = {"devices": 4, "group_size": 1, "compute_slots": 2, "deadline": 24, "network": "logistic"}
    for case, schedule in (("without-delay", "async"), ("with-delay", "idfl")):
        radio = {"schedule": schedule, "radio_link": "rate-adaptive", "radio_slot_ms": 50}
        run(RunConfig.from_options({**options, **radio}), batch.run(case).path)
        points.append([case, [], 0, case])
    batch.write_manifest({"axes": {}, "powers": None, "digest": "", "points": points})
    with served(Explorer(tmp_path, tmp_path).app) as server, browser.page(server.address) as page:
        page.wait("sw.resultPlots.metric.content")
        labels = page.run("sw.resultPlots.loss.content.lines.map(line => line.label)")
        assert sorted(labels) == ["with-delay", "without-delay"]
        write(page, "without")
        assert shown(page) == ["sweep/runs/without-delay"]
        assert page.text("#results th [data-key='metric test_loss']") == "test loss"
        page.run(
            "(() => { const menu = document.querySelector('[aria-label=\"Horizontal axis\"]'); "
            "menu.value = 'seconds'; menu.dispatchEvent(new Event('change')); })()"
        )
        page.settle()
        assert page.run("sw.resultPlots.loss.content.x.name") == "time (s)"
        assert page.run("Math.max(...sw.resultPlots.loss.content.lines[0].points.map(p => p[0]))") <= 1.2
        page.click("#results tbody tr td button")
        page.wait("sw.resultMap.places && sw.resultMap.places.length === 4")
        assert page.run("sw.resultGantt.seconds") == 0.05


@pytest.mark.slow
def test_recommendations_are_shown(browser: Browser, tmp_path: Path) -> None:
    options = {"devices": 4, "compute_slots": 2, "deadline": 24, "group_size": 1, "network": "logistic"}
    options |= {"samples_per_device": 10, "batch_size": 4, "local_steps": 1}
    config = RunConfig.from_options(options)
    answer = recommend(config, group_sizes=(1, 2), seeds=1, out=tmp_path / "answer").as_dict()["answer"]
    with served(Explorer(tmp_path, tmp_path).app) as server, browser.page(server.address) as page:
        page.wait("document.querySelector('#results details.panel summary')")
        shown = page.text("#results details.panel summary")
        assert f"{answer['schedule']}, S = {answer['group_size']}" in shown
        assert len(page.run("sw.results.listing.recommendations[0].standings")) > 1
        assert page.run("sw.results.listing.runs.length") > 1  # the pilots


def test_curves_against_updates_and_joules() -> None:
    browser = ResultsBrowser(GRID)
    powers = Powers(computing=2, sending=1, receiving=0.5)
    name = "mnist-async-S50-T50000-seed1"
    (updates,) = browser.curves([name], "updates", "loss", None)["lines"]
    points = RunFolder(GRID / name).points()
    assert updates["places"] == [50 * point.round for point in points]
    (energy,) = browser.curves([name], "joules", "accuracy", powers)["lines"]
    assert energy["places"] == sorted(energy["places"])
    assert energy["mean"] == pytest.approx([100 * point.accuracy for point in points])


def test_damaged_and_foreign_folders(tmp_path: Path) -> None:
    shutil.copytree(GRID / "mnist-async-S50-T50000-seed1", tmp_path / "good")
    (tmp_path / "half").mkdir()
    (tmp_path / "half/run.json").write_text('{"format": 1')
    (tmp_path / "other").mkdir()
    (tmp_path / "other/recommendation.json").write_text("[]")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden/run.json").write_text("{}")
    listing = ResultsBrowser(tmp_path).listing()
    assert {run["run"]: run["status"] for run in listing["runs"]} == {"good": "finished", "half": "damaged"}
    assert len(listing["problems"]) == 2


def test_a_folder_cannot_start_code(tmp_path: Path) -> None:
    shutil.copytree(GRID / "mnist-async-S50-T50000-seed1", tmp_path / "run")
    path = tmp_path / "run/run.json"
    path.write_text(path.read_text().replace('"schedule": "async"', '"schedule": "os:abort"'))
    browser = ResultsBrowser(tmp_path)
    with pytest.raises(Exception, match="your own"):
        browser.timeline("run")


def test_a_changed_run_is_read_again(tmp_path: Path) -> None:
    shutil.copytree(GRID / "mnist-async-S50-T50000-seed1", tmp_path / "run")
    browser = ResultsBrowser(tmp_path)
    assert browser.listing()["runs"][0]["status"] == "finished"
    path = tmp_path / "run/run.json"
    path.write_text(path.read_text().replace('"finished"', '"interrupted"'))
    assert browser.listing()["runs"][0]["status"] == "interrupted"
