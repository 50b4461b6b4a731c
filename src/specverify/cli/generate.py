"""``specverify generate``: text of a real model, with a draft, and what the draft was worth.

Parses and prints. The loop is in specverify/decoder.py, the models in adapters/, drafts without a model in drafts/.
"""

import argparse
import dataclasses
import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import specverify

from .. import adapters
from ..adapters import comparison
from ..decoder import SpeculativeDecoder
from ..draft_length import AdaptiveDraftLength, DraftLength, FixedDraftLength
from ..drafts import NGramDraft, PromptLookup
from ..generation import Generation, Report, Round, report_of
from ..sampling import Sampling
from ..steps import DraftStep
from ._options import cost, non_negative, positive, share
from ._terminal import MarkedText, Screen

# Two words in common say more than one: a shorter match proposes more often, and mostly in vain.
_LOOKUPS: dict[str, Callable[[], DraftStep]] = {
    "prompt-lookup": lambda: PromptLookup(max_n=16, min_n=2),
    "ngram": lambda: NGramDraft(),
}
_LONGEST_ADAPTIVE = 8
_JOINERS = "\u200c\u200d"  # without which emoji and some scripts fall apart
_PROMPT_SHOWN = 200  # characters: enough to see what is continued
_BEFORE = 8  # tokens of the prompt that the first new one is decoded behind


def add(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "generate",
        help="generate text with a real model and a draft, and say what the draft was worth",
        description="Generate text with a model of llama.cpp (a .gguf file) or transformers (a folder), token by token "
        "as it is decided, and report rounds, acceptance and time. Exit code 1 if --compare finds another text than "
        "plain decoding at temperature 0, 2 if something is missing.",
    )
    parser.add_argument("--target", required=True, metavar="MODEL", help="the model: a .gguf file or a folder")
    parser.add_argument(
        "--draft",
        default="prompt-lookup",
        metavar="DRAFT",
        help="prompt-lookup, ngram, none, or a model of the target's vocabulary (default: %(default)s)",
    )
    prompt = parser.add_mutually_exclusive_group()
    prompt.add_argument("--prompt", metavar="TEXT", help="the text to go on from (default: standard input)")
    prompt.add_argument("--prompt-file", type=Path, metavar="FILE", help="a file with it, in UTF-8; taken as it is")
    parser.add_argument("--chat", action="store_true", help="put the prompt to the model as a user's message")
    parser.add_argument(
        "--k", type=_draft_length, default=4, help="drafted tokens in a round, or auto: what pays (default: 4)"
    )
    parser.add_argument("--max-new", type=positive, default=128, help="most tokens to generate (default: 128)")
    parser.add_argument(
        "--temperature", type=cost, default=0.0, help="0 is greedy, whatever the filters say (default: 0)"
    )
    parser.add_argument("--top-k", type=non_negative, default=0, help="keep so many tokens; 0 keeps all (default: 0)")
    parser.add_argument("--top-p", type=share, default=1.0, help="keep the most probable up to this sum (default: 1)")
    parser.add_argument("--min-p", type=share, default=0.0, help="keep those of this share of the best (default: 0)")
    parser.add_argument("--rule", choices=("token", "block"), default="token", help="default: token")
    parser.add_argument("--context", type=positive, default=4096, help="most tokens of a text (default: 4096)")
    parser.add_argument("--threads", type=positive, help="threads of a pass (default: all CPUs)")
    parser.add_argument("--seed", type=non_negative, default=0, help="seed of everything random (default: 0)")
    parser.add_argument("--compare", action="store_true", help="decode the same prompt plainly as well, and compare")
    parser.add_argument("--json", action="store_true", help="print text, tokens and figures as JSON, and nothing else")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    with ExitStack() as opened:
        try:
            job = _Job(options, opened)
        except (ImportError, OSError, ValueError) as error:
            return _fail(error)
        try:
            return job.run()
        except RuntimeError as error:  # of a runtime, or a cache that cannot be rolled back
            return _fail(error)


class _Job:
    """A text to be generated: the models, the prompt, and where it is shown."""

    def __init__(self, options: argparse.Namespace, opened: ExitStack) -> None:
        self.options = options
        self.sampling = None
        if options.temperature > 0:
            self.sampling = Sampling(options.temperature, options.top_k, options.top_p, options.min_p)
        text = _prompt(options)
        self.target = opened.enter_context(_load(options.target, options))
        self.prompt = _encode(self.target, text, options.chat)
        self.prompt_text = text
        self.draft: DraftStep | None = None
        self.models = models = [self.target]
        if options.draft in _LOOKUPS:
            self.draft = _LOOKUPS[options.draft]()
        elif options.draft != "none":
            draft = opened.enter_context(_load(options.draft, options))
            adapters.check_same_vocabulary(self.target, draft)
            self.draft = draft.as_draft()
            models.append(draft)
        for model in models:
            room = max(0, model.context_length - len(self.prompt))
            if options.max_new > room:
                raise ValueError(
                    f"--max-new: expected at most {room} behind a prompt of {len(self.prompt)} tokens, since the "
                    f"context of {model.name} is {model.context_length} (--context), got {options.max_new}"
                )

    def run(self) -> int:
        screen = None if self.options.json else Screen(sys.stdout)
        rounds: list[Round] = []
        if self.options.compare:
            self._warm_up()
        found = self._generate(rounds, screen)
        plain = effect = place = None
        if self.options.compare:
            self.target.reset()
            plain = self._decoder(None).generate(self.prompt, self.options.max_new)
            if self.sampling is None:
                place = comparison.first_difference(found.tokens, plain.tokens)
                if place is not None and place < min(len(found.tokens), len(plain.tokens)):
                    effect = comparison.batch_effect(self.target, self.prompt, rounds, place)
        identical = place is None if self.options.compare and self.sampling is None else None
        if screen:
            _summarize(screen, found.report, plain.report if plain else None)
            if identical is not None:
                _judge(screen, place, effect)
        else:
            print(json.dumps(self._as_json(found, plain, identical, place, effect), indent=2))
        return 1 if identical is False else 0

    def _warm_up(self) -> None:
        """Touch the weights, which otherwise the first of two texts would wait for."""
        for model in self.models:
            model.logits(self.prompt[:1])
            model.reset()

    def _decoder(self, draft: DraftStep | None) -> SpeculativeDecoder:
        return SpeculativeDecoder(
            draft,
            self.target.as_target(),
            self._length(),
            sampling=self.sampling,
            rule=self.options.rule,
            rng=self.options.seed,
            end_tokens=self.target.end_tokens,
        )

    def _length(self) -> DraftLength:
        if self.options.k != "auto":
            return FixedDraftLength(self.options.k)
        return AdaptiveDraftLength(_LONGEST_ADAPTIVE, draft_cost=0.0 if self.options.draft in _LOOKUPS else None)

    def _generate(self, rounds: list[Round], screen: Screen | None) -> Generation:
        """Decode, show what is decided while it goes on, and leave the time for that out of the figures."""
        shown = _ShownText(screen, self.target, self.prompt, self.prompt_text, self.options.chat) if screen else None
        seconds = 0.0
        started = time.perf_counter()
        for one in self._decoder(self.draft).rounds(self.prompt, self.options.max_new):
            seconds += time.perf_counter() - started
            rounds.append(one)
            if shown:
                shown.add(one)
            started = time.perf_counter()
        if shown:
            shown.end()
        return Generation([token for one in rounds for token in one.tokens], report_of(rounds, seconds))

    def _as_json(
        self,
        found: Generation,
        plain: Generation | None,
        identical: bool | None,
        place: int | None,
        effect: comparison.BatchEffect | None,
    ) -> dict[str, Any]:
        options = self.options
        names = ("draft", "chat", "k", "max_new", "temperature", "top_k", "top_p", "min_p", "rule", "seed", "threads")
        result: dict[str, Any] = {
            "version": specverify.__version__,
            "isa": specverify.active_isa(),
            "target": options.target,
            **{name: getattr(options, name) for name in names},
            "prompt_tokens": self.prompt,
            "tokens": found.tokens,
            "text": self.target.decode(found.tokens),
            **_figures(found.report),
        }
        if plain is not None:
            result["plain"] = {"tokens": plain.tokens, **_figures(plain.report)}
            result["speedup"] = _speedup(found.report, plain.report)
            result["identical"] = identical
            result["first_difference"] = place
            result["batch_effect"] = None if effect is None else dataclasses.asdict(effect)
        return result


class _ShownText:
    """The text on a screen, each token in the style of its kind; characters come whole."""

    def __init__(
        self, screen: Screen, model: adapters.CachedModel, prompt: list[int], prompt_text: str, chat: bool
    ) -> None:
        kinds = ("accepted", "residual", "bonus")
        screen.print(f"{', '.join(map(screen.sample, kinds))}: kinds of tokens in this text")
        screen.print()
        self._text = MarkedText(screen)
        self._stream = adapters.TextStream(model.decode, () if chat else prompt[-_BEFORE:])
        self._style = "bonus"
        cut = "..." if len(prompt_text) > _PROMPT_SHOWN else ""
        self._show(cut + prompt_text[-_PROMPT_SHOWN:] + ("\n" if chat else ""), "prompt")

    def add(self, one: Round) -> None:
        last = "residual" if one.n_accepted < one.n_drafted else "bonus"
        for i, token in enumerate(one.tokens):
            self._style = "accepted" if i < one.n_accepted else last
            self._show(self._stream.add(token), self._style)

    def end(self) -> None:
        self._show(self._stream.flush(), self._style)
        self._text.end_line()

    def _show(self, text: str, style: str) -> None:
        for part in _cells(text):
            self._text.add(part, style)


def _cells(text: str) -> Iterator[str]:
    """Split text at line ends, and write what could steer a terminal as an escape."""
    for part in re.findall(r"\n|[^\n]+", text):
        yield part if part == "\n" else "".join(map(_visible, part))


def _visible(character: str) -> str:
    return character if character.isprintable() or character in _JOINERS else ascii(character)[1:-1]


def _fail(error: Exception) -> int:
    print(f"specverify: {error}", file=sys.stderr)
    return 2


def _draft_length(text: str) -> int | str:
    return text if text == "auto" else non_negative(text)


def _prompt(options: argparse.Namespace) -> str:
    if options.prompt is not None:
        text: str = options.prompt
    elif options.prompt_file is not None:
        text = options.prompt_file.read_text(encoding="utf-8")
    elif sys.stdin.isatty():
        raise ValueError("a prompt: expected --prompt, --prompt-file or text on the standard input, got none")
    else:
        text = sys.stdin.read()
    if not text:
        raise ValueError("a prompt: expected text, got none")
    return text


def _load(path: str, options: argparse.Namespace) -> adapters.CachedModel:
    return adapters.load(path, n_ctx=options.context, n_threads=options.threads)


def _encode(model: adapters.CachedModel, text: str, chat: bool) -> list[int]:
    return model.encode_chat([{"role": "user", "content": text}]) if chat else model.encode(text)


def _figures(report: Report) -> dict[str, Any]:
    return {
        "rounds": report.rounds,
        **{name: value for name, value in dataclasses.asdict(report).items() if name != "tokens"},
        "tested_acceptance": report.tested_acceptance,
        "draft_utilisation": report.draft_utilisation,
        "tokens_per_target_pass": report.tokens_per_target_pass,
        "tokens_per_second": report.tokens_per_second,
        "verify_share": _share(report.verify_seconds, report),
    }


def _share(seconds: float, report: Report) -> float:
    return seconds / report.seconds if report.seconds else 0.0


def _speedup(report: Report, plain: Report) -> float | None:
    """Compare rates, since sampled texts may end at different lengths."""
    mine, theirs = report.tokens_per_second, plain.tokens_per_second
    return mine / theirs if mine and theirs else None


def _summarize(screen: Screen, report: Report, plain: Report | None) -> None:
    def line(name: str, value: float | None, form: str, meaning: str) -> None:
        screen.print(f"  {name:24}{'-' if value is None else format(value, form):>8}   {meaning}")

    ended = {"end": "an end token", "stop": "a stop sequence", "length": "the limit on new tokens"}
    screen.print()
    screen.print(f"{report.tokens} tokens in {report.rounds} rounds, ended by {ended[report.finish_reason]}")
    line("tokens per target pass", report.tokens_per_target_pass, ".3f", "residual or bonus token included")
    line("tested acceptance", report.tested_acceptance, ".3f", "accepted / (accepted + first rejections)")
    line("draft utilisation", report.draft_utilisation, ".3f", "accepted / drafted")
    for name, seconds in (
        ("draft", report.draft_seconds),
        ("target", report.target_seconds),
        ("verification", report.verify_seconds),
    ):
        meaning = f"s, {_share(seconds, report):.1%}" + (" (reading the prompt included)" if name == "target" else "")
        line(name, seconds, ".3f", meaning)
    line("tokens per second", report.tokens_per_second, ".2f", f"in {report.seconds:.3f} s")
    if plain is not None:
        line(
            "plain decoding",
            plain.tokens_per_second,
            ".2f",
            f"tokens per second, {plain.tokens} in {plain.seconds:.3f} s",
        )
        line("speed-up", _speedup(report, plain), ".2f", "of tokens per second")


def _judge(screen: Screen, place: int | None, effect: comparison.BatchEffect | None) -> None:
    screen.print()
    if place is None:
        screen.paragraph("PASS: the text equals plain decoding of the target, token for token", "good")
        return
    text = f"FAIL: the text DIFFERS FROM plain decoding of the target from its token {place} on. "
    if effect is None:
        text += "One of the two ended early."
    else:
        text += (
            "There the runtime's logits of a batch and of single tokens differ by up to "
            f"{effect.largest_difference:.2g}, "
        )
        if effect.explains:
            text += (
                f"and so do their most probable tokens, {effect.batched_token} and {effect.single_token}: the text "
                "follows the batched logits. Other formats or attention kernels give equal ones."
            )
        else:
            text += (
                f"but both have token {effect.single_token} as the most probable one: this is a fault of the "
                "draft/verify loop."
            )
    screen.paragraph(text, "bad")
