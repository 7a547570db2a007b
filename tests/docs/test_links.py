"""Links between pages, their anchors and the files that pages name exist; links to other sites are listed."""

import re
from pathlib import Path

import pytest
from doc_links import LISTED, anchors, external, prose, targets
from doc_pages import ROOT, name, pages

_NAMED = re.compile(r"`((?:[a-z_]+/)+[\w-]+\.(?:py|toml|csv|md))`")


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
    foreign = ("flgo/", "appfl/", "vsim/", "plato/", "runs/")
    named = {path for path in _NAMED.findall(prose(page)) if not path.startswith(foreign)}
    assert [path for path in named if not any((place / path).exists() for place in places)] == []


def test_links_to_other_sites_are_listed_in_one_place() -> None:
    listed = LISTED.read_text(encoding="utf-8").splitlines()
    assert listed == external(), "run: python tests/docs/doc_links.py"


def test_a_heading_has_the_anchor_that_the_site_gives_it(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n## What `plan` prints: N, S\n\n## Twice\n\n## Twice\n", encoding="utf-8")
    assert anchors(page) == {"a-page", "what-plan-prints-n-s", "twice", "twice-1"}
