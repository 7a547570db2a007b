"""Page and note of the tuned study are what the curves in the package say."""

import re

from doc_pages import ROOT

from slotwise.paper import tuned_note
from slotwise.paper.histories import Histories
from slotwise.paper.tuned import DEADLINE, JUDGING_SEEDS, PILOT_DEADLINE, TUNING_SEED
from slotwise.paper.tuned_cases import PARTS
from slotwise.paper.tuned_page import FIGURES, docs_text
from slotwise.paper.tuned_published import at_paper_step
from slotwise.paper.tuned_results import tuned_methods
from slotwise.paper.tuned_runs import TRAINED

DOCS = ROOT / "docs"
WORDS_OF_FOUR_PAGES = 2_400  # in two columns, with two figures of a column's width


def test_every_number_of_the_page_is_computed_from_the_curves() -> None:
    drawn = sorted(path.stem for path in (DOCS / FIGURES).glob("*.png"))
    text = docs_text(Histories(TRAINED), drawn)
    assert (DOCS / "tuned.md").read_text(encoding="utf-8") == text


def test_every_number_of_the_note_is_computed_from_the_curves() -> None:
    folder = ROOT / tuned_note.FOLDER
    drawn = sorted(path.stem for path in (folder / tuned_note.FIGURES).glob("*.pdf"))
    text = tuned_note.note_text(tuned_methods(Histories(TRAINED)), drawn)
    assert (folder / tuned_note.NAME).read_text(encoding="utf-8") == text


def test_the_note_cites_what_is_in_the_bibliography_and_has_four_pages() -> None:
    text = (ROOT / tuned_note.FOLDER / tuned_note.NAME).read_text(encoding="utf-8")
    bibliography = (ROOT / "paper/paper.bib").read_text(encoding="utf-8")
    assert set(re.findall(r"(?<![\w.])@(\w+)", text)) <= set(re.findall(r"^@\w+\{(\w+),", bibliography, re.M))
    assert len(text.split()) <= WORDS_OF_FOUR_PAGES


def test_what_other_pages_say_of_the_study_holds() -> None:
    methods = {one.method.name: one for one in tuned_methods(Histories(TRAINED))}
    results = (DOCS / "results/README.md").read_text(encoding="utf-8")
    pilot = methods["idfl S=1"].best_pilot.final_accuracy
    assert f"({100 * pilot:.1f} % after 10,000 slots, one seed;" in results
    losses = {
        (name, size): [curve.final_loss for curve in methods[f"{name} S={size}"].judged]
        for name, size in (("sync", 5), ("idfl", 5), ("sync", 10), ("idfl", 10))
    }
    untuned = at_paper_step("idfl", 5, DEADLINE)
    assert untuned is not None
    assert min(losses["sync", 5]) > max(*losses["idfl", 5], *untuned.losses)  # above it with every seed
    higher = [sync > idfl for sync, idfl in zip(losses["sync", 10], losses["idfl", 10], strict=True)]
    assert len(set(higher)) == 2  # the seeds disagree


def test_curves_are_of_tuning_and_judging_seeds_and_small() -> None:
    files = sorted(TRAINED.iterdir())
    histories = Histories(TRAINED)
    methods = [method.name for own in PARTS.values() for method in own]
    known = [key for method in methods for key in histories.of(method)]
    assert sum(bool(histories.of(method)) for method in methods) == len(files)
    for _, seed, deadline in known:
        assert (seed, deadline) in {
            (TUNING_SEED, PILOT_DEADLINE),
            *((s, DEADLINE) for s in (TUNING_SEED, *JUDGING_SEEDS)),
        }
    assert max(path.stat().st_size for path in files) <= 300_000
    assert sum(path.stat().st_size for path in files) <= 12_000_000
