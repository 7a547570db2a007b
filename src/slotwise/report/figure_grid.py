"""Grid: panels with a legend, in a figure as large as matplotlib's settings or the options say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from string import ascii_lowercase
from textwrap import fill
from typing import Any

import numpy as np

from slotwise.base.extras import importing
from slotwise.report.figure_options import FigureOptions
from slotwise.report.figure_style import COLUMN, PAGE, SHEETS, StyledFigure

with importing():
    import matplotlib as mpl
    from matplotlib.axes import Axes
    from matplotlib.font_manager import FontProperties
    from matplotlib.legend import Legend
    from matplotlib.text import Text

POINTS = 72  # per inch
LETTERS = 18  # font sizes that a panel is wide at least, if panels stand side by side
MOST_COLUMNS = 3
SHAPE = 0.72  # height of a panel of a given width
LOWEST, HIGHEST = 1.5, 2.3  # inches: height of a panel in a figure of a given width
SHORTEST = 10  # letters of a line of a title or label
TITLE_SHARE = 0.82  # of the width of a panel with its labels


@dataclass(frozen=True)
class Grid:
    """A figure and the axes of its panels; ``free`` are those of empty cells."""

    figure: StyledFigure
    axes: list[Axes]
    free: list[Axes]
    columns: int
    of_paper: bool  # in a style for papers: panels have letters
    grows: bool  # by the height of its legend: nobody asked for a height

    @classmethod
    def of(cls, panels: int, options: FigureOptions, **sharing: Any) -> Grid:
        """Return empty panels in the settings of matplotlib, or in the size that the options ask for.

        The size of the settings is that of the whole figure; it grows with more than two rows of panels.
        """
        of_paper = options.style in SHEETS
        grows = of_paper or options.width is not None
        width, height = figure_width(options, wide=panels > 1), float(mpl.rcParams["figure.figsize"][1])
        columns = _columns(panels, width)
        rows = ceil(panels / columns)
        height *= max(1.0, rows / 2)
        if grows:
            height = rows * float(np.clip(SHAPE * width / columns, LOWEST, HIGHEST))
        figure = StyledFigure(figsize=(width, height), layout="constrained")
        cells = list(figure.subplots(rows, columns, squeeze=False, **sharing).flat)
        for axes in cells[panels:]:
            axes.set_axis_off()
        return cls(figure, cells[:panels], cells[panels:], columns, of_paper, grows)

    def set_title(self, number: int, title: str, pad: float | None = None) -> None:
        """Set the title of a panel, in as many lines as it needs."""
        letter = f"({ascii_lowercase[number % 26]}) " if self.of_paper and len(self.axes) > 1 else ""
        drawn = self.axes[number].set_title((letter + title).strip(), pad=pad)
        break_title(drawn, TITLE_SHARE * self.figure.bbox.width / self.columns)

    def add_legend(self, handles: Sequence[Any], title: str = "") -> None:
        """Add a legend in a free cell if it fits there, or below with as many columns as fit.

        A figure of a height that was asked for grows by what a legend is higher than a fifth of it.
        """
        for axes in self.free:
            legend = axes.legend(handles=handles, title=title or None, loc="center")
            box, cell = legend.get_window_extent(), axes.get_window_extent()
            if box.width <= cell.width and box.height <= cell.height:
                return
            axes.remove()
        width, height = self.figure.get_size_inches()
        legend = self._fitting_legend(handles, title)
        more = legend.get_window_extent().height / self.figure.dpi - (0 if self.grows else height / 5)
        self.figure.set_size_inches(width, height + max(0, more))

    def _fitting_legend(self, handles: Sequence[Any], title: str) -> Legend:
        """Return a legend below the panels; labels are broken where one column of them is too wide."""
        for columns in range(len(handles), 0, -1):
            legend = self._legend_below(handles, columns, title)
            if legend.get_window_extent().width <= self.figure.bbox.width:
                return legend
            legend.remove()
        letters = max(len(handle.get_label()) for handle in handles)
        while letters > SHORTEST:
            letters = letters * 9 // 10
            for handle in handles:
                handle.set_label(fill(" ".join(handle.get_label().split()), letters))
            legend = self._legend_below(handles, 1, title)
            if legend.get_window_extent().width <= self.figure.bbox.width:
                return legend
            legend.remove()
        return self._legend_below(handles, 1, title)

    def _legend_below(self, handles: Sequence[Any], columns: int, title: str) -> Legend:
        close: dict[str, Any] = {"frameon": False, "borderpad": 0.0, "borderaxespad": 0.3}
        close |= {"title": title or None}
        return self.figure.legend(**along_rows(handles, columns), loc="outside lower center", **close)


def along_rows(handles: Sequence[Any], columns: int) -> dict[str, Any]:
    """Return handles and columns of a legend that is read along its rows, which are of about the same length.

    matplotlib fills the columns from top to bottom, so the handles of a column are put together.
    """
    columns = ceil(len(handles) / ceil(len(handles) / columns)) if handles else 1
    return {"handles": [one for first in range(columns) for one in handles[first::columns]], "ncols": columns}


def figure_width(options: FigureOptions, *, wide: bool) -> float:
    """Return the inches asked for, or those of the style, where a wide figure has two columns of text."""
    if options.width is None and options.style in SHEETS:
        return PAGE if wide else COLUMN
    return options.width or float(mpl.rcParams["figure.figsize"][0])


def break_title(title: Text, room: float) -> None:
    """Break a title into as many lines as it needs to be at most ``room`` dots wide."""
    text, letters = title.get_text(), len(title.get_text())
    while title.get_window_extent().width > room and letters > SHORTEST:
        letters -= 1
        title.set_text(fill(text, letters, break_on_hyphens=False))


def small_size() -> float:
    """Return the size of small text, in points."""
    return float(FontProperties(size=mpl.rcParams["xtick.labelsize"]).get_size_in_points())


def fitting_labels(axes: Axes, letters: float) -> int:
    """Return how many labels of so many font sizes, with the gaps between them, have room below a panel."""
    dots = letters * small_size() * axes.figure.dpi / POINTS
    return max(2, int(axes.get_window_extent().width / dots))


def _columns(panels: int, width: float) -> int:
    """Return how many panels stand side by side: as many as have room, in rows of about the same length."""
    fitting = int(width * POINTS / (LETTERS * mpl.rcParams["font.size"]))
    rows = ceil(panels / max(1, min(panels, fitting, MOST_COLUMNS)))
    return ceil(panels / rows)
