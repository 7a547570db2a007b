"""Links between pages, their anchors and the files that pages name exist; links to other sites are listed."""

import re
from pathlib import Path

import pytest
from doc_pages import ROOT, blocks, name, pages

LISTED = ROOT / "docs/external-links.md"
_LINK = re.compile(r"(?<!\\)\]\(<?([^)>\s]+)>?(?:\s+\"[^\"]*\")?\)")
_REFERENCE = re.compile(r"^\s*\[[^\]^]+\]:\s+<?(\S+?)>?\s*$", re.MULTILINE)
_BARE = re.compile(r"(?<![\w(<`\"'])https?://[^\s)>`\"']+")
_NAMED = re.compile(r"`((?:\w+/)+[\w-]+\.(?:py|toml|csv|md))`")
_HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$", re.MULTILINE)
_LABEL = re.compile(r"^\(([\w-]+)\)=$|<a (?:id|name)=\"([^\"]+)\"|\{#([\w-]+)\}", re.MULTILINE)


def prose(page: Path) -> str:
    """Return the text of a page without its code blocks."""
    text = page.read_text(encoding="utf-8")
    for block in reversed(blocks(page)):
        text = text[: block.start] + text[block.end :]
    return text


def targets(page: Path) -> set[str]:
    """Return what a page links to, as it is written."""
    text = re.sub(r"`[^`\n]+`", "", prose(page))
    return {found.rstrip(".,;") for pattern in (_LINK, _REFERENCE, _BARE) for found in pattern.findall(text)}


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page: its headings as slugs, and explicit labels."""
    text, found = prose(page), set()
    for heading in _HEADING.findall(text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        found.add(next(s for s in (slug, *(f"{slug}-{n}" for n in range(1, 99))) if s not in found))
    return found | {label for groups in _LABEL.findall(text) for label in groups if label}


@pytest.mark.parametrize("page", pages(), ids=name)
def test_links_to_files_and_anchors_lead_somewhere(page: Path) -> None:
    for target in targets(page):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        generated = there.is_relative_to(ROOT / "docs/reference")
        assert generated or there.exists(), f"{name(page)}: {target}"
        if anchor and there.suffix == ".md" and not generated:
            assert anchor in anchors(there), f"{name(page)}: {target}"


@pytest.mark.parametrize("page", pages(), ids=name)
def test_files_that_a_page_names_exist(page: Path) -> None:
    places = (ROOT, ROOT / "src/slotwise", page.parent)
    named = set(_NAMED.findall(prose(page)))
    assert [path for path in named if not any((place / path).exists() for place in places)] == []


def external() -> set[str]:
    """Return all links to other sites; those of results and of the paper's references are data."""
    return {t for page in pages() if page != LISTED for t in targets(page) if re.match(r"https?:", t)}


def test_links_to_other_sites_are_listed_in_one_place() -> None:
    listed = set(_BARE.findall(LISTED.read_text(encoding="utf-8").replace("<", " ").replace(">", " ")))
    assert listed == external(), "update docs/external-links.md"


def test_a_heading_has_the_anchor_that_the_site_gives_it(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n## What `plan` prints: N, S\n\n## Twice\n\n## Twice\n", encoding="utf-8")
    assert anchors(page) == {"a-page", "what-plan-prints-n-s", "twice", "twice-1"}
