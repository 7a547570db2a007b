"""Displayable: the base class of results that can become a pandas table, a plot or HTML in a notebook."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from slotwise.base.extras import importing

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame


class Displayable:
    """A result with tables and plots; a class opts in by inheriting from it."""

    __slots__ = ()

    def to_pandas(self) -> DataFrame:
        """Return the result as a tidy table, or raise a UserError if pandas is not installed."""
        return _display().to_pandas(self)

    def plot(self, *, ax: Any = None, **options: Any) -> Figure:
        """Return a matplotlib figure that belongs to the caller alone; pyplot does not know it.

        Args:
            ax: Your own axes to draw into, one for each panel.
            options: panel, x, band, labels, style (``"ieee"``) and width, where they apply.
        """
        figure: Figure = _display().plot(self, ax=ax, **options)
        return figure

    def _repr_html_(self) -> str:
        html: str = _display().to_html(self)
        return html


def _display() -> Any:
    """Load the functions that know how results are shown.

    This is the one place where a lower layer calls a higher one, and so the module is loaded by name:
    timelines, plans and histories should not depend on tables and plotting, yet their methods should exist
    without importing anything else first.
    """
    with importing():
        return import_module("slotwise.report.notebook_display")
