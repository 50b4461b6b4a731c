"""Times of single steps beside the runs of a group, and what the cost model predicts from them.

Steps are measured on their own (specverify.cost.measure_steps), before and after the runs of a group; the mean of both
counts, since the speed of a machine drifts. Acceptance and proposed lengths are those of the runs. So what is tested is
the model of the cost: that a round is a draft, a pass over so many tokens and a verification, and nothing else.
"""

from collections import Counter
from dataclasses import replace

import numpy as np

from specverify import Sampling, cost, verify_greedy, verify_sampled
from specverify.steps import Start

from . import grid, texts
from .models import KINDS

KS = (1, 2, 3, 4, 6, 8)
REPEATS = 3


class Steady:
    """Two steps, of which every pass is preceded by the same one, and a clock that does not see the first of the two.

    llama.cpp keeps the plan of its last pass and uses it again if the next has as many tokens, as it mostly has in the
    rounds of a text. Steps of different lengths in turn would never have that.
    """

    def __init__(self):
        self._hidden = 0.0

    def clock(self):
        return texts.CLOCK() - self._hidden

    def step(self, inner):
        return _SteadyStep(self, inner)

    def hide(self, function, *arguments):
        before = texts.CLOCK()
        function(*arguments)
        self._hidden += texts.CLOCK() - before


class _SteadyStep:
    def __init__(self, steady, inner):
        self._steady, self._inner = steady, inner

    def begin(self, start):
        self._inner.begin(start)

    def __call__(self, prefix, other):
        held = self.n_cached
        self._steady.hide(self._inner, prefix, other)
        self._steady.hide(self.truncate, held)
        return self._inner(prefix, other)

    @property
    def n_cached(self):
        return self._inner.n_cached

    def truncate(self, keep):
        return self._inner.truncate(keep)


def measure(models, group, drafts, text):
    """Measure the steps of each draft at the end of a text. The target's are measured once, beside the first draft.

    Returns
    -------
    dict of str to StepTimes
        For each draft.
    """
    steady = Steady()
    target = models.target(group.target).as_target()
    if KINDS[group.target].keeps_plans:
        target = steady.step(target)
    sampling = Sampling(temperature=group.temperature) if group.temperature else None
    # Model drafts first: in a real round the draft's weights push the target's out of the cache, and so they do here.
    order = sorted((draft for draft in drafts if draft != "none"), key=lambda draft: draft in grid.FOUND)
    found, shared = {}, None
    for draft in order or ["lookup"]:
        start = Start(text, sampling is None, sampling, np.random.default_rng(0))
        step = models.draft_step(draft)
        if draft in KINDS and KINDS[draft].keeps_plans:
            step = steady.step(step)
        if draft in grid.FOUND and shared:
            own = cost.measure_steps(step, _no_target, text, KS, 5 * REPEATS, start=start, clock=texts.CLOCK)
            times = replace(shared, draft_token=own.draft_token, draft_fixed=own.draft_fixed, catch_up=None)
        else:
            settings = {"verify": verify_with(sampling), "start": start, "clock": steady.clock}
            times = shared = cost.measure_steps(step, target, text, KS, REPEATS, **settings)
        found[draft] = times
    return found


def verify_with(sampling):
    """Give the verification of a round as the loop calls it, its random numbers included."""
    rng = np.random.default_rng(0)

    def verify(target_rows, draft_rows, tokens):
        tokens = np.asarray(tokens, np.int64)
        if sampling is None:
            return verify_greedy(target_rows, tokens)
        draft_rows = draft_rows if len(tokens) else None
        return verify_sampled(target_rows, draft_rows, tokens, rng.random(len(tokens) + 1), sampling=sampling)

    return verify


def _no_target(prefix, proposed):
    return None


def mean_times(before, after):
    """Give the StepTimes between two measurements of the same steps, as to_json writes them."""
    one, _, _ = cost.from_json({"times": before})
    other, _, _ = cost.from_json({"times": after})

    def table(first, second):
        second = dict(second)
        return tuple((n, (seconds + second.get(n, seconds)) / 2) for n, seconds in first)

    catch_up = None if one.catch_up is None else (one.catch_up + other.catch_up) / 2
    token = (one.draft_token + other.draft_token) / 2
    return cost.StepTimes(
        target=table(one.target, other.target),
        draft_token=token,
        draft_fixed=(one.draft_fixed + other.draft_fixed) / 2,
        catch_up=catch_up,
        verify=table(one.verify, other.verify),
        between="linear",
    )


def predicted(times, rounds, adaptive=False):
    """Predict tokens per second from step times and what the rounds drafted and accepted.

    Parameters
    ----------
    times : StepTimes
        Of the group.
    rounds : list of (drafted, accepted)
        Of all runs of a contender.
    adaptive : bool
        A round that drafted nothing did not ask the draft. Else it asked and got nothing.
    """
    plain = [pair for pair in rounds if adaptive and pair[0] == 0]
    asked = rounds[:0] if len(plain) == len(rounds) else [pair for pair in rounds if not adaptive or pair[0]]
    longest = max((n for n, _ in asked), default=0)
    tokens, seconds = float(len(plain)), len(plain) * times.plain_seconds
    if longest:
        counts = Counter(n for n, _ in asked)
        shares = [counts[n] / len(asked) for n in range(longest + 1)]
        acceptance = cost.Acceptance.by_length(*zip(*asked, strict=True))
        found = cost.predict(times, acceptance, longest, shares)
        tokens += found.tokens_per_round * len(asked)
        seconds += found.seconds_per_round * len(asked)
    elif asked:
        tokens += len(asked)
        seconds += len(asked) * (times.plain_seconds + times.draft_fixed)
    return tokens / seconds
