"""What ``specverify demo`` runs: a draft/verify loop over two models, one round at a time, and its summary.

Holds the loop, plain greedy decoding to compare it with, and the figures of a run; no printing (cli/demo.py), no
counting of models (ngram.py), no law (lengths.py). It is written to be read: one call of each model per row, no cache,
no state kept between rounds but the text.
"""

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .draws import sample
from .lengths import CountCheck, acceptance_probabilities, check_counts, law_given_draft
from .proof.closed_form import Model
from .verify import verify_greedy, verify_sampled


@dataclass(frozen=True, slots=True)
class Round:
    """One round of draft and verification.

    Attributes
    ----------
    drafted : tuple of int
        The draft's tokens; fewer than K at the end of the text only.
    acceptance : tuple of float
        Acceptance probability of each drafted token; at greedy decoding 1 for the target's argmax and 0 otherwise.
    n_accepted : int
        Length of the accepted prefix of `drafted`.
    next_token : int
        Residual token after a rejection, bonus token when all drafted tokens were accepted.
    seconds : float
        Duration of the round: draft rows, target rows and verification.
    verify_seconds : float
        Duration of the verification alone.
    """

    drafted: tuple[int, ...]
    acceptance: tuple[float, ...]
    n_accepted: int
    next_token: int
    seconds: float
    verify_seconds: float

    @property
    def emitted(self) -> tuple[int, ...]:
        """The tokens that the round adds to the text."""
        return (*self.drafted[: self.n_accepted], self.next_token)

    @property
    def rejected(self) -> bool:
        """Whether a drafted token was rejected, so that the next token is a residual token."""
        return self.n_accepted < len(self.drafted)


@dataclass(frozen=True, slots=True)
class Summary:
    """Figures of a run, in the terms of the README. Rates are None when nothing was drafted.

    Attributes
    ----------
    tokens : int
        Tokens emitted.
    target_passes : int
        Rounds.
    drafted, accepted, residual, bonus : int
        Tokens of each kind; ``accepted + residual + bonus == tokens``.
    tested_acceptance : float or None
        Accepted / (accepted + first rejections), a consistent estimate of the acceptance rate.
    draft_utilisation : float or None
        Accepted / drafted.
    tokens_per_target_pass : float
        Mean number of tokens emitted per round, between 1 and K + 1.
    verify_microseconds : float
        Median duration of a verification.
    verify_share : float
        Part of the loop's time that verification takes.
    lengths : CountCheck
        Accepted lengths of the rounds beside their analytic law.
    """

    tokens: int
    target_passes: int
    drafted: int
    accepted: int
    residual: int
    bonus: int
    tested_acceptance: float | None
    draft_utilisation: float | None
    tokens_per_target_pass: float
    verify_microseconds: float
    verify_share: float
    lengths: CountCheck


def decode_rounds(
    target: Model, draft: Model, prefix: Sequence[int], n_tokens: int, *, k: int, greedy: bool, seed: int
) -> Iterator[Round]:
    """Extend `prefix` by exactly `n_tokens` tokens and yield the rounds as they are decided.

    Parameters
    ----------
    target, draft : Model
        The two models, over the same vocabulary.
    prefix : sequence of int
        The text so far.
    n_tokens : int
        Tokens to emit. The last rounds draft fewer than `k` tokens rather than emit too many.
    k : int
        Drafted tokens in a round; with 0 each round is one token of the target.
    greedy : bool
        Both models take their argmax. The draft is then deterministic, and its rows play no part.
    seed : int
        Seed of two independent streams: one draws the drafts, one decides acceptance. Unused at greedy decoding.

    Yields
    ------
    Round
        Given all earlier rounds and its own drafted tokens, its accepted length has the law
        ``law_given_draft(acceptance)``.
    """
    draft_stream, accept_stream = map(np.random.default_rng, np.random.SeedSequence(seed).spawn(2))
    text = list(prefix)
    end = len(text) + n_tokens
    while len(text) < end:
        started = time.perf_counter()
        drafted, draft_rows = _propose(draft, text, min(k, end - len(text) - 1), greedy, draft_stream)
        # Inference engines compute these rows in one pass: all tokens they depend on are known.
        target_rows = np.stack([target.next_dist([*text, *drafted[:i]]) for i in range(len(drafted) + 1)])
        uniforms = accept_stream.random(len(drafted) + 1)
        tokens = np.array(drafted, np.int64)

        verify_started = time.perf_counter()
        if greedy:
            n_accepted, next_token = verify_greedy(target_rows, tokens)
        else:
            n_accepted, next_token = verify_sampled(target_rows, draft_rows, tokens, uniforms)
        ended = time.perf_counter()

        if greedy:
            acceptance = (target_rows[:-1].argmax(axis=1) == tokens).astype(float)
        else:
            acceptance = acceptance_probabilities(target_rows, draft_rows, tokens)
        decided = Round(
            tuple(drafted),
            tuple(acceptance.tolist()),
            n_accepted,
            next_token,
            ended - started,
            ended - verify_started,
        )
        text += decided.emitted
        yield decided


def decode_greedily(target: Model, prefix: Sequence[int], n_tokens: int) -> list[int]:
    """Extend `prefix` by the target's argmax, one token for each row, without any draft."""
    text = list(prefix)
    for _ in range(n_tokens):
        text.append(int(np.argmax(target.next_dist(text))))
    return text[len(prefix) :]


def summarize(rounds: Sequence[Round]) -> Summary:
    """Sum up the figures of a run of at least one round."""
    tokens = sum(len(one.emitted) for one in rounds)
    drafted = sum(len(one.drafted) for one in rounds)
    accepted = sum(one.n_accepted for one in rounds)
    residual = sum(one.rejected for one in rounds)
    tested = accepted + residual
    return Summary(
        tokens=tokens,
        target_passes=len(rounds),
        drafted=drafted,
        accepted=accepted,
        residual=residual,
        bonus=len(rounds) - residual,
        tested_acceptance=accepted / tested if tested else None,
        draft_utilisation=accepted / drafted if drafted else None,
        tokens_per_target_pass=tokens / len(rounds),
        verify_microseconds=1e6 * statistics.median(one.verify_seconds for one in rounds),
        verify_share=sum(one.verify_seconds for one in rounds) / sum(one.seconds for one in rounds),
        lengths=check_counts([one.n_accepted for one in rounds], [law_given_draft(one.acceptance) for one in rounds]),
    )


def _propose(
    draft: Model, text: Sequence[int], k: int, greedy: bool, stream: np.random.Generator
) -> tuple[list[int], NDArray[np.float32]]:
    """Let the draft continue the text by k tokens; give them and the rows they come from."""
    tokens: list[int] = []
    rows: list[NDArray[np.float32]] = []
    for _ in range(k):
        row = draft.next_dist([*text, *tokens])
        rows.append(row)
        if greedy:
            tokens.append(int(np.argmax(row)))
        else:
            tokens.append(sample(row, stream.random()))
    return tokens, np.array(rows, np.float32)
