"""Times of the steps of real models: for advice, and beforehand for a draft length that must start cautiously.

Holds no prediction (cost/) and no choice (draft_length.py).
"""

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import numpy as np

from ..cost import StepTimes, measure_steps
from ..sampling import Sampling
from ..steps import DraftStep, Start, cut_back
from ..verify import RULES, verify_greedy
from ._cached import CachedModel

__all__ = ["draft_cost", "step_times"]

_REPEATS = 3  # of which the median counts: one disturbance is none


def draft_cost(
    target: CachedModel, draft: CachedModel, token: int, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Estimate the time of a pass of the draft as a fraction of the target's, from three of each over one token.

    Parameters
    ----------
    target, draft : CachedModel
        The models, their weights in memory. Their caches are empty afterwards.
    token : int
        What is fed.
    clock : callable
        Gives seconds.

    Returns
    -------
    float
        For :class:`specverify.AdaptiveDraftLength`, which learns the rest from the rounds of a text.
    """
    seconds: dict[str, list[float]] = {"target": [], "draft": []}
    for _ in range(_REPEATS):
        for name, model in (("target", target), ("draft", draft)):  # in turn, so that a slow moment meets both
            model.reset()
            started = clock()
            model.logits([token])
            seconds[name].append(clock() - started)
    target.reset()
    draft.reset()
    return median(seconds["draft"]) / max(median(seconds["target"]), 1e-9)  # a clock may stand still for a nanosecond


def step_times(
    target: CachedModel,
    draft_step: DraftStep,
    prompt: Sequence[int],
    max_k: int,
    *,
    sampling: Sampling | None = None,
    rule: str = "token",
    seed: int = 0,
) -> StepTimes:
    """Time the steps of rounds that draft 1, 2, ..., `max_k` tokens after a prompt, and verification of their rows.

    Parameters
    ----------
    target : CachedModel
        Its cache is empty afterwards.
    draft_step : DraftStep
        A model's step or another; its cache, if it has one, is empty afterwards.
    prompt : sequence of int
        At least 2 tokens, with room for `max_k` more in the context.
    max_k : int
        The longest draft, at least 1.
    sampling : Sampling, optional
        As of the decoder; None is greedy.
    rule : {"token", "block"}
        As of the decoder.
    seed : int
        Of the uniforms, and of the draft's stream.

    Returns
    -------
    StepTimes

    Raises
    ------
    ValueError
        A shorter prompt, or no draft length.
    """
    rng = np.random.default_rng(seed)
    uniforms = rng.random(max_k + 1)

    def verify(target_rows: Any, rows: Any, tokens: Any) -> None:
        if sampling is None:
            verify_greedy(target_rows, tokens)
        else:
            given = rows if len(tokens) else None  # what is drafted may be nothing
            RULES[rule](target_rows, given, tokens, uniforms[: len(tokens) + 1], sampling=sampling)

    start = Start(prompt, sampling is None, sampling, rng)
    target.reset()
    cut_back(draft_step, 0)  # so that its first call shows what reading the prompt takes
    try:
        return measure_steps(
            draft_step, target.as_target(), prompt, range(1, max_k + 1), _REPEATS, verify=verify, start=start
        )
    finally:
        target.reset()
        cut_back(draft_step, 0)
