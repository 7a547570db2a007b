"""Curves of runs: as a figure, as a picture file, as one line of text, and for TensorBoard."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from slotwise.errors import InputError, UserError
from slotwise.files import check_writable, write_atomically
from slotwise.learning import Point
from slotwise.report.curves.panels import COLOURS, CurveFigure, Line, loss_and_accuracy
from slotwise.report.curves.plotting import draw_figure
from slotwise.runs import RunFolder

BARS = "▁▂▃▄▅▆▇█"
KINDS = ("png", "svg", "pdf")

Curves = Mapping[str, Sequence[Point]]


def draw_curves(curves: CurveFigure | Curves | Iterable[Path | str], out: Path | str) -> None:
    """Draw curves to a .png, .svg or .pdf file, atomically.

    Args:
        curves: run folders, or evaluations by label, or a figure that is composed already.
        out: the file to write.

    Raises:
        UserError: a folder holds no run, or the file cannot be written.
    """
    path = Path(out)
    kind = picture_kind(path)
    check_writable(path)
    if not isinstance(curves, CurveFigure):
        curves = curves_figure(curves if isinstance(curves, Mapping) else read_curves(curves))
    write_atomically(path, draw_figure(curves, kind))


def picture_kind(out: Path) -> str:
    """Return ``png``, ``svg`` or ``pdf``, the suffix of the file name.

    Raises:
        InputError: another suffix.
    """
    kind = out.suffix.lstrip(".").lower()
    if kind not in KINDS:
        raise InputError("out", out, "a file that ends in .png, .svg or .pdf")
    return kind


def read_curves(folders: Iterable[Path | str]) -> dict[str, list[Point]]:
    """Read the evaluations of run folders, by folder name, or by path where several have the same name."""
    runs = [RunFolder.open(Path(folder)) for folder in folders]
    names = [run.path.resolve().name for run in runs]
    curves = {}
    for run, name in zip(runs, names, strict=True):
        config = run.parameters()
        shown = name if names.count(name) == 1 else str(run.path)
        curves[f"{shown}: {config.policy.schedule} S={config.channel.group_size}"] = run.points()
    return curves


def curves_figure(curves: Curves) -> CurveFigure:
    """Return a figure of loss and accuracy against slots and of loss against rounds."""
    lines = tuple(
        Line(name, COLOURS[number % len(COLOURS)], number // len(COLOURS) % 2 == 1, (points,))
        for number, (name, points) in enumerate(curves.items())
    )
    return CurveFigure("curves", "", "", loss_and_accuracy(lines))


def sparkline(values: Sequence[float], width: int = 24) -> str:
    """Return a curve as one line of text, from its lowest to its highest value."""
    if not values:
        return ""
    step = max(1.0, len(values) / width)
    chosen = [values[min(len(values) - 1, int(i * step))] for i in range(min(width, len(values)))]
    low, high = min(chosen), max(chosen)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(BARS[round((value - low) * scale)] for value in chosen)


def write_tensorboard(folder: Path, points: Sequence[Point]) -> None:
    """Write loss, accuracy, staleness and round as TensorBoard scalars; the step is the slot."""
    try:
        from tensorboard.summary import Writer  # noqa: PLC0415
    except ModuleNotFoundError:
        raise UserError("TensorBoard is not installed: pip install 'slotwise[tensorboard]'") from None
    writer = Writer(str(folder))
    for point in points:
        for name in ("loss", "accuracy", "staleness", "round"):
            writer.add_scalar(name, float(getattr(point, name)), step=point.slot)
    writer.close()
