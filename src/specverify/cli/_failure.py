"""How a command says that it cannot do what it was asked for."""

import sys


def fail(error: Exception) -> int:
    """Print an error as one line, whatever a library put into it, and give the exit code 2."""
    message = " ".join(str(error).split()) or type(error).__name__
    print(f"specverify: {message}", file=sys.stderr)
    return 2
