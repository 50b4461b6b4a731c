"""Tokens per target pass of the token rule and of the block rule, without the noise of acceptance.

Given the drafted tokens x, with r = target / draft at each, the token rule accepts i tokens or more with probability
prod min(1, r), and the block rule with probability path[i], where path[i] = min(1, path[i - 1] * r[i]) (Sun et al.,
arXiv:2403.10444). Averaged over all drafts that is exact, over drafts from a model it leaves the drafts' own spread.
"""

from itertools import product
from typing import Any

import numpy as np

from specverify import simulate


def reached(ratios: Any) -> tuple[np.ndarray, np.ndarray]:
    """Give the probability of accepting at least 1, ..., K tokens by either rule, for drafts [N, K] of ratios."""
    ratios = np.asarray(ratios, np.float64)
    token, block = np.empty_like(ratios), np.empty_like(ratios)
    product_so_far = path = np.ones(len(ratios))
    for i, ratio in enumerate(ratios.T):
        token[:, i] = product_so_far = product_so_far * np.minimum(ratio, 1)
        block[:, i] = path = np.minimum(path * ratio, 1)
    return token, block


def exact_tokens_per_pass(vocab: int, agreement: float, k: int, seed: int) -> tuple[float, float]:
    """Average over every draft of a pair of Markov models, from the start token on: token rule, block rule."""
    target = simulate.random_markov(vocab, seed)
    draft = simulate.draft_from_target(target, agreement, seed + 1)
    drafts = np.array(list(product(range(vocab), repeat=k)))
    before = np.hstack([np.zeros((len(drafts), 1), int), drafts[:, :-1]])
    in_target, in_draft = (model.transition[before, drafts] for model in (target, draft))
    weights = in_draft.prod(axis=1)
    found = reached(np.divide(in_target, in_draft, out=np.zeros_like(in_target), where=in_draft > 0))
    token, block = (1 + float((weights[:, None] * one).sum()) for one in found)
    return token, block


def sampled_tokens_per_pass(ratios: Any) -> tuple[float, float, float]:
    """Average over drafts from a model: token rule, block rule, and the standard error of their difference."""
    token, block = (one.sum(axis=1) for one in reached(ratios))
    difference = block - token
    return 1 + float(token.mean()), 1 + float(block.mean()), float(difference.std(ddof=1) / len(difference) ** 0.5)
