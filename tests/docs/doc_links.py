"""Links of the documentation. `python tests/docs/doc_links.py` lists those to other sites again."""

import re
from pathlib import Path

from doc_pages import ROOT, blocks, pages

LISTED = ROOT / "docs/external-links.txt"
_LINK = re.compile(r"(?<!\\)\]\(<?([^)>\s]+)>?(?:\s+\"[^\"]*\")?\)")
_REFERENCE = re.compile(r"^\s*\[[^\]^]+\]:\s+<?(\S+?)>?\s*$", re.MULTILINE)
_BARE = re.compile(r"(?<![\w(<`\"'])https?://[^\s)>`\"']+")
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
    text = prose(page)
    found: set[str] = set()
    for heading in _HEADING.findall(text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        found.add(next(s for s in (slug, *(f"{slug}-{n}" for n in range(1, 99))) if s not in found))
    return found | {label for groups in _LABEL.findall(text) for label in groups if label}


def external() -> list[str]:
    """Return all links to other sites, sorted; addresses of this machine are none."""
    found = {target for page in pages() for target in targets(page) if re.match(r"https?:", target)}
    return sorted(target for target in found if "//127.0.0.1" not in target and "//localhost" not in target)


if __name__ == "__main__":
    LISTED.write_text("\n".join(external()) + "\n", encoding="utf-8")
