"""CSV files that say when devices can send: rows of windows, or of the slots of a frame that they own."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from slotwise.base.errors import InputError, UserError
from slotwise.fleet.csv_rows import read_table
from slotwise.fleet.reach_options import ListedWindows, OwnedSlots, PeriodicWindows
from slotwise.fleet.windows import Window
from slotwise.options import FileName, Shorthand, declared

COLUMNS = ("device", "opens", "closes")
FRAME_COLUMNS = ("slot", "device")


@dataclass(frozen=True, kw_only=True)
class WindowFile(Shorthand):
    """A file that lists when each device can send and receive.

    Attributes:
        window_file: CSV file with a row for each window of a device: device, opens, closes.
    """

    panel: ClassVar[str] = "fleet"
    window_file: Annotated[Path, FileName()]

    def __post_init__(self) -> None:
        if not isinstance(self.window_file, str | Path):
            raise InputError("window_file", self.window_file, "the name of a CSV file")

    @classmethod
    def replaces(cls) -> Sequence[str]:
        """Return the options of windows."""
        return (*declared(PeriodicWindows), *declared(ListedWindows))

    def stands_for(self, known: ChainMap[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        """Return what the file says, so that nothing depends on it any more."""
        return {"windows": tuple(tuple(window) for window in read_windows(Path(self.window_file)))}


@dataclass(frozen=True, kw_only=True)
class FrameFile(Shorthand):
    """A file that lists which device owns which slot of a frame.

    Attributes:
        frame_file: CSV file with a row for each slot of the frame that a device owns: slot, device.
    """

    panel: ClassVar[str] = "fleet"
    frame_file: Annotated[Path, FileName()]

    def __post_init__(self) -> None:
        if not isinstance(self.frame_file, str | Path):
            raise InputError("frame_file", self.frame_file, "the name of a CSV file")

    @classmethod
    def replaces(cls) -> Sequence[str]:
        """Return the options that say the same."""
        return [name for name in declared(OwnedSlots) if name != "frame_slots"]

    def stands_for(self, known: ChainMap[str, Any]) -> dict[str, Any]:
        """Return what the file says, so that nothing depends on it any more."""
        table = read_table(Path(self.frame_file), FRAME_COLUMNS, required=FRAME_COLUMNS)
        if not table.rows:
            raise UserError(f"{self.frame_file}: no slots: must have a row for each")
        frame, rows = known.get("frame_slots"), []
        for row in table.rows:
            slot, device = table.whole(row, "slot", 0), table.whole(row, "device", 1)
            if isinstance(frame, int) and slot >= frame:
                raise table.wrong(row, "slot", f"below {frame}, the slots of a frame")
            rows.append((slot, device))
        return {"owned_slots": tuple(rows)}


def read_windows(path: Path) -> tuple[Window, ...]:
    """Read the windows in a CSV file.

    Raises:
        UserError: the file is malformed; the message names the file, row and column.
    """
    table = read_table(path, COLUMNS, required=COLUMNS)
    if not table.rows:
        raise UserError(f"{path}: no windows: must have a row for each")
    windows = []
    for row in table.rows:
        device, opens, closes = (table.whole(row, name, name != "opens") for name in COLUMNS)
        if closes <= opens:
            raise table.wrong(row, "closes", f"after opens, {opens}")
        windows.append(Window(device, opens, closes))
    return tuple(windows)
