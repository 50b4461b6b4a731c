"""How a command says that it cannot do what it was asked for, or that something it was asked for has no effect."""

import contextlib
import os
import sys
from typing import TextIO


def fail(error: Exception) -> int:
    """Print an error as one line, whatever a library put into it, and give the exit code 2."""
    message = " ".join(str(error).split()) or type(error).__name__
    _say(f"specverify: {message}")
    return 2


def warn(message: str) -> None:
    """Print a line beside the results, which may be read by a program."""
    _say(f"specverify: warning: {message}")


def abandon(stream: TextIO) -> None:
    """Send what a stream could not write to nowhere. Python would complain again when it closes the stream at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def settle(stream: TextIO) -> None:
    """Write out what a stream holds, and abandon it if that cannot be done."""
    try:
        stream.flush()
    except OSError:
        abandon(stream)


def _say(line: str) -> None:
    with contextlib.suppress(OSError):  # there is no other place to say it
        print(line, file=sys.stderr)
    settle(sys.stderr)
