"""What the compiled core is compared with: the same rounds in NumPy as a good engineer writes them.

For measurements only. Not the oracle: :mod:`specverify.reference` is, which checks everything and sums in the
documented order, where this trusts its inputs and sums in NumPy's order. A measurement takes the faster of
:func:`verify_sampled_eager` and :func:`verify_sampled_lazy`, and likewise for greedy and for logits.
"""

import numpy as np

from ._result import Verdict
from .sampling import Sampling

Array = np.ndarray


def verify_greedy_eager(target: Array, tokens: Array) -> Verdict:
    """Take the maxima of all rows at once."""
    best = target.argmax(axis=1)
    missed = np.flatnonzero(best[:-1] != tokens)
    n = int(missed[0]) if missed.size else len(tokens)
    return Verdict(n, int(best[n]))


def verify_greedy_lazy(target: Array, tokens: Array) -> Verdict:
    """Stop at the first row whose maximum is not the drafted token."""
    for i, row in enumerate(target):
        best = int(row.argmax())
        if i == len(tokens) or best != tokens[i]:
            return Verdict(i, best)
    raise AssertionError("not reached: the last row returns")


def verify_sampled_eager(
    target: Array, draft: Array, tokens: Array, uniforms: Array, *, normalized: bool = False
) -> Verdict:
    """Test all positions at once. Rows are normalised by their masses where they are looked at, never copied whole."""
    k = len(tokens)
    positions = np.arange(k)
    in_target = target[positions, tokens].astype(np.float64)
    in_draft = draft[positions, tokens].astype(np.float64)
    scale = None
    if not normalized:
        scale = target[:k].sum(axis=1, dtype=np.float64) / draft.sum(axis=1, dtype=np.float64)
        in_draft *= scale
    rejected = np.flatnonzero(uniforms[:k] * in_draft >= in_target)
    if not rejected.size:
        return Verdict(k, _draw(target[k], uniforms[k]))
    n = int(rejected[0])
    return Verdict(n, _draw(_residual(target[n], draft[n], None if scale is None else scale[n]), uniforms[k]))


def verify_sampled_lazy(
    target: Array, draft: Array, tokens: Array, uniforms: Array, *, normalized: bool = False
) -> Verdict:
    """Test one position after the other, and read no row after the first rejection."""
    k = len(tokens)
    for i in range(k):
        token = tokens[i]
        scale = None if normalized else target[i].sum(dtype=np.float64) / draft[i].sum(dtype=np.float64)
        in_draft = float(draft[i, token]) if scale is None else float(draft[i, token]) * scale
        if not uniforms[i] * in_draft < target[i, token]:
            return Verdict(i, _draw(_residual(target[i], draft[i], scale), uniforms[k]))
    return Verdict(k, _draw(target[k], uniforms[k]))


def verify_logits_eager(target: Array, draft: Array, tokens: Array, uniforms: Array, *, sampling: Sampling) -> Verdict:
    """Turn all rows into weights at once, then test all positions at once."""
    return verify_sampled_eager(weights(target, sampling), weights(draft, sampling), tokens, uniforms)


def verify_logits_lazy(target: Array, draft: Array, tokens: Array, uniforms: Array, *, sampling: Sampling) -> Verdict:
    """Turn rows into weights as positions come to them."""
    k = len(tokens)
    for i in range(k):
        target_row, draft_row = weights(target[i], sampling), weights(draft[i], sampling)
        scale = target_row.sum(dtype=np.float64) / draft_row.sum(dtype=np.float64)
        if not uniforms[i] * (float(draft_row[tokens[i]]) * scale) < target_row[tokens[i]]:
            return Verdict(i, _draw(_residual(target_row, draft_row, scale), uniforms[k]))
    return Verdict(k, _draw(weights(target[k], sampling), uniforms[k]))


def weights(logits: Array, sampling: Sampling) -> Array:
    """Turn a row, or each of several, into float32 weights of which the largest is 1; sorts no more than it must.

    With top-k the other filters and the exponentials see its k survivors only. Of equal logits at the threshold of
    another filter all are kept.
    """
    scaled = logits * np.float32(1 / sampling.temperature)
    scaled -= scaled.max(axis=-1, keepdims=True)
    ids = None
    if 0 < sampling.top_k < logits.shape[-1]:
        ids = np.argpartition(scaled, -sampling.top_k, axis=-1)[..., -sampling.top_k :]
        scaled = np.take_along_axis(scaled, ids, axis=-1)
    found: Array = np.exp(scaled, out=scaled)
    if sampling.top_p < 1:
        ascending = np.sort(found, axis=-1)
        below = np.cumsum(ascending, axis=-1, dtype=np.float64)
        # The lowest that is kept: what lies below it is at most 1 - top_p of the mass.
        dropped = below <= (1 - sampling.top_p) * below[..., -1:]
        lowest = np.take_along_axis(ascending, dropped.sum(axis=-1, keepdims=True), axis=-1)
        found[found < lowest] = 0
    if sampling.min_p > 0:
        found[found < sampling.min_p] = 0
    if ids is None:
        return found
    row = np.zeros(logits.shape, np.float32)
    np.put_along_axis(row, ids, found, axis=-1)
    return row


def _residual(target: Array, draft: Array, scale: np.float64 | None) -> Array:
    """In float32 where the rows are trusted, in float64 (the type of `scale`) where they are not."""
    weights: Array = target - draft if scale is None else target - draft * scale
    np.maximum(weights, 0.0, out=weights)
    return weights


def _draw(weights: Array, uniform: float) -> int:
    cumulative = np.cumsum(weights, dtype=np.float64)
    return int(np.searchsorted(cumulative, uniform * cumulative[-1], side="right"))
