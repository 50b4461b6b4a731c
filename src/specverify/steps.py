"""What the draft/verify loop asks of models: one call each, and what a model with a memory adds to it.

Any two functions will do. A model that keeps a cache of keys and values also says how much is in it and lets it be cut;
a model that wants to know the sampler or the random stream asks to be told when a text begins. Holds no loop
(decoder.py), no framework (adapters/), no draft (drafts/).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from .sampling import Sampling

# A grammar: the packed bitmask [ceil(V / 32)] (int32) of the tokens that may follow a text.
MaskStep = Callable[[Sequence[int]], Any]


class DraftStep(Protocol):
    """Proposes tokens."""

    def __call__(self, prefix: Sequence[int], k: int, /) -> tuple[Any, Any]:
        """Propose up to `k` tokens after `prefix`; give them and the rows they were drawn from.

        Parameters
        ----------
        prefix : sequence of int
            The committed text, prompt included; not to be changed.
        k : int
            The most tokens that can be used, at least 1.

        Returns
        -------
        tokens : array_like of int, shape [n], 0 <= n <= k
            Fewer than `k` are fine, so are none. Whether to stop may depend on the text and on the row of the next
            token, never on that token itself once it was drawn: discarding a token shifts the law.
        rows : array_like, shape [n, V], SparseRows, or None
            As `draft` of :func:`specverify.verify_sampled`. None for tokens that were not drawn but found.
        """


class TargetStep(Protocol):
    """Scores proposed tokens in one pass."""

    def __call__(self, prefix: Sequence[int], proposed: Sequence[int], /) -> Any:
        """Give the rows that predict each of the n proposed tokens and the one after them: [n + 1, V].

        Parameters
        ----------
        prefix : sequence of int
            The committed text, prompt included, of at least one token; not to be changed.
        proposed : sequence of int, length n
            The drafted tokens; none in a round without a draft.
        """


@runtime_checkable
class Cached(Protocol):
    """A step whose model remembers tokens, so that only new ones have to be fed.

    Examples
    --------
    A target that says the next number, and reads every token once:

    >>> import numpy as np, specverify
    >>> class Counting:
    ...     def __init__(self):
    ...         self.cache, self.read = [], 0
    ...
    ...     @property
    ...     def n_cached(self):
    ...         return len(self.cache)
    ...
    ...     def truncate(self, keep):
    ...         del self.cache[keep:]
    ...
    ...     def __call__(self, prefix, proposed):
    ...         new = [*prefix, *proposed][len(self.cache) :]  # at least one: the last token of the text
    ...         self.cache += new
    ...         self.read += len(new)
    ...         return np.eye(50)[[token + 1 for token in new[-len(proposed) - 1 :]]]
    >>> target = Counting()
    >>> specverify.SpeculativeDecoder(lambda prefix, k: ([7] * k, None), target, k=2).generate([3], 4).tokens
    [4, 5, 6, 7]
    >>> target.cache, target.read
    ([3, 4, 5, 6], 9)
    """

    @property
    def n_cached(self) -> int:
        """How many tokens the cache holds, from the beginning of the text."""

    def truncate(self, keep: int, /) -> int | None:
        """Forget all but the first `keep` tokens, fewer than are cached.

        Parameters
        ----------
        keep : int
            How many tokens stay: ``del cache[keep:]``.

        Returns
        -------
        int or None
            How many were removed, if that is known; `n_cached` is looked at afterwards in any case.
        """


@dataclass(frozen=True, slots=True)
class Start:
    """What a text begins with, for a step that has a method ``begin(start)``.

    Attributes
    ----------
    prompt : sequence of int
        The text to go on from; not to be changed.
    greedy : bool
        The target's most probable token is always taken, so a draft does best to propose its own.
    sampling : Sampling or None
        What turns logits into probabilities on both sides; None when the target gives probabilities or is greedy.
    rng : numpy.random.Generator
        The draft's own stream, independent of those that decide.
    mask : callable or None
        ``mask(text)`` gives the bitmask of tokens that may follow a text. A draft that gives dense rows of logits must
        draw under it, since verification applies it to both sides.
    bias : ndarray of float32, shape [V], or None
        Added to logits. A draft that gives dense rows of logits must draw with it, for the same reason.
    end_tokens : frozenset of int
        Each ends the text. A draft may stop after one that it drew: what follows is never emitted.
    """

    prompt: Sequence[int]
    greedy: bool
    sampling: Sampling | None
    rng: np.random.Generator
    mask: MaskStep | None = None
    bias: np.ndarray | None = None
    end_tokens: frozenset[int] = frozenset()


def begin_text(step: Any, start: Start) -> None:
    """Tell a step that a text begins; what is in the cache of one that does not want to know is of another text."""
    if hasattr(step, "begin"):
        step.begin(start)
    else:
        cut_back(step, 0)


def cut_back(step: Any, keep: int) -> None:
    """Leave at most `keep` tokens in a step's cache, if it has one; RuntimeError if it does not shrink."""
    if not hasattr(step, "n_cached") or step.n_cached <= keep:
        return
    held = step.n_cached
    removed = step.truncate(keep)
    left = step.n_cached
    if left != keep or removed not in (None, held - keep):
        said = "" if removed is None else f"{removed} removed and "
        raise RuntimeError(
            f"{type(step).__name__}.truncate({keep}): expected to keep {keep} of {held} cached tokens and remove "
            f"{held - keep}, got {said}{left} left: a cache that cannot be rolled back needs k=0"
        )
