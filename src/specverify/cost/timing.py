"""Times the steps of any two models. Holds no prediction."""

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np

from ..steps import Cached, DraftStep, Start, TargetStep, cut_back
from .times import StepTimes


def measure_steps(
    draft_step: DraftStep,
    target_step: TargetStep,
    prompt: Sequence[int],
    ks: Sequence[int] = (1, 2, 4, 8),
    repeats: int = 5,
    *,
    verify: Callable[[Any, Any, Any], Any] | None = None,
    start: Start | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> StepTimes:
    """Time the parts of a round of two models.

    Parameters
    ----------
    draft_step, target_step
        As of the draft/verify loop. A step with a cache is cut back before each timing, so that every pass reads what
        it would read in a round; a step with ``begin`` is told `start`.
    prompt : sequence of int
        The text at whose end is measured, of at least 2 tokens.
    ks : sequence of int
        Draft lengths, each at least 1. With two or more, the draft's time is split into a fixed part and a part per
        token.
    repeats : int
        Timings of each part, of which the median counts. One more comes first and is not counted.
    verify : callable or None
        ``verify(target_rows, draft_rows, tokens)``, timed on the rows that come; None: not measured, so free.
    start : Start or None
        What a text begins with. None: greedy.
    clock : callable
        Gives seconds.

    Returns
    -------
    StepTimes
        With linear interpolation between the measured passes.

    Raises
    ------
    ValueError
        A prompt of fewer than 2 tokens, no or bad `ks`, fewer than 1 of `repeats`.

    Notes
    -----
    The first call of the draft, which is measured once, gives `draft_start`, whatever else a first call does. The
    lengths are measured in turn, so that a slow second of the machine meets all of them. Where the draft proposes
    fewer tokens than asked, its time counts for as many as it proposed; the target pass is filled up with tokens of
    the prompt, which cost the same.
    """
    lengths = sorted(set(ks))
    if len(prompt) < 2:
        raise ValueError(f"prompt: expected at least 2 tokens, got {len(prompt)}")
    if not lengths or lengths[0] < 1:
        raise ValueError(f"ks: expected draft lengths of at least 1, got {tuple(ks)}")
    if repeats < 1:
        raise ValueError(f"repeats: expected at least 1, got {repeats}")
    start = start or Start(prompt=prompt, greedy=True, sampling=None, rng=np.random.default_rng(0))
    for step in (draft_step, target_step):
        begin = getattr(step, "begin", None)
        if begin is not None:
            begin(start)

    def timed(function: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
        before = clock()
        result = function(*arguments)
        return clock() - before, result

    passes: dict[int, list[float]] = {}
    drafts: dict[int, list[float]] = {}
    verdicts: dict[int, list[float]] = {}
    extras: list[float] = []
    first_call: tuple[int, float] | None = None
    filling = [int(token) for token in prompt]
    for repeat in range(repeats + 1):
        warm = repeat > 0
        for k in (0, *lengths):
            tokens: Any = ()
            rows = None
            if k:
                cut_back(draft_step, len(prompt) - 1)
                seconds, (tokens, rows) = timed(draft_step, prompt, k)
                first_call = first_call or (len(tokens), seconds)
                if warm:
                    drafts.setdefault(len(tokens), []).append(seconds)
            proposed = [int(token) for token in tokens]
            while len(proposed) < k:
                proposed += filling[: k - len(proposed)]
            cut_back(target_step, len(prompt) - 1)
            seconds, target_rows = timed(target_step, prompt, proposed)
            if warm:
                passes.setdefault(k + 1, []).append(seconds)
            if verify is not None:
                seconds, _ = timed(verify, target_rows[: len(tokens) + 1], rows, tokens)
                if warm:
                    verdicts.setdefault(len(tokens), []).append(seconds)
        if isinstance(draft_step, Cached):
            cut_back(draft_step, len(prompt) - 1)
            one, _ = timed(draft_step, prompt, 1)
            cut_back(draft_step, len(prompt) - 2)
            two, _ = timed(draft_step, prompt, 1)
            if warm:
                extras.append(two - one)
    fixed, per_token = _split({n: median(seconds) for n, seconds in drafts.items()})
    assert first_call is not None
    n_first, first_seconds = first_call
    return StepTimes(
        target=tuple((n, median(seconds)) for n, seconds in sorted(passes.items())),
        draft_token=per_token,
        draft_fixed=fixed,
        catch_up=per_token + max(0.0, median(extras)) if extras else None,
        draft_start=max(0.0, first_seconds - fixed - n_first * per_token),
        verify=tuple((n, median(seconds)) for n, seconds in sorted(verdicts.items())),
        between="linear",
    )


def _split(medians: Mapping[int, float]) -> tuple[float, float]:
    """Fit fixed + n * per token, both at least 0, to the times of n tokens by least squares."""
    sizes, seconds = list(medians), list(medians.values())
    if len(sizes) == 1:
        # One length cannot tell the parts apart. What proposes nothing has only the fixed one.
        return (seconds[0], 0.0) if sizes[0] == 0 else (0.0, seconds[0] / sizes[0])
    mean_n, mean_t = sum(sizes) / len(sizes), sum(seconds) / len(sizes)
    spread = sum((n - mean_n) ** 2 for n in sizes)
    slope = sum((n - mean_n) * (t - mean_t) for n, t in zip(sizes, seconds, strict=True)) / spread
    if slope <= 0.0:
        return mean_t, 0.0
    if mean_t < slope * mean_n:
        slope = sum(n * t for n, t in zip(sizes, seconds, strict=True)) / sum(n * n for n in sizes)
        return 0.0, slope
    return mean_t - slope * mean_n, slope
