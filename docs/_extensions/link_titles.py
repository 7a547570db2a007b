"""Sphinx extension: links that show the name of a page's file show its title instead.

In a repository browser, `[radio.md](radio.md)` says where it leads; on the site a file name says nothing.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from docutils import nodes
from sphinx.application import Sphinx

FILE_NAME = re.compile(r"(?:[\w-]+/)*([\w-]+)\.md")


def setup(app: Sphinx) -> dict[str, bool]:
    """Rename links when all titles are known."""
    app.connect("doctree-resolved", rename_links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def rename_links(app: Sphinx, doctree: nodes.document, name: str) -> None:
    """Replace the text of links that are file names."""
    folder = PurePosixPath(name).parent
    for link in doctree.findall(nodes.reference):
        text = link.astext()
        target = link.get("refuri", "").partition("#")[0].removesuffix(".html")
        if not FILE_NAME.fullmatch(text) or "://" in target:
            continue
        page = _normalised(folder / target) if target else name
        if page in app.env.titles:
            link.children = [nodes.Text(app.env.titles[page].astext())]


def _normalised(path: PurePosixPath) -> str:
    parts: list[str] = []
    for part in path.parts:
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)
