"""``specverify generate``: text of a real model, with a draft, and what the draft was worth.

Parses and calls. The loop is in specverify/decoder.py, the models in adapters/, drafts without a model in drafts/; what
is shown: _shown.py and _cost_table.py.
"""

import argparse
import dataclasses
import difflib
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any

import specverify

from .. import adapters, cost
from ..adapters import comparison, timing
from ..decoder import SpeculativeDecoder
from ..draft_length import AdaptiveDraftLength, DraftLength, FixedDraftLength, NotedDraftLength
from ..drafts import NGramDraft, PromptLookup
from ..generation import Generation, Report, Round, report_of
from ..sampling import Sampling
from ..steps import DraftStep
from . import _cost_table
from ._failure import fail, warn
from ._json import dumps
from ._options import RULE_HELP, non_negative, positive, share
from ._options import cost as number
from ._shown import ShownText, before, judge, say_lengths, summarize
from ._terminal import Screen

# Two words in common say more than one: a shorter match proposes more often, and mostly in vain.
_LOOKUPS: dict[str, Callable[[], DraftStep]] = {
    "prompt-lookup": lambda: PromptLookup(max_n=16, min_n=2),
    "ngram": lambda: NGramDraft(),
}
_LONGEST_ADAPTIVE = 8
_WARM_UP = (8, 2)  # tokens of the prompt, and new ones: passes over several tokens and over one
_FILTERS = ("top_k", "top_p", "min_p")


def add(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "generate",
        help="generate text with a real model and a draft, and say what the draft was worth",
        description="Generate text with a model of llama.cpp (a .gguf file) or transformers (a folder), token by token "
        "as it is decided, and report rounds, acceptance and time. Exit code 1 if --compare finds another text than "
        "plain decoding at temperature 0, 2 if something is missing.",
    )
    parser.add_argument(
        "--target", required=True, metavar="MODEL", help="the model: a .gguf file or a folder; nothing is downloaded"
    )
    parser.add_argument(
        "--draft",
        default="prompt-lookup",
        metavar="DRAFT",
        help="prompt-lookup, ngram, none, or a .gguf file or folder: a model of the target's vocabulary "
        "(default: %(default)s)",
    )
    prompt = parser.add_mutually_exclusive_group()
    prompt.add_argument("--prompt", metavar="TEXT", help="the text to go on from (default: standard input)")
    prompt.add_argument("--prompt-file", type=Path, metavar="FILE", help="a file with it, in UTF-8; taken as it is")
    parser.add_argument("--chat", action="store_true", help="put the prompt to the model as a user's message")
    parser.add_argument("--system", metavar="TEXT", help="with --chat: the system's message before it")
    parser.add_argument(
        "--stop",
        type=_stop_text,
        action="append",
        default=[],
        metavar="TEXT",
        help="end with the token that completes TEXT in the new text, where it stays; may be given several times",
    )
    parser.add_argument(
        "--k", type=_draft_length, default=4, help="drafted tokens in a round, or auto: what pays (default: 4)"
    )
    parser.add_argument("--max-new", type=positive, default=128, help="most tokens to generate (default: 128)")
    parser.add_argument(
        "--temperature", type=number, default=0.0, help="0 is greedy, and the filters below have no effect (default: 0)"
    )
    parser.add_argument("--top-k", type=non_negative, default=0, help="keep this many tokens; 0 keeps all (default: 0)")
    parser.add_argument("--top-p", type=share, default=1.0, help="keep the most probable up to this sum (default: 1)")
    parser.add_argument(
        "--min-p", type=share, default=0.0, help="keep tokens of at least this fraction of the best one's (default: 0)"
    )
    parser.add_argument("--rule", choices=("token", "block"), default="token", help=RULE_HELP)
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
        except (ImportError, RuntimeError, ValueError) as error:  # cli.main takes OSErrors: some are of the streams
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
        sampling = Sampling(options.temperature, options.top_k, options.top_p, options.min_p)
        self.sampling = sampling if sampling.temperature > 0 else None
        if self.sampling is None:
            _warn_of_filters(sampling)
        self.longest = _LONGEST_ADAPTIVE if options.k == "auto" else options.k
        if options.cost and (options.draft == "none" or not self.longest):
            raise ValueError(
                f"--cost: expected a draft, and --k of at least 1, got --draft {options.draft} --k {options.k}"
            )
        if options.system is not None and not options.chat:
            raise ValueError("--system: expected together with --chat")
        self.prompt_text = _prompt(options)
        # The draft first: a misspelt name is to be said before a large target is loaded.
        self.draft_model: adapters.CachedModel | None = None
        if options.draft not in (*_LOOKUPS, "none"):
            self.draft_model = opened.enter_context(_load_draft(options))
        self.target = opened.enter_context(_load("--target", options.target, "a .gguf file or a folder", options))
        if self.draft_model is not None:
            adapters.check_same_vocabulary(self.target, self.draft_model)
        self.prompt = _encode(self.target, self.prompt_text, options)
        self.draft = self._draft_step()
        self.models = [model for model in (self.target, self.draft_model) if model is not None]
        self._check_room()

    def _check_room(self) -> None:
        n = len(self.prompt)
        for model in self.models:
            room = max(0, model.context_length - n)
            context = f"after a prompt of {n} tokens, since the context of {model.name} is {model.context_length}"
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
        self._warm_up()
        length = NotedDraftLength(self._length())
        shown = ShownText(screen, self.target, self.prompt, self.prompt_text, options.chat) if screen else None
        rounds, found = self._generate(self._decoder(self.draft, length), shown)
        compared = self._compare(rounds, found) if options.compare else None
        priced = self._price(found.report, length.requested) if options.cost else None
        if screen:
            summarize(screen, found.report, compared)
            if options.k == "auto" and self.draft is not None:
                say_lengths(screen, length.requested, found.report.drafted)
            if compared:
                judge(screen, compared)
            if priced:
                screen.print()
                _cost_table.show(screen, priced.advice)
                if not priced.acceptance.max_k:
                    _cost_table.show_ceiling(screen, priced.times)
        else:
            print(dumps(self._as_json(found, length.requested, compared, priced)))
        return 1 if compared and compared.identical is False else 0

    def _warm_up(self) -> None:
        """Do once what the first text would pay for alone: read weights, find the end tokens, import what is lazy."""
        n_prompt, n_new = _WARM_UP
        for draft in (self._draft_step(), None):
            decoder = self._decoder(draft, min(n_new, self.longest))
            decoder.generate(self.prompt[:n_prompt], min(n_new, self.options.max_new))
            for model in self.models:
                model.reset()

    def _draft_step(self) -> DraftStep | None:
        if self.draft_model is not None:
            return self.draft_model.as_draft()
        return _LOOKUPS[self.options.draft]() if self.options.draft in _LOOKUPS else None

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
        """What the steps take: asked for before a text whose draft lengths depend on it, else after all texts."""
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

    def _generate(self, decoder: SpeculativeDecoder, shown: ShownText | None) -> tuple[list[Round], Generation]:
        """Decode, show what is decided while it goes on, and leave the time for that out of the figures."""
        rounds: list[Round] = []
        seconds = 0.0
        started = time.perf_counter()
        for one in self._until_stop(decoder.rounds(self.prompt, self.options.max_new)):
            seconds += time.perf_counter() - started
            rounds.append(one)
            if shown:
                shown.add(one)
            started = time.perf_counter()
        if shown:
            shown.end()
        return rounds, Generation([token for one in rounds for token in one.tokens], report_of(rounds, seconds))

    def _until_stop(self, rounds: Iterable[Round]) -> Iterable[Round]:
        options = self.options
        return adapters.until_text(rounds, self.target.decode, options.stop, before(self.prompt, options.chat))

    def _compare(self, rounds: list[Round], found: Generation) -> comparison.Comparison:
        self.target.reset()
        _, plain = self._generate(self._decoder(None, 0), None)
        return comparison.compare(self.target, self.prompt, rounds, found, plain, greedy=self.sampling is None)

    def _price(self, report: Report, requested: list[int]) -> _Priced:
        acceptance = cost.Acceptance.from_rounds(report.drafted, report.accepted)
        proposed = cost.ProposedLengths.from_rounds(requested, report.drafted)
        max_k = min(self._times.max_k, acceptance.max_k)
        return _Priced(self._times, acceptance, proposed, cost.recommend(self._times, acceptance, max_k, proposed))

    def _as_json(
        self,
        found: Generation,
        requested: list[int],
        compared: comparison.Comparison | None,
        priced: _Priced | None,
    ) -> dict[str, Any]:
        options = self.options
        names = ["draft", "chat", "system", "stop", "k", "max_new", "temperature", *_FILTERS, "rule", "seed"]
        names += ["threads", "context"]
        result: dict[str, Any] = {
            "version": specverify.__version__,
            "isa": specverify.active_isa(),
            "target": options.target,
            **{name: getattr(options, name) for name in names},
            "prompt_tokens": self.prompt,
            "tokens": found.tokens,
            "text": self.target.decode(found.tokens),
            "requested": requested,
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
    try:
        return text if text == "auto" else non_negative(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}, or auto") from None


def _stop_text(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("expected a text that is not empty")
    return text


def _warn_of_filters(sampling: Sampling) -> None:
    idle = [name for name in _FILTERS if getattr(sampling, name) != getattr(Sampling(), name)]
    if idle:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in idle)
        warn(f"{names}: no effect at --temperature 0, which takes the most probable token")


def _prompt(options: argparse.Namespace) -> str:
    if options.prompt is not None:
        text: str = options.prompt
    elif options.prompt_file is not None:
        try:
            text = options.prompt_file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ValueError(f"--prompt-file: expected a text in UTF-8, got {options.prompt_file}: {reason}") from error
    else:
        text = _standard_input()
    if not text:
        raise ValueError("a prompt: expected --prompt, --prompt-file or text on the standard input, got none")
    return text


def _standard_input() -> str:
    if sys.stdin is None or sys.stdin.isatty():  # None: it was closed
        return ""
    try:
        return sys.stdin.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"standard input: expected a text in UTF-8: {reason}") from error


def _load(option: str, path: str, expected: str, options: argparse.Namespace) -> adapters.CachedModel:
    """Load a model; what is wrong with its path is said of the option."""
    try:
        return adapters.load(path, n_ctx=options.context, n_threads=options.threads)
    except (FileNotFoundError, ValueError) as error:
        what, colon, rest = str(error).partition(": ")
        if what != "path" or not colon:
            raise
        if not Path(path).exists():
            rest = f"expected {expected} on this machine (nothing is downloaded), got {path}, which does not exist"
        raise type(error)(f"{option}: {rest}") from error


def _load_draft(options: argparse.Namespace) -> adapters.CachedModel:
    names = (*_LOOKUPS, "none")
    try:
        return _load("--draft", options.draft, f"{', '.join(names)}, a .gguf file or a folder", options)
    except FileNotFoundError as error:
        meant = difflib.get_close_matches(options.draft.lower(), names, 1, 0.7)
        raise FileNotFoundError(f"{error}; {meant[0]}?" if meant else str(error)) from error


def _encode(model: adapters.CachedModel, text: str, options: argparse.Namespace) -> list[int]:
    if not options.chat:
        return model.encode(text)
    system = [] if options.system is None else [{"role": "system", "content": options.system}]
    return model.encode_chat([*system, {"role": "user", "content": text}])


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
