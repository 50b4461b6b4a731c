"""The draft/verify loop over any two models: what is asked of them, in which order, and what they may remember.

Holds the state machine of a text and nothing else: rows are judged by verify.py, texts end by stopping.py, how much to
draft is decided by draft_length.py. Between two rounds these statements hold, however a round ended:

1. The text is the prompt and the tokens that were given out.
2. No cache holds more than the text without its last token, which every pass begins with.
3. What the next round does is a function of the text, of the past rounds and of the three random streams.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from numbers import Integral
from typing import Any, Literal

import numpy as np

from . import _inputs
from ._result import Verdict
from .draft_length import DraftLength, FixedDraftLength
from .generation import Generation, Round, report_of
from .sampling import Sampling
from .steps import DraftStep, MaskStep, Start, TargetStep, begin_text, cut_back
from .stopping import Ending
from .verify import RULES, verify_greedy

_NO_TOKENS = np.empty(0, np.int64)


class SpeculativeDecoder:
    """Generate text with a target model, several tokens a pass where a cheap draft guesses them.

    Parameters
    ----------
    draft_step : callable, or None
        ``draft_step(prefix, k) -> (tokens, rows)``: up to `k` tokens, and the rows they were drawn from, None if they
        are certain; see :class:`specverify.steps.DraftStep`. None for plain decoding.
    target_step : callable
        ``target_step(prefix, proposed) -> rows [len(proposed) + 1, V]``; see :class:`specverify.steps.TargetStep`.
    k : int, or DraftLength
        Drafted tokens in a round, 0 or more; or what decides it from round to round, such as
        :class:`specverify.AdaptiveDraftLength`.
    greedy : bool, optional
        Take the target's most probable token. Default: unless `sampling` is given.
    sampling : Sampling, optional
        The target's rows, and the draft's dense ones, are logits, and become probabilities by these settings. Without
        it, and with ``greedy=False``, they are probabilities.
    rule : {"token", "block"}
        :func:`specverify.verify_sampled` or :func:`specverify.verify_block`.
    normalized : bool
        Rows of probabilities can be trusted to sum to 1.
    rng : int, SeedSequence, Generator or None
        What ``numpy.random.default_rng`` takes. Draft, acceptance and redraw use streams of their own, spawned from it
        when a text begins. An integer gives the same text in every call; a Generator or SeedSequence goes on.
    end_tokens : iterable of int, int or None
        Each ends the text and is its last token.
    stop : iterable of sequences of int, or None
        Each ends the text when the new tokens end with it, and stays in it.
    mask : callable, optional
        A grammar: ``mask(text)`` gives the tokens that may follow a text, as packed words, int32 [ceil(V / 32)], lowest
        bit first, or as bool [V]. Asked along the drafted tokens up to the first that is not allowed. Needs `sampling`
        or greedy decoding.
    bias : array_like of float32, shape [V], optional
        Added to the logits of the target, and of a draft that gives dense rows; -inf forbids a token. Needs `sampling`
        or greedy decoding.

    Raises
    ------
    TypeError
        A step cannot be called, or has only one of ``n_cached`` and ``truncate``; `k`, `sampling`, `end_tokens`,
        `stop`, `mask` or `bias` are of another type.
    ValueError
        `k` is negative; `greedy` contradicts `sampling`; `rule` is unknown; `mask` or `bias` for probabilities,
        `normalized` for anything else; `bias` has another shape, NaN or inf; a stop sequence is empty.

    Notes
    -----
    A round drafts at most so many tokens as may still be emitted without the bonus token, calls the target once,
    verifies, and cuts what was emitted where a loop of one token at a time would have ended.

    A step with ``n_cached`` and ``truncate`` (:class:`specverify.steps.Cached`) is brought back to the text without its
    last token after each round, and also when a step raises or the iterator is closed. A cache that does not shrink as
    told, or says that it did not, raises `RuntimeError` at once. When a text begins, a step with a method ``begin`` is
    given a :class:`specverify.steps.Start`; a cached one without it is emptied.

    For given models, options and seed the text is the same on every machine and variant of the loops, if the models
    give the same rows. That does not hold for a draft length that looks at the clock: then only the law is the same.

    References
    ----------
    Leviathan, Kalman, Matias: Fast Inference from Transformers via Speculative Decoding, arXiv:2211.17192.

    Examples
    --------
    Four tokens; each is followed by the next, and the draft knows it but for token 3:

    >>> import numpy as np, specverify
    >>> target = lambda prefix, proposed: np.eye(4, dtype=np.float32)[[(t + 1) % 4 for t in [prefix[-1], *proposed]]]
    >>> draft = lambda prefix, k: ([min(prefix[-1] + i, 3) for i in range(1, k + 1)], None)
    >>> tokens, report = specverify.SpeculativeDecoder(draft, target, k=3).generate([0], max_new=8)
    >>> tokens, report.accepted
    ([1, 2, 3, 0, 1, 2, 3, 0], (3, 3))
    """

    def __init__(
        self,
        draft_step: DraftStep | None,
        target_step: TargetStep,
        k: int | DraftLength = 4,
        greedy: bool | None = None,
        *,
        sampling: Sampling | None = None,
        rule: Literal["token", "block"] = "token",
        normalized: bool = False,
        rng: Any = None,
        end_tokens: Iterable[int] | int | None = (),
        stop: Iterable[Sequence[int]] | None = (),
        mask: MaskStep | None = None,
        bias: Any = None,
    ) -> None:
        if isinstance(k, type):
            raise TypeError(f"k: expected an integer or a draft length, got the class {k.__name__}")
        if not (sampling is None or isinstance(sampling, Sampling)):
            raise TypeError(f"sampling: expected Sampling(...) or None, got {type(sampling).__name__}")
        adaptive = all(hasattr(k, name) for name in ("begin", "choose", "observe"))
        length: Any = k if adaptive else FixedDraftLength(_inputs.as_count(k, "k"))
        self._length: DraftLength = length if draft_step is not None else FixedDraftLength(0)
        if greedy and sampling is not None and sampling.temperature > 0:
            raise ValueError(f"greedy: expected False or None with {sampling}, got True")
        self._greedy = sampling is None if greedy is None else greedy
        if normalized and (self._greedy or sampling is not None):
            raise ValueError("normalized: expected False, except for probabilities with greedy=False, got True")
        if rule not in RULES:
            raise ValueError(f"rule: expected one of {', '.join(RULES)}, got {rule!r}")
        for name, option in (("mask", mask), ("bias", bias)):
            if option is not None and not self._greedy and sampling is None:
                raise ValueError(f"{name}: expected greedy decoding or sampling=..., since it applies to logits")
        if mask is not None and not callable(mask):
            raise TypeError(f"mask: expected a function of the text, got {type(mask).__name__}")
        if isinstance(rng, np.random.RandomState):
            raise TypeError("rng: expected what numpy.random.default_rng takes, got RandomState, which has no streams")
        if not isinstance(rng, np.random.Generator):
            np.random.default_rng(rng)  # to refuse it here
        if draft_step is not None:
            _inputs.check_step(draft_step, "draft_step")
        _inputs.check_step(target_step, "target_step")
        self._draft_step = draft_step
        self._target_step = target_step
        self._sampling = sampling
        self._rule = RULES[rule]
        self._mask = None if mask is None else _Packed(mask)
        self._bias = None if bias is None else _inputs.as_bias_row(bias)
        self._normalized = normalized
        self._rng = rng
        self._ending = Ending(end_tokens, stop)
        self._run: _Run | None = None

    def generate(self, prompt_ids: Sequence[int], max_new: int = 128) -> Generation:
        """Extend a text.

        Parameters
        ----------
        prompt_ids : sequence of int
            The text so far, at least one token.
        max_new : int
            The most tokens to add.

        Returns
        -------
        Generation
            ``(tokens, report)``: the new tokens, and the figures of how they came about.

        Raises
        ------
        TypeError, ValueError
            The prompt is empty or not of integers; `max_new` is negative; a step returns what verification refuses, or
            more tokens than were asked for.
        RuntimeError
            A cache could not be cut back.
        """
        started = time.perf_counter()
        run = self._begin(prompt_ids, max_new)
        rounds = list(iter(run.next_round, None))
        return Generation(run.new_tokens, report_of(rounds, time.perf_counter() - started))

    def rounds(self, prompt_ids: Sequence[int], max_new: int = 128) -> Iterator[Round]:
        """Extend a text and yield each round when it is decided. Parameters and errors as in :meth:`generate`."""
        return iter(self._begin(prompt_ids, max_new).next_round, None)

    def stream(self, prompt_ids: Sequence[int], max_new: int = 128) -> Iterator[int]:
        """Extend a text and yield its tokens one by one. Parameters and errors as in :meth:`generate`.

        Closed between two tokens of a block, it leaves the caches as if the tokens not yet given out had never been.
        """
        return _stream(self._begin(prompt_ids, max_new))

    def _begin(self, prompt_ids: Sequence[int], max_new: int) -> "_Run":
        self._run = _Run(self, prompt_ids, max_new)
        return self._run


class _Run:
    """One text in the making: the committed tokens, the random streams, and what the caches may hold."""

    def __init__(self, decoder: SpeculativeDecoder, prompt_ids: Sequence[int], max_new: int) -> None:
        prompt = _inputs.as_prompt(prompt_ids)
        max_new = _inputs.as_count(max_new, "max_new")
        self._decoder = decoder
        self._text = list(prompt)  # steps may keep the prompt
        self._start = len(prompt)
        self._end = len(prompt) + max_new
        self._done = max_new == 0
        draft_stream, self._accepting, self._redrawing = np.random.default_rng(decoder._rng).spawn(3)
        self._cached = [step for step in (decoder._draft_step, decoder._target_step) if hasattr(step, "n_cached")]
        decoder._length.begin()
        start = Start(
            prompt,
            decoder._greedy,
            decoder._sampling,
            draft_stream,
            None if decoder._mask is None else self._allowed,
            decoder._bias,
            decoder._ending.end_tokens,
        )
        for step in (decoder._draft_step, decoder._target_step):
            begin_text(step, start)

    @property
    def new_tokens(self) -> list[int]:
        return self._text[self._start :]

    def next_round(self) -> Round | None:
        """Draft, score, verify, cut, commit; None when the text has ended."""
        if self._done:
            return None
        if self._decoder._run is not self:
            raise RuntimeError("this text cannot go on: its decoder has begun another one")
        before = len(self._text)
        try:
            return self._play()
        except BaseException as error:
            # Of a round that nobody was given nothing may stay, whatever failed in it.
            del self._text[before:]
            self._done = False
            try:
                self._settle()
            except Exception as also:
                self._done = True
                error.add_note(f"and the text cannot go on: {also}")
            raise

    def retract(self, n_tokens: int) -> None:
        """Take back the last tokens of the text, which nobody has seen; nothing can follow."""
        self._done = True
        del self._text[len(self._text) - n_tokens :]
        if self._decoder._run is self:  # else the caches belong to another text by now
            self._settle()

    def _play(self) -> Round:
        text, decoder = self._text, self._decoder
        remaining = self._end - len(text)
        asked = decoder._length.choose(remaining - 1)
        if not (isinstance(asked, Integral) and 0 <= asked < remaining):
            name = type(decoder._length).__name__
            raise ValueError(f"{name}.choose({remaining - 1}): expected 0 to {remaining - 1}, got {asked}")

        started = time.perf_counter()
        tokens, rows = self._draft(asked) if asked else (_NO_TOKENS, None)
        drafted = time.perf_counter()
        proposed = tokens.tolist()
        target_rows = decoder._target_step(text, proposed)
        scored = time.perf_counter()
        n_accepted, next_token = self._verify(target_rows, rows, tokens, proposed)
        verified = time.perf_counter()

        block = [*proposed[:n_accepted], next_token]
        kept, reason = decoder._ending.cut(text, self._start, block, remaining)
        one = Round(
            tuple(block[:kept]),
            len(proposed),
            n_accepted,
            drafted - started,
            scored - drafted,
            verified - scored,
            reason,
        )
        text += one.tokens
        self._done = reason is not None
        self._settle()
        decoder._length.observe(one, asked)
        return one

    def _draft(self, asked: int) -> tuple[np.ndarray, Any]:
        assert self._decoder._draft_step is not None
        drafted = self._decoder._draft_step(self._text, asked)
        if not isinstance(drafted, tuple) or len(drafted) != 2:
            raise TypeError(f"draft_step: expected a tuple (tokens, rows), got {type(drafted).__name__}")
        tokens, rows = _inputs.as_tokens(drafted[0]), drafted[1]
        if len(tokens) > asked:
            raise ValueError(f"draft_step: expected at most {asked} tokens, got {len(tokens)}")
        return tokens, rows

    def _verify(self, target_rows: Any, rows: Any, tokens: np.ndarray, proposed: list[int]) -> tuple[int, int]:
        decoder = self._decoder
        if getattr(target_rows, "ndim", 2) != 2:
            raise ValueError(f"target_step: expected rows, shape [n + 1, V], got shape {tuple(target_rows.shape)}")
        if hasattr(target_rows, "__len__") and len(target_rows) != len(tokens) + 1:
            raise ValueError(
                f"target_step: expected {len(tokens) + 1} rows, for {len(tokens)} proposed tokens and the one after "
                f"them, got {len(target_rows)}"
            )
        options: dict[str, Any] = {}
        if decoder._mask is not None:
            options["mask"] = self._mask_rows(proposed)
            width = getattr(target_rows, "shape", (decoder._mask.vocab,))[-1]
            if decoder._mask.vocab not in (None, width):
                raise ValueError(f"mask: expected bool [{width}], got [{decoder._mask.vocab}]")
        if decoder._bias is not None:
            options["bias"] = decoder._bias
        if decoder._greedy:
            greedily: Verdict = verify_greedy(target_rows, tokens, **options)
            return greedily
        uniforms = np.empty(len(tokens) + 1)
        self._accepting.random(out=uniforms[:-1])
        uniforms[-1] = self._redrawing.random()
        if decoder._sampling is not None:
            options["sampling"] = decoder._sampling
        if not len(tokens):
            rows = None  # whatever a draft that proposes nothing gives
        verdict: Verdict = decoder._rule(target_rows, rows, tokens, uniforms, normalized=decoder._normalized, **options)
        return verdict

    def _allowed(self, text: Sequence[int]) -> np.ndarray:
        """Ask the grammar; of drafted tokens that have ended the text it says nothing: all."""
        mask = self._decoder._mask
        assert mask is not None
        if mask.n_words is not None and self._decoder._ending.ended(text, self._start, len(self._text)):
            return np.full(mask.n_words, -1, np.int32)
        return mask(text)

    def _mask_rows(self, proposed: list[int]) -> np.ndarray:
        """Give the bitmask of each position; after a token that is not allowed no grammar says anything: all."""
        path = list(self._text)
        words = self._allowed(path)
        rows = np.full((len(proposed) + 1, len(words)), -1, np.int32)
        for i, token in enumerate(proposed):
            rows[i] = words
            if not (0 <= token < 32 * len(words) and words[token // 32] >> (token % 32) & 1):
                return rows
            path.append(token)
            words, _ = _inputs.as_mask_words(self._allowed(path), len(words))
        rows[-1] = words
        return rows

    def _settle(self) -> None:
        """Cut the caches back to the text without its last token."""
        keep = len(self._text) - 1
        failures = []
        for step in self._cached:
            try:
                cut_back(step, keep)
            except Exception as error:  # the other cache is to be cut all the same
                failures.append(error)
        if failures:
            raise failures[0]


class _Packed:
    """A grammar whose answers are packed words, whatever it gives; it knows how many, and the length of booleans."""

    def __init__(self, mask: MaskStep) -> None:
        self._mask = mask
        self.n_words: int | None = None
        self.vocab: int | None = None

    def __call__(self, text: Sequence[int]) -> np.ndarray:
        words, self.vocab = _inputs.as_mask_words(self._mask(text))
        self.n_words = len(words)
        return words


def _stream(run: _Run) -> Iterator[int]:
    while (one := run.next_round()) is not None:
        for given, token in enumerate(one.tokens, 1):
            try:
                yield token
            except BaseException:  # closed, or something thrown in
                run.retract(len(one.tokens) - given)
                raise
