"""The oracle: what a round of verification means, in plain NumPy float64, slow and obvious.

Public, and the executable specification: where this module and the compiled core differ, one of them is wrong. It
imports nothing of the package. Rows are float32, every sum, test and draw is float64, and sums run in the documented
order, so that the two can be compared with ``==``, down to the last bit of a mass. It is a tenth as fast as a plain
NumPy version would be; for speed see :mod:`specverify`.

Summation order of a row (:func:`row_sum`): blocks of 4096 entries, 16 lanes inside a block, lanes folded in halves,
block sums added one after the other. Search order of a draw (:func:`draw`): blocks, then pieces of 256 entries, then
entries.
"""

from typing import Any, NamedTuple

import numpy as np

LANES = 16
BLOCK = 4096
MAX_BLOCKS = 256
PIECE = 256


class Verdict(NamedTuple):
    """As :class:`specverify.Verdict`, with which it compares equal."""

    n_accepted: int
    next_token: int


def verify_greedy(target: Any, tokens: Any) -> Verdict:
    """Accept while the drafted token is the first maximum of its target row; then emit that maximum."""
    target = _rows(target)
    tokens = _tokens(tokens, target)
    for i, row in enumerate(target):
        if np.isnan(row).any() or row.max() == np.inf or row.max() == -np.inf:
            raise ValueError(f"target[{i}] has no maximum")
        best = int(np.argmax(row))
        if i == len(tokens) or best != tokens[i]:
            return Verdict(i, best)
    raise AssertionError("not reached: the last row returns")


def verify_sampled(target: Any, draft: Any, tokens: Any, uniforms: Any, *, normalized: bool = False) -> Verdict:
    """Accept each drafted token with probability min(1, target / draft); draw what follows from the residual."""
    target = _rows(target)
    tokens = _tokens(tokens, target)
    uniforms = np.asarray(uniforms, dtype=np.float64)
    if not ((uniforms >= 0) & (uniforms < 1)).all() or uniforms.shape != (len(tokens) + 1,):
        raise ValueError("uniforms: expected K + 1 numbers in [0, 1)")
    if draft is not None:
        draft = _rows(draft) if len(tokens) else np.empty((0, target.shape[1]), np.float32)
        if draft.shape != (len(tokens), target.shape[1]):
            raise ValueError("draft: expected shape (K, V)")

    for i, token in enumerate(tokens):
        in_target, target_mass = float(target[i, token]), 1.0
        in_draft, draft_mass = 1.0, 1.0
        if draft is not None:
            in_draft = float(draft[i, token])
            draft_mass = _probability(in_draft) if normalized else _mass(draft[i])
        target_mass = _probability(in_target) if normalized else _mass(target[i])
        if uniforms[i] * (in_draft * target_mass) < in_target * draft_mass:
            continue

        # Rejected: draw from what the target has beyond the draft.
        target_row = target[i].astype(np.float64)
        if draft is None:
            _mass(target[i])
            weights = target_row.copy()
            weights[token] = 0.0
        else:
            if normalized:
                _check(target[i])
                _check(draft[i])
            scaled = draft[i].astype(np.float64) * (target_mass / draft_mass)
            weights = np.maximum(target_row - scaled, 0.0)
        if row_sum(weights) > 0.0:
            return Verdict(i, draw(weights, uniforms[-1]))
        _mass(target[i])
        return Verdict(i, draw(target_row, uniforms[-1]))

    _mass(target[-1])
    return Verdict(len(tokens), draw(target[-1].astype(np.float64), uniforms[-1]))


def row_sum(weights: np.ndarray) -> float:
    """Add up one row of float64 weights in the documented order."""
    total = 0.0
    for start in range(0, len(weights), _block(len(weights))):
        total += lane_sum(weights[start : start + _block(len(weights))])
    return total


def lane_sum(weights: np.ndarray) -> float:
    """Add up a block or piece: entry j goes to lane j % 16, then the lanes are folded in halves."""
    padded = np.zeros(-(-len(weights) // LANES) * LANES)
    padded[: len(weights)] = weights
    lanes = np.zeros(LANES)
    for group in padded.reshape(-1, LANES):
        lanes = lanes + group
    while len(lanes) > 1:
        lanes = lanes[: len(lanes) // 2] + lanes[len(lanes) // 2 :]
    return float(lanes[0])


def draw(weights: np.ndarray, uniform: float) -> int:
    """Find the first index whose cumulative weight exceeds uniform * total."""
    point = uniform * row_sum(weights)
    block = _block(len(weights))
    before, start, stop = 0.0, 0, len(weights)
    for size in (block, PIECE):
        # Go to the part of this size in which the running sum passes the point, or else to the last one.
        for part in range(start, stop, size):
            end = min(part + size, stop)
            after = before + lane_sum(weights[part:end])
            if after > point or end == stop:
                start, stop = part, end
                break
            before = after
    for i in range(start, stop):
        before += weights[i]
        if before > point:
            return i
    return int(np.flatnonzero(weights[:stop] > 0)[-1])  # the running sum fell short by rounding


def _block(n: int) -> int:
    block = BLOCK
    while n > block * MAX_BLOCKS:
        block *= 2
    return block


def _rows(rows: Any) -> np.ndarray:
    array = np.asarray(rows, dtype=np.float32)
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError("expected a matrix of at least one row and one column")
    return array


def _tokens(tokens: Any, target: np.ndarray) -> list[int]:
    if len(tokens) != len(target) - 1 or not all(0 <= token < target.shape[1] for token in tokens):
        raise ValueError("tokens: expected K token ids in [0, V)")
    return [int(token) for token in tokens]


def _mass(row: np.ndarray) -> float:
    _check(row)
    total = row_sum(row.astype(np.float64))
    if total == 0.0:
        raise ValueError("a visited row sums to 0")
    return total


def _check(entries: np.ndarray) -> None:
    if not ((entries >= 0) & (entries < np.inf)).all():
        raise ValueError("a visited row holds a negative, infinite or NaN entry")


def _probability(entry: float) -> float:
    """With trusted rows the mass is 1, and only the entry itself is looked at."""
    _check(np.asarray(entry))
    return 1.0
