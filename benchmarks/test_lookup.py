"""Lookups in a text that grows to 50,000 tokens, whatever it is and however long the matches, beside a scan."""

import numpy as np
import pytest

from specverify import active_isa
from specverify.drafts import PromptLookup
from specverify.measure import Contender

LENGTH, LOOKUPS, K = 50_000, 1000, 8
STEP = LENGTH // LOOKUPS
TEXTS = {
    "random, V = 32,000": lambda: np.random.default_rng(1).integers(32_000, size=LENGTH),
    "random, V = 4": lambda: np.random.default_rng(1).integers(4, size=LENGTH),
    "one token over and over": lambda: np.full(LENGTH, 29_871),
}


def scan(text, min_n, max_n):
    """The rule of PromptLookup in NumPy: places of the last token, then those with one more before it, and so on."""
    last = len(text) - 1
    longest, ends = 0, np.flatnonzero(text[:last] == text[last])
    found = 0
    while len(ends):
        longest, found = longest + 1, int(ends[0]) + 1
        if longest == max_n:
            break
        ends = ends[ends >= longest]
        ends = ends[text[ends - longest] == text[last - longest]]
    return text[found : found + K].tolist() if longest >= min_n else []


def grow(text, min_n, max_n):
    """Index and look up, a step at a time, in one list that grows as that of a loop does."""
    lookup, so_far, found = PromptLookup(max_n, min_n), [], []
    for start in range(0, LENGTH, STEP):
        so_far += text[start : start + STEP]
        found.append(lookup(so_far, K)[0])
    return found


@pytest.mark.parametrize(("min_n", "max_n"), [(2, 4), (10, 500)])
@pytest.mark.parametrize("kind", TEXTS)
def test_lookups_while_a_text_grows(kind, min_n, max_n, benchmark, time_in_turn):
    """1,000 lookups, each after 50 new tokens, with all that the index takes; and one scan of the mean length."""
    text = TEXTS[kind]()
    found = grow(text.tolist(), min_n, max_n)
    for i in (1, 2, 3, LOOKUPS // 2, LOOKUPS):
        assert found[i - 1] == scan(text[: i * STEP], min_n, max_n)
    competing = {
        "specverify": Contender(grow, [(text.tolist(), min_n, max_n)]),
        "numpy_scan": Contender(scan, [(text[: LENGTH // 2], min_n, max_n)]),
    }
    turns, seconds = time_in_turn(competing, warm=True)
    about = {"text": kind, "min_n": min_n, "max_n": max_n, "lookups": LOOKUPS, "variant": active_isa()}
    benchmark.extra_info["lookups"] = about | turns.result(seconds)
