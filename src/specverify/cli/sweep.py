"""``specverify sweep``: what a draft buys, over its quality, its length and the rule.

Parses and prints. The cells are computed by specverify/experiments.py and drawn by figures.py.
"""

import argparse
import dataclasses
import sys
from typing import Any

from .. import experiments, figures, simulate
from .._work import processes
from ._json import dumps
from ._options import add_common, add_plot, positive, share
from ._progress import Bar
from ._terminal import Screen
from .run import add_models

_AGREEMENTS = (0.0, 0.25, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0)
_KS = (1, 2, 4, 8)


def add(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "sweep",
        help="tabulate tokens per target pass and speed-up over drafts and draft lengths",
        description="Generate text for every agreement, draft length and rule, and tabulate what it took.",
    )
    add_models(parser)
    parser.add_argument(
        "--agreement",
        type=share,
        nargs="+",
        default=_AGREEMENTS,
        help=f"weights of the target in the draft (default: {' '.join(map(str, _AGREEMENTS))})",
    )
    lengths = " ".join(map(str, _KS))
    parser.add_argument(
        "--k", type=positive, nargs="+", default=_KS, help=f"drafted tokens in a round (default: {lengths})"
    )
    parser.add_argument(
        "--rule", choices=(*simulate.rules(), "all"), default="token", help="rule of verification (default: token)"
    )
    add_plot(parser, "the table")
    add_common(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    with Bar() as progress, processes(options.workers) as executor:
        cells = experiments.sweep(
            options.agreement,
            options.k,
            rules=tuple(simulate.rules()) if options.rule == "all" else (options.rule,),
            n_tokens=options.tokens,
            vocab_size=options.vocab,
            seed=options.seed,
            draft_cost_ratio=options.draft_cost,
            executor=executor,
            progress=progress,
        )
    if options.plot:
        figures.draw_sweep(cells, options.plot)
    if options.json:
        fixed = {"seed": options.seed, "vocab": options.vocab}
        print(dumps({**fixed, "cells": [dataclasses.asdict(cell) for cell in cells]}))
        return 0
    screen = Screen(sys.stdout)
    screen.print(
        f"V = {options.vocab}, {options.tokens:,} tokens each, a draft pass takes {options.draft_cost:g} of a target's"
    )
    screen.print()
    screen.print("rule   agreement   k   tested acceptance   draft utilisation   tokens per target pass   speed-up")
    for cell in cells:
        screen.print(
            f"{cell.rule:<6} {cell.agreement:9.2f} {cell.k:3}   {cell.tested_acceptance:17.3f}   "
            f"{cell.draft_utilisation:17.3f}   {cell.tokens_per_target_pass:14.3f} of {cell.k + 1:<4}   "
            f"{cell.speedup:7.2f}x"
        )
    return 0
