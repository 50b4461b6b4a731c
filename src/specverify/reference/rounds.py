"""The rules of verification, for one round."""

from typing import Any, NamedTuple

import numpy as np

from .sums import draw, row_sum
from .warp import masked, weights


class Verdict(NamedTuple):
    """As :class:`specverify.Verdict`, with which it compares equal."""

    n_accepted: int
    next_token: int


def verify_greedy(target: Any, tokens: Any, *, mask: Any = None, bias: Any = None) -> Verdict:
    """Accept while the drafted token is the first maximum of its target row; then emit that maximum."""
    target = np.asarray(target)
    if target.dtype == np.float64 or target.dtype.kind in "iu":
        target = target.astype(np.float32)
    tokens = _tokens(tokens, len(target) - 1, target.shape[1])
    for i, row in enumerate(target):
        z = masked(row, None if mask is None else mask[i], bias)
        if np.isnan(z).any() or not np.isfinite(z.max()):
            raise ValueError(f"target[{i}] has no maximum")
        best = int(np.argmax(z))
        if i == len(tokens) or best != tokens[i]:
            return Verdict(i, best)
    raise AssertionError("not reached: the last row returns")


def verify_sampled(
    target: Any,
    draft: Any,
    tokens: Any,
    uniforms: Any,
    *,
    normalized: bool = False,
    sampling: Any = None,
    mask: Any = None,
    bias: Any = None,
) -> Verdict:
    """Accept each drafted token with probability min(1, target / draft); draw what follows from the residual."""
    rows = _Rows(target, draft, tokens, normalized, sampling, mask, bias)
    uniforms = _uniforms(uniforms, rows.k)
    for i in range(rows.k):
        token = rows.tokens[i]
        draft_row, draft_mass = rows.draft(i)
        target_row, target_mass = rows.target(i)
        if uniforms[i] * (draft_row[token] * target_mass) < target_row[token] * draft_mass:
            continue
        return _draw_residual(rows, i, target_row, draft_row, target_mass / draft_mass, uniforms[-1])
    return Verdict(rows.k, draw(rows.drawn_target(rows.k), uniforms[-1]))


def verify_block(
    target: Any,
    draft: Any,
    tokens: Any,
    uniforms: Any,
    *,
    normalized: bool = False,
    sampling: Any = None,
    mask: Any = None,
    bias: Any = None,
) -> Verdict:
    """Accept the longest prefix that the target would have kept, from all K tokens down."""
    if draft is None:
        return verify_sampled(
            target, None, tokens, uniforms, normalized=normalized, sampling=sampling, mask=mask, bias=bias
        )
    rows = _Rows(target, draft, tokens, normalized, sampling, mask, bias)
    uniforms = _uniforms(uniforms, rows.k)
    path = [1.0]
    for i in range(rows.k):
        if path[-1] == 0.0:
            break
        draft_row, draft_mass = rows.draft(i)
        target_row, target_mass = rows.target(i)
        p, q = target_row[rows.tokens[i]], draft_row[rows.tokens[i]]
        with np.errstate(divide="ignore"):
            ratio = 0.0 if p == 0.0 else (p * draft_mass) / (q * target_mass)
        path.append(min(1.0, path[-1] * ratio))
    if rows.k == 0 or (len(path) == rows.k + 1 and uniforms[rows.k - 1] < path[rows.k]):
        return Verdict(rows.k, draw(rows.drawn_target(rows.k), uniforms[-1]))
    for i in range(min(len(path) - 1, rows.k - 1), -1, -1):
        if i > 0 and uniforms[i - 1] >= path[i]:
            continue
        draft_row, draft_mass = rows.draft(i)
        target_row, target_mass = rows.target(i)
        scale = target_mass / (draft_mass * path[i])
        surplus = row_sum(np.maximum(target_row - draft_row * scale, 0.0)) / target_mass * path[i]
        rest = surplus + (1.0 - path[i])
        if i > 0 and rest > 0.0 and not uniforms[i - 1] * rest < surplus:
            continue
        return _draw_residual(rows, i, target_row, draft_row, scale, uniforms[-1])
    raise AssertionError("not reached: the empty prefix is always accepted")


def emitted_probabilities(target: Any, tokens: Any, verdict: Verdict, **options: Any) -> list[float]:
    """Probability of each emitted token under the warped target."""
    rows = _Rows(target, None, tokens, False, options.get("sampling"), options.get("mask"), options.get("bias"))
    emitted = [*rows.tokens[: verdict.n_accepted], verdict.next_token]
    return [row[token] / mass for token, (row, mass) in ((t, rows.target(i)) for i, t in enumerate(emitted))]


def _draw_residual(
    rows: "_Rows", i: int, target_row: np.ndarray, draft_row: np.ndarray, scale: float, uniform: float
) -> Verdict:
    """Draw from what the target has beyond the draft, or, if that is empty by rounding, from the target."""
    rows.check_drawn(i)
    if rows.is_certain:
        residual = target_row.copy()
        residual[rows.tokens[i]] = 0.0
    else:
        residual = np.maximum(target_row - draft_row * scale, 0.0)
    if row_sum(residual) > 0.0:
        return Verdict(i, draw(residual, uniform))
    return Verdict(i, draw(rows.drawn_target(i), uniform))


class _Rows:
    """Target and draft of one round as dense float64 rows with their masses, checked when they are visited."""

    def __init__(
        self, target: Any, draft: Any, tokens: Any, normalized: bool, sampling: Any, mask: Any, bias: Any
    ) -> None:
        vocab = target.vocab_size if hasattr(target, "vocab_size") else np.asarray(target).shape[1]
        self.k = len(target) - 1
        self.tokens = _tokens(tokens, self.k, vocab)
        self.is_certain = draft is None
        self._normalized = normalized
        self._vocab, self._sampling, self._mask, self._bias = vocab, sampling, mask, bias
        self._target, self._draft = target, draft
        if draft is not None and len(draft) != self.k:
            raise ValueError("draft: expected K rows")

    def target(self, i: int) -> tuple[np.ndarray, float]:
        return self._with_mass(self._read(self._target, i), i)

    def draft(self, i: int) -> tuple[np.ndarray, float]:
        if self._draft is None:
            return np.ones(max(self.tokens) + 1), 1.0  # certain; only the entry of the token itself is looked at
        return self._with_mass(self._read(self._draft, i), i)

    def drawn_target(self, i: int) -> np.ndarray:
        row = self._read(self._target, i).astype(np.float64)
        _mass(row)
        return row

    def check_drawn(self, i: int) -> None:
        _check(self._read(self._target, i))
        if self._draft is not None:
            _check(self._read(self._draft, i))

    def _with_mass(self, row: np.ndarray, i: int) -> tuple[np.ndarray, float]:
        row = row.astype(np.float64)
        if self._normalized:  # only the entry itself is looked at
            _check(row[self.tokens[i]])
            return row, 1.0
        return row, _mass(row)

    def _read(self, rows: Any, i: int) -> np.ndarray:
        if hasattr(rows, "offsets"):  # sparse
            row = np.zeros(self._vocab, np.float32)
            listed = slice(rows.offsets[i], rows.offsets[i + 1])
            row[rows.ids[listed]] = rows.probs[listed]
            return row
        if self._sampling is None:
            return np.asarray(rows[i]).astype(np.float32)
        return weights(rows[i], self._sampling, None if self._mask is None else self._mask[i], self._bias)


def _tokens(tokens: Any, k: int, vocab: int) -> list[int]:
    if len(tokens) != k or not all(0 <= token < vocab for token in tokens):
        raise ValueError("tokens: expected K token ids in [0, V)")
    return [int(token) for token in tokens]


def _uniforms(uniforms: Any, k: int) -> np.ndarray:
    array = np.asarray(uniforms, dtype=np.float64)
    if array.shape != (k + 1,) or not ((array >= 0) & (array < 1)).all():
        raise ValueError("uniforms: expected K + 1 numbers in [0, 1)")
    return array


def _mass(row: np.ndarray) -> float:
    _check(row)
    total = row_sum(row)
    if total == 0.0:
        raise ValueError("a visited row sums to 0")
    return total


def _check(entries: np.ndarray) -> None:
    if not ((entries >= 0) & (entries < np.inf)).all():
        raise ValueError("a visited row holds a negative, infinite or NaN entry")
