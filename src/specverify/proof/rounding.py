"""What float64 can be blamed for: a bound on the total variation that rounding alone explains.

Holds one derivation. It follows the documented order of summation and of the draw, so it is a statement about this
package's functions and not about any other's.

With e = 2**-53 and V <= 256 (first order in e; M is the acceptance rate, the sum of min(target, draft)):

1. A row sum takes each entry through n = :func:`additions` additions: relative error n e.
2. The test ``u * (q * P) < p * Q`` changes at a u off by (2 n + 3) e, relative: two sums, three products. The next
   uniform after it is at most e further. Over all drafts that moves (2 n + 3) e M + e of accepted mass, and as much
   between the two branches.
3. A residual weight ``p - q * (P / Q)`` is off by (2 n + 2) e of the scaled draft entry, which where the weight is
   positive is at most p's share of M, and by e of itself. Over the row, times the chance of a rejection:
   (2 n + 2) e M + e (1 - M).
4. The draw of weights w: each addition to the running sum is off by e at most, each edge between two tokens by e for
   ``u * total`` and for the next uniform, so each token but the last by 3 e; the total is off by n e. A total
   variation is at most the sum of the differences at all tokens but one: (3 V + n) e. Above 256 entries the search
   jumps over pieces and blocks, whose sums were rounded in another order: (4 V + V / 64 + 4 n) e covers it.

So the law of one position is off by at most e (M (4 n + 5) + 1 + (1 - M) (draw + 1)), and typically by a few e: the
errors are spread over both signs. A draw without a draft (K = 0, the bonus token) is the case M = 0.
"""

import math

_EPSILON = 2.0**-53
_BLOCK, _MAX_BLOCKS, _PIECE, _LANES = 4096, 256, 256, 16  # as in specverify.reference


def additions(vocab_size: int) -> int:
    """Count the additions that one entry of a row goes through, in the documented order of summation.

    Parameters
    ----------
    vocab_size : int
        Entries of the row.

    Returns
    -------
    int
        Additions in its lane after the first, which adds to 0; 4 to fold 16 lanes; and one for each further block.

    Examples
    --------
    >>> additions(16), additions(64), additions(4096), additions(32_000)
    (4, 7, 259, 266)
    """
    block = _BLOCK
    while vocab_size > block * _MAX_BLOCKS:
        block *= 2
    return math.ceil(min(vocab_size, block) / _LANES) - 1 + 4 + math.ceil(vocab_size / block) - 1


def rounding_bound(vocab_size: int, acceptance_rate: float = 0.0) -> float:
    """Bound the total variation at one position that rounding in float64 can cause.

    Parameters
    ----------
    vocab_size : int
        Entries of a row.
    acceptance_rate : float
        The sum of min(target, draft) over the normalised rows; 0 for a draw without a draft.

    Returns
    -------
    float
        A bound for any rows, for uniforms that are any float64 in ``[0, 1)`` and for those of 53 bits.

    Notes
    -----
    The derivation is at the head of the module. A worst case: what is measured is 10 to 100 times smaller.

    Examples
    --------
    >>> f"{rounding_bound(64, 0.5):.1e}"
    '1.3e-14'
    """
    n = additions(vocab_size)
    v = vocab_size
    draw = 3 * v + n if v <= _PIECE else 4 * v + v / 64 + 4 * n
    return _EPSILON * (acceptance_rate * (4 * n + 5) + 1 + (1 - acceptance_rate) * (draw + 1))
