"""Times of single steps, measured on their own beside the runs of a group. Predicts nothing (figures.py)."""

from dataclasses import replace
from statistics import median

import numpy as np

from specverify import Sampling, cost, verify_greedy, verify_sampled
from specverify.steps import Start

from . import grid, texts
from .models import KINDS

KS = (1, 2, 3, 4, 6, 8)
REPEATS = 3


def measure(models, group, drafts, text):
    """Measure the steps of each draft at the end of a text. The target's are measured once, beside the first draft.

    Returns
    -------
    dict of str to StepTimes
        For each draft.
    """
    target = models.target(group.target).as_target()
    sampling = Sampling(temperature=group.temperature) if group.temperature else None
    verify = verify_with(sampling)
    # Model drafts first: in a real round the draft's weights push the target's out of the cache, and so they do here.
    order = sorted((draft for draft in drafts if draft != "none"), key=lambda draft: draft in grid.FOUND)
    found, beside = {}, None
    for draft in order or ["lookup"]:
        start = Start(text, sampling is None, sampling, np.random.default_rng(0))
        step = models.draft_step(draft)
        if beside is None or draft in KINDS:
            times = cost.measure_steps(step, target, text, KS, REPEATS, verify=verify, start=start, clock=texts.CLOCK)
            beside = beside or times
        if draft in grid.FOUND:
            own = found_draft(models.draft_step(draft), text, start)
            times = replace(beside, **own, verify=certain_verification(target, text, verify))
        found[draft] = times
    return found


def found_draft(step, text, start):
    """Time a draft without a model: all that a call takes is fixed, and its first call reads the prompt."""
    step.begin(start)
    seconds = []
    for _ in range(5 * REPEATS):
        for k in KS:
            before = texts.CLOCK()
            step(text, k)
            seconds.append(texts.CLOCK() - before)
    fixed = median(seconds[1:])
    return {
        "draft_token": 0.0,
        "draft_fixed": fixed,
        "catch_up": None,
        "draft_start": max(0.0, seconds[0] - fixed),
    }


def certain_verification(target, text, verify):
    """Time the verification of tokens without a law, on a target's rows and the tokens that they make most probable."""
    given = target(text, text[: max(KS)])
    tokens = np.argmax(given, axis=1)
    # Rows of their own for each length, which no nearer cache holds when their turn comes.
    rows = {k: np.array(given[: k + 1]) for k in (0, *KS)}
    seconds = {k: [] for k in rows}
    for _ in range(REPEATS + 1):
        for k, found in seconds.items():
            before = texts.CLOCK()
            verify(rows[k], None, tokens[:k])
            found.append(texts.CLOCK() - before)
    return tuple((k, median(found[1:])) for k, found in seconds.items())


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
