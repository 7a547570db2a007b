"""Sphinx configuration of the site. Pages are the Markdown files of this folder; some are generated."""

from __future__ import annotations

import sys
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))

project = "slotwise"
author = "the slotwise developers"
extensions = [
    "myst_parser",
    "sphinx_copybutton",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "option_pages",
    "api_pages",
    "link_titles",
]
exclude_patterns = ["_build", "results/*/runs", "results/**/*.html"]
suppress_warnings = ["myst.header", "ref.python"]  # the last: fields of the same name in two classes
nitpicky = False
smartquotes_action = "qe"  # no dashes: --group-size is a flag

myst_enable_extensions = ["colon_fence", "dollarmath", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"  # types of fields follow from their descriptions
maximum_signature_line_length = 90
toc_object_entries_show_parents = "hide"
napoleon_google_docstring = True
napoleon_use_ivar = True

copybutton_exclude = ".linenos, .gp, .go"  # neither the prompt nor what a command prints
copybutton_selector = ", ".join(f"div.highlight-{kind} pre" for kind in ("console", "python", "toml", "bash"))

html_static_path = ["_static"]
html_css_files = ["site.css"]
html_sidebars = {"index": []}
html_theme = "pydata_sphinx_theme"
html_title = "slotwise"
html_show_sourcelink = False
html_theme_options = {
    "show_prev_next": False,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": [], "gallery": []},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "footer_start": ["copyright"],
    "footer_end": [],
}


def setup(app: Sphinx) -> None:
    """Let pages name the language of tables, which Pygments does not know."""
    app.add_lexer("csv", TextLexer)
