"""Many rounds on a small Markov model, and what they should count. For test_statistics.py.

A model is a table: row s is the law of the token that follows token s. Everything random is drawn in bulk from one
generator; only the verifier is called once for each round.
"""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Experiment(NamedTuple):
    """A target, a drafter and a round length. `start` is the token before the first."""

    target: np.ndarray  # [V, V]
    draft: np.ndarray  # [V, V]; what is drafted, and verified against unless `deterministic`
    k: int
    deterministic: bool = False  # the drafter takes its row's first maximum, and no draft rows are passed
    start: int = 0


def emitted_counts(verifier: Callable, experiment: Experiment, n: int, length: int, seed: int) -> np.ndarray:
    """Count the first `length` tokens of `n` independent texts, in an array of `length` axes."""
    rng = np.random.default_rng(seed)
    vocab = len(experiment.target)
    texts = np.zeros((n, length), np.int64)
    done = np.zeros(n, np.int64)  # tokens of each text so far
    while (unfinished := np.flatnonzero(done < length)).size:
        fresh = done[unfinished] == 0
        last = np.where(fresh, experiment.start, texts[unfinished, done[unfinished] - 1])
        tokens, verdicts = run_rounds(verifier, experiment, last, rng)
        blocks = np.column_stack([tokens, np.zeros(len(tokens), np.int64)])
        blocks[np.arange(len(blocks)), verdicts[:, 0]] = verdicts[:, 1]
        for place in range(experiment.k + 1):
            at = done[unfinished] + place
            kept = (place <= verdicts[:, 0]) & (at < length)
            texts[unfinished[kept], at[kept]] = blocks[kept, place]
        done[unfinished] += verdicts[:, 0] + 1
    return np.bincount(texts @ vocab ** np.arange(length)[::-1], minlength=vocab**length).reshape((vocab,) * length)


def accepted_counts(verifier: Callable, experiment: Experiment, n: int, seed: int) -> np.ndarray:
    """Count how many tokens `n` rounds from the start accept: an array of K + 1 counts."""
    rng = np.random.default_rng(seed)
    _, verdicts = run_rounds(verifier, experiment, np.full(n, experiment.start), rng)
    return np.bincount(verdicts[:, 0], minlength=experiment.k + 1)


def run_rounds(verifier: Callable, experiment: Experiment, last: np.ndarray, rng: np.random.Generator):
    """One round after each token of `last`: drafted tokens [n, K] and verdicts [n, 2]."""
    target, draft, k, deterministic, _ = experiment
    uniforms = rng.random((len(last), k + 1))
    before = [last]
    cumulative = draft.cumsum(1) / draft.sum(1, keepdims=True)
    for _ in range(k):
        if deterministic:
            before.append(draft.argmax(1)[before[-1]])
        else:
            point = rng.random(len(last))[:, None]
            before.append((cumulative[before[-1]] <= point).sum(1).clip(max=len(draft) - 1))
    states = np.column_stack(before)  # the token before each position: last, x[0], ..., x[K - 1]
    # Indexing rows costs more than verifying them, so each of the V ** (K + 1) paths is laid out once.
    vocab = len(target)
    target_rows, draft_rows = target.astype(np.float32), draft.astype(np.float32)
    rounds = [
        (target_rows[path], None if deterministic else draft_rows[path[:-1]], path[1:])
        for path in map(np.array, itertools.product(range(vocab), repeat=k + 1))
    ]
    codes = states @ vocab ** np.arange(k + 1)[::-1]
    verdicts = [verifier(*rounds[code], u) for code, u in zip(codes.tolist(), uniforms, strict=True)]
    return states[:, 1:], np.array(verdicts).reshape(-1, 2)


def text_law(experiment: Experiment, length: int) -> np.ndarray:
    """The target's own law of the first `length` tokens, in an array of `length` axes."""
    rows = normalised(experiment.target)
    law = rows[experiment.start]
    for _ in range(length - 1):
        law = law[..., None] * rows
    return law


def accepted_law(experiment: Experiment) -> np.ndarray:
    """Law of the accepted length: P(at least i) is the expectation of the product of min(1, p / q) over drafts."""
    target, draft = normalised(experiment.target), normalised(experiment.draft)
    if experiment.deterministic:
        draft = np.eye(len(draft))[experiment.draft.argmax(1)]
    at_least = np.zeros(experiment.k + 2)
    at_least[0] = 1
    for i in range(1, experiment.k + 1):
        for tokens in itertools.product(range(len(draft)), repeat=i):
            path = list(itertools.pairwise((experiment.start, *tokens)))
            at_least[i] += np.prod([min(draft[step], target[step]) for step in path])
    return -np.diff(at_least)


def normalised(rows: np.ndarray) -> np.ndarray:
    return rows / rows.sum(1, keepdims=True)
