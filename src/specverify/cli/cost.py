"""``specverify cost``: what a draft length gains or costs, from the times of single steps.

Parses. The model: specverify/cost/; the table: _cost_table.py.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from .. import cost
from . import _cost_table
from ._failure import fail
from ._json import dumps
from ._options import cost as milliseconds
from ._options import non_negative, share
from ._terminal import Screen

_LONGEST = 32  # without --max-k: longer drafts than anyone uses, and a table that fits a screen


def add(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "cost",
        help="predict tokens per second for every draft length, and say whether to speculate",
        description="Predict from the times of single steps, in milliseconds, and from the acceptance.",
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--target",
        type=_passes,
        metavar="MS",
        help="target passes over 1, 2, ... tokens: 6,30; or over given numbers of tokens, linear in between: 1:6,5:40",
    )
    source.add_argument(
        "--from",
        dest="file",
        type=Path,
        metavar="FILE",
        help="measured steps and acceptance: JSON of generate --cost, or of cost.to_json",
    )
    parser.add_argument("--draft", type=milliseconds, metavar="MS", help="one draft step (default: 0)")
    parser.add_argument(
        "--draft-call", type=milliseconds, metavar="MS", help="a draft call, whatever it proposes (default: 0)"
    )
    parser.add_argument(
        "--catch-up", type=milliseconds, metavar="MS", help="a draft step that reads two tokens (default: as --draft)"
    )
    parser.add_argument(
        "--switch",
        type=milliseconds,
        metavar="MS",
        help="extra time of a target pass that follows one over another number of tokens (default: 0)",
    )
    parser.add_argument("--verify", type=milliseconds, metavar="MS", help="verification of a draft (default: 0)")
    parser.add_argument(
        "--acceptance",
        type=_shares,
        metavar="SHARE",
        help="acceptance rate; or P(accepted >= 1), P(accepted >= 2), ...: 0.8,0.7,0.65",
    )
    parser.add_argument(
        "--proposes", type=share, metavar="SHARE", help="share of rounds in which the draft proposes (default: 1)"
    )
    parser.add_argument(
        "--max-k",
        type=non_negative,
        metavar="K",
        help=f"longest draft (default: as far as is known, at most {_LONGEST})",
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON, and nothing else")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    try:
        times, acceptance, proposed = _given(options)
        known = times.max_k
        if options.acceptance is not None:
            several = len(options.acceptance) > 1
            acceptance = (
                cost.Acceptance.from_at_least(options.acceptance)
                if several
                else cost.Acceptance.from_rate(options.acceptance[0], min(known, _longest(options)))
            )
            proposed = None  # a file's word on proposals belongs to its acceptance
        if options.max_k is not None and options.max_k > known:
            raise ValueError(f"--max-k: expected at most {known}, the longest draft that is timed, got {options.max_k}")
        if options.proposes is not None:
            proposed = cost.ProposedLengths((options.proposes,), (0.0,))
        if acceptance is None:
            raise ValueError("--acceptance: expected a rate, or a file that holds one, got neither")
        if options.acceptance is None or len(options.acceptance) > 1:  # one rate holds for any length
            known = min(known, acceptance.max_k)
        max_k = min(known, _LONGEST) if options.max_k is None else options.max_k
        advice = cost.recommend(times, acceptance, max_k, proposed)
    except (OSError, ValueError) as error:
        return fail(error)
    if options.json:
        print(dumps(_cost_table.as_json(times, acceptance, proposed, advice)))
    else:
        _cost_table.show(Screen(sys.stdout), advice, known if options.max_k is None else None)
    return 0


def _longest(options: argparse.Namespace) -> int:
    longest: int = _LONGEST if options.max_k is None else options.max_k
    return longest


def _given(
    options: argparse.Namespace,
) -> tuple[cost.StepTimes, cost.Acceptance | None, cost.ProposedLengths | None]:
    if options.file is not None:
        for name in ("draft", "draft_call", "catch_up", "switch", "verify"):
            if getattr(options, name) is not None:
                raise ValueError(f"--{name.replace('_', '-')}: expected with --target only, the file holds the times")
        try:
            return cost.from_json(json.loads(options.file.read_text(encoding="utf-8")))
        except (ValueError, RecursionError) as error:
            hint = "specverify generate --cost --json writes one"
            raise ValueError(f"--from: {options.file}: {error} ({hint})") from None
    table, between = options.target
    # Plain decoding is given its target pass alone, so --verify is what a draft adds.
    verify = ((0, 0.0), (1, options.verify / 1e3)) if options.verify else ()
    return (
        cost.StepTimes(
            target=tuple((n, ms / 1e3) for n, ms in table),
            draft_token=(options.draft or 0.0) / 1e3,
            draft_fixed=(options.draft_call or 0.0) / 1e3,
            catch_up=None if options.catch_up is None else options.catch_up / 1e3,
            switch=(options.switch or 0.0) / 1e3,
            verify=verify,
            between=between,
        ),
        None,
        None,
    )


def _passes(text: str) -> tuple[list[tuple[int, float]], str]:
    parts = [part.split(":") for part in text.split(",")]
    try:
        if all(len(part) == 1 for part in parts):
            return [(n, milliseconds(part[0])) for n, part in enumerate(parts, 1)], "refuse"
        return [(int(n), milliseconds(ms)) for n, ms in parts], "linear"
    except (ValueError, argparse.ArgumentTypeError):
        raise argparse.ArgumentTypeError(f"expected 6,30,... or 1:6,5:40,... in milliseconds, got {text!r}") from None


def _shares(text: str) -> list[float]:
    return [share(part) for part in text.split(",")]
