"""``specverify law``: accepted lengths of many rounds against their analytic law.

Parses and prints. The rounds and the law are in specverify/experiments.py and lengths.py.
"""

import argparse
import dataclasses
import sys
from typing import Any

from .. import experiments, figures
from .._work import processes
from ._json import dumps
from ._options import add_common, add_plot, non_negative, positive
from ._progress import Bar
from ._terminal import Screen

_BAR_WIDTH = 40


def add(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "law",
        help="compare accepted lengths with their analytic law",
        description="Verify rounds of a mismatched draft, each with fresh tokens and uniforms, and compare how many "
        "tokens they accept with the law computed from the rows: the whole histogram, not only its mean. Exit code 1 "
        "if it does not follow (one false alarm in a million).",
    )
    parser.add_argument("--rounds", type=positive, default=600, help="rounds (default: %(default)s)")
    parser.add_argument("--k", type=non_negative, default=4, help="drafted tokens in a round (default: 4)")
    parser.add_argument("--vocab", type=positive, default=32_000, help="vocabulary size (default: %(default)s)")
    add_plot(parser, "the histogram")
    add_common(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    with Bar() as progress, processes(options.workers) as executor:
        found = experiments.replay(
            options.rounds,
            k=options.k,
            vocab_size=options.vocab,
            seed=options.seed,
            executor=executor,
            progress=progress,
        )
    if options.plot:
        figures.draw_lengths(found, options.plot)
    passed = found.check.passed
    if options.json:
        fixed = {"seed": options.seed, "rounds": options.rounds, "vocab": options.vocab, "k": options.k}
        print(dumps({**fixed, "passed": passed, **dataclasses.asdict(found)}))
        return 0 if passed else 1
    screen = Screen(sys.stdout)
    rates = ", ".join(f"{rate:.3f}" for rate in found.acceptance_rates) or "none"
    screen.print(f"{options.rounds:,} rounds, K = {options.k}, V = {options.vocab:,}; acceptance rates {rates}")
    screen.print()
    screen.print(f"accepted   rounds   by law {screen.stroke}")
    observed, expected = found.check.observed, found.check.expected
    largest = max(*observed, *expected)
    for length, (count, by_law) in enumerate(zip(observed, expected, strict=True)):
        screen.print(f"{length:8} {count:8} {by_law:8.1f}   {screen.bar(count, by_law, largest, _BAR_WIDTH)}".rstrip())
    screen.print()
    screen.print(f"mean accepted   {found.mean:.3f}, by law {found.mean_by_law:.3f}, standard error "
                 f"{found.standard_error:.3f}")  # fmt: skip
    screen.print(f"                {found.mean_by_one_rate:.3f} if every position had the mean acceptance rate")
    screen.print()
    if not found.check.degrees and passed:
        screen.paragraph("Too few rounds to compare the histogram with its law.")
        return 0
    verdict = "PASS: the accepted lengths follow" if passed else "FAIL: the accepted lengths DO NOT FOLLOW"
    screen.paragraph(
        f"{verdict} their law: chi-square {found.check.chi_square:.2f}, {found.check.degrees} degrees of freedom, "
        f"p = {found.check.p_value:.2g} (fails below 1e-6)",
        "good" if passed else "bad",
    )
    return 0 if passed else 1
