"""The law of the rule, as a formula: what one position emits when everything is computed without fault.

Holds nothing that runs a verifier; for the law of a function that exists, see exact_law.py.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


class Model(Protocol):
    """Anything that predicts the token after a text: a table here, a forward pass elsewhere."""

    def next_dist(self, tokens: Sequence[int]) -> NDArray[Any]:
        """Give a row of V probabilities for the token that follows `tokens`."""


def accept_probability(in_target: float, in_draft: float) -> float:
    """Give min(1, target / draft) at one token.

    Parameters
    ----------
    in_target, in_draft : float
        Probability of the drafted token in the two rows.

    Returns
    -------
    float
        For a token of draft probability 0, which cannot have been drawn: 1 if the target gives it any probability,
        else 0. That is the limit of the rule, and what ``verify_sampled`` does.

    References
    ----------
    Leviathan, Kalman, Matias: Fast Inference from Transformers via Speculative Decoding, arXiv:2211.17192, section 2.3.

    Examples
    --------
    >>> accept_probability(0.25, 0.5), accept_probability(0.5, 0.25), accept_probability(0.0, 0.0)
    (0.5, 1.0, 0.0)
    """
    if in_draft <= 0.0:
        return 1.0 if in_target > 0.0 else 0.0
    return min(1.0, in_target / in_draft)


def residual(target_row: Any, draft_row: Any) -> NDArray[np.float64]:
    """Give the law that a rejected position is redrawn from: max(0, target - draft), normalised.

    Parameters
    ----------
    target_row, draft_row : array_like, shape [V]
        Rows, each up to a positive factor.

    Returns
    -------
    ndarray of float64, shape [V]
        For equal rows, which are never rejected, the target row.

    Raises
    ------
    ValueError
        A row "sums to 0" or the two differ in shape.

    Examples
    --------
    >>> residual([0.5, 0.25, 0.25, 0.0], [0.25, 0.5, 0.0, 0.25]).tolist()
    [0.5, 0.0, 0.5, 0.0]
    """
    target, draft = _normalised(target_row, draft_row)
    weights = np.maximum(target - draft, 0.0)
    total = weights.sum()
    return np.asarray(weights / total) if total > 0.0 else target


def induced_from_dists(target_row: Any, draft_row: Any) -> NDArray[np.float64]:
    """Give the law of the token that one position emits, accepted or redrawn.

    Parameters
    ----------
    target_row, draft_row : array_like, shape [V]
        Rows, each up to a positive factor.

    Returns
    -------
    ndarray of float64, shape [V]
        The target row, normalised, up to rounding: that is the theorem.

    Raises
    ------
    ValueError
        A row "sums to 0" or the two differ in shape.

    Notes
    -----
    Token v comes out as q(v) min(1, p(v)/q(v)) + (1 - sum min(p, q)) (p - q)+(v) / sum (p - q)+.

    References
    ----------
    Leviathan et al., arXiv:2211.17192, appendix A.1. Chen et al., arXiv:2302.01318, theorem 1.

    Examples
    --------
    >>> induced_from_dists([0.5, 0.25, 0.25, 0.0], [0.0, 0.5, 0.25, 0.25]).tolist()
    [0.5, 0.25, 0.25, 0.0]
    """
    target, draft = _normalised(target_row, draft_row)
    accepted = draft * np.array([accept_probability(p, q) for p, q in zip(target, draft, strict=True)])
    rejected = float((draft - accepted).sum())
    return np.asarray(accepted + rejected * residual(target, draft))


def induced_next_token_distribution(target: Model, draft: Model, prefix: Sequence[int]) -> NDArray[np.float64]:
    """Give the law of the next token that a draft/verify round emits after `prefix`.

    Parameters
    ----------
    target, draft : Model
        Anything with ``next_dist(prefix)``.
    prefix : sequence of int
        The text so far.

    Returns
    -------
    ndarray of float64, shape [V]
        Equal to ``target.next_dist(prefix)``, normalised, up to rounding.
    """
    return induced_from_dists(target.next_dist(prefix), draft.next_dist(prefix))


def max_total_variation(target: Model, draft: Model, prefixes: Iterable[Sequence[int]]) -> float:
    """Give the largest total variation between the induced law and the target's, over some prefixes.

    Parameters
    ----------
    target, draft : Model
        Anything with ``next_dist(prefix)``.
    prefixes : iterable of sequences of int
        Texts to predict behind.

    Returns
    -------
    float
        A few units of 1e-16; 0 when there are no prefixes.
    """
    worst = 0.0
    for prefix in prefixes:
        induced = induced_next_token_distribution(target, draft, prefix)
        worst = max(worst, total_variation(induced, target.next_dist(prefix)))
    return worst


def total_variation(first: Any, second: Any) -> float:
    """Give half the sum of the absolute differences of two laws, each normalised first.

    Examples
    --------
    >>> total_variation([0.5, 0.5, 0.0], [0.5, 0.25, 0.25])
    0.25
    """
    one, other = _normalised(first, second)
    return float(np.abs(one - other).sum() / 2)


def _normalised(target_row: Any, draft_row: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    target, draft = np.asarray(target_row, np.float64), np.asarray(draft_row, np.float64)
    if target.ndim != 1 or target.shape != draft.shape:
        raise ValueError(f"rows: expected two of the same shape (V,), got {target.shape} and {draft.shape}")
    for name, row in (("target_row", target), ("draft_row", draft)):
        if not row.sum() > 0.0:
            raise ValueError(f"{name} sums to {row.sum()}: expected a positive sum")
    return target / target.sum(), draft / draft.sum()
