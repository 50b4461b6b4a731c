"""Types of options that more than one command has. Holds no defaults: those are each command's own."""

import argparse


def positive(text: str) -> int:
    """Parse a whole number of at least 1."""
    return _at_least(1, text)


def non_negative(text: str) -> int:
    """Parse a whole number of at least 0."""
    return _at_least(0, text)


def _at_least(least: int, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least {least}, got {text!r}")
    return number
