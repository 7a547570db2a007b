"""FigureOptions: what a figure of curves shows and how, chosen in Python or on the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan
from typing import Annotated, Literal

from slotwise.base.errors import ConflictError, InputError, MissingError, NoEffectError
from slotwise.options import Range
from slotwise.options.checks import Value
from slotwise.report.curves import ACROSS_NAMES, Across, CurveFigure, Line, Spread
from slotwise.report.number_text import counted

X = Literal["slots", "seconds", "rounds", "updates", "joules"]
ALL, FINAL = "all", "final"
PLACES: dict[str, Across] = {name: across for across, name in ACROSS_NAMES.items()}
UNKNOWN = {
    "updates": "another axis: updates are not known of a history without its timeline",
    "joules": "another axis, unless powers are given (to a batch when it is run)",
}
Labels = Mapping[str, str] | Sequence[str]


@dataclass(frozen=True, kw_only=True)
class FigureOptions(Value):
    """Content and style of a figure of curves.

    Attributes:
        panel: all, or one panel alone: loss, accuracy or another metric; of a batch also final, the final
            values against its numeric axis.
        x: Horizontal axis of the curves: slots, seconds, rounds, updates or joules.
        band: Spread over the seeds: min-max (the default), std, or 95% (confidence interval of the mean).
        labels: Texts of the legend in its order, separated by commas on the command line.
        style: ieee, or the name or file of a matplotlib style. Default: your matplotlib settings.
        width: Inches. Default: that of the style; of ieee 3.5 for one panel, 7.16 for several.
    """

    panel: str = ALL
    x: X | None = None
    band: Spread | None = None
    labels: tuple[str, ...] = ()
    style: str | None = None
    width: Annotated[float, Range(above=0, most=100)] | None = None

    @property
    def spread(self) -> Spread:
        """The spread that bands show."""
        return self.band or "min-max"

    @property
    def across(self) -> Across:
        """The horizontal axis of curves; slots unless another is chosen."""
        return PLACES[self.x or "slots"]

    def refuse_own_figure(self) -> None:
        """Raise a ConflictError if style or size are chosen for axes in a figure of the user's own."""
        for name in ("style", "width"):
            if getattr(self, name) is not None:
                raise ConflictError(name, "ax", "the figure is yours; see matplotlib.style.context")

    def applied(self, figure: CurveFigure) -> CurveFigure:
        """Return the figure with its labels, after refusing what it cannot show.

        Raises:
            UserError: there are no bands though one is chosen, labels for other curves, or places that are
                not known.
        """
        if self.band is not None and all(len(line.seeds) < 2 for line in figure.lines):
            raise NoEffectError("band", self.band, "if no curve has several seeds")
        for panel in figure.panels:
            refuse_unknown_places(panel.lines, panel.across)
        return relabelled(figure, self.labels) if self.labels else figure


USUAL = FigureOptions()


def refuse_unknown_places(lines: Sequence[Line], across: Across) -> None:
    """Raise a UserError if curves have no places on an axis, such as seconds without the length of a slot."""
    places = [place for line in lines for row in line.places(across) for place in row.tolist()]
    if not any(map(isnan, places)):
        return
    if across == "seconds":
        raise MissingError("slot_seconds", "given for seconds: the runs do not say how long a slot is")
    name = ACROSS_NAMES[across]
    raise InputError("x", name, UNKNOWN[name])


def relabelled(figure: CurveFigure, labels: Labels) -> CurveFigure:
    """Return a figure with other texts in its legend: one for each curve, in order, or by the old text."""
    old = [line.label for line in figure.lines]
    if isinstance(labels, Mapping):
        unknown = next((label for label in labels if label not in old), None)
        if unknown is not None:
            raise InputError("labels", unknown, f"a label of the figure: {', '.join(old)}")
        new = dict(labels)
    elif len(labels) != len(old) or isinstance(labels, str):
        given = labels if isinstance(labels, str) else ", ".join(map(str, labels))
        raise InputError("labels", given, f"{counted(len(old), 'text')}, one for each of {'; '.join(old)}")
    else:
        new = dict(zip(old, labels, strict=True))
    panels = (
        replace(
            panel, lines=tuple(replace(line, label=new.get(line.label, line.label)) for line in panel.lines)
        )
        for panel in figure.panels
    )
    return replace(figure, panels=tuple(panels))
