"""Drawing on a terminal, and legibly where there is none.

Holds styles, bars, and text in which every token carries the mark of its kind. Colours are used on a terminal only,
and not when NO_COLOR is set; then marks stand for them. Knows nothing of what is drawn.
"""

import os
import shutil
import textwrap
import unicodedata
from typing import TextIO

# Backgrounds, so that a space or a line end shows its kind as well. Yellow and cyan differ for every kind of eye.
_CODES = {
    "prompt": "2",
    "plain": "0",
    "accepted": "32",
    "residual": "30;43",
    "bonus": "30;46",
    "rejected": "31;9",
    "dropped": "2",
    "heading": "1",
    "good": "1;32",
    "bad": "1;31",
}
_MARKS = {"prompt": " ", "plain": " ", "accepted": ".", "residual": "^", "bonus": "+"}
_PLAIN_WIDTH = 80
_WIDEST = 100


class Screen:
    """A stream to draw on, and what it can show."""

    def __init__(self, stream: TextIO) -> None:
        terminal = stream.isatty()
        self._stream = stream
        self._encoding = stream.encoding  # None of a stream that takes any character
        self.colour = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self.width = min(shutil.get_terminal_size().columns, _WIDEST) if terminal else _PLAIN_WIDTH
        self._block, self.stroke = ("█", "│") if _can_encode(stream, "█│") else ("#", "|")
        self.micro = "µ" if _can_encode(stream, "µ") else "u"

    def print(self, text: str = "", end: str = "\n") -> None:
        """Write a line and show it at once; what the stream has no character for, as an escape."""
        print(self.encodable(text), end=end, file=self._stream, flush=True)

    def encodable(self, text: str) -> str:
        """Give the text with escapes for what the stream has no character for."""
        if not self._encoding:
            return text
        return text.encode(self._encoding, "backslashreplace").decode(self._encoding)

    def paragraph(self, text: str, style: str | None = None) -> None:
        """Write text, wrapped to the width of the screen."""
        for line in textwrap.wrap(text, self.width):
            self.print(self.paint(line, style) if style else line)

    def heading(self, text: str) -> None:
        """Write a title after an empty line."""
        self.print()
        self.paragraph(text, "heading")

    def verdict(self, passed: bool, text: str) -> None:
        """Print a finding, marked as passed or failed."""
        self.paragraph(f"{'PASS' if passed else 'FAIL'}: {text}", "good" if passed else "bad")

    def paint(self, text: str, style: str) -> str:
        """Give the text in a style, or as it is where there is no colour."""
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if self.colour else text

    def sample(self, style: str) -> str:
        """Show what a style looks like, for a legend: the style's own name, or its mark."""
        return self.paint(style, style) if self.colour else f"{_MARKS[style]} {style}"

    def bar(self, value: float, expected: float | None, largest: float, width: int) -> str:
        """Draw a bar of a length in proportion to value / largest, with a stroke where another value would end."""
        cells = [self._block] * round(width * value / largest)
        if expected is not None:
            stroke = round(width * expected / largest)
            cells += [" "] * (stroke + 1 - len(cells))
            cells[stroke] = self.stroke
        return "".join(cells)


class MarkedText:
    """Text that grows token by token, each told apart by colour, or by a mark on a second line below it."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._column = 0
        self._line = ""
        self._marks = ""

    def add(self, token: str, style: str) -> None:
        """Append a token. A line end is shown as one cell, so that its mark has a place."""
        shown = " " if token == "\n" else self._screen.encodable(token)  # before its marks are counted
        cells = _cells(shown)
        if self._column + cells > self._screen.width:
            self.end_line()
        if self._screen.colour:
            self._screen.print(self._screen.paint(shown, style), end="")
        else:
            self._line += shown
            self._marks += _MARKS[style] * cells
        self._column += cells
        if token == "\n":
            self.end_line()

    def end_line(self) -> None:
        """Go to a new line, unless at the beginning of one."""
        if not self._column:
            return
        self._screen.print(self._line.rstrip())
        if not self._screen.colour:
            self._screen.print(self._marks.rstrip())
        self._column, self._line, self._marks = 0, "", ""


def _cells(text: str) -> int:
    """Count the cells that a terminal gives a text: none to a combining character, two to a wide one."""
    return sum(
        0
        if unicodedata.category(one) in ("Mn", "Me", "Cf") or "\u1160" <= one <= "\u11ff"  # Hangul joins the one before
        else 1 + (unicodedata.east_asian_width(one) in "WF")
        for one in text
    )


def printable(byte: int) -> str:
    """Show a byte as its ASCII character or as an escape; a line end stays one."""
    character = chr(byte)
    if character == "\n" or " " <= character <= "~":
        return character
    return {"\t": "\\t", "\r": "\\r", "\f": "\\f"}.get(character, f"\\x{byte:02x}")


def quoted(byte: int) -> str:
    """Show a byte in quotes, on one line."""
    return "'\\n'" if byte == ord("\n") else f"'{printable(byte)}'"


def _can_encode(stream: TextIO, text: str) -> bool:
    try:
        text.encode(stream.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True
