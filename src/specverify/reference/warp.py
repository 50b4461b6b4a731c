"""From logits to weights: temperature, top-k, top-p, min-p.

Every filter keeps the largest logits, ties by lowest index. Weights are float32, 2 ** ((logit - top) * scale) with a
polynomial of which every operation is written out, so that the compiled loops can be held to the same bits.
"""

from typing import Any

import numpy as np

from .sums import draw, row_sum

F = np.float32
#: 2**f for |f| <= 1/2, from the highest power down, without the constant 1.
POLYNOMIAL = [
    float.fromhex(c)
    for c in ("0x1.4258d8p-13", "0x1.5f44dcp-10", "0x1.3b2cc6p-7", "0x1.c6aed0p-5", "0x1.ebfbd6p-3", "0x1.62e430p-1")
]
LOWEST_POWER = F(-125)  # smaller powers of 2 become 0
ROUNDING = F(1.5 * 2**23)  # adding it rounds to an integer


def weights(logits: Any, sampling: Any, mask: Any = None, bias: Any = None) -> np.ndarray:
    """Turn one row of logits into float32 weights, of which the largest is 1."""
    z = masked(logits, mask, bias)
    top = z.max() if z.size else F(-np.inf)
    if np.isnan(z).any() or not np.isfinite(top):
        raise ValueError("a visited row of logits holds NaN or inf, or nothing but -inf")
    if sampling.temperature == 0:
        w = np.zeros(len(z), F)
        w[np.argmax(z)] = 1
        return w
    with np.errstate(over="ignore"):
        scale = F(min(float.fromhex("0x1.71547652b82fep+0") / sampling.temperature, np.finfo(F).max))
    w = power_of_two(z, top, scale)
    kept = np.ones(len(z), bool)
    if 0 < sampling.top_k < len(z):
        kept &= largest(z, sampling.top_k)
    if sampling.top_p < 1:
        kept &= nucleus(z, w, kept, sampling.top_p)
    if sampling.min_p > 0:
        kept &= w.astype(np.float64) >= sampling.min_p
    return np.where(kept, w, F(0))


def masked(logits: Any, mask: Any = None, bias: Any = None) -> np.ndarray:
    """Give float32 logits with the bias added and masked tokens at -inf; -0.0 becomes 0.0."""
    z = np.asarray(logits).astype(F) + F(0)
    if bias is not None:
        z = z + np.asarray(bias).astype(F)
    if mask is not None:
        words = np.asarray(mask).astype(np.int64) & 0xFFFFFFFF
        allowed = (words[np.arange(len(z)) // 32] >> (np.arange(len(z)) % 32)) & 1
        z = np.where(allowed == 1, z, F(-np.inf))
    return z


def power_of_two(z: np.ndarray, top: Any, scale: Any) -> np.ndarray:
    """2 ** ((z - top) * scale) in float32, operation by operation."""
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        y = (z - top) * scale
        shifted = y + ROUNDING
        f = y - (shifted - ROUNDING)
        power = np.full(len(z), F(POLYNOMIAL[0]))
        for c in POLYNOMIAL[1:]:
            power = power * f + F(c)
        power = power * f + F(1)
        bits = power.view(np.uint32) + (shifted.view(np.uint32) << np.uint32(23))
    return np.where(y >= LOWEST_POWER, bits, np.uint32(0)).astype(np.uint32).view(F)


def largest(z: np.ndarray, k: int) -> np.ndarray:
    """Mark the k largest, ties by lowest index."""
    kept = np.zeros(len(z), bool)
    kept[np.argsort(-z, kind="stable")[:k]] = True
    return kept


def nucleus(z: np.ndarray, w: np.ndarray, kept: np.ndarray, top_p: float) -> np.ndarray:
    """Mark the fewest largest of the kept tokens whose weights reach top_p of their sum.

    Summed as the compiled selection does, by the bits of the logits: bins of the upper 11 bits from the top, in index
    order inside a bin; in the bin that crosses, bins of the next 11, then of the last 10, then tie by tie. If by
    rounding none crosses, the lowest non-empty bin is taken.
    """
    goal = top_p * row_sum(np.where(kept, w, F(0)).astype(np.float64))
    bits = z.view(np.int32)
    keys = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).astype(np.int64) + 2**31
    reached, inside, above = 0.0, np.flatnonzero(kept), np.zeros(len(z), bool)
    for shift in (21, 10, 0):
        bins = keys[inside] >> shift
        for b in np.unique(bins)[::-1]:
            members = inside[bins == b]
            mass = float(np.add.accumulate(w[members], dtype=np.float64)[-1])  # one by one, in the order of the indices
            if reached + mass >= goal or b == bins.min():
                inside = members
                break
            reached += mass
            above[members] = True
    running = np.add.accumulate([reached, *w[inside].astype(np.float64)])[1:]
    above[inside[: 1 + np.searchsorted(running, goal)]] = True
    return above


def sample(logits: Any, uniform: float, sampling: Any, *, mask: Any = None, bias: Any = None) -> int:
    """Draw one token."""
    return draw(weights(logits, sampling, mask, bias).astype(np.float64), uniform)


def probabilities(logits: Any, sampling: Any, *, mask: Any = None, bias: Any = None) -> np.ndarray:
    """Give the float32 probabilities of one row of logits."""
    w = weights(logits, sampling, mask, bias).astype(np.float64)
    return (w / row_sum(w)).astype(F)
