"""Speculative text against plain text of the same target, and what to make of a difference at temperature 0.

In exact arithmetic a model gives a position the same logits in a pass over several tokens as in one over that token
alone. Runtimes round, and some kernels round differently for a batch: then the most probable token may differ, and two
correct loops give two texts. Here the two are told apart from a fault of verification. Holds no loop (decoder.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

from ..generation import Generation, Round
from ._cached import CachedModel

__all__ = ["BatchEffect", "Comparison", "batch_effect", "compare", "first_difference"]


@dataclass(frozen=True, slots=True)
class BatchEffect:
    """What a runtime's logits of one position are in the passes of two loops.

    Attributes
    ----------
    place : int
        The position, counted from the end of the prompt.
    batched_token, single_token : int
        The most probable token there, computed with its round's batch, and token by token.
    largest_difference : float
        Largest difference of a logit between the two.
    """

    place: int
    batched_token: int
    single_token: int
    largest_difference: float

    @property
    def explains(self) -> bool:
        """Whether the two loops had to differ here, since the runtime gives them different most probable tokens."""
        return self.batched_token != self.single_token


@dataclass(frozen=True, slots=True)
class Comparison:
    """A speculative text beside the plain one of the same prompt.

    Attributes
    ----------
    plain : Generation
        The plain text.
    speedup : float or None
        Of tokens per second, since sampled texts may end at different lengths; None where there was nothing to time.
    identical : bool or None
        Whether the texts are equal; None for sampled ones, of which only the law is the same.
    first_difference : int or None
        The first place at which greedy texts differ, counted from the end of the prompt.
    batch_effect : BatchEffect or None
        The target's rows there; None if the texts do not differ, or if one of them only ended early.
    """

    plain: Generation
    speedup: float | None
    identical: bool | None
    first_difference: int | None = None
    batch_effect: BatchEffect | None = None


def compare(
    model: CachedModel,
    prompt: Sequence[int],
    rounds: Sequence[Round],
    found: Generation,
    plain: Generation,
    *,
    greedy: bool,
) -> Comparison:
    """Compare a speculative text with a plain one, and look at the target's rows where greedy ones differ.

    Parameters
    ----------
    model : CachedModel
        The target; run again only where greedy texts differ.
    prompt : sequence of int
        The prompt of both.
    rounds : sequence of Round
        Those of the speculative text.
    found, plain : Generation
        The speculative and the plain text.
    greedy : bool
        Whether they were decoded greedily, and have to be equal.

    Returns
    -------
    Comparison
    """
    mine, theirs = found.report.tokens_per_second, plain.report.tokens_per_second
    speedup = mine / theirs if mine and theirs else None
    if not greedy:
        return Comparison(plain, speedup, None)
    place = first_difference(found.tokens, plain.tokens)
    if place is None:
        return Comparison(plain, speedup, True)
    both_go_on = place < min(len(found.tokens), len(plain.tokens))
    effect = batch_effect(model, prompt, rounds, place) if both_go_on else None
    return Comparison(plain, speedup, False, place, effect)


def first_difference(one: Sequence[int], other: Sequence[int]) -> int | None:
    """Give the first place at which two texts differ, None if they are equal.

    Examples
    --------
    >>> from specverify.adapters.comparison import first_difference
    >>> first_difference([4, 5, 6], [4, 5, 7]), first_difference([4], [4, 5]), first_difference([4], [4])
    (2, 1, None)
    """
    pairs = enumerate(zip_longest(one, other))
    return next((place for place, (mine, yours) in pairs if mine != yours), None)


def batch_effect(model: CachedModel, prompt: Sequence[int], rounds: Sequence[Round], place: int) -> BatchEffect:
    """Run the target again, in the passes of a speculative text and token by token, and compare its logits.

    Parameters
    ----------
    model : CachedModel
        The target; its cache is emptied before and holds the text up to `place` afterwards.
    prompt : sequence of int
        The prompt.
    rounds : sequence of Round
        The speculative text.
    place : int
        The new token to look at, before the end of the text.

    Returns
    -------
    BatchEffect
        Rejected tokens are replaced by others, since rounds do not keep them: they come after the accepted ones, and
        no row depends on tokens after it.

    Raises
    ------
    ValueError
        The text ends before `place`.
    """
    tokens = [token for one in rounds for token in one.tokens]
    if not 0 <= place < len(tokens):
        raise ValueError(f"place: expected 0 to {len(tokens) - 1}, a token of the text, got {place}")
    text, row = list(prompt), np.empty(0, np.float32)
    model.reset()
    for one in rounds:
        proposed = [*one.tokens[: one.n_accepted], *[0] * (one.n_drafted - len(one.tokens[: one.n_accepted]))]
        rows = model.logits(text + proposed, len(proposed) + 1)
        offset = place - (len(text) - len(prompt))
        if offset < len(one.tokens):
            row = rows[offset].copy()
            break
        text += one.tokens
        model.truncate(len(text) - 1)
    model.reset()
    single = model.logits(list(prompt))[0]
    for token in tokens[:place]:
        single = model.extend([token])[0]
    return BatchEffect(place, int(row.argmax()), int(single.argmax()), float(np.abs(row - single).max()))
