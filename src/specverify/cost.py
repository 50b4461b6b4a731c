"""What speculation costs and gains: times of single steps and acceptance in, tokens per second out.

Scalars only. Holds no model and no loop: :func:`measure_steps` times any steps of steps.py, the rounds of generation.py
give the acceptance, and draft_length.py decides with the same model while a text is written.
"""

import math
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import mul
from statistics import median
from typing import Any, Literal, NamedTuple

import numpy as np

from .steps import Cached, DraftStep, Start, TargetStep

__all__ = [
    "Acceptance",
    "Advice",
    "Audit",
    "Prediction",
    "ProposedLengths",
    "StepTimes",
    "audit",
    "ceiling",
    "closed_form_speedup",
    "from_json",
    "measure_steps",
    "predict",
    "recommend",
    "to_json",
]

Between = Literal["refuse", "linear"]


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Durations of the parts of a round, in seconds.

    Attributes
    ----------
    target : tuple of (n, seconds)
        A target pass over n = 1, 2, ... tokens, each as measured, in rising order of n; n = 1 must be among them. A
        round that drafts n - 1 tokens has a pass over n.
    draft_token : float
        One draft step: reading one token and proposing the next.
    draft_fixed : float
        What a call of the draft takes whatever it proposes; all of a look-up.
    catch_up : float or None
        A draft step that reads two tokens, as the first one after a round in which all was accepted: the last drafted
        token and the bonus token. None: as long as a step that reads one.
    draft_start : float
        The draft's reading of the prompt, once a text. In no prediction of a round; a choice whether to begin drafting
        takes it into account.
    verify : tuple of (k, seconds)
        Verification, and the choice of the next token, in a round of k drafted tokens; linear between the measured k,
        constant beyond them, 0 if there are none. k = 0 belongs to plain decoding.
    between : {"refuse", "linear"}
        What an n between two measured ones takes: an error, or linear interpolation. Never anything beyond the last: a
        pass over more tokens can cost any amount.

    Raises
    ------
    ValueError
        A negative, infinite or NaN time; `target` without n = 1 or not in rising order; `catch_up` below `draft_token`;
        an unknown `between`.

    Examples
    --------
    >>> times = StepTimes(target=((1, 0.068), (2, 0.116), (5, 0.140)), draft_token=0.005, between="linear")
    >>> round(times.target_seconds(3), 3)
    0.124
    >>> times.draft_seconds(4)
    0.02
    """

    target: tuple[tuple[int, float], ...]
    draft_token: float = 0.0
    draft_fixed: float = 0.0
    catch_up: float | None = None
    draft_start: float = 0.0
    verify: tuple[tuple[int, float], ...] = ()
    between: Between = "refuse"

    def __post_init__(self) -> None:
        if not self.target or self.target[0][0] != 1:
            raise ValueError(f"target: expected a time of a pass over 1 token first, got {self.target[:1]}")
        _check_table("target", self.target)
        _check_table("verify", self.verify)
        for name in ("draft_token", "draft_fixed", "catch_up", "draft_start"):
            _check_seconds(name, getattr(self, name) or 0.0)
        if self.target[0][1] == 0.0:
            raise ValueError("target: expected a positive time of a pass over 1 token, got 0")
        if self.catch_up is not None and self.catch_up < self.draft_token:
            raise ValueError(f"catch_up: expected at least draft_token = {self.draft_token}, got {self.catch_up}")
        if self.between not in ("refuse", "linear"):
            raise ValueError(f"between: expected 'refuse' or 'linear', got {self.between!r}")

    @property
    def max_k(self) -> int:
        """The longest draft whose target pass is known."""
        return self.target[-1][0] - 1

    @property
    def plain_seconds(self) -> float:
        """One token of plain decoding: a target pass over one token, and the choice of the next."""
        return self.target[0][1] + self.verify_seconds(0)

    @property
    def extra_catch_up(self) -> float:
        """What reading a second token adds to a draft step."""
        return 0.0 if self.catch_up is None else self.catch_up - self.draft_token

    def is_measured(self, n: int) -> bool:
        """Whether a target pass over n tokens was measured, not interpolated."""
        return any(known == n for known, _ in self.target)

    def target_seconds(self, n: int) -> float:
        """Duration of a target pass over n tokens.

        Raises
        ------
        ValueError
            `n` was not measured, and interpolation was not asked for or cannot help.
        """
        known = [size for size, _ in self.target]
        place = bisect_left(known, n)
        if place < len(known) and known[place] == n:
            return self.target[place][1]
        if self.between == "refuse" or not 0 < place < len(known):
            raise ValueError(f"n = {n}: expected a measured number of tokens in a target pass, one of {known}")
        return _between(self.target[place - 1], self.target[place], n)

    def draft_seconds(self, n: int) -> float:
        """Duration of a draft call that proposes n tokens, without a catch-up."""
        return self.draft_fixed + n * self.draft_token

    def verify_seconds(self, k: int) -> float:
        """Duration of the verification of k drafted tokens."""
        if not self.verify:
            return 0.0
        place = bisect_left(self.verify, (k, -math.inf))
        if place == len(self.verify) or self.verify[place][0] == k or place == 0:
            return self.verify[min(place, len(self.verify) - 1)][1]
        return _between(self.verify[place - 1], self.verify[place], k)


@dataclass(frozen=True, slots=True)
class Acceptance:
    """How many drafted tokens are accepted, position by position.

    Attributes
    ----------
    rates : tuple of float
        ``rates[i - 1]``: probability that drafted token i is accepted when it exists and those before it were.
    tested : tuple of float
        Rounds behind each rate; 0 for a rate that was assumed or follows from one of 0.

    Raises
    ------
    ValueError
        A rate outside [0, 1]; as many counts as rates are needed, none negative.

    Notes
    -----
    P(accepted >= k) is the product of the first k rates. Nothing is taken to be equal across positions.
    """

    rates: tuple[float, ...]
    tested: tuple[float, ...]

    def __post_init__(self) -> None:
        _check_rates("rates", self.rates)
        _check_counts(self.tested, len(self.rates))

    @classmethod
    def from_rounds(cls, drafted: Iterable[int], accepted: Iterable[int]) -> "Acceptance":
        """Estimate from rounds, which may have drafted different numbers of tokens.

        Parameters
        ----------
        drafted, accepted : iterable of int
            Drafted and accepted tokens of each round, as in :class:`specverify.generation.Report`.

        Returns
        -------
        Acceptance
            As far as the rounds tell: up to the longest draft, or to the last position that was ever tested.

        Raises
        ------
        ValueError
            The two differ in length, or a round accepted fewer than 0 or more than it drafted.

        Notes
        -----
        The rate of position i is taken over the rounds that drafted at least i tokens and accepted the i - 1 before. So
        a short draft that was accepted as a whole is not held against longer ones: it is censored, not rejected. The
        product of such rates is the estimator of Kaplan and Meier; it is right if how many tokens are drafted tells
        nothing about how many of them pass. Where it does, as in look-ups, see :meth:`by_length`.

        References
        ----------
        Kaplan and Meier, Nonparametric estimation from incomplete observations, JASA 53, 1958.

        Examples
        --------
        >>> three = Acceptance.from_rounds(drafted=[4, 4, 4], accepted=[1, 0, 4])
        >>> [round(three.at_least(k), 3) for k in range(5)]
        [1.0, 0.667, 0.333, 0.333, 0.333]
        >>> three.tested
        (3.0, 2.0, 1.0, 1.0)
        """
        pairs = _pairs("drafted", drafted, "accepted", accepted)
        return cls(*_chain(pairs))

    @classmethod
    def by_length(cls, drafted: Iterable[int], accepted: Iterable[int]) -> dict[int, "Acceptance"]:
        """Estimate apart for each number of drafted tokens; arguments and errors as of :meth:`from_rounds`."""
        groups: dict[int, list[tuple[int, int]]] = {}
        for pair in _pairs("drafted", drafted, "accepted", accepted):
            groups.setdefault(pair[0], []).append(pair)
        return {n: cls(*_chain(pairs)) for n, pairs in sorted(groups.items())}

    @classmethod
    def from_rate(cls, alpha: float, max_k: int) -> "Acceptance":
        """Assume one acceptance rate at all of `max_k` positions."""
        return cls((float(alpha),) * max_k, (0.0,) * max_k)

    @classmethod
    def from_at_least(cls, shares: Sequence[float]) -> "Acceptance":
        """Take P(accepted >= 1), P(accepted >= 2), ... as given.

        Raises
        ------
        ValueError
            A share outside [0, 1] or above the one before it.
        """
        _check_rates("shares", shares)
        before = (1.0, *shares)
        for i, share in enumerate(shares):
            if share > before[i]:
                raise ValueError(f"shares[{i}]: expected at most shares[{i - 1}] = {before[i]}, got {share}")
        rates = tuple(share / earlier if earlier else 0.0 for earlier, share in pairwise(before))
        return cls(rates, (0.0,) * len(rates))

    @property
    def max_k(self) -> int:
        """The longest draft about which something is known."""
        return len(self.rates)

    def at_least(self, k: int) -> float:
        """P(accepted >= k) in rounds that draft at least k tokens.

        Raises
        ------
        ValueError
            Nothing is known of position k.
        """
        if not 0 <= k <= self.max_k:
            raise ValueError(f"k = {k}: expected at most {self.max_k}, the positions whose acceptance is known")
        return math.prod(self.rates[:k], start=1.0)

    def standard_error(self, k: int) -> float:
        """Standard error of :meth:`at_least`, by Greenwood's formula; NaN for a share of 0 or of assumed rates."""
        share = self.at_least(k)
        if share == 0.0 or not all(self.tested[:k]):
            return math.nan
        return share * math.sqrt(sum((1 - r) / (r * n) for r, n in zip(self.rates[:k], self.tested[:k], strict=True)))


@dataclass(frozen=True, slots=True)
class ProposedLengths:
    """How many tokens a draft proposes when it is asked for k: a look-up finds nothing in many rounds.

    Attributes
    ----------
    rates : tuple of float
        ``rates[i - 1]``: probability of an i-th token when at least i are asked for and i - 1 are there. As many as
        needed are taken to be 1 behind the last: what finds that many tokens finds more.
    tested : tuple of float
        Rounds behind each rate; 0 for a rate that was assumed.

    Raises
    ------
    ValueError
        As :class:`Acceptance`.
    """

    rates: tuple[float, ...] = ()
    tested: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        _check_rates("rates", self.rates)
        _check_counts(self.tested, len(self.rates))

    @classmethod
    def from_rounds(cls, requested: Iterable[int], drafted: Iterable[int]) -> "ProposedLengths":
        """Estimate from what was asked for and what came; the same estimator as :meth:`Acceptance.from_rounds`.

        Examples
        --------
        >>> ProposedLengths.from_rounds(requested=[4, 4, 2, 4], drafted=[0, 4, 2, 0]).shares(4)
        (0.5, 0.0, 0.0, 0.0, 0.5)
        """
        return cls(*_chain(_pairs("requested", requested, "drafted", drafted)))

    def at_least(self, n: int) -> float:
        """P(proposed >= n) when at least n tokens are asked for."""
        return math.prod(self.rates[:n], start=1.0)

    def shares(self, k: int) -> tuple[float, ...]:
        """Shares of rounds that propose 0, 1, ..., k tokens when k are asked for."""
        reached = [self.at_least(n) for n in range(k + 1)]
        return (*(more - less for more, less in pairwise(reached)), reached[-1])


class Prediction(NamedTuple):
    """What a draft length comes to.

    Attributes
    ----------
    k : int
        Tokens asked of the draft in a round; 0 is plain decoding.
    tokens_per_round : float
        Mean of the emitted tokens, the residual or bonus token included: tokens per target pass.
    seconds_per_round : float
        Mean duration of a round.
    tokens_per_second : float
    speedup : float
        Over plain decoding.
    ceiling : float
        What no acceptance can beat in rounds that propose k tokens: :func:`ceiling`.
    measured : bool
        Whether the target pass over k + 1 tokens was measured, not interpolated.
    """

    k: int
    tokens_per_round: float
    seconds_per_round: float
    tokens_per_second: float
    speedup: float
    ceiling: float
    measured: bool


class Advice(NamedTuple):
    """Predictions for k = 0, 1, ..., the k that is fastest, and that in a sentence."""

    predictions: tuple[Prediction, ...]
    k: int
    sentence: str

    @property
    def best(self) -> Prediction:
        """The prediction of the advised k."""
        return self.predictions[self.k]


class Audit(NamedTuple):
    """Predictions beside measurements.

    Attributes
    ----------
    errors : tuple of float
        predicted / measured - 1, cell by cell.
    worst : float
        The largest absolute error.
    within : float
        Share of the cells whose absolute error is at most the bound.
    """

    errors: tuple[float, ...]
    worst: float
    within: float


def predict(
    times: StepTimes,
    acceptance: Acceptance | Mapping[int, Acceptance],
    k: int,
    proposed: ProposedLengths | Sequence[float] | None = None,
) -> Prediction:
    """Predict the tokens per second of a draft length.

    Parameters
    ----------
    times : StepTimes
        Of the parts of a round.
    acceptance : Acceptance, or mapping of int to Acceptance
        Of the rounds; or apart for each number n of proposed tokens, where what is found often is also better.
    k : int
        Tokens asked of the draft; 0 is plain decoding.
    proposed : ProposedLengths, sequence of float of length k + 1, or None
        Shares of the rounds that propose 0, 1, ..., k tokens. None: all propose k.

    Returns
    -------
    Prediction

    Raises
    ------
    ValueError
        A negative `k`; shares that are not k + 1, are negative or do not sum to 1; times or acceptance of a length that
        is needed are not known.

    Notes
    -----
    With w_n the share of rounds that propose n tokens and A_n(i) = P(accepted >= i) in these,

    - tokens per round: sum of w_n (1 + A_n(1) + ... + A_n(n)),
    - seconds per round: sum of w_n (T_draft(n) + T_target(n + 1) + T_verify(n)), plus the extra of the catch-up step
      times the probability that the round before was accepted as a whole, (sum of w_n A_n(n), n >= 1), and that this
      one drafts, 1 - w_0.

    With w_k = 1 this is T(1) (1 + sum A_k) / (T_draft(k) + T_target(k + 1) + T_verify(k)) of the literature, with the
    cost of the pass as a function of k.

    References
    ----------
    Leviathan et al., arXiv:2211.17192, section 3.3, for the case of a constant cost.

    Examples
    --------
    All is accepted, and yet slower, since a pass over two tokens takes five times as long as one over one:

    >>> times = StepTimes(target=((1, 0.006), (2, 0.030)))
    >>> found = predict(times, Acceptance.from_rate(1.0, 1), k=1)
    >>> round(found.tokens_per_second, 1), round(found.speedup, 2)
    (66.7, 0.4)
    """
    if k < 0:
        raise ValueError(f"k: expected a draft length of at least 0, got {k}")
    plain = times.plain_seconds
    if k == 0:
        return Prediction(0, 1.0, plain, 1.0 / plain, 1.0, 1.0, True)
    tokens = seconds = all_accepted = 0.0
    shares = _shares(proposed, k)
    for n, share in enumerate(shares):
        if share == 0.0:
            continue
        at_least = [1.0, *accumulate(_rates_of(acceptance, n), mul)]
        tokens += share * sum(at_least)
        seconds += share * (times.draft_seconds(n) + times.target_seconds(n + 1) + times.verify_seconds(n))
        all_accepted += share * at_least[n] if n else 0.0
    seconds += all_accepted * (1.0 - shares[0]) * times.extra_catch_up
    return Prediction(
        k, tokens, seconds, tokens / seconds, tokens * plain / seconds, ceiling(times, k), times.is_measured(k + 1)
    )


def recommend(
    times: StepTimes,
    acceptance: Acceptance | Mapping[int, Acceptance],
    max_k: int,
    proposed: ProposedLengths | None = None,
) -> Advice:
    """Predict every draft length up to `max_k` and advise the fastest, which may be 0.

    Parameters
    ----------
    times, acceptance, proposed
        As of :func:`predict`.
    max_k : int
        The longest draft to consider.

    Returns
    -------
    Advice

    Raises
    ------
    ValueError
        As :func:`predict`.

    Examples
    --------
    >>> recommend(StepTimes(target=((1, 0.006), (2, 0.030))), Acceptance.from_rate(1.0, 1), max_k=1).sentence
    'Do not speculate: plain decoding gives 166.7 tokens/s, k = 1 at best 66.7 (0.40x), whatever is accepted.'
    """
    predictions = tuple(predict(times, acceptance, k, proposed) for k in range(max_k + 1))
    best = max(predictions, key=lambda one: (one.tokens_per_second, -one.k))
    return Advice(predictions, best.k, _sentence(predictions, best))


def ceiling(times: StepTimes, k: int) -> float:
    """Give the speed-up that no acceptance can beat in rounds that propose k tokens.

    Parameters
    ----------
    times : StepTimes
        Of the parts of a round.
    k : int
        Drafted tokens in a round.

    Returns
    -------
    float
        (k + 1) T(1) / (T_draft(k) + T_target(k + 1)), with verification on both sides.

    Raises
    ------
    ValueError
        The target pass over k + 1 tokens is not known.

    Examples
    --------
    >>> round(ceiling(StepTimes(target=((1, 0.0133), (5, 0.056)), draft_token=0.0133), k=4), 2)
    0.61
    """
    if k == 0:
        return 1.0
    spent = times.draft_seconds(k) + times.target_seconds(k + 1) + times.verify_seconds(k)
    return (k + 1) * times.plain_seconds / spent if spent else math.inf


def closed_form_speedup(alpha: float, k: int, draft_cost: float) -> float:
    """Give the textbook's speed-up: independent acceptance at one rate, and a pass that costs the same for any k.

    Parameters
    ----------
    alpha : float
        Acceptance rate, in [0, 1].
    k : int
        Drafted tokens in a round.
    draft_cost : float
        Time of a draft step / time of a target pass.

    Returns
    -------
    float
        (1 - alpha^(k + 1)) / ((1 - alpha) (k draft_cost + 1)); (k + 1) / (k draft_cost + 1) for alpha = 1.

    Raises
    ------
    ValueError
        `alpha` outside [0, 1], or `k` or `draft_cost` negative.

    Notes
    -----
    For comparison. On a CPU neither assumption holds: use :func:`predict`.

    References
    ----------
    Leviathan et al., arXiv:2211.17192, theorem 3.8.

    Examples
    --------
    >>> closed_form_speedup(0.5, k=1, draft_cost=0.5)
    1.0
    >>> closed_form_speedup(1.0, k=4, draft_cost=0.25)
    2.5
    """
    _check_rates("alpha", (alpha,))
    if k < 0 or not draft_cost >= 0:
        raise ValueError(f"k, draft_cost: expected at least 0, got {k} and {draft_cost}")
    tokens = float(k + 1) if alpha == 1.0 else (1.0 - alpha ** (k + 1)) / (1.0 - alpha)
    return tokens / (k * draft_cost + 1.0)


def audit(predicted: Sequence[float], measured: Sequence[float], bound: float = 0.1) -> Audit:
    """Compare predicted with measured tokens per second.

    Parameters
    ----------
    predicted, measured : sequence of float, same length
        Of each cell.
    bound : float
        The absolute relative error that counts as right.

    Returns
    -------
    Audit

    Raises
    ------
    ValueError
        The two differ in length, there is no cell, or something was measured as 0 or less.

    Examples
    --------
    >>> found = audit([10.0, 30.0], [10.0, 24.0])
    >>> found.errors, found.worst, found.within
    ((0.0, 0.25), 0.25, 0.5)
    """
    if len(predicted) != len(measured) or not measured:
        raise ValueError(f"predicted, measured: expected as many of both, got {len(predicted)} and {len(measured)}")
    for i, value in enumerate(measured):
        if not value > 0.0:
            raise ValueError(f"measured[{i}]: expected a positive number, got {value}")
    errors = tuple(guess / found - 1.0 for guess, found in zip(predicted, measured, strict=True))
    sizes = [abs(error) for error in errors]
    return Audit(errors, max(sizes), sum(size <= bound for size in sizes) / len(sizes))


def measure_steps(
    draft_step: DraftStep,
    target_step: TargetStep,
    prompt: Sequence[int],
    ks: Sequence[int] = (1, 2, 4, 8),
    repeats: int = 5,
    *,
    verify: Callable[[Any, Any, Any], Any] | None = None,
    start: Start | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> StepTimes:
    """Time the parts of a round of two models.

    Parameters
    ----------
    draft_step, target_step
        As of the draft/verify loop. A step with a cache is cut back before each timing, so that every pass reads what
        it would read in a round; a step with ``begin`` is told `start`.
    prompt : sequence of int
        The text at whose end is measured, of at least 2 tokens.
    ks : sequence of int
        Draft lengths, each at least 1. With two or more, the draft's time is split into a fixed part and a part per
        token.
    repeats : int
        Timings of each part, of which the median counts. One more comes first and is not counted.
    verify : callable or None
        ``verify(target_rows, draft_rows, tokens)``, timed on the rows that come; None: not measured, so free.
    start : Start or None
        What a text begins with. None: greedy.
    clock : callable
        Gives seconds.

    Returns
    -------
    StepTimes
        With linear interpolation between the measured passes.

    Raises
    ------
    ValueError
        A prompt of fewer than 2 tokens, no or bad `ks`, fewer than 1 of `repeats`.

    Notes
    -----
    The first call of the draft, which is measured once, gives `draft_start`, whatever else a first call does. The
    lengths are measured in turn, so that a slow second of the machine meets all of them. Where the draft proposes
    fewer tokens than asked, its time counts for as many as it proposed; the target pass is filled up with tokens of
    the prompt, which cost the same.
    """
    lengths = sorted(set(ks))
    if len(prompt) < 2:
        raise ValueError(f"prompt: expected at least 2 tokens, got {len(prompt)}")
    if not lengths or lengths[0] < 1:
        raise ValueError(f"ks: expected draft lengths of at least 1, got {tuple(ks)}")
    if repeats < 1:
        raise ValueError(f"repeats: expected at least 1, got {repeats}")
    start = start or Start(prompt=prompt, greedy=True, sampling=None, rng=np.random.default_rng(0))
    for step in (draft_step, target_step):
        begin = getattr(step, "begin", None)
        if begin is not None:
            begin(start)

    def timed(function: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
        before = clock()
        result = function(*arguments)
        return clock() - before, result

    passes: dict[int, list[float]] = {}
    drafts: dict[int, list[float]] = {}
    verdicts: dict[int, list[float]] = {}
    extras: list[float] = []
    first_call: tuple[int, float] | None = None
    filling = [int(token) for token in prompt]
    for repeat in range(repeats + 1):
        warm = repeat > 0
        for k in (0, *lengths):
            tokens: Any = ()
            rows = None
            if k:
                _cut(draft_step, len(prompt) - 1)
                seconds, (tokens, rows) = timed(draft_step, prompt, k)
                first_call = first_call or (len(tokens), seconds)
                if warm:
                    drafts.setdefault(len(tokens), []).append(seconds)
            proposed = [int(token) for token in tokens]
            while len(proposed) < k:
                proposed += filling[: k - len(proposed)]
            _cut(target_step, len(prompt) - 1)
            seconds, target_rows = timed(target_step, prompt, proposed)
            if warm:
                passes.setdefault(k + 1, []).append(seconds)
            if verify is not None:
                seconds, _ = timed(verify, target_rows[: len(tokens) + 1], rows, tokens)
                if warm:
                    verdicts.setdefault(len(tokens), []).append(seconds)
        if isinstance(draft_step, Cached):
            _cut(draft_step, len(prompt) - 1)
            one, _ = timed(draft_step, prompt, 1)
            _cut(draft_step, len(prompt) - 2)
            two, _ = timed(draft_step, prompt, 1)
            if warm:
                extras.append(two - one)
    fixed, per_token = _split({n: median(seconds) for n, seconds in drafts.items()})
    assert first_call is not None
    n_first, first_seconds = first_call
    return StepTimes(
        target=tuple((n, median(seconds)) for n, seconds in sorted(passes.items())),
        draft_token=per_token,
        draft_fixed=fixed,
        catch_up=per_token + max(0.0, median(extras)) if extras else None,
        draft_start=max(0.0, first_seconds - fixed - n_first * per_token),
        verify=tuple((n, median(seconds)) for n, seconds in sorted(verdicts.items())),
        between="linear",
    )


def to_json(
    times: StepTimes, acceptance: Acceptance | None = None, proposed: ProposedLengths | None = None
) -> dict[str, Any]:
    """Give what was measured in types that the json module writes; seconds throughout.

    Returns
    -------
    dict
        ``{"times": ..., "acceptance": ..., "proposed": ...}``; the last two may be None.

    Examples
    --------
    >>> record = to_json(StepTimes(target=((1, 0.5), (2, 0.75))), Acceptance.from_rate(0.5, 1))
    >>> record["times"]["target"], record["acceptance"]
    ([[1, 0.5], [2, 0.75]], {'rates': [0.5], 'tested': [0.0]})
    >>> from_json(record)[1]
    Acceptance(rates=(0.5,), tested=(0.0,))
    """

    def law(one: Acceptance | ProposedLengths | None) -> dict[str, Any] | None:
        return None if one is None else {"rates": list(one.rates), "tested": list(one.tested)}

    return {
        "times": {
            "target": [list(pair) for pair in times.target],
            "draft_token": times.draft_token,
            "draft_fixed": times.draft_fixed,
            "catch_up": times.catch_up,
            "draft_start": times.draft_start,
            "verify": [list(pair) for pair in times.verify],
            "between": times.between,
        },
        "acceptance": law(acceptance),
        "proposed": law(proposed),
    }


def from_json(record: Mapping[str, Any]) -> tuple[StepTimes, Acceptance | None, ProposedLengths | None]:
    """Read what :func:`to_json` gave, alone or as the entry ``"cost"`` of a longer report.

    Raises
    ------
    ValueError
        Something is missing or of another form, or a value is out of its bounds.
    """
    inner = record.get("cost", record) if isinstance(record, Mapping) else None
    try:
        if not isinstance(inner, Mapping):
            raise TypeError("not a mapping")
        given = inner["times"]
        times = StepTimes(
            target=_table(given["target"]),
            draft_token=float(given.get("draft_token", 0.0)),
            draft_fixed=float(given.get("draft_fixed", 0.0)),
            catch_up=None if given.get("catch_up") is None else float(given["catch_up"]),
            draft_start=float(given.get("draft_start", 0.0)),
            verify=_table(given.get("verify", ())),
            between=given.get("between", "refuse"),
        )
        acceptance = None if inner.get("acceptance") is None else Acceptance(*_law(inner["acceptance"]))
        proposed = None if inner.get("proposed") is None else ProposedLengths(*_law(inner["proposed"]))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"record: expected what cost.to_json gives, got something without it: {error!r}") from error
    return times, acceptance, proposed


def _table(pairs: Any) -> tuple[tuple[int, float], ...]:
    return tuple((int(n), float(seconds)) for n, seconds in pairs)


def _law(given: Mapping[str, Any]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return tuple(float(rate) for rate in given["rates"]), tuple(float(count) for count in given["tested"])


def _rates_of(acceptance: Acceptance | Mapping[int, Acceptance], n: int) -> tuple[float, ...]:
    if n == 0:
        return ()
    if isinstance(acceptance, Acceptance):
        one = acceptance
    elif n in acceptance:
        one = acceptance[n]
    else:
        raise ValueError(f"acceptance: expected an entry for rounds of {n} proposed tokens, got {sorted(acceptance)}")
    if one.max_k < n:
        raise ValueError(f"acceptance: expected the rates of {n} positions, got {one.max_k}")
    return one.rates[:n]


def _shares(proposed: ProposedLengths | Sequence[float] | None, k: int) -> tuple[float, ...]:
    if proposed is None:
        return (*(0.0,) * k, 1.0)
    if isinstance(proposed, ProposedLengths):
        return proposed.shares(k)
    shares = tuple(proposed)
    # Shares of up to a million rounds, each rounded once, miss 1 by far less.
    if len(shares) != k + 1 or min(shares) < 0.0 or not abs(sum(shares) - 1.0) < 1e-6:
        raise ValueError(f"proposed: expected {k + 1} shares of rounds that sum to 1, got {shares}")
    return shares


def _sentence(predictions: Sequence[Prediction], best: Prediction) -> str:
    rate = f"{best.tokens_per_second:.1f} tokens/s"
    if best.k:
        found = "" if best.measured else ", by interpolation"
        return f"Speculate with k = {best.k}: {rate}, {best.speedup:.2f}x plain decoding{found}."
    if len(predictions) == 1:
        return f"Do not speculate: plain decoding gives {rate}, and no draft length was considered."
    second = max(predictions[1:], key=lambda one: one.tokens_per_second)
    hopeless = ", whatever is accepted" if max(one.ceiling for one in predictions[1:]) < 1.0 else ""
    return (
        f"Do not speculate: plain decoding gives {rate}, k = {second.k} at best {second.tokens_per_second:.1f} "
        f"({second.speedup:.2f}x){hopeless}."
    )


def _chain(pairs: Sequence[tuple[int, int]]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Estimate the rate of each step of a chain from (longest possible, reached), and count the rounds behind it."""
    rates: list[float] = []
    tested: list[float] = []
    for i in range(1, max((possible for possible, _ in pairs), default=0) + 1):
        trials = sum(possible >= i and reached >= i - 1 for possible, reached in pairs)
        if not trials:
            # Past a step that nothing passes all is known to be 0; past one that nothing reached, nothing is known.
            if rates and 0.0 in rates:
                rates.append(0.0)
                tested.append(0.0)
                continue
            break
        rates.append(sum(reached >= i for _, reached in pairs) / trials)
        tested.append(float(trials))
    return tuple(rates), tuple(tested)


def _pairs(more: str, upper: Iterable[int], less: str, lower: Iterable[int]) -> list[tuple[int, int]]:
    first, second = list(upper), list(lower)
    if len(first) != len(second):
        raise ValueError(f"{more}, {less}: expected one of each a round, got {len(first)} and {len(second)}")
    for i, (most, got) in enumerate(zip(first, second, strict=True)):
        if not 0 <= got <= most:
            raise ValueError(f"{less}[{i}]: expected 0 to {more}[{i}] = {most}, got {got}")
    return list(zip(first, second, strict=True))


def _split(medians: Mapping[int, float]) -> tuple[float, float]:
    """Fit fixed + n * per token, both at least 0, to the times of n tokens by least squares."""
    sizes, seconds = list(medians), list(medians.values())
    if len(sizes) == 1:
        # One length cannot tell the parts apart. What proposes nothing has only the fixed one.
        return (seconds[0], 0.0) if sizes[0] == 0 else (0.0, seconds[0] / sizes[0])
    mean_n, mean_t = sum(sizes) / len(sizes), sum(seconds) / len(sizes)
    spread = sum((n - mean_n) ** 2 for n in sizes)
    slope = sum((n - mean_n) * (t - mean_t) for n, t in zip(sizes, seconds, strict=True)) / spread
    if slope <= 0.0:
        return mean_t, 0.0
    if mean_t < slope * mean_n:
        slope = sum(n * t for n, t in zip(sizes, seconds, strict=True)) / sum(n * n for n in sizes)
        return 0.0, slope
    return mean_t - slope * mean_n, slope


def _cut(step: object, keep: int) -> None:
    if isinstance(step, Cached) and step.n_cached > keep:
        step.truncate(keep)


def _between(lower: tuple[int, float], upper: tuple[int, float], n: int) -> float:
    share = (n - lower[0]) / (upper[0] - lower[0])
    return lower[1] + share * (upper[1] - lower[1])


def _check_table(name: str, table: Sequence[tuple[int, float]]) -> None:
    for i, (n, seconds) in enumerate(table):
        _check_seconds(f"{name}[{i}]", seconds)
        if n < 0 or (i and n <= table[i - 1][0]):
            raise ValueError(f"{name}[{i}]: expected numbers of tokens in rising order, got {n}")


def _check_seconds(name: str, seconds: float) -> None:
    if not 0.0 <= seconds < math.inf:
        raise ValueError(f"{name}: expected a finite time of at least 0 s, got {seconds}")


def _check_rates(name: str, rates: Sequence[float]) -> None:
    for i, rate in enumerate(rates):
        if not 0.0 <= rate <= 1.0:
            raise ValueError(f"{name}[{i}]: expected a probability, got {rate}")


def _check_counts(tested: Sequence[float], expected: int) -> None:
    if len(tested) != expected:
        raise ValueError(f"tested: expected one count a rate, {expected}, got {len(tested)}")
    for i, count in enumerate(tested):
        if not 0.0 <= count < math.inf:
            raise ValueError(f"tested[{i}]: expected a count, got {count}")
