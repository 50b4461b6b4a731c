"""The two steps of the draft/verify loop, for any model that gives rows of logits. Holds no cache (_cached.py)."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..draws import sample
from ..sampling import Sampling
from ..steps import Start

_GREEDY = Sampling(temperature=0.0)


class RowModel(Protocol):
    """What the steps need of a :class:`CachedModel`, whose methods say what each does."""

    name: str
    vocab_size: int

    @property
    def n_cached(self) -> int:
        """How many tokens the cache holds."""

    def logits(self, sequence: Sequence[int], n_last: int = 1) -> NDArray[np.float32]:
        """Give the rows of the last `n_last` positions of a text."""

    def extend(self, tokens: Sequence[int], n_last: int = 1) -> NDArray[np.float32]:
        """Feed tokens after those in the cache."""

    def truncate(self, keep: int) -> int:
        """Forget all but the first `keep` tokens."""


class TargetModel:
    """A model as the target of a :class:`specverify.SpeculativeDecoder`: one pass over all proposed tokens.

    Parameters
    ----------
    model : CachedModel
        Gives logits, so the decoder has to be greedy or to have `sampling`.
    """

    def __init__(self, model: RowModel) -> None:
        self.model = model

    def begin(self, start: Start) -> None:
        """Begin a text. ValueError if the decoder expects probabilities."""
        _check_takes_logits(start, self.model)

    def __call__(self, prefix: Sequence[int], proposed: Sequence[int], /) -> NDArray[np.float32]:
        """Give the logits [len(proposed) + 1, V], valid until the model's next call."""
        return self.model.logits([*prefix, *proposed], len(proposed) + 1)

    @property
    def n_cached(self) -> int:
        """How many tokens the model's cache holds."""
        return self.model.n_cached

    def truncate(self, keep: int, /) -> int:
        """Forget all but the first `keep` tokens; give how many were removed. RuntimeError if the model cannot."""
        return self.model.truncate(keep)


class DraftModel:
    """A model as the draft of a :class:`specverify.SpeculativeDecoder`: one pass for each drafted token.

    Parameters
    ----------
    model : CachedModel
        Of the target's vocabulary, see :func:`check_same_vocabulary`.

    Notes
    -----
    Tokens are drawn by :func:`specverify.sample` from the law that verification takes them to come from: the decoder's
    sampler, mask and bias, on the rows that are returned. At temperature 0 they are the most probable ones, and
    certain. The last drafted token is not fed, since nothing is asked about what follows it. Nothing is drafted after
    an end token.
    """

    def __init__(self, model: RowModel) -> None:
        self.model = model
        self._start: Start | None = None
        self._rows = np.empty((0, model.vocab_size), np.float32)

    def begin(self, start: Start) -> None:
        """Begin a text. ValueError if the decoder expects probabilities."""
        _check_takes_logits(start, self.model)
        self._start = start

    def __call__(self, prefix: Sequence[int], k: int, /) -> tuple[list[int], NDArray[np.float32] | None]:
        """Draft up to `k` tokens; give them and their logits, valid until the next call, or None if they are certain.

        Raises
        ------
        RuntimeError
            No text was begun, or the model gave something else than one row of V logits.
        """
        start = self._start
        if start is None:
            raise RuntimeError("draft: expected begin(start) before the first call, as SpeculativeDecoder does it")
        certain = start.greedy or start.sampling is None or start.sampling.temperature == 0
        if not certain and len(self._rows) < k:
            self._rows = np.empty((k, self.model.vocab_size), np.float32)
        text = list(prefix)
        for i in range(k):
            row = _only_row(self.model.extend(text[-1:]) if i else self.model.logits(text), self.model)
            mask = None if start.mask is None else start.mask(text)
            if certain:
                text.append(sample(row, 0.0, _GREEDY, mask=mask, bias=start.bias))
            else:
                self._rows[i] = row  # the next pass overwrites the runtime's own
                text.append(sample(row, start.rng.random(), start.sampling, mask=mask, bias=start.bias))
            if text[-1] in start.end_tokens:  # whatever would follow is no part of the text
                break
        return text[len(prefix) :], None if certain else self._rows[: len(text) - len(prefix)]

    @property
    def n_cached(self) -> int:
        """How many tokens the model's cache holds."""
        return self.model.n_cached

    def truncate(self, keep: int, /) -> int:
        """Forget all but the first `keep` tokens; give how many were removed. RuntimeError if the model cannot."""
        return self.model.truncate(keep)


def _only_row(rows: NDArray[np.float32] | None, model: RowModel) -> NDArray[np.float32]:
    if rows is None or np.shape(rows) != (1, model.vocab_size):
        got = "None" if rows is None else f"shape {np.shape(rows)}"
        raise RuntimeError(f"{model.name}: expected a row of logits, shape (1, {model.vocab_size}), got {got}")
    row: NDArray[np.float32] = rows[0]
    return row


def _check_takes_logits(start: Start, model: RowModel) -> None:
    if not start.greedy and start.sampling is None:
        raise ValueError(f"sampling: expected Sampling(...) or greedy decoding, got None: {model.name} gives logits")
