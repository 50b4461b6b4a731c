"""``specverify run``: generate with a toy target and draft, and count what it took.

Parses and prints. The generation is specverify/experiments.py, on the models of simulate.py.
"""

import argparse
import dataclasses
import sys
from typing import Any

from .. import experiments, simulate
from ._json import dumps
from ._options import RULE_HELP, add_common, cost, positive, share
from ._progress import Bar
from ._terminal import Screen


def add(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "run",
        help="generate with toy models and count target passes",
        description="Generate text with a random Markov target and a draft that follows it to a stated degree, and "
        "report target passes, acceptance, tokens per target pass, and the speed-up at a stated cost of the draft.",
    )
    add_models(parser)
    parser.add_argument("--agreement", type=share, default=0.8, help="weight of the target in the draft (default: 0.8)")
    parser.add_argument("--k", type=positive, default=4, help="drafted tokens in a round (default: 4)")
    parser.add_argument("--rule", choices=tuple(simulate.rules()), default="token", help=RULE_HELP)
    add_common(parser, workers=False)
    parser.set_defaults(run=run)


def add_models(parser: argparse.ArgumentParser) -> None:
    """Declare what ``run`` and ``sweep`` have in common."""
    parser.add_argument("--vocab", type=positive, default=32, help="vocabulary size (default: 32)")
    parser.add_argument("--tokens", type=positive, default=5000, help="tokens to emit (default: 5000)")
    parser.add_argument(
        "--draft-cost", type=cost, default=0.1, help="time of a draft pass / of a target pass (default: 0.1)"
    )


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    with Bar() as progress:
        cell = experiments.generate(
            agreement=options.agreement,
            k=options.k,
            n_tokens=options.tokens,
            vocab_size=options.vocab,
            seed=options.seed,
            draft_cost_ratio=options.draft_cost,
            rule=options.rule,
            progress=progress,
        )
    if options.json:
        print(dumps({"seed": options.seed, "vocab": options.vocab, **dataclasses.asdict(cell)}))
        return 0
    screen = Screen(sys.stdout)
    screen.print(
        f"generated {cell.tokens:,} tokens (V = {options.vocab}, draft agreement {cell.agreement}, k = {cell.k}, "
        f"rule: {cell.rule})"
    )
    lines = (
        ("target passes", f"{cell.target_passes:,}", f"target alone: {cell.tokens:,}"),
        ("tested acceptance", f"{cell.tested_acceptance:.3f}", "accepted / (accepted + first rejections)"),
        ("draft utilisation", f"{cell.draft_utilisation:.3f}", "accepted / drafted"),
        ("tokens per target pass", f"{cell.tokens_per_target_pass:.3f}", f"of at most {cell.k + 1}"),
        ("speed-up", f"{cell.speedup:.2f}x", f"if a draft pass takes {cell.draft_cost_ratio:g} of a target pass"),
    )
    for name, value, meaning in lines:
        screen.print(f"  {name:24}{value:>8}   {meaning}")
    return 0
