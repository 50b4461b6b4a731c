"""What several test files share: lists of sizes, rows of every kind, rounds that end where one wants, chi-square.

Helpers that compute something are tested in test_helpers.py.
"""

import functools
import os
from typing import NamedTuple

import numpy as np
from scipy import special  # not scipy.stats, whose import takes a second, and emulated several

from specverify import reference

# Examples of a property. Emulated machines, which take ten times as long, try fewer (tools/aarch64.sh).
EXAMPLES = int(os.environ.get("SPECVERIFY_TEST_EXAMPLES", "60"))

ALMOST_ONE = 1 - 2**-53  # the largest float64 below 1

# Around every vector width, piece (256) and block (4096) edge, and one real vocabulary.
SIZES = (
    *(1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 97),
    *(255, 256, 257, 271, 272, 273, 511, 512, 513, 1000),
    *(4095, 4096, 4097, 4352, 4353, 8191, 8192, 8193, 32000),
)


KINDS = ("dense", "none", "equal", "disjoint", "sparse", "subnormal", "huge", "unnormalised")


class Rows(NamedTuple):
    target: np.ndarray
    draft: np.ndarray | None


def rows_of_kind(kind: str, size: int, k: int = 3) -> Rows:
    """Float32 rows for a round of K positions. Every row has a positive sum; the same arguments give the same rows."""
    target, draft = _rows_of_kind(kind, size, k)
    return Rows(target.copy(), None if draft is None else draft.copy())


@functools.cache  # the same rows are asked for at every place of a rejection and in every variant
def _rows_of_kind(kind: str, size: int, k: int) -> Rows:
    rng = np.random.default_rng([KINDS.index(kind), size, k])
    target = rng.exponential(size=(k + 1, size))
    draft = rng.exponential(size=(k, size))
    if kind in ("sparse", "disjoint"):
        # Odd entries for one, even ones for the other; sparse rows also share a third of the vocabulary.
        parity = np.arange(size) % 2
        shared = np.arange(size) % 3 == 0 if kind == "sparse" else np.zeros(size, bool)
        target[:, (parity == 1) & ~shared] = 0
        draft[:, (parity == 0) & ~shared] = 0
    target /= target.sum(1, keepdims=True)
    draft /= np.maximum(draft.sum(1, keepdims=True), np.finfo(float).tiny)
    if kind == "equal":
        draft = target[:k]
    elif kind == "subnormal":
        target, draft = target * (size * 1e-40), draft * (size * 3e-40)
    elif kind == "huge":
        target, draft = target * (size * 1e30), draft * (size * 3e30)
    elif kind == "unnormalised":
        target *= rng.uniform(0.1, 10, size=(k + 1, 1))
        draft *= rng.uniform(0.1, 10, size=(k, 1))
    return Rows(target.astype(np.float32), None if kind == "none" else draft.astype(np.float32))


def round_ending_at(rows: Rows, position: int, *, normalized: bool) -> tuple[list[int], list[float]] | None:
    """Tokens and acceptance uniforms that make a round reject at this position (K: never); None if no token can.

    Accepted: u = 0 with the most probable token. Rejected: the largest u with the token whose draft most exceeds its
    target.
    """
    tokens, uniforms = [], []
    for i in range(len(rows.target) - 1):
        target_row = rows.target[i].astype(float)
        token, uniform = int(target_row.argmax()), 0.0
        if i == position:
            draft_row = np.ones_like(target_row) if rows.draft is None else rows.draft[i].astype(float)
            if not normalized:
                target_row /= target_row.sum()
                draft_row /= 1.0 if rows.draft is None else draft_row.sum()
            token, uniform = int((draft_row - target_row).argmax()), ALMOST_ONE
            if not uniform * draft_row[token] > target_row[token]:
                return None
        tokens.append(token)
        uniforms.append(uniform)
    return tokens, uniforms


@functools.cache
def expected_verdicts(kind: str, size: int, position: int, normalized: bool, draws: tuple[float, ...]) -> list | None:
    """What the reference says to :func:`round_ending_at`, once for each final uniform; cached, since it is slow."""
    rows = rows_of_kind(kind, size)
    planned = round_ending_at(rows, position, normalized=normalized)
    if planned is None:
        return None
    tokens, uniforms = planned
    return [reference.verify_sampled(*rows, tokens, [*uniforms, last], normalized=normalized) for last in draws]


FALSE_ALARM = 1e-9  # rate of each statistical test
SMALLEST_EXPECTED = 5.0  # below that the chi-square law of a cell is a poor approximation


def chi_square(counts: np.ndarray, law: np.ndarray) -> float:
    """p-value of these counts (not frequencies) under this law; cells with a small expectation are merged into one.

    A count in a cell of probability 0 is impossible under the law: p-value 0.
    """
    counts, law = np.ravel(counts), np.ravel(law)
    if not np.issubdtype(counts.dtype, np.integer):
        raise TypeError("chi_square: expected counts, which are integers")
    if counts[law == 0].any():
        return 0.0
    expected = counts.sum() * law
    small = expected < SMALLEST_EXPECTED
    counts = np.append(counts[~small], counts[small].sum())
    expected = np.append(expected[~small], expected[small].sum())
    kept = expected > 0
    counts, expected = counts[kept], expected[kept]
    if len(counts) < 2:
        raise ValueError("chi_square: fewer than two cells are left")
    return float(special.chdtrc(len(counts) - 1, ((counts - expected) ** 2 / expected).sum()))


def power(n: int, cells: int, total_variation: float) -> float:
    """Least power of the chi-square test at rate FALSE_ALARM against any law at this total variation.

    The statistic is non-central with n * sum(d^2 / p), d the difference; by Cauchy-Schwarz that is at least
    n * (sum |d|)^2 / sum p = 4 n TV^2.
    """
    critical = special.chdtri(cells - 1, FALSE_ALARM)
    return 1.0 - float(special.chndtr(critical, cells - 1, 4 * n * total_variation**2))
