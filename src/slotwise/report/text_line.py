"""One line of a chart made of characters."""

from __future__ import annotations

from itertools import groupby

from rich.text import Text


class Line:
    """A label and a row of columns that can be written over; what does not fit is cut off."""

    def __init__(self, label: str, columns: int) -> None:
        self.label = label
        self._characters = [" "] * columns
        self._styles = [""] * columns

    def write(self, column: int, text: str, style: str = "") -> None:
        """Put ``text`` at ``column``."""
        for place, character in enumerate(text, column):
            if 0 <= place < len(self._characters):
                self._characters[place], self._styles[place] = character, style

    def fits(self, column: int, text: str) -> bool:
        """Whether ``text`` at ``column`` would be written whole."""
        return column + len(text) <= len(self._characters)

    def render(self, label_width: int) -> Text:
        """The line with its label, coloured, without spaces at the end."""
        line = Text(self.label.ljust(label_width), end="")
        cells = zip(self._characters, self._styles, strict=True)
        for style, run in groupby(cells, key=lambda cell: cell[1]):
            line.append("".join(character for character, _ in run), style or None)
        line.rstrip()
        return line
