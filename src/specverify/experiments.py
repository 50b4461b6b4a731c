"""Experiments on toy models: what a draft buys, over its quality and length, and whether accepted lengths follow a law.

Numbers only; the commands ``run``, ``sweep`` and ``law`` print them, figures.py draws them. Pieces of work are
functions of this module with plain arguments, so that any ``concurrent.futures.Executor`` can take them: results do not
depend on who does the work, nor in which order.
"""

import concurrent.futures
import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from . import draws, lengths, simulate
from ._work import Progress, ignore, run_all
from .verify import verify_sampled

_CONCENTRATION = 0.3  # spec-decode's experiments
_ROUNDS_IN_A_PIECE = 1000
_LOGIT_SCALE = 2.0
_LOGIT_CORRELATION = 0.915  # with the scale, an acceptance rate near 0.68 at V = 32,000


@dataclass(frozen=True, slots=True)
class Cell:
    """One generation: its parameters and what it took.

    Attributes
    ----------
    rule : str
        One of ``simulate.rules()``.
    agreement : float
        As in ``simulate.draft_from_target``.
    k : int
        Drafted tokens in a round.
    tokens, target_passes, drafted, accepted : int
        Counts.
    tested_acceptance : float
        Accepted / (accepted + first rejections).
    draft_utilisation : float
        Accepted / drafted.
    tokens_per_target_pass : float
        Between 1 and k + 1.
    speedup : float
        ``simulate.expected_speedup`` at `draft_cost_ratio`.
    draft_cost_ratio : float
        Time of a draft pass / time of a target pass.
    """

    rule: str
    agreement: float
    k: int
    tokens: int
    target_passes: int
    drafted: int
    accepted: int
    tested_acceptance: float
    draft_utilisation: float
    tokens_per_target_pass: float
    speedup: float
    draft_cost_ratio: float


@dataclass(frozen=True, slots=True)
class Replay:
    """Accepted lengths of many rounds beside their law.

    Attributes
    ----------
    acceptance_rates : tuple of float
        Acceptance rate of each position.
    law : tuple of float
        Probability of accepting 0, 1, ..., K tokens.
    mean_by_law : float
        Mean accepted length: the sum over i of the product of the first i rates.
    mean_by_one_rate : float
        What the sum of powers of the mean rate would give, as if all positions were alike.
    mean : float
        Mean accepted length that was seen.
    standard_error : float
        Of `mean`, by the law.
    check : CountCheck
        Counts, expected counts and chi-square.
    """

    acceptance_rates: tuple[float, ...]
    law: tuple[float, ...]
    mean_by_law: float
    mean_by_one_rate: float
    mean: float
    standard_error: float
    check: lengths.CountCheck


def generate(
    *,
    agreement: float,
    k: int,
    n_tokens: int,
    vocab_size: int,
    seed: int,
    draft_cost_ratio: float,
    rule: str = "token",
    progress: Progress = ignore,
) -> Cell:
    """Generate text with a target and a draft of some agreement, and sum up what it took.

    Parameters
    ----------
    agreement, k, rule, draft_cost_ratio
        As in :class:`Cell`.
    n_tokens, vocab_size : int
        Tokens to emit, and V.
    seed : int
        Of target, draft and text: three streams.
    progress : callable
        Called with tokens emitted and tokens to emit.

    Returns
    -------
    Cell
        The same one for the same arguments.
    """
    target_seed, draft_seed, text_seed = np.random.SeedSequence(seed).generate_state(3).tolist()
    target = simulate.random_markov(vocab_size, target_seed, _CONCENTRATION)
    draft = simulate.draft_from_target(target, agreement, draft_seed)
    trace = simulate.generate_speculative(target, draft, [0], n_tokens, k, text_seed, rule=rule, progress=progress)
    return Cell(
        rule=rule,
        agreement=agreement,
        k=k,
        tokens=len(trace.tokens),
        target_passes=trace.target_passes,
        drafted=trace.proposed,
        accepted=trace.accepted,
        tested_acceptance=trace.tested_acceptance,
        draft_utilisation=trace.draft_utilisation,
        tokens_per_target_pass=trace.tokens_per_step,
        speedup=simulate.expected_speedup(trace.tokens_per_step, k, draft_cost_ratio),
        draft_cost_ratio=draft_cost_ratio,
    )


def sweep(
    agreements: Sequence[float],
    ks: Sequence[int],
    *,
    rules: Sequence[str] = ("token",),
    n_tokens: int = 5000,
    vocab_size: int = 32,
    seed: int = 0,
    draft_cost_ratio: float = 0.1,
    executor: concurrent.futures.Executor | None = None,
    progress: Progress = ignore,
) -> list[Cell]:
    """Generate text for every rule, agreement and draft length.

    Parameters
    ----------
    agreements, ks, rules : sequence
        The axes. All cells have the same target, and all of one agreement the same draft.
    n_tokens, vocab_size, seed, draft_cost_ratio
        As in :func:`generate`.
    executor : concurrent.futures.Executor, optional
        Takes the cells; default: this thread. Dask's ``client.get_executor()`` is one.
    progress : callable
        Called with cells done and cells to do.

    Returns
    -------
    list of Cell
        Rules in the outer loop, then agreements, then draft lengths; the same whoever computes them.
    """
    fixed = {"n_tokens": n_tokens, "vocab_size": vocab_size, "seed": seed, "draft_cost_ratio": draft_cost_ratio}
    pieces = [
        {**fixed, "rule": rule, "agreement": agreement, "k": k}
        for rule, agreement, k in itertools.product(rules, agreements, ks)
    ]
    return run_all(_cell, pieces, executor, progress)


def _cell(arguments: dict[str, object]) -> Cell:
    return generate(**arguments)  # type: ignore[arg-type]


def mismatched_rows(
    vocab_size: int, k: int, seed: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:  # fmt: skip
    """Give K + 1 target rows and K draft rows, float32: softmaxes of correlated Gaussian logits.

    They do not depend on the drafted tokens, so that the law of the accepted length over all drafts can be computed,
    and every position has an acceptance rate of its own.
    """
    rng = np.random.default_rng(seed)
    common = rng.standard_normal((k + 1, vocab_size))
    own = rng.standard_normal((k, vocab_size))
    spread = np.sqrt(1 - _LOGIT_CORRELATION**2)
    draft_logits = _LOGIT_CORRELATION * common[:k] + spread * own
    target, draft = (_softmax(_LOGIT_SCALE * logits) for logits in (common, draft_logits))
    return target, draft


def replay(
    n_rounds: int = 600,
    *,
    k: int = 4,
    vocab_size: int = 32_000,
    seed: int = 0,
    executor: concurrent.futures.Executor | None = None,
    progress: Progress = ignore,
) -> Replay:
    """Verify many rounds of a mismatched draft, and compare the accepted lengths with their analytic law.

    Parameters
    ----------
    n_rounds : int
        Rounds, at least 1: each with fresh drafted tokens and uniforms.
    k, vocab_size : int
        K and V.
    seed : int
        Of rows, drafts and uniforms.
    executor : concurrent.futures.Executor, optional
        Takes pieces of a thousand rounds.
    progress : callable
        Called with pieces done and pieces to do.

    Returns
    -------
    Replay
        The same for the same arguments.

    Notes
    -----
    With rows that do not depend on the draft, the number of accepted tokens is at least i with probability
    alpha_1 ... alpha_i, alpha_i the acceptance rate of position i. See DESIGN.md for rows that do.
    """
    starts = range(0, n_rounds, _ROUNDS_IN_A_PIECE)
    pieces = [(vocab_size, k, seed, start, min(start + _ROUNDS_IN_A_PIECE, n_rounds)) for start in starts]
    accepted = [length for piece in run_all(_replay_piece, pieces, executor, progress) for length in piece]
    target, draft = mismatched_rows(vocab_size, k, seed)
    law = lengths.law_of_rows(target, draft)
    at_least = law[::-1].cumsum()[::-1]
    rates = np.divide(at_least[1:], at_least[:-1], out=np.zeros(k), where=at_least[:-1] > 0)
    counts = np.arange(k + 1)
    mean = float(law @ counts)
    one_rate = float(rates.mean()) if k else 0.0
    return Replay(
        acceptance_rates=tuple(rates.tolist()),
        law=tuple(law.tolist()),
        mean_by_law=mean,
        mean_by_one_rate=sum(one_rate**i for i in range(1, k + 1)),
        mean=float(np.mean(accepted)),
        standard_error=float(np.sqrt((law @ (counts - mean) ** 2) / n_rounds)),
        check=lengths.check_counts(accepted, [law] * n_rounds),
    )


def _replay_piece(arguments: tuple[int, int, int, int, int]) -> list[int]:
    vocab_size, k, seed, start, stop = arguments
    target, draft = _cached_rows(vocab_size, k, seed)
    accepted = []
    for number in range(start, stop):
        uniforms = np.random.default_rng([seed, number]).random(2 * k + 1)
        tokens = draws.sample(draft, uniforms[:k])
        accepted.append(verify_sampled(target, draft, tokens, uniforms[k:]).n_accepted)
    return accepted


_cached_rows = functools.lru_cache(1)(mismatched_rows)


def _softmax(logits: NDArray[np.float64]) -> NDArray[np.float32]:
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    rows: NDArray[np.float32] = (weights / weights.sum(axis=-1, keepdims=True)).astype(np.float32)
    return rows
