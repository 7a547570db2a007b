"""Styles and files of figures: matplotlib's own settings, or a style by name; fonts are always embedded.

Figures are created without pyplot, whose global list of figures would keep them alive.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from slotwise.base.errors import InputError
from slotwise.base.extras import importing

with importing():
    import matplotlib as mpl
    from matplotlib import style as mpl_style
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMN, PAGE = 3.5, 7.16  # inches: widths of a figure in one and in two columns of an IEEE journal
DOTS_PER_INCH = 300  # of files, unless the settings say more about them
SHEETS = {"ieee": "slotwise.report.ieee"}
# TrueType fonts, which publishers ask for, and the same bytes for the same figure.
FILE_SETTINGS: dict[Any, Any] = {"pdf.fonttype": 42, "ps.fonttype": 42, "svg.hashsalt": "slotwise"}
# Ticks are made when a figure is drawn, so these settings are kept until then.
KEPT = ("font.", "mathtext.", "text.", "xtick.", "ytick.", "axes.", "grid.")


class StyledFigure(Figure):
    """A figure that is drawn and saved with the settings it was made with, and with embedded fonts."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.settings: dict[Any, Any] = {
            name: mpl.rcParams[name] for name in mpl.rcParams if name.startswith(KEPT)
        }

    def draw(self, renderer: Any) -> None:
        """Draw the figure with its own settings."""
        with mpl.rc_context(self.settings):
            super().draw(renderer)

    def savefig(self, fname: Any, **options: Any) -> None:
        """Write the figure to a file; text in a PDF stays text, in TrueType fonts."""
        with mpl.rc_context(self.settings | FILE_SETTINGS):
            super().savefig(fname, **options)


@contextmanager
def using_style(style: str | None) -> Iterator[None]:
    """Use matplotlib's settings as they are, or those of a style while figures are made.

    Args:
        style: ``ieee``, the name of another matplotlib style, or a file.

    Raises:
        InputError: there is no such style.
    """
    with ExitStack() as stack:
        if style is not None:
            try:
                stack.enter_context(mpl_style.context(SHEETS.get(style, style)))
            except OSError:
                raise InputError(
                    "style", style, f"{', '.join(SHEETS)}, or a matplotlib style or file"
                ) from None
        yield


def figure_of_axes(axes: Axes) -> Figure:
    """Return the figure that axes are in, also if they are in a part of it."""
    figure: Figure = axes.figure.figure
    return figure


def figure_file(figure: Figure, kind: str, dpi: float | None = None) -> bytes:
    """Return the content of a png, svg or pdf file, without dates so that equal figures give equal bytes."""
    buffer = io.BytesIO()
    undated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(kind, {})
    stated = mpl.rcParams["savefig.dpi"]
    usual = DOTS_PER_INCH if stated == "figure" else float(stated)
    with mpl.rc_context({"svg.fonttype": "none"}):  # text of a picture stays text, as in a PDF
        figure.savefig(buffer, format=kind, dpi=usual if dpi is None else dpi, metadata=undated)
    return buffer.getvalue()
