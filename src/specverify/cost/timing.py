"""Times the steps of any two models. Holds no prediction."""

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np

from ..steps import Cached, DraftStep, Start, TargetStep, begin_text, cut_back
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
    The first call of the draft, which is measured once, gives `draft_start`, one-time work of a first call included.
    The lengths are measured in turn, so that a slow second of the machine meets all of them, and each twice: after a
    pass over another number of tokens, and after one over as many. The second gives the time of the pass, the
    difference the `switch`. Where the draft proposes fewer tokens than asked, its time counts for as many as it
    proposed; the target pass is filled up with tokens of the prompt, which cost the same.
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
        begin_text(step, start)
    rounds = _Rounds(draft_step, target_step, prompt, verify, clock)
    for repeat in range(repeats + 1):
        for k in (0, *lengths):
            rounds.run_twice(k)
        if isinstance(draft_step, Cached):
            rounds.catch_up(min(2, lengths[-1]))
        if repeat == 0:
            rounds.forget()
    fixed, per_token = _split({n: median(seconds) for n, seconds in rounds.drafts.items()})
    assert rounds.first_call is not None
    n_first, first_seconds = rounds.first_call
    return StepTimes(
        target=tuple((n, median(seconds)) for n, seconds in sorted(rounds.passes.items())),
        draft_token=per_token,
        draft_fixed=fixed,
        catch_up=per_token + max(0.0, median(rounds.catch_ups)) if rounds.catch_ups else None,
        draft_start=max(0.0, first_seconds - fixed - n_first * per_token),
        switch=max(0.0, median(rounds.switches)),
        verify=tuple((n, median(seconds)) for n, seconds in sorted(rounds.verdicts.items())),
        between="linear",
    )


class _Rounds:
    """Rounds at the end of a text, each from the same caches, and the seconds of their parts."""

    def __init__(
        self,
        draft_step: DraftStep,
        target_step: TargetStep,
        prompt: Sequence[int],
        verify: Callable[[Any, Any, Any], Any] | None,
        clock: Callable[[], float],
    ) -> None:
        self._draft_step, self._target_step = draft_step, target_step
        self._prompt, self._verify, self._clock = prompt, verify, clock
        self._filling = [int(token) for token in prompt]
        self.first_call: tuple[int, float] | None = None  # of the draft: tokens and seconds
        self.forget()

    def forget(self) -> None:
        """Drop all seconds but those of the first call."""
        self.passes: dict[int, list[float]] = {}
        self.drafts: dict[int, list[float]] = {}
        self.verdicts: dict[int, list[float]] = {}
        self.switches: list[float] = []
        self.catch_ups: list[float] = []

    def run_twice(self, k: int) -> None:
        """Time a round of k tokens after one of another length, and a second one after that."""
        switched, seconds = self._run(k), self._run(k)
        self.passes.setdefault(k + 1, []).append(seconds)
        self.switches.append(switched - seconds)

    def catch_up(self, k: int) -> None:
        """Time what reading a second token adds to a draft call, the switch back to single tokens included."""
        (one, _, _), (two, _, _) = (self._draft(k, unread) for unread in (1, 2))
        self.catch_ups.append(two - one)

    def _run(self, k: int) -> float:
        """Time a round; give the seconds of its target pass."""
        tokens: Any = ()
        rows = None
        if k:
            seconds, tokens, rows = self._draft(k, unread=1)
            self.first_call = self.first_call or (len(tokens), seconds)
            self.drafts.setdefault(len(tokens), []).append(seconds)
        proposed = [int(token) for token in tokens]
        while len(proposed) < k:
            proposed += self._filling[: k - len(proposed)]
        cut_back(self._target_step, len(self._prompt) - 1)
        in_target, target_rows = self._timed(self._target_step, self._prompt, proposed)
        if self._verify is not None:
            seconds, _ = self._timed(self._verify, target_rows[: len(tokens) + 1], rows, tokens)
            self.verdicts.setdefault(len(tokens), []).append(seconds)
        return in_target

    def _draft(self, k: int, unread: int) -> tuple[float, Any, Any]:
        cut_back(self._draft_step, len(self._prompt) - unread)
        seconds, (tokens, rows) = self._timed(self._draft_step, self._prompt, k)
        return seconds, tokens, rows

    def _timed(self, function: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
        before = self._clock()
        result = function(*arguments)
        return self._clock() - before, result


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
