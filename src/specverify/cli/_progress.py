"""A progress bar on the error stream, for work that takes longer than a second; on a terminal only."""

import math
import sys
import time
from typing import TextIO

_PATIENCE = 1.0  # seconds without a bar: short work shows none
_PAUSE = 0.1  # seconds between two pictures
_WIDTH = 30


class Bar:
    """A bar to be called with what is done and what there is to do. Leave it by ``with``, which wipes it out."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._terminal = self._stream.isatty()
        self._started = time.monotonic()
        self._shown = 0
        self._drawn = -math.inf

    def __call__(self, done: int, total: int) -> None:
        """Show progress, if anyone looks and it takes long enough."""
        elapsed = time.monotonic() - self._started
        if not self._terminal or elapsed < _PATIENCE or elapsed < self._drawn + _PAUSE or not total:
            return
        self._drawn = elapsed
        filled = _WIDTH * done // total
        left = elapsed / done * (total - done) if done else 0.0
        line = f"[{'#' * filled}{'.' * (_WIDTH - filled)}] {done}/{total}, {left:.0f} s left"
        self._write("\r" + line.ljust(self._shown))
        self._shown = len(line)

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *error: object) -> None:
        if self._shown:
            self._write("\r" + " " * self._shown + "\r")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
