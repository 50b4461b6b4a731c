"""``specverify verify``: certify this build on this machine.

Parses and prints. What is checked, and how: specverify/certification.py.
"""

import argparse
import dataclasses
import sys
import time
from typing import Any

import specverify

from .. import certification
from .._work import processes
from ._json import dumps
from ._options import add_common, positive
from ._progress import Bar
from ._terminal import Screen

_PAIRS = 2000


def add(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "verify",
        help="certify that this build emits the target's law",
        description="Find the law that each variant of the compiled code emits, by bisection on the code itself, and "
        "compare it with the target's; check the edge cases of the contract; see that wrong verifiers are rejected. "
        "Exit code 1 if anything fails.",
    )
    parser.add_argument(
        "--pairs", type=positive, default=_PAIRS, help="random pairs of rows for each variant (default: %(default)s)"
    )
    add_common(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    started = time.monotonic()
    with Bar() as progress, processes(options.workers) as executor:
        findings = certification.certify(n_pairs=options.pairs, seed=options.seed, executor=executor, progress=progress)
    passed = all(finding.passed for finding in findings)
    worst = max(finding.numbers.get("total_variation", 0.0) for finding in findings)
    if options.json:
        print(dumps(_as_json(findings, worst, passed, options)))
        return 0 if passed else 1
    screen = Screen(sys.stdout)
    screen.print(f"specverify {specverify.__version__}; variants: {', '.join(specverify.available_isas())}")
    for finding in findings:
        screen.print()
        mark = screen.paint("PASS", "good") if finding.passed else screen.paint("FAIL", "bad")
        screen.print(f"{mark}  {finding.claim}")
        screen.print(f"      {finding.detail}")
    screen.print()
    small = max(finding.numbers["total_variation"] for finding in findings if "pairs" in finding.numbers)
    screen.print(
        f"worst total variation {small:.1e} at V <= {certification.LARGEST}, {worst:.1e} at any V; "
        f"{time.monotonic() - started:.0f} s"
    )
    screen.paragraph(
        "PASS: what this build emits follows the target's law, up to the rounding of float64." if passed else "FAIL",
        "good" if passed else "bad",
    )
    return 0 if passed else 1


def _as_json(
    findings: list[certification.Finding], worst: float, passed: bool, options: argparse.Namespace
) -> dict[str, Any]:
    return {
        "version": specverify.__version__,
        "isas": specverify.available_isas(),
        "seed": options.seed,
        "pairs": options.pairs,
        "total_variation": worst,
        "passed": passed,
        "findings": [dataclasses.asdict(finding) for finding in findings],
    }
