"""Wrong verifiers. Most ship with the package: ``specverify verify`` shows that its checks reject them.

Here are those of what only this suite checks: samplers, the block rule, sparse rows and batches.
"""

import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import exact
import numpy as np

from specverify.mutants import CLAIMED_BY, MUTANTS, right

__all__ = ["BLOCKS", "CLAIMED_BY", "MUTANTS", "SPARSE", "WARPS", "right", "right_warp"]


WARPS: dict[str, Callable] = {}


def _warp(
    logits: Any,
    sampling: Any,
    *,
    ties: int = 1,
    order: tuple[str, ...] = ("k", "p", "min"),
    crossing: int = 1,
    joint: bool = False,
    k_more: int = 0,
    keep_ties: bool = False,
) -> np.ndarray:
    """Right as it stands, in float64."""
    z = np.asarray(logits, np.float64) + 0.0
    if sampling.temperature == 0:
        best = np.flatnonzero(z == z.max())
        return np.bincount([best[0] if ties > 0 else best[-1]], minlength=len(z)).astype(float)
    w = np.exp((z - z.max()) / sampling.temperature)
    ranked = np.lexsort((ties * np.arange(len(z)), -z))
    kept = list(ranked)
    for name in order:
        if name == "k" and sampling.top_k:
            k = sampling.top_k + k_more
            kept = [i for i in kept if i in kept[:k] or (keep_ties and k <= len(kept) and z[i] == z[kept[k - 1]])]
        elif name == "p" and sampling.top_p < 1:
            before = np.concatenate([[0.0], np.cumsum(w[kept])])
            goal = sampling.top_p * (w.sum() if joint else before[-1])
            reached = int(np.searchsorted(before, goal * (1 - 1e-12)))  # tokens needed to reach it
            kept = kept[: max(1, reached - 1 + crossing)]
        elif name == "min":
            kept = [i for i in kept if w[i] >= sampling.min_p * (1 - 1e-6) * w[kept[0]]]
    return np.where(np.isin(np.arange(len(z)), kept) & (w >= 2.0**-125), w, 0.0)


def right_warp(logits: Any, sampling: Any) -> np.ndarray:
    return _warp(logits, sampling)


def _wrong_warp(name: str, **fault: Any) -> None:
    WARPS[name] = lambda logits, sampling: _warp(logits, sampling, **fault)


_wrong_warp("ties_by_highest_index", ties=-1)
_wrong_warp("all_ties_of_top_k_kept", keep_ties=True)
_wrong_warp("top_k_keeps_one_more", k_more=1)
_wrong_warp("top_p_drops_the_token_that_crosses", crossing=0)
_wrong_warp("top_p_keeps_one_more", crossing=2)
_wrong_warp("top_p_of_the_whole_row", joint=True)
_wrong_warp("top_p_before_top_k", order=("p", "k", "min"))
_wrong_warp("min_p_before_top_p", order=("k", "min", "p"))
_wrong_warp("min_p_ignored", order=("k", "p"))


BLOCKS: dict[str, exact.Verifier] = {}


def _block(name: str, **fault: Any) -> None:
    BLOCKS[name] = lambda *arguments: exact.verify_block(*arguments, **fault)


def _swapped(path: Fraction, p: Any, q: Any) -> Fraction:
    surplus = sum(max(Fraction(0), b - path * a) for a, b in zip(p, q, strict=True))
    return surplus / (surplus + 1 - path) if surplus + 1 - path else Fraction(1)


_block("path_not_capped_at_1", cap=lambda path: path)
_block("accepted_with_path_itself", chance=lambda path, p, q: path)
_block("target_and_draft_swapped_in_the_test", chance=_swapped)
_block("residual_of_the_token_rule", residual_path=lambda path: Fraction(1))
_block("scans_from_the_first_token", scan=lambda k: range(1, k + 1))
_block("last_prefix_tested_like_the_others", last_is_path=False)


SPARSE: dict[str, exact.Verifier] = {}


def _forgets(name: str, change: Callable[[Any], Any]) -> None:
    """The test sees the draft's rows, the residual sees changed ones."""

    def verifier(target: Any, draft: Any, tokens: Any, uniforms: Any) -> tuple[int, int]:
        n_accepted, next_token = exact.verify(target, draft, tokens, uniforms)
        if n_accepted == len(tokens):
            return n_accepted, next_token
        changed = change(list(draft[n_accepted]))
        residual = exact.rejected_weights(target[n_accepted], changed)
        return n_accepted, exact.draw(residual, uniforms[-1])

    SPARSE[name] = verifier


_forgets(
    "residual_forgets_the_first_listed_token", lambda row: [0 if i == _first(row) else q for i, q in enumerate(row)]
)
_forgets("residual_takes_ids_for_places", lambda row: [*[q for q in row if q], *[0] * row.count(0)])
_forgets("residual_ignores_the_list", lambda row: [1] * len(row))


def _first(row: Any) -> int:
    return next(itertools.compress(range(len(row)), row))
