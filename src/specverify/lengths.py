"""The law of the accepted length: how many drafted tokens a round accepts, and a test of counts against it.

Two laws, for two situations. Where the rows do not depend on the drafted tokens, positions are accepted independently,
each with its acceptance rate: :func:`law_of_rows`. In a language model each row depends on the tokens before it, and
the law over all drafts would take every possible draft. But *given* the drafted tokens the only chance left is in the
uniforms, and the law is exact and takes K lookups: :func:`law_given_draft`. :func:`check_counts` compares the rounds
of a run with the sum of such laws. Holds no verification; the rule itself is in reference/rounds.py.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Below about five expected counts in a cell the chi-square law is a poor approximation (Cochran 1952).
_LEAST_EXPECTED = 5.0

# The rate at which a correct verifier fails `CountCheck.passed`: a run of a demo or a command, not one test of many.
FALSE_ALARM_RATE = 1e-6

# A variance that is 0 but for the rounding of sums over up to a million rounds, and a difference of counts that such a
# direction can show by the same rounding.
_LEAST_VARIANCE = 1e-9
_LARGEST_SLIP = 1e-6


@dataclass(frozen=True, slots=True)
class CountCheck:
    """Accepted lengths of many rounds beside their law.

    Attributes
    ----------
    observed : tuple of int
        Rounds that accepted 0, 1, ..., K tokens.
    expected : tuple of float
        The same by the law.
    chi_square : float
        Squared distance of the two in units of the law's own covariance.
    degrees : int
        Its degrees of freedom; 0 when there are too few rounds for a test.
    p_value : float
        Probability of a distance as large as this one when the law holds; 1 when there are too few rounds.
    """

    observed: tuple[int, ...]
    expected: tuple[float, ...]
    chi_square: float
    degrees: int
    p_value: float

    @property
    def passed(self) -> bool:
        """Whether the counts follow the law, at a false-alarm rate of one in a million."""
        return self.p_value >= FALSE_ALARM_RATE


def acceptance_probabilities(target: Any, draft: Any, tokens: Any) -> NDArray[np.float64]:
    """Give min(1, target / draft) at each drafted token.

    Parameters
    ----------
    target : array_like, shape [K + 1, V] or [K, V]
        Target rows, each up to a positive factor. A bonus row has no part in this.
    draft : array_like, shape [K, V], or None
        The rows the tokens were drawn from; None for deterministic tokens, as in ``verify_sampled``.
    tokens : array_like of int, shape [K]
        Drafted tokens.

    Returns
    -------
    ndarray of float64, shape [K]
        For a token of draft probability 0: 1 if the target gives it any probability, else 0.

    Examples
    --------
    >>> acceptance_probabilities([[0.6, 0.3, 0.1, 0.0]], [[0.1, 0.6, 0.3, 0.0]], [1]).round(6).tolist()
    [0.5]
    """
    drafted = np.asarray(tokens, np.intp)
    if not len(drafted):
        return np.empty(0)
    positions = np.arange(len(drafted))
    in_target = _normalised(target)[: len(drafted)][positions, drafted]
    if draft is None:
        return in_target
    in_draft = _normalised(draft)[positions, drafted]
    ratio = np.divide(in_target, in_draft, out=np.where(in_target > 0, 1.0, 0.0), where=in_draft > 0)
    return np.minimum(ratio, 1.0)


def law_given_draft(acceptance: Any) -> NDArray[np.float64]:
    """Give the law of the accepted length given the drafted tokens.

    Parameters
    ----------
    acceptance : array_like of float, shape [K]
        Acceptance probability of each drafted token, from :func:`acceptance_probabilities`.

    Returns
    -------
    ndarray of float64, shape [K + 1]
        Probability of accepting exactly 0, 1, ..., K tokens.

    Notes
    -----
    Position i is reached when all before it were accepted, and uniforms are independent, so
    P(accepted >= i | tokens) is the product of the first i acceptance probabilities. This holds whatever the rows
    depend on: past text and earlier drafted tokens are given as well.

    Examples
    --------
    The first token passes with 1/2, the second with 1/4:

    >>> law_given_draft([0.5, 0.25]).tolist()
    [0.5, 0.375, 0.125]
    """
    accepted = np.asarray(acceptance, np.float64)
    reached = np.concatenate(([1.0], np.cumprod(accepted)))
    return reached * np.concatenate((1.0 - accepted, [1.0]))


def law_of_rows(target: Any, draft: Any) -> NDArray[np.float64]:
    """Give the law of the accepted length over all drafts, for rows that do not depend on the drafted tokens.

    Parameters
    ----------
    target : array_like, shape [K + 1, V] or [K, V]
        Target rows, each up to a positive factor.
    draft : array_like, shape [K, V]
        Draft rows; token i is drawn from row i whatever came before.

    Returns
    -------
    ndarray of float64, shape [K + 1]
        Probability of accepting exactly 0, 1, ..., K tokens.

    Notes
    -----
    Averaging :func:`law_given_draft` over independent tokens leaves, for each position, its acceptance rate
    ``alpha_i``, the sum of min(target, draft): P(accepted >= i) is the product of the first i rates. In a language
    model the rows at position i depend on the tokens before it, and this product is not the law.

    Examples
    --------
    >>> law_of_rows([[0.75, 0.25], [0.5, 0.5]], [[0.25, 0.75], [0.5, 0.5]]).tolist()
    [0.5, 0.0, 0.5]
    """
    if not len(draft):
        return np.ones(1)
    proposed = _normalised(draft)
    rates = np.minimum(_normalised(target)[: len(proposed)], proposed).sum(axis=1)
    return law_given_draft(np.minimum(rates, 1.0))


def check_counts(lengths: Sequence[int], laws: Sequence[Any]) -> CountCheck:
    """Compare the accepted lengths of a run with the laws of its rounds, round by round conditional on the past.

    Parameters
    ----------
    lengths : sequence of int
        Accepted length of each round.
    laws : sequence of array_like
        Law of each round, from :func:`law_given_draft` or :func:`law_of_rows`. They may differ in length.

    Returns
    -------
    CountCheck
        Counts, expected counts and a chi-square test.

    Notes
    -----
    With law ``p_t`` in round t, the expected counts are the sum of all ``p_t``. Each round's law is exact given
    everything before its uniforms are drawn, so observed minus expected is a sum of martingale differences, and its
    covariance is C, the sum of ``diag(p_t) - p_t p_t'``. Hence ``d' C^-1 d`` for the difference d is asymptotically
    chi-square, with as many degrees of freedom as C has rank. Pearson's statistic, which would divide by the expected
    counts, takes all rounds for equal: it overrates the spread, and lets more wrong verifiers pass. Neighbouring cells
    are merged until five counts are expected in each.

    Examples
    --------
    >>> check = check_counts([0, 1] * 10, [[0.5, 0.5]] * 20)
    >>> check.observed, check.expected, check.p_value
    ((10, 10), (10.0, 10.0), 1.0)
    """
    n_cells = max((len(law) for law in laws), default=1)
    by_round = np.zeros((len(laws), n_cells))
    for row, law in zip(by_round, laws, strict=True):
        row[: len(law)] = law
    observed = np.bincount(np.asarray(lengths, np.intp), minlength=n_cells)
    expected = by_round.sum(axis=0)

    starts = _merged_cells(expected)
    merged = np.add.reduceat(by_round, starts, axis=1)
    difference = np.add.reduceat(observed, starts) - merged.sum(axis=0)
    covariance = np.diag(merged.sum(axis=0)) - merged.T @ merged
    # The last cell is what the others leave over: it adds nothing but a singular direction.
    variances, directions = np.linalg.eigh(covariance[:-1, :-1])
    along = directions.T @ difference[:-1]
    free = variances > _LEAST_VARIANCE
    degrees = int(free.sum())
    chi_square = float((along[free] ** 2 / variances[free]).sum())
    if (np.abs(along[~free]) > _LARGEST_SLIP).any():
        chi_square = math.inf  # the law leaves no chance here, and the counts differ from it
    return CountCheck(
        observed=tuple(observed.tolist()),
        expected=tuple(expected.tolist()),
        chi_square=chi_square,
        degrees=degrees,
        p_value=chi_square_tail(chi_square, degrees),
    )


def chi_square_tail(x: float, degrees: int) -> float:
    """Give the probability that a chi-square variable exceeds x (Abramowitz and Stegun 26.4.4 and 26.4.5)."""
    if x <= 0:
        return 1.0
    if math.isinf(x) or degrees == 0:
        return 0.0
    half = x / 2
    tail = math.erfc(math.sqrt(half)) if degrees % 2 else 0.0
    for i in range(degrees // 2):
        power = i + degrees % 2 / 2
        tail += math.exp(power * math.log(half) - half - math.lgamma(power + 1))
    return min(1.0, tail)


def _merged_cells(expected: NDArray[np.float64]) -> list[int]:
    """Give the first cell of each group: neighbours are taken together until five counts are expected."""
    starts, waiting = [0], 0.0
    for cell, count in enumerate(expected):
        if waiting >= _LEAST_EXPECTED:
            starts.append(cell)
            waiting = 0.0
        waiting += count
    if waiting < _LEAST_EXPECTED and len(starts) > 1:
        starts.pop()
    return starts


def _normalised(rows: Any) -> NDArray[np.float64]:
    array = np.asarray(rows, np.float64)
    return np.asarray(array / array.sum(axis=1, keepdims=True))
