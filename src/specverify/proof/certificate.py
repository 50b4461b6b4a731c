"""The certificate of one call: a bound on how far what it emits can be from the law behind its rows.

One pass over the rows of the call with the compiled sums, no sampling. Holds no rule of verification. The bound of the
rounding term is derived in rounding.py.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _core, _inputs
from .rounding import rounding_bound

_FLOAT32_HALF_STEP = 2.0**-24  # relative, of a normal number
_FLOAT32_SUBNORMAL_HALF_STEP = 2.0**-150  # absolute, below 2**-126


@dataclass(frozen=True, slots=True)
class Certificate:
    """Bounds on total variation, by cause, each a sum over the visited positions. For one call of ``verify_sampled``.

    Attributes
    ----------
    normalization : float
        Rows that do not sum to 1, taken as if they did (``normalized=True``); 0 otherwise.
    float32_rows : float
        From rows of higher precision that these were rounded from. 0 in truth when the rows are the law, for instance
        when the draft's tokens were drawn from the very float32 rows.
    uniforms : float
        Uniforms of 53 bits in place of real numbers.
    rounding : float
        Sums, products and the draw in float64.
    acceptance_rates : tuple of float
        Acceptance rate of each visited position of the draft: 1 - total variation of its rows. NaN without draft rows.
    visited : int
        Rows of the target that were read: accepted tokens plus 1.
    """

    normalization: float
    float32_rows: float
    uniforms: float
    rounding: float
    acceptance_rates: tuple[float, ...]
    visited: int

    @property
    def total_variation(self) -> float:
        """The sum of all four: a bound on the whole, at most 1."""
        return min(1.0, self.normalization + self.float32_rows + self.uniforms + self.rounding)


def certify_call(target: Any, draft: Any, *, normalized: bool = False, visited: int | None = None) -> Certificate:
    """Bound the total variation of a call of ``verify_sampled`` from its rows.

    Parameters
    ----------
    target : array_like, shape [K + 1, V], float32
        As given to ``verify_sampled``.
    draft : array_like, shape [K, V], float32, or None
        As given to ``verify_sampled``.
    normalized : bool
        As given to ``verify_sampled``.
    visited : int, optional
        How many target rows the call read: ``verdict.n_accepted + 1``. Default: all of them, which certifies every
        verdict that could have come out. Rows after them are not read here either.

    Returns
    -------
    Certificate
        Bounds by cause.

    Raises
    ------
    ValueError
        A shape does not fit; `visited` is outside ``[1, K + 1]``; a visited row holds NaN, inf or a negative
        probability, or "sums to" 0.

    Notes
    -----
    Scale lemma: rows that sum to s_p and s_q, taken as if normalised, with M the sum of min(p, q), R = s_p - M and
    r = (p - q)+, give a law at total variation exactly |s_p/s_q - 1| * TV(p/s_p, r/R) from p/s_p. Since p is
    min(p, q) + r, the second factor is at most M/s_p, which takes no further pass: |s_p/s_q - 1| (1 - R/s_p) is what
    is reported. Along a chain the terms add, each times the probability that its position is reached, here taken as 1.
    A deterministic draft (None) has s_q = 1 and no R that is the same for all tokens: |s_p - 1|.

    Rounding a row to float32 moves it by at most 2**-24, plus 2**-150 for each entry below 2**-126; the draft's row
    counts as well, since the tokens' law is fed through the same decision. 53-bit uniforms: 2**-53 for a test, and
    V * 2**-54 for a draw.

    Cost: each visited row is read once for its sum and each visited pair once for its residual, with the loops of the
    verification: two to three times as long as a verification that takes the sums itself, at V = 32,000 and above;
    below, some ten microseconds of Python. One with ``normalized=True`` reads fewer rows than any certificate can.
    No memory of the size of a row.

    Examples
    --------
    A target row that sums to 1.25 where the draft's sums to 1:

    >>> target = [[0.5, 0.25, 0.25, 0.25], [0.25, 0.25, 0.25, 0.25]]
    >>> draft = [[0.25, 0.25, 0.25, 0.25]]
    >>> certify_call(target, draft, normalized=True).normalization
    0.2
    >>> certify_call(target, draft).total_variation < 3e-7
    True
    """
    target_rows = _inputs.as_rows(target, "target")
    if 0 in target_rows.shape:
        _inputs.fail_target_shape(target_rows)
    n_rows, vocab = target_rows.shape
    k = n_rows - 1
    draft_rows = None
    if draft is not None:
        draft_rows = _inputs.as_rows(draft, "draft", (k, vocab))
        if draft_rows.shape != (k, vocab):
            _inputs.fail_draft_shape(draft_rows, k, vocab)
    if visited is None:
        visited = n_rows
    if not 1 <= visited <= n_rows:
        raise ValueError(f"visited: expected 1 to K + 1 = {n_rows} rows, got {visited}")
    tested = min(visited, k)

    target_masses = _masses(target_rows, visited, "target")
    draft_masses = [1.0] * tested
    if draft_rows is not None and tested:
        draft_masses = _masses(draft_rows, tested, "draft")

    rates: list[float] = []
    normalization = rounding = 0.0
    for i in range(tested):
        p_mass, q_mass = target_masses[i], draft_masses[i]
        if draft_rows is None:
            overlap = rate = float("nan")
            rounding += max(rounding_bound(vocab, 0.0), rounding_bound(vocab, 1.0))
        else:
            pair = target_rows[i : i + 1], draft_rows[i : i + 1]
            overlap = 1.0 - _core.residual_mass(*pair, 1.0 if normalized else p_mass / q_mass) / p_mass
            rate = min(1.0, max(0.0, overlap))
            rounding += rounding_bound(vocab, rate)
        rates.append(rate)
        if normalized:
            normalization += abs(p_mass / q_mass - 1.0) * (1.0 if draft_rows is None else rate)
    if visited == n_rows:
        rounding += rounding_bound(vocab)

    from_target = sum(_rounded(vocab, mass) for mass in target_masses)
    from_draft = 0.0 if draft_rows is None else sum(_rounded(vocab, mass) for mass in draft_masses)
    return Certificate(
        normalization=normalization,
        float32_rows=from_target + from_draft,
        uniforms=tested * 2.0**-53 + visited * vocab * 2.0**-54,
        rounding=rounding,
        acceptance_rates=tuple(rates),
        visited=visited,
    )


def _masses(rows: np.ndarray, n: int, name: str) -> list[float]:
    masses: list[float] = _core.row_masses(rows[:n])
    for i, mass in enumerate(masses):
        if not mass > 0.0:
            status = 3 if name == "target" else 4
            _inputs.fail_request(_inputs.Place(), status, i, None, rows[i], rows.shape[1], "probabilities")
    return masses


def _rounded(vocab: int, mass: float) -> float:
    """How far a row of this sum can be from one that it was rounded from."""
    return _FLOAT32_HALF_STEP + vocab * _FLOAT32_SUBNORMAL_HALF_STEP / mass
