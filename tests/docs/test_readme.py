"""What the README claims is what the package has and what the results say."""

import re

from doc_pages import ROOT, blocks

from slotwise.aggregation.aggregation_config import RULES
from slotwise.data.facts import FACTS

README = (ROOT / "README.md").read_text(encoding="utf-8")
NUMBERS = {5: "five", 16: "sixteen"}


def test_the_readme_is_short() -> None:
    assert len(re.findall(r"[^\W_]+", re.sub(r"\([^)]*\)|<!--.*?-->", "", README, flags=re.DOTALL))) <= 700


def test_the_commands_of_the_makefile_are_named() -> None:
    commands = "".join(block.text for block in blocks(ROOT / "README.md"))
    assert "$ make " in commands
    assert "$ make test" in commands


def test_final_losses_are_those_of_the_published_results() -> None:
    results = (ROOT / "docs/results/README.md").read_text(encoding="utf-8")
    losses = re.findall(r"from (0\.\d+) to (0\.\d+)", README)
    assert losses == [("0.546", "0.015"), ("0.061", "0.038")]
    rows = {row.split("|")[1].strip(): row for row in results.splitlines() if row.startswith("|")}
    assert all(before in rows["async"] and after in rows["idfl"] for before, after in losses)


def test_numbers_of_rules_and_data_sets_are_right() -> None:
    comparison = (ROOT / "docs/comparison.md").read_text(encoding="utf-8")
    assert f"{NUMBERS[len(RULES)]} aggregation rules" in README
    assert f"{NUMBERS[len(FACTS)]} data sets, {NUMBERS[len(RULES)]} rules" in comparison


def test_speeds_are_those_of_the_page_about_speed() -> None:
    page = (ROOT / "docs/performance.md").read_text(encoding="utf-8")
    (row,) = [line for line in README.splitlines() if "SGD steps/s |" in line]
    cells = row.replace("; in PyTorch", "|").replace("–", " to ").split("|")[2:-1]
    measured = [cell.strip() for cell in cells]
    assert len(measured) == 7
    assert all(f"| {figures} |" in page for figures in measured)
    assert "benchmarks/peers.py" in README


def test_every_mark_has_a_source() -> None:
    comparison = (ROOT / "docs/comparison.md").read_text(encoding="utf-8")
    marks = [line.split("|")[1].strip() for line in README.splitlines() if re.search(r"\| [✓◐–] \|", line)]
    assert len(marks) >= 12
    sourced = [line.split("|")[1].strip() for line in comparison.splitlines() if line.startswith("| ")]
    assert [mark for mark in marks if not any(mark.startswith(row) for row in sourced)] == []


def test_every_peer_has_a_version() -> None:
    comparison = (ROOT / "docs/comparison.md").read_text(encoding="utf-8")
    page = (ROOT / "docs/performance.md").read_text(encoding="utf-8")
    versions = re.findall(r"\d+\.\d+\.\d+", comparison.split("|")[0])
    assert len(versions) == 4
    assert all(f"| {version} |" in page for version in versions)
