"""How a command says that it cannot do what it was asked for, or that something it was asked for has no effect."""

import sys


def fail(error: Exception) -> int:
    """Print an error as one line, whatever a library put into it, and give the exit code 2."""
    message = " ".join(str(error).split()) or type(error).__name__
    print(f"specverify: {message}", file=sys.stderr)
    return 2


def warn(message: str) -> None:
    """Print a line beside the results, which may be read by a program."""
    print(f"specverify: warning: {message}", file=sys.stderr)
