"""The page of the tuned study, on curves with known losses."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from slotwise.learning import Point
from slotwise.paper import tuned, tuned_page
from slotwise.paper.histories import Histories
from slotwise.paper.tuned import Trial, needed
from slotwise.paper.tuned_cases import METHODS, PARTS
from slotwise.paper.tuned_page import page_text, publish, write_page
from slotwise.paper.tuned_results import TunedMethod, tuned_methods

METHODS_OF_TEN = tuple(
    method for method in METHODS if method.name in ("sync S=10", "idfl S=10", "async S=10")
)
BEST = {"sync": 8, "idfl": 5, "async": 4}
LOWEST = {"sync": 0.3, "idfl": 0.1, "async": 0.2}


@dataclass
class Saved:
    """A run that ended with a loss."""

    loss: float
    deadline: int
    status: str = "finished"

    @property
    def points(self) -> tuple[Point, ...]:
        accuracies = {0: 0.1, self.deadline // 2: 0.92, self.deadline: 0.96}
        return tuple(Point(slot, slot, self.loss, accuracy, 0) for slot, accuracy in accuracies.items())


def saved(trial: Trial) -> Saved:
    family = trial.method.family
    away = abs(trial.power - BEST[family])
    return Saved(LOWEST[family] * (1 + away) + 0.01 * trial.seed, trial.deadline)


def trained(folder: Path, stages: int) -> tuple[TunedMethod, ...]:
    """Three methods after so many stages of their study."""
    histories = Histories(folder)
    for _ in range(stages):
        for trial in needed(METHODS_OF_TEN, histories.loss):
            histories.add(trial, saved(trial))  # type: ignore[arg-type]
    return tuned_methods(histories, METHODS_OF_TEN)


def rows(text: str, heading: str) -> list[list[str]]:
    """The cells of the first table under a heading."""
    lines = text.split(f"## {heading}\n", 1)[1].splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("|"))
    table = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        table.append([cell.strip() for cell in line.split("|")[1:-1]])
    return table


def test_a_study_that_has_not_begun_says_so(tmp_path: Path) -> None:
    text = page_text(tuned_methods(Histories(tmp_path)), {})
    assert "Of 24 methods, the pilots of 0 are finished and 0 are judged. At least 144 runs" in text
    assert "Nothing is known yet" in text


def test_pilots_are_shown_before_anything_is_judged(tmp_path: Path) -> None:
    text = page_text(trained(tmp_path, 1), {})
    assert "Of 3 methods, the pilots of 3 are finished and 0 are judged. At least 18 runs" in text
    assert "at S=10 no schedule leads clearly.**" in text  # by 1.5, which is less than seeds differ
    assert "S=10: pilots, one seed and 10,000 of 50,000 slots" in text
    assert "With the best S too, in pilots: idfl 0.2 (S=10), async 0.3 (S=10), sync 0.4 (S=10)." in text
    assert "that of sync goes from 4.7 to 2 at S=10" in text
    assert [row[4:6] for row in rows(text, "Pilots")[2:]] == [
        ["0.128", "0.4"],
        ["0.016", "0.2"],
        ["0.008", "0.3"],
    ]
    assert "Nothing is judged yet" in text


def test_judged_runs_have_means_ranges_and_times(tmp_path: Path) -> None:
    text = page_text(trained(tmp_path, 3), {})
    assert "Complete: all 3 methods are judged." in text
    assert "**With the best step of each schedule, at S=10 idfl ends lowest.**" in text
    assert "Judged at full length, S=10: idfl ends lowest with every seed" in text
    assert "Losses: sync 0.31 (0.3 to 0.32), idfl 0.11 (0.1 to 0.12), async 0.21 (0.2 to 0.22)." in text
    sync, idfl, _ = rows(text, "Judged runs")[2:]
    assert idfl[3:5] == ["0.016", "0.11 (0.1 to 0.12)"]
    assert sync[5:] == ["96.0% (96.0 to 96.0)", "25,000", "50,000", "–"]


def test_the_factors_of_the_best_steps_are_those_of_the_formulas(tmp_path: Path) -> None:
    text = page_text(trained(tmp_path, 1), {})
    shown = {row[1]: row for row in rows(text, "Best step against staleness")[2:]}
    assert shown["idfl"][4:6] == ["0.112", "0.08"]  # 0.016 / sin(π/22) and 0.016·5
    assert shown["async"][4:6] == ["0.0969", "0.072"]  # 0.008 / sin(π/38) and 0.008·9
    assert "within a factor of 1.16; times d: 1.11 (2 methods with d > 0" in text


@pytest.mark.parametrize("stages", [0, 1, 3])
def test_the_page_links_the_figures_that_were_drawn(tmp_path: Path, stages: int) -> None:
    trained(tmp_path / "histories", stages)
    page = write_page(tmp_path, Histories(tmp_path / "histories"))
    pilots = {"steps", "staleness", "map"}
    names = {0: set(), 1: pilots, 3: pilots | {"judged"}}[stages]
    assert {path.stem for path in (tmp_path / "figures").iterdir()} == names
    text = page.read_text(encoding="utf-8")
    assert all(f"(figures/{name}.png)" in text for name in names)


def test_curves_of_a_folder_are_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "package"
    monkeypatch.setattr(tuned_page, "TRAINED", package)
    trained(package, 1)
    later = trained(tmp_path / "out/histories", 3)
    publish(tmp_path, tmp_path / "out")
    for one in later:
        assert Histories(package).of(one.method.name) == one.histories.of(one.method.name)
    for name in ("docs/tuned.md", "paper/tuned.md"):
        assert "Judged at full length, S=10: idfl ends" in (tmp_path / name).read_text(encoding="utf-8")
    assert (tmp_path / "paper/figures/tuned-map.pdf").is_file()


def test_curves_that_were_trained_before_are_read_and_not_written(tmp_path: Path) -> None:
    trained(tmp_path / "earlier", 1)
    histories = Histories(tmp_path / "new", tmp_path / "earlier")
    missing = needed(METHODS_OF_TEN, histories.loss)
    assert {trial.deadline for trial in missing} == {tuned.DEADLINE}
    histories.add(missing[0], saved(missing[0]))  # type: ignore[arg-type]
    assert len(list((tmp_path / "new").iterdir())) == 1
    assert missing[0] not in needed(METHODS_OF_TEN, Histories(tmp_path / "new", tmp_path / "earlier").loss)


def test_judged_sync_is_set_beside_idfl_with_the_step_of_the_paper(tmp_path: Path) -> None:
    histories = Histories(tmp_path)
    for _ in range(3):
        for trial in needed(METHODS_OF_TEN[:1], histories.loss):
            histories.add(trial, saved(trial))  # type: ignore[arg-type]
    trained(tmp_path, 1)
    text = page_text(tuned_methods(Histories(tmp_path), METHODS_OF_TEN), {})
    assert "S=10, tuning synchronous FL does not close the gap to intentional delay:**" in text
    assert "sync with its best step ends at 0.31 (0.3 to 0.32), judged on three seeds." in text
    assert "it ends at 0.0363 (0.0279 to 0.0434) with the same seeds." in text
    assert rows(text, "When waiting beats sending")[2][-1] == "pilots"


def test_waiting_is_compared_with_sending_at_each_group_size(tmp_path: Path) -> None:
    shown = rows(page_text(trained(tmp_path, 1), {}), "When waiting beats sending")
    assert shown[2] == ["10", "16.3", "0.4 (2.00)", "**0.2 (1.00)**", "0.3 (1.50)", "pilots"]
    judged = rows(page_text(trained(tmp_path, 3), {}), "When waiting beats sending")
    assert judged[2] == ["10", "81.9", "0.31 (2.82)", "**0.11 (1.00)**", "0.21 (1.91)", "judged"]


def test_further_parts_have_sections_once_they_are_trained(tmp_path: Path) -> None:
    method = next(one for one in PARTS["iid"] if (one.family, one.group_size) == ("idfl", 10))
    histories = Histories(tmp_path)
    for trial in needed((method,), histories.loss):
        histories.add(trial, saved(trial))  # type: ignore[arg-type]
    text = write_page(tmp_path / "page", histories).read_text(encoding="utf-8")
    assert rows(text, "Further case: iid")[2][:2] == [str(method.group_size), "idfl"]
    assert "Further case: remedies" not in text
