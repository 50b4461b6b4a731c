"""From times and acceptance to tokens per second: predictions, advice, ceilings, and how far off they were."""

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from operator import mul
from typing import NamedTuple

from .acceptance import Acceptance, ProposedLengths
from .times import StepTimes


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
      one drafts, 1 - w_0, plus the switch times the probability that the round before proposed another number of
      tokens, 1 - sum of w_n^2: rounds are taken to be independent.

    With w_k = 1 and no catch-up, the speed-up is T(1) (1 + sum A_k) / (T_draft(k) + T_target(k + 1) + T_verify(k)) of
    the literature, with the cost of the pass as a function of k.

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
    seconds += max(0.0, 1.0 - sum(share * share for share in shares)) * times.switch
    return Prediction(
        k,
        tokens,
        seconds,
        tokens / seconds if seconds else math.inf,
        tokens * plain / seconds if seconds else math.inf,
        ceiling(times, k),
        times.is_measured(k + 1),
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
        A negative `max_k`; and as :func:`predict`.

    Examples
    --------
    >>> recommend(StepTimes(target=((1, 0.006), (2, 0.030))), Acceptance.from_rate(1.0, 1), max_k=1).sentence
    'Do not speculate: plain decoding gives 166.7 tokens/s, k = 1 at best 66.7 (0.40x); were all accepted 0.40x.'
    """
    if max_k < 0:
        raise ValueError(f"max_k: expected at least 0, got {max_k}")
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

    Notes
    -----
    No bound for a draft that is asked for k tokens and proposes fewer in many rounds, as a lookup does: a text of
    such rounds can be faster than this, since short passes may cost less for a token than the one over k + 1.

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
    if not 0.0 <= alpha <= 1.0:
        raise ValueError(f"alpha: expected a probability, got {alpha}")
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
        longest = ", the longest considered" if best.k == len(predictions) - 1 else ""
        return f"Speculate with k = {best.k}{longest}: {rate}, {best.speedup:.2f}x plain decoding{found}."
    if len(predictions) == 1:
        return f"Do not speculate: plain decoding gives {rate}, and no draft length was considered."
    second = max(predictions[1:], key=lambda one: one.tokens_per_second)
    most = max(one.ceiling for one in predictions[1:])
    hopeless = f"; were all accepted {most:.2f}x" if most < 1.0 else ""
    return (
        f"Do not speculate: plain decoding gives {rate}, k = {second.k} at best {second.tokens_per_second:.1f} "
        f"({second.speedup:.2f}x){hopeless}."
    )
