"""Toy models and speculative generation with them: what a draft of a given quality buys, without any weights.

The surface of the spec-decode package, so that its users move over by changing an import, on this package's verifier:
``random_markov``, ``draft_from_target``, ``generate_speculative``, ``generate_target_only``, ``Trace``,
``expected_speedup``. Models are anything with ``next_dist(prefix)``. Holds no sweep over parameters (experiments.py)
and no loop that is meant to be watched (demo.py).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import draws
from ._work import Progress, ignore
from .proof.closed_form import Model
from .verify import RULES

__all__ = [
    "MarkovModel",
    "Model",
    "Trace",
    "draft_from_target",
    "expected_speedup",
    "generate_speculative",
    "generate_target_only",
    "law_of_accepted_length",
    "random_markov",
    "rules",
    "sample",
    "speculative_step",
]

_NOISE_CONCENTRATION = 0.4  # spec-decode's, so that the same seeds give the same models


class MarkovModel:
    """A first-order Markov model: what follows depends on the last token alone.

    Parameters
    ----------
    transition : array_like, shape [V, V]
        Row s is the law of the token after token s. Kept as given, in float64; `next_dist` gives rows in float32, the
        type that verification reads.
    start_token : int
        Stands for the last token of an empty prefix.

    Raises
    ------
    ValueError
        `transition` is not square, has a negative or infinite entry, or rows that do not sum to 1 within 1e-6.

    Examples
    --------
    >>> MarkovModel([[0.5, 0.5], [0.25, 0.75]]).next_dist([0, 1]).tolist()
    [0.25, 0.75]
    """

    def __init__(self, transition: Any, start_token: int = 0) -> None:
        rows = np.array(transition, np.float64)
        if rows.ndim != 2 or rows.shape[0] != rows.shape[1] or not rows.size:
            raise ValueError(f"transition: expected a square matrix, got shape {rows.shape}")
        bad = ~(np.isfinite(rows).all(1) & (rows >= 0).all(1) & (np.abs(rows.sum(1) - 1) < 1e-6))
        if bad.any():
            raise ValueError(f"transition[{bad.argmax()}]: expected probabilities that sum to 1")
        if not 0 <= start_token < len(rows):
            raise ValueError(f"start_token = {start_token} is outside [0, {len(rows)})")
        self.transition = rows
        self.vocab_size = len(rows)
        self.start_token = start_token
        self._rows = rows.astype(np.float32)
        self._rows.setflags(write=False)

    def next_dist(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        """Give the row of V probabilities after `tokens`, as a read-only view."""
        row: NDArray[np.float32] = self._rows[tokens[-1] if len(tokens) else self.start_token]
        return row


def random_markov(vocab_size: int, seed: int, concentration: float = 0.4) -> MarkovModel:
    """Make a Markov model of rows that are drawn from a Dirichlet law.

    Parameters
    ----------
    vocab_size : int
        V.
    seed : int
        Anything that ``numpy.random.default_rng`` takes.
    concentration : float
        Parameter of the symmetric Dirichlet law: smaller means rows with fewer likely tokens.

    Returns
    -------
    MarkovModel
        The same one for the same arguments, and spec-decode's own.
    """
    rng = np.random.default_rng(seed)
    return MarkovModel(rng.dirichlet(np.full(vocab_size, concentration), size=vocab_size))


def draft_from_target(target: MarkovModel, agreement: float, seed: int) -> MarkovModel:
    """Make a draft that follows the target to a chosen degree.

    Parameters
    ----------
    target : MarkovModel
        The target.
    agreement : float
        Weight of the target's rows beside rows of noise, in ``[0, 1]``: at 1 the draft is the target.
    seed : int
        Anything that ``numpy.random.default_rng`` takes.

    Returns
    -------
    MarkovModel
        Its acceptance rate is at least `agreement`.

    Raises
    ------
    ValueError
        `agreement` is outside ``[0, 1]``.
    """
    if not 0.0 <= agreement <= 1.0:
        raise ValueError(f"agreement = {agreement} is outside [0, 1]")
    rng = np.random.default_rng(seed)
    noise = rng.dirichlet(np.full(target.vocab_size, _NOISE_CONCENTRATION), size=target.vocab_size)
    return MarkovModel(agreement * target.transition + (1.0 - agreement) * noise, target.start_token)


@dataclass(slots=True)
class Trace:
    """What a generation took. Filled by the functions of this module.

    Attributes
    ----------
    tokens : list of int
        Emitted tokens, without the prefix.
    steps, target_passes, draft_passes : int
        Rounds, and passes of either model.
    proposed, accepted : int
        Drafted tokens, and those of them that were accepted.
    accepted_lengths : list of int
        Accepted tokens of each round.
    """

    tokens: list[int] = field(default_factory=list)
    steps: int = 0
    target_passes: int = 0
    draft_passes: int = 0
    proposed: int = 0
    accepted: int = 0
    accepted_lengths: list[int] = field(default_factory=list)
    rejected: int = 0

    @property
    def acceptance_rate(self) -> float:
        """Accepted / proposed. spec-decode's name for what is :attr:`draft_utilisation` elsewhere in this package."""
        return self.accepted / self.proposed if self.proposed else 0.0

    @property
    def draft_utilisation(self) -> float:
        """Accepted / proposed: tokens after a rejection count as lost."""
        return self.acceptance_rate

    @property
    def tested_acceptance(self) -> float:
        """Accepted / (accepted + first rejections): an estimate of the acceptance rate of one position."""
        tested = self.accepted + self.rejected
        return self.accepted / tested if tested else 0.0

    @property
    def tokens_per_step(self) -> float:
        """Emitted tokens per round, between 1 and k + 1: tokens per target pass."""
        return len(self.tokens) / self.steps if self.steps else 0.0


def law_of_accepted_length(target: MarkovModel, draft: MarkovModel, k: int) -> NDArray[np.float64]:
    """Give the exact law of the accepted length of a round, over all drafts, after each possible last token.

    Parameters
    ----------
    target, draft : MarkovModel
        Models of the same vocabulary.
    k : int
        Drafted tokens.

    Returns
    -------
    ndarray of float64, shape [V, k + 1]
        Row s: probability of accepting 0, 1, ..., k tokens after token s.

    Notes
    -----
    For rows that depend on the text, P(accepted >= i) is the sum over all drafts x of the products of
    min(target, draft)(x_j | x_1 ... x_{j-1}). In a Markov model that is a product of matrices: with
    ``M[s, x] = min(target, draft)(x | s)``, it is entry s of ``M**i @ 1``. It is not the product of acceptance rates,
    since an accepted token is not any token: what it leads to may be easier or harder to draft.

    Examples
    --------
    >>> target = MarkovModel([[0.5, 0.5], [1.0, 0.0]])
    >>> draft = MarkovModel([[1.0, 0.0], [1.0, 0.0]])
    >>> law_of_accepted_length(target, draft, 2).tolist()
    [[0.5, 0.25, 0.25], [0.0, 0.5, 0.5]]
    """
    rows = [model.next_dist([s]).astype(np.float64) for model in (target, draft) for s in range(target.vocab_size)]
    laws = np.array([row / row.sum() for row in rows]).reshape(2, target.vocab_size, -1)
    overlap = laws.min(axis=0)
    at_least = [np.ones(target.vocab_size)]
    for _ in range(k):
        at_least.append(overlap @ at_least[-1])
    reached = np.array([*at_least, np.zeros(target.vocab_size)])
    law: NDArray[np.float64] = (reached[:-1] - reached[1:]).T
    return law


def rules() -> dict[str, Callable[..., tuple[int, int]]]:
    """Name the verification rules."""
    return dict(RULES)


def sample(dist: Any, rng: Any) -> int:
    """Draw one token from a row: an exact draw with one uniform."""
    token: int = draws.sample(np.asarray(dist, np.float32), np.random.default_rng(rng).random())
    return token


def speculative_step(
    target: Model,
    draft: Model,
    prefix: Sequence[int],
    k: int,
    rng: Any,
    trace: Trace | None = None,
    *,
    rule: str = "token",
) -> list[int]:
    """Run one round after `prefix` and give the 1 to k + 1 tokens that it emits.

    Parameters
    ----------
    target, draft : Model
        Anything with ``next_dist(prefix)``.
    prefix : sequence of int
        The text so far.
    k : int
        Tokens to draft.
    rng : Generator or seed
        What ``numpy.random.default_rng`` takes. Takes 2 k + 1 uniforms: k to draft, k + 1 to verify.
    trace : Trace, optional
        Is told about the round.
    rule : str
        One of :func:`rules`.

    Returns
    -------
    list of int
        Accepted tokens, then the residual or bonus token.
    """
    uniforms = np.random.default_rng(rng).random(2 * k + 1)
    text = list(prefix)
    start = len(text)
    draft_rows, target_rows = [], []
    for i in range(k):
        row = np.asarray(draft.next_dist(text), np.float32)
        target_rows.append(target.next_dist(text))
        draft_rows.append(row)
        text.append(draws.sample(row, uniforms[i]))
    target_rows.append(target.next_dist(text))
    tokens = np.array(text[start:], np.int64)
    rows = np.array(target_rows, np.float32)
    n_accepted, next_token = _rule(rule)(rows, np.array(draft_rows, np.float32), tokens, uniforms[k:])
    emitted = [*text[start : start + n_accepted], next_token]
    if trace is not None:
        trace.tokens += emitted
        trace.steps += 1
        trace.target_passes += 1
        trace.draft_passes += k
        trace.proposed += k
        trace.accepted += n_accepted
        trace.rejected += n_accepted < k
        trace.accepted_lengths.append(n_accepted)
    return emitted


def generate_speculative(
    target: Model,
    draft: Model,
    prefix: Sequence[int],
    n_tokens: int,
    k: int,
    rng: Any,
    *,
    rule: str = "token",
    progress: Progress = ignore,
) -> Trace:
    """Extend `prefix` by exactly `n_tokens` tokens, k drafted in each round.

    Parameters
    ----------
    target, draft : Model
        Anything with ``next_dist(prefix)``.
    prefix : sequence of int
        The text so far.
    n_tokens : int
        Tokens to emit. The last round may emit more; they are cut off, and its counts stay.
    k : int
        Tokens to draft in a round, at least 1.
    rng : Generator or seed
        What ``numpy.random.default_rng`` takes.
    rule : str
        One of :func:`rules`.
    progress : callable
        Called after each round with tokens emitted and tokens to emit.

    Returns
    -------
    Trace
        Tokens and counts.

    Raises
    ------
    ValueError
        `k` is below 1, `n_tokens` is negative, or there is no such rule.

    References
    ----------
    Leviathan et al., arXiv:2211.17192, algorithm 1.

    Examples
    --------
    >>> target = random_markov(vocab_size=32, seed=1)
    >>> trace = generate_speculative(target, target, [0], n_tokens=40, k=4, rng=0)
    >>> len(trace.tokens), trace.target_passes, trace.tokens_per_step
    (40, 8, 5.0)
    """
    if k < 1:
        raise ValueError(f"k: expected at least 1, got {k}")
    if n_tokens < 0:
        raise ValueError(f"n_tokens: expected at least 0, got {n_tokens}")
    _rule(rule)
    generator = np.random.default_rng(rng)
    trace = Trace()
    text = list(prefix)
    while len(trace.tokens) < n_tokens:
        text += speculative_step(target, draft, text, k, generator, trace, rule=rule)
        progress(min(len(trace.tokens), n_tokens), n_tokens)
    del trace.tokens[n_tokens:]
    return trace


def generate_target_only(target: Model, prefix: Sequence[int], n_tokens: int, rng: Any) -> Trace:
    """Extend `prefix` by `n_tokens` tokens, each drawn from the target: one target pass per token.

    Parameters
    ----------
    target : Model
        Anything with ``next_dist(prefix)``.
    prefix : sequence of int
        The text so far.
    n_tokens : int
        Tokens to emit.
    rng : Generator or seed
        What ``numpy.random.default_rng`` takes.

    Returns
    -------
    Trace
        Tokens and counts, without any draft.
    """
    generator = np.random.default_rng(rng)
    trace = Trace(steps=n_tokens, target_passes=n_tokens)
    text = list(prefix)
    for _ in range(n_tokens):
        token = sample(target.next_dist(text), generator)
        text.append(token)
        trace.tokens.append(token)
    return trace


def expected_speedup(tokens_per_step: float, k: int, draft_cost_ratio: float) -> float:
    """Give the speed-up over plain decoding that a number of tokens per target pass implies.

    Parameters
    ----------
    tokens_per_step : float
        Tokens per target pass.
    k : int
        Drafted tokens in a round.
    draft_cost_ratio : float
        Time of a draft pass / time of a target pass.

    Returns
    -------
    float
        tokens_per_step / (1 + k * draft_cost_ratio).

    Notes
    -----
    Takes a target pass over k + 1 positions for as long as one over 1, and verification for free. On a CPU the first
    does not hold.

    References
    ----------
    Leviathan et al., arXiv:2211.17192, theorem 3.8.

    Examples
    --------
    >>> expected_speedup(5.0, k=4, draft_cost_ratio=0.25)
    2.5
    """
    return tokens_per_step / (1.0 + k * draft_cost_ratio)


def _rule(name: str) -> Callable[..., tuple[int, int]]:
    known = rules()
    if name not in known:
        raise ValueError(f"rule: expected one of {', '.join(known)}, got {name!r}")
    return known[name]
