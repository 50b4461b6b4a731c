"""``specverify bench``: this machine measured in a minute.

Parses and prints. What is measured, and how: specverify/measure.py.
"""

import argparse
import sys
from typing import Any

from .. import measure
from ._json import dumps
from ._options import positive
from ._terminal import Screen


def add(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "bench",
        help="measure this machine and print a table ready to paste",
        description="Time greedy and sampled rounds at K = 4 and three vocabularies, in turn with NumPy and with "
        "reading the same rows once. Prints Markdown.",
    )
    parser.add_argument("--seconds", type=positive, default=30, help="time to spend (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON, the form to contribute")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    results = measure.measure_machine(options.seconds)
    Screen(sys.stdout).print(dumps(results) if options.json else as_markdown(results))
    return 0


def as_markdown(results: dict[str, Any]) -> str:
    """Lay out the short list of cases as a table, with the machine above it."""
    machine = results["machine"]
    lines = [
        f"{machine['cpu']}, {machine['os']}, {machine['python']}, NumPy {machine['numpy']}, specverify "
        f"{machine['specverify']}, variant `{machine['variant']}`",
        "",
        "| V | round, K = 4 | µs | GB/s | NumPy × | read × |",
        "| ---: | --- | ---: | ---: | ---: | ---: |",
    ]
    for row in results["rows"]:
        found = measure.ratios(row)
        lines.append(
            f"| {row['vocab']:,} | {_words(row)} | {row['us']['specverify']:.1f} | {found['gb_per_s']:.1f} "
            f"| {found['numpy']:.1f} | {found['read']:.2f} |"
        )
    for fixed in results["fixed"]:
        mine = fixed["us"]["specverify"]
        lines.append(
            f"| {measure.FIXED_VOCAB} | {fixed['operation']}: the fixed cost of a call | {mine:.2f} | "
            f"| {measure.numpy_us(fixed['us']) / mine:.1f} | |"
        )
    lines += [
        "",
        "NumPy ×: times as fast as NumPy. read ×: times as long as `numpy.max` over the rows to read.",
    ]
    return "\n".join(lines)


def _words(row: dict[str, Any]) -> str:
    end = "all accepted" if row["rejected_at"] is None else "the first rejected"
    return f"{row['operation']}{', normalized' if row['normalized'] else ''}: {end}"
