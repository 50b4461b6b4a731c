"""Types and help of options that more than one command has. Holds no defaults: those are each command's own."""

import argparse
from pathlib import Path

RULE_HELP = "verification rule: token, or block, which accepts more and reads all rows (default: token)"


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


def share(text: str) -> float:
    """Parse a number between 0 and 1."""
    number = _number(text)
    if not 0.0 <= number <= 1.0:
        raise argparse.ArgumentTypeError(f"expected a number from 0 to 1, got {text!r}")
    return number


def cost(text: str) -> float:
    """Parse a number of at least 0."""
    number = _number(text)
    if not 0.0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number of at least 0, got {text!r}")
    return number


def add_common(parser: argparse.ArgumentParser, *, workers: bool = True) -> None:
    """Declare --seed, --workers and --json."""
    parser.add_argument("--seed", type=non_negative, default=0, help="seed of everything random (default: 0)")
    if workers:
        parser.add_argument(
            "--workers", type=positive, default=1, metavar="N", help="processes that share the work (default: 1)"
        )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON, and nothing else")


def add_plot(parser: argparse.ArgumentParser, what: str) -> None:
    """Declare --plot, which is refused where nothing can be drawn before anything is computed."""
    parser.add_argument("--plot", type=_plot, metavar="FILE", help=f"draw {what} as well; SVG, PNG or PDF")


def _plot(text: str) -> Path:
    from .. import figures  # here, since most commands draw nothing

    try:
        figures.require()
    except ImportError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return Path(text)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")
