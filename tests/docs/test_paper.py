"""The paper draft has what the Journal of Open Source Software asks for."""

import re

import pytest
from doc_pages import ROOT

PAPER = (ROOT / "paper/paper.md").read_text(encoding="utf-8")
_, HEADER, BODY = PAPER.split("---\n", 2)
BIBLIOGRAPHY = (ROOT / "paper/paper.bib").read_text(encoding="utf-8")
SECTIONS = (
    *("Summary", "Statement of need", "State of the field", "Software design", "Quality control"),
    *("Research impact statement", "AI usage disclosure", "Acknowledgements", "References"),
)


def test_the_header_has_every_field() -> None:
    fields = pytest.importorskip("yaml").safe_load(HEADER)
    assert {"title", "tags", "authors", "affiliations", "date", "bibliography"} <= fields.keys()
    assert (ROOT / "paper" / fields["bibliography"]).exists()


def test_every_section_is_there_in_order() -> None:
    assert tuple(re.findall(r"^# (.*)$", BODY, re.MULTILINE)) == SECTIONS


def test_every_citation_is_in_the_bibliography_and_the_other_way_round() -> None:
    cited = set(re.findall(r"(?<![\w.])@(\w+)", BODY))
    assert cited == set(re.findall(r"^@\w+\{(\w+),", BIBLIOGRAPHY, re.MULTILINE))


def test_the_length_is_what_the_journal_asks_for() -> None:
    text = re.sub(r"^#.*$", "", BODY, flags=re.MULTILINE)
    assert 750 <= len(text.split()) <= 1750
