"""``specverify law``: accepted lengths of many rounds against their analytic law.

Parses and prints. The rounds and the law are in specverify/experiments.py and lengths.py.
"""

import argparse
import dataclasses
import sys
from typing import Any

from .. import experiments, figures
from .._work import processes
from ._accepted import judge_lengths, show_lengths
from ._json import dumps
from ._options import add_common, add_plot, positive
from ._progress import Bar
from ._terminal import Screen


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
    parser.add_argument("--k", type=positive, default=4, help="drafted tokens in a round (default: 4)")
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
    rates = ", ".join(f"{rate:.3f}" for rate in found.acceptance_rates)
    screen.print(f"{options.rounds:,} rounds, K = {options.k}, V = {options.vocab:,}; acceptance rates {rates}")
    screen.print()
    show_lengths(screen, found.check.observed, found.check.expected)
    screen.print()
    screen.print(f"mean accepted   {found.mean:.3f}, by law {found.mean_by_law:.3f}, standard error "
                 f"{found.standard_error:.3f}")  # fmt: skip
    screen.print(f"                {found.mean_by_one_rate:.3f} if every position had the mean acceptance rate")
    screen.print()
    judge_lengths(screen, found.check)
    return 0 if passed else 1
