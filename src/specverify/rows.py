"""Rows of which only a few entries are not 0.

Holds :class:`SparseRows`, the form in which a draft that samples from its top 40 hands over its law, and nothing about
verification: what is done with such rows is in ``_rows.pxi``.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

#: Entries of the longest row of logits, and the largest vocabulary of sparse rows.
LONGEST_ROW = 1 << 24


class SparseRows:
    """Rows over a vocabulary as lists of token ids and probabilities; every other token has probability 0.

    Parameters
    ----------
    ids : sequence of K arrays of int, or array of int, shape [K, n]
        Token ids of each row, in any order, without repetition. Rows may differ in length.
    probs : sequence of K arrays of float32, or array, shape [K, n]
        Their probabilities, each row up to a positive factor.
    vocab_size : int, optional
        V. Needed where no dense row says it: when the target is sparse.

    Raises
    ------
    TypeError
        Ids are not integers or probabilities not real.
    ValueError
        Numbers of rows or lengths that differ, a repeated or negative id, an id at or above `vocab_size`.

    Examples
    --------
    The draft looked at its two best tokens, 2 and 0, and drew 2:

    >>> import specverify
    >>> draft = specverify.SparseRows([[2, 0]], [[0.75, 0.25]])
    >>> specverify.verify_sampled([[0.5, 0.2, 0.3, 0.0]] * 2, draft, [2], [0.5, 0.4])
    Verdict(n_accepted=0, next_token=0)
    """

    __slots__ = ("_ids", "_largest_id", "_offsets", "_probs", "_vocab_size")

    def __init__(self, ids: Any, probs: Any, vocab_size: int | None = None) -> None:
        if len(ids) != len(probs):
            raise ValueError(f"SparseRows: expected as many rows of probs as of ids ({len(ids)}), got {len(probs)}")
        rows = [_checked_row(i, *row) for i, row in enumerate(zip(ids, probs, strict=True))]
        counts = np.array([row[0].size for row in rows], np.int64)
        listed, owner = _joined([row[0] for row in rows], np.int64), np.repeat(np.arange(len(rows)), counts)
        order = np.lexsort((listed, owner))  # all rows at once: one by one takes twice as long
        self._ids = _frozen(listed[order])
        self._probs = _frozen(_joined([row[1] for row in rows], np.float32)[order])
        self._offsets = _frozen(np.concatenate(([0], counts.cumsum())).astype(np.int64))
        wrong = self._ids < 0
        wrong[1:] |= (self._ids[1:] == self._ids[:-1]) & (owner[1:] == owner[:-1])
        if wrong.any():
            raise ValueError(f"SparseRows: row {owner[wrong.argmax()]}: expected ids of 0 or more without repetition")
        self._largest_id = int(self._ids.max(initial=-1))
        if vocab_size is not None:
            if not isinstance(vocab_size, (int, np.integer)) or not 1 <= vocab_size <= LONGEST_ROW:
                raise ValueError(f"SparseRows: expected a vocab_size of 1 to {LONGEST_ROW}, got {vocab_size!r}")
            if self._largest_id >= vocab_size:
                raise ValueError(f"SparseRows: id {self._largest_id} is outside [0, {vocab_size})")
        self._vocab_size = None if vocab_size is None else int(vocab_size)

    @property
    def ids(self) -> npt.NDArray[np.int64]:
        """Token ids of all rows one after the other, ascending in each; read-only."""
        return self._ids

    @property
    def probs(self) -> npt.NDArray[np.float32]:
        """Their probabilities; read-only."""
        return self._probs

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """Where each row starts in `ids` and `probs`, and where the last one ends: K + 1 numbers; read-only."""
        return self._offsets

    @property
    def largest_id(self) -> int:
        """Largest id of all, -1 without any."""
        return self._largest_id

    @property
    def vocab_size(self) -> int | None:
        """V, if it is known."""
        return self._vocab_size

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __repr__(self) -> str:
        return f"SparseRows({len(self)} rows, {self._ids.size} entries, vocab_size={self._vocab_size})"

    def dense(self, vocab_size: int | None = None) -> npt.NDArray[np.float32]:
        """Write the rows out, shape [K, V]: for tests and small vocabularies."""
        width = vocab_size if vocab_size is not None else self._vocab_size
        if width is None:
            raise ValueError("SparseRows.dense: vocab_size is not known")
        rows = np.zeros((len(self), width), np.float32)
        rows[np.repeat(np.arange(len(self)), np.diff(self._offsets)), self._ids] = self._probs
        return rows


def _frozen(array: np.ndarray) -> np.ndarray:
    """The core trusts what was checked once, so nobody may write to it."""
    array.setflags(write=False)
    return array


def _checked_row(i: int, ids: Any, probs: Any) -> tuple[np.ndarray, np.ndarray]:
    ids = np.asarray(ids)
    probs = np.asarray(probs)
    if ids.ndim != 1 or ids.shape != probs.shape:
        raise ValueError(
            f"SparseRows: row {i}: expected ids and probs of one length, got {ids.shape} and {probs.shape}"
        )
    if ids.size and ids.dtype.kind not in "iu":
        raise TypeError(f"SparseRows: row {i}: expected integer ids, got dtype {ids.dtype}")
    if probs.size and probs.dtype.kind not in "fiu":
        raise TypeError(f"SparseRows: row {i}: expected real probabilities, got dtype {probs.dtype}")
    with np.errstate(over="ignore"):  # beyond float32 becomes infinity, which no visited row may hold
        return ids.astype(np.int64, copy=False), probs.astype(np.float32, copy=False)


def _joined(rows: Sequence[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate([*rows, np.empty(0, dtype)]).astype(dtype, copy=False)
