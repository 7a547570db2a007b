"""A run's curve for TensorBoard. Needs the extra ``slotwise[tensorboard]``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from slotwise.errors import UserError
from slotwise.learning import Point


def write_tensorboard(folder: Path, points: Sequence[Point]) -> None:
    """Write loss, accuracy, staleness and rounds as scalars; the step is the slot."""
    try:
        from tensorboard.summary import Writer  # noqa: PLC0415
    except ModuleNotFoundError:
        raise UserError("TensorBoard is not installed: pip install 'slotwise[tensorboard]'") from None
    writer = Writer(str(folder))
    for point in points:
        for name in ("loss", "accuracy", "staleness", "round"):
            writer.add_scalar(name, float(getattr(point, name)), step=point.slot)
    writer.close()
