"""Pages of the documentation, and the code blocks in them.

A block is checked by its language, as test_blocks.py says; recipes are followed by test_recipes.py. A comment
on the line before a block says what differs:

    <!-- output -->                 what a program printed, or a drawing; the language `text` says the same
    <!-- parsed only: REASON -->    commands and Python are parsed, and imports made, but nothing is run
    <!-- not run: REASON -->        not checked at all: needs other programs, machines or rights
    <!-- run -->                    commands that are only parsed by default (trainings) are run
    <!-- file: NAME -->             a file of a recipe; so is a block that begins with # NAME
"""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
MARKS = ("output", "parsed only", "not run", "run", "file")
NEEDS_REASON = ("parsed only", "not run", "file")

_FILE = re.compile(r"# ([\w/-]+\.(?:py|toml))\n")
_BLOCK = re.compile(
    r"(?:^[ ]*<!--\s*(?P<mark>[^>]*?)\s*-->[ ]*\n\s*?)?"
    r"^(?P<indent>[ ]*)(?P<fence>`{3,}|~{3,})(?P<language>[^\n`]*)\n"
    r"(?P<text>.*?)^(?P=indent)(?P=fence)[ ]*$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """One code block of a page."""

    page: Path
    line: int
    language: str
    mark: str
    reason: str
    text: str
    start: int
    end: int

    @property
    def file(self) -> str:
        """Name of the file that the block is; empty if it is none."""
        first = _FILE.match(self.text)
        return self.reason if self.mark == "file" else first[1] if first else ""

    @property
    def place(self) -> str:
        """Page and line, as in docs/radio.md:6."""
        return f"{name(self.page)}:{self.line}"


def pages() -> list[Path]:
    """Return the Markdown pages a reader sees; generated ones are made from code and left out."""
    roots = sorted(ROOT.glob("*.md"))
    below = [
        path for name in ("docs", "examples", "benchmarks", "paper") for path in (ROOT / name).rglob("*.md")
    ]
    generated = (ROOT / "docs/_build", ROOT / "docs/reference")
    return roots + sorted(p for p in below if not any(p.is_relative_to(folder) for folder in generated))


def followed() -> list[Path]:
    """Return the pages that test_recipes.py follows from the first block to the last in an empty folder."""
    recipes = sorted((ROOT / "docs/cookbook").glob("*.md"))
    return [*(page for page in recipes if page.name != "index.md"), ROOT / "docs/your-channel.md"]


def blocks(page: Path) -> list[Block]:
    """Return the code blocks of a page; directives of the site, such as a table of contents, are none."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _BLOCK.finditer(text):
        mark, _, reason = (match["mark"] or "").partition(":")
        line = text.count("\n", 0, match.start("fence")) + 1
        indent = len(match["indent"])
        code = "".join(row[indent:] or "\n" for row in match["text"].splitlines(keepends=True))
        language = match["language"].strip()
        if not language.startswith("{"):
            found.append(
                Block(page, line, language, mark.strip(), reason.strip(), code, match.start(), match.end())
            )
    return found


def follows(block: Block, earlier: Block) -> bool:
    """Return True if nothing but white space and a comment is between two blocks of a page."""
    between = block.page.read_text(encoding="utf-8")[earlier.end : block.start]
    return not re.sub(r"<!--.*?-->", "", between).strip()


def name(page: Path) -> str:
    """Return the page's path as the id of a test."""
    return str(page.relative_to(ROOT))
