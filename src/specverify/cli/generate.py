"""``specverify generate``: text of a real model, with a draft, and what the draft was worth.

Parses and calls. The loop is in specverify/decoder.py, the models in adapters/, drafts without a model in drafts/; what
is shown: _shown.py and _cost_table.py.
"""

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any

import specverify

from .. import adapters, cost
from ..adapters import comparison, timing
from ..decoder import SpeculativeDecoder
from ..draft_length import AdaptiveDraftLength, DraftLength, FixedDraftLength
from ..drafts import NGramDraft, PromptLookup
from ..generation import Generation, Report, Round, report_of
from ..sampling import Sampling
from ..steps import DraftStep
from . import _cost_table
from ._failure import fail
from ._options import cost as number
from ._options import non_negative, positive, share
from ._shown import ShownText, judge, summarize
from ._terminal import Screen

# Two words in common say more than one: a shorter match proposes more often, and mostly in vain.
_LOOKUPS: dict[str, Callable[[], DraftStep]] = {
    "prompt-lookup": lambda: PromptLookup(max_n=16, min_n=2),
    "ngram": lambda: NGramDraft(),
}
_LONGEST_ADAPTIVE = 8


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
        "--temperature", type=number, default=0.0, help="0 is greedy, whatever the filters say (default: 0)"
    )
    parser.add_argument("--top-k", type=non_negative, default=0, help="keep so many tokens; 0 keeps all (default: 0)")
    parser.add_argument("--top-p", type=share, default=1.0, help="keep the most probable up to this sum (default: 1)")
    parser.add_argument("--min-p", type=share, default=0.0, help="keep those of this share of the best (default: 0)")
    parser.add_argument("--rule", choices=("token", "block"), default="token", help="default: token")
    parser.add_argument("--context", type=positive, default=4096, help="most tokens of a text (default: 4096)")
    parser.add_argument("--threads", type=positive, help="threads of a pass (default: all CPUs)")
    parser.add_argument("--seed", type=non_negative, default=0, help="seed of everything random (default: 0)")
    parser.add_argument("--compare", action="store_true", help="decode the same prompt plainly as well, and compare")
    parser.add_argument(
        "--cost",
        action="store_true",
        help="time the steps of these models at the prompt as well, and say which draft length would pay",
    )
    parser.add_argument("--json", action="store_true", help="print text, tokens and figures as JSON, and nothing else")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    with ExitStack() as opened:
        try:
            return _Job(options, opened).run()
        except BrokenPipeError:  # not an error: nobody reads on
            raise
        except (ImportError, OSError, RuntimeError, ValueError) as error:
            return fail(error)


@dataclasses.dataclass(frozen=True)
class _Priced:
    """What the steps take, what the text says of acceptance, and what follows."""

    times: cost.StepTimes
    acceptance: cost.Acceptance
    proposed: cost.ProposedLengths
    advice: cost.Advice


class _Job:
    """A text to be generated: the models, the prompt, and where it is shown."""

    def __init__(self, options: argparse.Namespace, opened: ExitStack) -> None:
        self.options = options
        self.sampling = None
        if options.temperature > 0:
            self.sampling = Sampling(options.temperature, options.top_k, options.top_p, options.min_p)
        self.longest = _LONGEST_ADAPTIVE if options.k == "auto" else options.k
        if options.cost and (options.draft == "none" or not self.longest):
            raise ValueError(
                f"--cost: expected a draft, and --k of at least 1, got --draft {options.draft} --k {options.k}"
            )
        self.prompt_text = _prompt(options)
        self.target = opened.enter_context(_load(options.target, options))
        self.prompt = _encode(self.target, self.prompt_text, options.chat)
        self.draft: DraftStep | None = None
        self.draft_model: adapters.CachedModel | None = None
        if options.draft in _LOOKUPS:
            self.draft = _LOOKUPS[options.draft]()
        elif options.draft != "none":
            self.draft_model = opened.enter_context(_load(options.draft, options))
            adapters.check_same_vocabulary(self.target, self.draft_model)
            self.draft = self.draft_model.as_draft()
        self.models = [model for model in (self.target, self.draft_model) if model is not None]
        self._check_room()

    def _check_room(self) -> None:
        n = len(self.prompt)
        for model in self.models:
            room = max(0, model.context_length - n)
            context = f"behind a prompt of {n} tokens, since the context of {model.name} is {model.context_length}"
            if self.options.max_new > room:
                raise ValueError(
                    f"--max-new: expected at most {room} {context} (--context), got {self.options.max_new}"
                )
            if self.options.cost and self.longest > room:
                raise ValueError(f"--cost: expected room for {self.longest} drafted tokens {context} (--context)")
        if self.options.cost and n < 2:
            raise ValueError(f"--cost: expected a prompt of at least 2 tokens, got {n}")

    def run(self) -> int:
        options = self.options
        screen = None if options.json else Screen(sys.stdout)
        rounds: list[Round] = []
        learns = options.k == "auto" and self.draft_model is not None
        if options.compare or options.cost or learns:
            self._warm_up()
        length = timing.NotedLength(self._length())
        found = self._generate(length, rounds, screen)
        compared = self._compare(rounds, found) if options.compare else None
        priced = self._price(found.report, length.requested) if options.cost else None
        if screen:
            summarize(screen, found.report, compared)
            if compared and compared.identical is not None:
                judge(screen, compared)
            if priced:
                screen.print()
                _cost_table.show(screen, priced.advice)
                if not priced.acceptance.max_k:
                    _cost_table.show_ceiling(screen, priced.times)
        else:
            print(json.dumps(self._as_json(found, compared, priced), indent=2))
        return 1 if compared and compared.identical is False else 0

    def _warm_up(self) -> None:
        """Touch the weights, which otherwise the first of two texts would wait for."""
        for model in self.models:
            model.logits(self.prompt[:1])
            model.reset()

    def _decoder(self, draft: DraftStep | None, length: DraftLength | int) -> SpeculativeDecoder:
        return SpeculativeDecoder(
            draft,
            self.target.as_target(),
            length,
            sampling=self.sampling,
            rule=self.options.rule,
            rng=self.options.seed,
            end_tokens=self.target.end_tokens,
        )

    def _length(self) -> DraftLength:
        if self.options.k != "auto":
            return FixedDraftLength(self.options.k)
        if self.options.cost:
            return AdaptiveDraftLength(self.longest, self._times)
        if self.draft_model is None:
            return AdaptiveDraftLength(self.longest, draft_cost=0.0)
        # Or a first call of a draft that is too slow would be a loss that nothing bounds.
        ratio = timing.draft_cost(self.target, self.draft_model, self.prompt[0])
        return AdaptiveDraftLength(self.longest, draft_cost=ratio)

    @cached_property
    def _times(self) -> cost.StepTimes:
        """What the steps take: asked for before a text whose draft lengths depend on it, else behind all texts."""
        assert self.draft is not None
        return timing.step_times(
            self.target,
            self.draft,
            self.prompt,
            self.longest,
            sampling=self.sampling,
            rule=self.options.rule,
            seed=self.options.seed,
        )

    def _generate(self, length: DraftLength, rounds: list[Round], screen: Screen | None) -> Generation:
        """Decode, show what is decided while it goes on, and leave the time for that out of the figures."""
        shown = ShownText(screen, self.target, self.prompt, self.prompt_text, self.options.chat) if screen else None
        seconds = 0.0
        started = time.perf_counter()
        for one in self._decoder(self.draft, length).rounds(self.prompt, self.options.max_new):
            seconds += time.perf_counter() - started
            rounds.append(one)
            if shown:
                shown.add(one)
            started = time.perf_counter()
        if shown:
            shown.end()
        return Generation([token for one in rounds for token in one.tokens], report_of(rounds, seconds))

    def _compare(self, rounds: list[Round], found: Generation) -> comparison.Comparison:
        self.target.reset()
        plain = self._decoder(None, 0).generate(self.prompt, self.options.max_new)
        return comparison.compare(self.target, self.prompt, rounds, found, plain, greedy=self.sampling is None)

    def _price(self, report: Report, requested: list[int]) -> _Priced:
        acceptance = cost.Acceptance.from_rounds(report.drafted, report.accepted)
        proposed = cost.ProposedLengths.from_rounds(requested, report.drafted)
        max_k = min(self._times.max_k, acceptance.max_k)
        return _Priced(self._times, acceptance, proposed, cost.recommend(self._times, acceptance, max_k, proposed))

    def _as_json(
        self, found: Generation, compared: comparison.Comparison | None, priced: _Priced | None
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
        if compared is not None:
            effect = compared.batch_effect
            result["plain"] = {"tokens": compared.plain.tokens, **_figures(compared.plain.report)}
            result["speedup"] = compared.speedup
            result["identical"] = compared.identical
            result["first_difference"] = compared.first_difference
            result["batch_effect"] = None if effect is None else dataclasses.asdict(effect)
        if priced is not None:
            result["cost"] = _cost_table.as_json(priced.times, priced.acceptance, priced.proposed, priced.advice)
        return result


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
        "verify_share": report.shares[-1] if report.shares else None,
    }
