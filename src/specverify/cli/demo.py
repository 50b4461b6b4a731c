"""``specverify demo``: text decoded by a draft and a target before one's eyes, and the figures of the run.

Parses and prints. The loop is in specverify/demo.py, the models in ngram.py, the law of the accepted length in
lengths.py.
"""

import argparse
import dataclasses
import platform
import sys
from itertools import islice
from typing import Any

import specverify

from .. import demo, ngram
from ._accepted import judge_lengths, show_lengths
from ._json import dumps
from ._options import non_negative, positive
from ._terminal import MarkedText, Screen, printable, quoted

_PROMPT = b"def verify(self, "
_ROUNDS_EXPLAINED = 4


def add(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "demo",
        help="decode text with a draft and a target and show what verification does",
        description="Count a byte-level n-gram target and a weaker, faster draft from Python sources on this machine, "
        "decode text with them, and compare the accepted lengths with their analytic law (sampled) or the text with "
        "plain decoding (--greedy). Exit code 1 if that check fails. The text depends on the seed, and on the versions "
        "of Python and of this package, whose sources are counted.",
    )
    parser.add_argument(
        "--seed", type=non_negative, default=0, help="seed of the random streams (default: %(default)s)"
    )
    parser.add_argument("--tokens", type=positive, default=400, help="tokens to emit (default: %(default)s)")
    parser.add_argument("--k", type=non_negative, default=4, help="drafted tokens in a round (default: %(default)s)")
    parser.add_argument("--greedy", action="store_true", help="both models take their most probable token")
    parser.add_argument("--json", action="store_true", help="print the rounds and figures as JSON, and nothing else")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    target, draft = ngram.target_and_draft()
    decoding = demo.decode_rounds(
        target, draft, _PROMPT, options.tokens, k=options.k, greedy=options.greedy, seed=options.seed
    )
    screen = None if options.json else Screen(sys.stdout)
    rounds: list[demo.Round] = []
    if screen:
        _introduce(screen, target, draft, options)
        rounds += islice(decoding, _ROUNDS_EXPLAINED)
        if options.k:
            _explain(screen, rounds, options.greedy)
        _legend(screen, options)
        text = MarkedText(screen)
        for byte in _PROMPT:
            text.add(printable(byte), "prompt")
        for one in rounds:
            _show(text, one)
        for one in decoding:
            rounds.append(one)
            _show(text, one)
        text.end_line()
    else:
        rounds += decoding

    summary = demo.summarize(rounds)
    identical = None
    if options.greedy:
        emitted = [token for one in rounds for token in one.emitted]
        identical = emitted == demo.decode_greedily(target, _PROMPT, options.tokens)
    passed = summary.lengths.passed if identical is None else identical
    if screen:
        _report(screen, summary, identical, options)
    else:
        print(dumps(_as_json(target, draft, rounds, summary, identical, passed, options)))
    return 0 if passed else 1


def _introduce(
    screen: Screen, target: ngram.Unrepeating, draft: ngram.Unrepeating, options: argparse.Namespace
) -> None:
    screen.print(f"specverify {specverify.__version__}, {specverify.active_isa()} kernels")
    screen.print()
    counted = f"counted from {target.model.n_bytes:,} bytes of Python sources"
    screen.print(f"target   {target.model.order}-gram model of bytes, {counted}")
    screen.print(f"draft    {draft.model.order}-gram model, counted from the first {draft.model.n_bytes:,} of them")
    screen.print()
    screen.paragraph(
        f"In each round the draft proposes K = {options.k} tokens (here: bytes), the target scores all of them in one "
        "pass, and verification accepts a prefix of them and adds one token of the target's own: a residual token in "
        "place of the first rejected one, or a bonus token when none was rejected."
    )
    screen.paragraph(
        "A drafted token is accepted if it is the target's argmax. So the text is the target's own greedy text, token "
        "for token, in fewer target passes."
        if options.greedy
        else "A drafted token is accepted with probability min(1, target / draft). So the text follows the target's "
        "law exactly, as if the target alone had drawn it token by token, in fewer target passes."
    )


def _explain(screen: Screen, rounds: list[demo.Round], greedy: bool) -> None:
    rule = "1 for the target's argmax, else 0" if greedy else "min(1, target / draft)"
    screen.heading(f"The first rounds: drafted tokens with {rule}")
    for number, one in enumerate(rounds, 1):
        line, cells = f"{number}  ", []
        for i, (token, acceptance) in enumerate(zip(one.drafted, one.acceptance, strict=True)):
            cell = f"{quoted(token)} {acceptance:.2f}"
            if len(line) + len(cell) + 8 > screen.width:
                cells.append("...")
                break
            line += cell + "   "
            cells.append(screen.paint(cell, _fate(i, one)))
        screen.print(f"{number}  " + ("   ".join(cells) or "nothing drafted"))
        if one.rejected:
            verdict = f"{quoted(one.drafted[one.n_accepted])} rejected, residual token {quoted(one.next_token)}"
        else:
            verdict = f"bonus token {quoted(one.next_token)}"
        screen.print(f"   {one.n_accepted} accepted, {verdict}")


def _fate(position: int, one: demo.Round) -> str:
    if position < one.n_accepted:
        return "accepted"
    return "rejected" if position == one.n_accepted else "dropped"


def _legend(screen: Screen, options: argparse.Namespace) -> None:
    screen.heading(f"The text, {options.tokens:,} tokens")
    kinds = "   ".join(screen.sample(style) for style in ("accepted", "residual", "bonus"))
    below = "" if screen.colour else " (marked in the line below it)"
    screen.print(f"{kinds}{below}")
    screen.print()


def _show(text: MarkedText, one: demo.Round) -> None:
    for token in one.emitted[:-1]:
        text.add(printable(token), "accepted")
    text.add(printable(one.next_token), "residual" if one.rejected else "bonus")


def _report(screen: Screen, summary: demo.Summary, identical: bool | None, options: argparse.Namespace) -> None:
    lengths = summary.lengths
    screen.heading("Accepted tokens in a round")
    show_lengths(screen, lengths.observed, None if options.greedy else lengths.expected)

    screen.heading("Figures")
    rates = (
        ("tested acceptance", summary.tested_acceptance, "accepted / (accepted + first rejections)"),
        ("draft utilisation", summary.draft_utilisation, "accepted / drafted"),
        ("tokens per target pass", summary.tokens_per_target_pass, f"of at most {options.k + 1}; 1 without a draft"),
    )
    for name, value, meaning in rates:
        screen.print(f"{name:22}{'-' if value is None else f'{value:.2f}':>7}     {meaning}")
    screen.print(
        f"{screen.micro + 's per verification':22}{summary.verify_microseconds:7.2f}     "
        f"median, caches cold; {summary.verify_share:.1%} of the loop's time"
    )

    screen.print()
    if identical is not None:
        same = "equals" if identical else "DIFFERS FROM"
        screen.verdict(identical, f"the text {same} plain greedy decoding of the target, token for token")
    else:
        judge_lengths(screen, lengths)


def _as_json(
    target: ngram.Unrepeating,
    draft: ngram.Unrepeating,
    rounds: list[demo.Round],
    summary: demo.Summary,
    identical: bool | None,
    passed: bool,
    options: argparse.Namespace,
) -> dict[str, Any]:
    emitted = [token for one in rounds for token in one.emitted]
    return {
        "version": specverify.__version__,
        "isa": specverify.active_isa(),
        "python": platform.python_version(),
        "seed": options.seed,
        "k": options.k,
        "greedy": options.greedy,
        "target": {"order": target.model.order, "bytes": target.model.n_bytes},
        "draft": {"order": draft.model.order, "bytes": draft.model.n_bytes},
        "prompt": _PROMPT.decode("ascii"),
        "text": bytes(emitted).decode("ascii", "backslashreplace"),
        "summary": dataclasses.asdict(summary),
        "identical_to_greedy": identical,
        "passed": passed,
        "rounds": [dataclasses.asdict(one) for one in rounds],
    }
