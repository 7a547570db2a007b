"""What the README claims is what the package has and what the results say."""

import re
from math import isinf
from statistics import fmean

from doc_pages import ROOT, blocks

from slotwise.aggregation import RULES
from slotwise.data.facts import FACTS
from slotwise.paper.evidence import Evidence, Results
from slotwise.runs import RunConfig

README = (ROOT / "README.md").read_text(encoding="utf-8")
NUMBERS = {7: "seven", 23: "twenty-three"}


def test_the_readme_is_short() -> None:
    assert len(re.findall(r"[^\W_]+", re.sub(r"\([^)]*\)|<!--.*?-->", "", README, flags=re.DOTALL))) <= 750


def test_the_commands_of_the_makefile_are_named() -> None:
    commands = "".join(block.text for block in blocks(ROOT / "README.md"))
    assert re.findall(r"^\$ (make(?: \w+)?)", commands, re.MULTILINE) == [
        *("make", "make test", "make docs", "make dist")
    ]


def test_final_losses_are_those_of_the_published_results() -> None:
    """Of the runs in docs/results/paper, three seeds."""
    results = Results(ROOT / "docs/results/paper/runs")
    evidence = Evidence(RunConfig(), (1, 5, 10), (), range(3), results)
    assert len(evidence.final("idfl", 5)) == 3
    alone, *collapsed = sorted(evidence.final("async", 5))
    five, before, after = (fmean(evidence.final(*run)) for run in (("idfl", 5), ("async", 10), ("idfl", 10)))
    assert all(map(isinf, collapsed))
    assert all(map(isinf, (*evidence.final("async", 1), *evidence.final("idfl", 1))))
    sync = [f"{fmean(evidence.final('sync', size)):.3f}" for size in (5, 10)]
    assert (
        f"| S=5 | {sync[0]} | {alone:.3f} with one seed; the other two collapse | **{five:.3f}** |" in README
    )
    assert f"| S=10 | {sync[1]} | {before:.3f} | **{after:.3f}** |" in README


def test_numbers_of_rules_and_data_sets_are_right() -> None:
    comparison = (ROOT / "docs/comparison.md").read_text(encoding="utf-8")
    assert f"{NUMBERS[len(RULES)]} aggregation rules" in README
    assert f"{NUMBERS[len(FACTS)]} data sets, {NUMBERS[len(RULES)]} rules" in comparison


def test_speeds_are_those_of_the_page_about_speed() -> None:
    page = (ROOT / "docs/performance.md").read_text(encoding="utf-8")
    (row,) = [line for line in README.splitlines() if "SGD steps/s |" in line]
    cells = row.replace("; in PyTorch", "|").replace("–", " to ").split("|")[2:-1]
    measured = [cell.strip() for cell in cells if cell.strip()]
    assert len(measured) == 7
    assert all(f"| {figures} |" in page for figures in measured)
    assert "benchmarks/peers.py" in README


def marks() -> dict[str, dict[str, str]]:
    """The marks of the README's table: row, column and mark."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in README.splitlines() if "|" in line]
    ((_, *names),) = [row for row in rows if row[-1] == "own loop"]
    return {row[0]: dict(zip(names, row[1:], strict=True)) for row in rows if row[-1] in {*"✓◐–"}}


def sourced_marks() -> dict[str, dict[str, str]]:
    """The marks of docs/comparison.md, where an item begins with one or several columns and their marks."""
    _, *sections = re.split(r"^### ", (ROOT / "docs/comparison.md").read_text(encoding="utf-8"), flags=re.M)
    return {
        section.partition("\n")[0]: {
            name: mark
            for item in re.findall(r"^- (.*?): ", section, re.MULTILINE)
            for name, mark in re.findall(r"(ns3-fl, FedDES|\w[\w -]*) ([✓◐–])", item)
        }
        for section in sections
    }


def test_every_mark_is_the_one_of_its_source() -> None:
    assert len(marks()) >= 12
    assert marks() == sourced_marks()


def test_every_peer_has_a_version() -> None:
    comparison = (ROOT / "docs/comparison.md").read_text(encoding="utf-8")
    page = (ROOT / "docs/performance.md").read_text(encoding="utf-8")
    versions = re.findall(r"\d+\.\d+\.\d+", comparison)
    assert len(versions) == 4
    assert all(f"| {version} |" in page for version in versions)
