"""A model with a cache of keys and values. Its subclasses say how a runtime is fed, _steps.py how the loop calls it.

Shared by all adapters: which tokens the cache holds, which of a text are new, and what is done when a roll-back or a
pass fails. Between two calls these statements hold, however a call ended:

1. The runtime holds exactly the tokens of ``_tokens``, at the positions 0, 1, 2, ...
2. A text is cut up into passes the same way whatever is drafted after it: what lies before the rows asked for is fed
   first, in pieces of ``n_batch`` tokens. Runtimes compute a long piece by other loops than a short one, with other
   rounding, and plain and speculative decoding of a prompt are to begin from the same numbers.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .._inputs import as_ids
from ._steps import DraftModel, TargetModel


class CachedModel(ABC):
    """A language model that remembers the text it has seen.

    Parameters
    ----------
    name : str
        What messages call it.
    vocab_size : int
        V, the length of a row of logits.
    context_length : int
        The most tokens of a text.
    n_batch : int
        The most tokens of a pass.

    Notes
    -----
    Not for use by several threads at once. One model may serve as target and draft of the same decoder, but then each
    undoes the other's cache: load it twice instead.
    """

    def __init__(self, name: str, vocab_size: int, context_length: int, n_batch: int) -> None:
        self.name = name
        self.vocab_size = vocab_size
        self.context_length = context_length
        self.n_batch = n_batch
        self._tokens: list[int] = []

    # What a runtime has to offer.

    @abstractmethod
    def _feed(self, tokens: list[int], n_rows: int) -> NDArray[np.float32]:
        """Run a pass over at most `n_batch` tokens after those held; give the rows of the last `n_rows`, may be 0."""

    @abstractmethod
    def _cut(self, keep: int) -> None:
        """Ask the runtime to forget all but the first `keep` tokens, at least 1; whether it did is asked of `_held`."""

    @abstractmethod
    def _clear(self) -> None:
        """Forget everything; cannot fail."""

    @abstractmethod
    def _held(self) -> int:
        """Ask the runtime how many tokens it holds; -1 if that cannot be said, after a pass that failed."""

    @abstractmethod
    def encode(self, text: str, *, begin: bool = True, special: bool = False) -> list[int]:
        """Turn text into tokens.

        Parameters
        ----------
        text : str
            The text.
        begin : bool
            Put the token in front that the model wants at the beginning of a text, if it wants one.
        special : bool
            Read names of special tokens in the text as these tokens.
        """

    @abstractmethod
    def encode_chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """Turn messages (``{"role": ..., "content": ...}``) into a prompt by the model's own template.

        Raises
        ------
        ValueError
            The model has no template, or a message lacks one of the two.
        TypeError
            A message is no mapping.
        """

    @abstractmethod
    def decode(self, tokens: Sequence[int], *, special: bool = False) -> str:
        """Turn tokens into text; with `special` also those that are not text. What is no character becomes U+FFFD.

        Raises
        ------
        ValueError
            An id is outside ``[0, V)``.
        TypeError
            One is no integer.
        """

    @abstractmethod
    def vocabulary(self) -> list[str | None]:
        """Give the model's spelling of each token, None for an entry that no text uses."""

    @property
    @abstractmethod
    def end_tokens(self) -> tuple[int, ...]:
        """The tokens that end a text."""

    @abstractmethod
    def close(self) -> None:
        """Free what the runtime holds; the model cannot be used any more."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # The cache.

    @property
    def n_cached(self) -> int:
        """How many tokens the cache holds, from the beginning of the text."""
        return len(self._tokens)

    def logits(self, sequence: Sequence[int], n_last: int = 1) -> NDArray[np.float32]:
        """Give the rows of the last `n_last` positions of a text; feed only what the cache does not hold.

        Parameters
        ----------
        sequence : sequence of int
            The text from its beginning. A list is compared with the cache fastest.
        n_last : int
            Rows wanted, from 1 to ``len(sequence)``. Row i predicts the token after position
            ``len(sequence) - n_last + i``.

        Returns
        -------
        ndarray of float32, shape [n_last, V]
            Logits. They may lie in the runtime's own memory: valid until the next call of any method.

        Raises
        ------
        ValueError
            The text is empty, longer than the context, or has an id outside ``[0, V)``; `n_last` does not fit.
        RuntimeError
            A pass failed, or the cache could not be rolled back to what it has in common with the text.
        """
        text = sequence if isinstance(sequence, list) else list(sequence)
        if not 1 <= n_last <= len(text):
            _fail_rows("sequence", len(text), n_last)
        keep = common_prefix(self._tokens, text, len(text) - n_last)
        self.truncate(keep)
        return self.extend(text[keep:], n_last)

    def extend(self, tokens: Sequence[int], n_last: int = 1) -> NDArray[np.float32]:
        """Feed tokens after those in the cache. Parameters, result and errors as in :meth:`logits`."""
        tokens = list(tokens)
        self._check(tokens, n_last)
        n_before = len(tokens) - n_last
        if n_before == 1:
            # A draft whose tokens were all accepted has two to catch up with: one pass.
            n_before = 0
        for start in range(0, n_before, self.n_batch):
            self._advance(tokens[start : min(start + self.n_batch, n_before)], 0)
        found = []
        for start in range(n_before, len(tokens), self.n_batch):
            piece = tokens[start : start + self.n_batch]
            n_rows = min(len(piece), start + len(piece) - (len(tokens) - n_last))
            rows = self._advance(piece, n_rows)
            found.append(rows.copy() if start + self.n_batch < len(tokens) else rows)  # the next pass overwrites them
        return found[0] if len(found) == 1 else np.concatenate(found)

    def truncate(self, keep: int) -> int:
        """Forget all but the first `keep` tokens.

        Parameters
        ----------
        keep : int
            0 or more; nothing happens if no more are cached.

        Returns
        -------
        int
            How many were removed.

        Raises
        ------
        ValueError
            `keep` is negative.
        RuntimeError
            The runtime did not do it: some models (recurrent ones, sliding windows) cannot go back. The cache is empty
            then, so that nothing wrong is built upon.
        """
        if keep < 0:
            raise ValueError(f"keep: expected 0 or more, got {keep}")
        removed = self.n_cached - keep
        if removed <= 0:
            return 0
        if keep == 0:
            self.reset()
            return removed
        try:
            self._cut(keep)
            held = self._held()
            if held != keep:
                raise RuntimeError(
                    f"{self.name}: expected {keep} cached tokens after removing {removed}, got {held}: the cache of "
                    "this model cannot be rolled back; as a target it needs k = 0"
                )
            del self._tokens[keep:]
        except BaseException:
            self.reset()
            raise
        return removed

    def reset(self) -> None:
        """Forget everything."""
        self._clear()
        self._tokens.clear()

    def _check(self, tokens: list[int], n_last: int) -> None:
        if not 1 <= n_last <= len(tokens):
            _fail_rows("tokens", len(tokens), n_last)
        self._check_ids(tokens, "sequence", self.n_cached)
        total = self.n_cached + len(tokens)
        if total > self.context_length:
            raise ValueError(
                f"sequence: expected at most {self.context_length} tokens, the context of {self.name}, got {total}"
            )

    def _check_ids(self, tokens: list[int], name: str, start: int = 0) -> None:
        """Refuse what is no id: runtimes cut it to 32 bits, or end the process."""
        if tokens and (min(tokens) < 0 or max(tokens) >= self.vocab_size):
            where, token = next((i, x) for i, x in enumerate(tokens) if not 0 <= x < self.vocab_size)
            raise ValueError(f"{name}[{start + where}] = {token} is outside [0, {self.vocab_size})")

    def _ids(self, tokens: Sequence[int]) -> list[int]:
        """Give tokens to be decoded as a list of ids of the vocabulary."""
        ids = as_ids(tokens, "tokens")
        self._check_ids(ids, "tokens")
        return ids

    def _advance(self, tokens: list[int], n_rows: int) -> NDArray[np.float32]:
        try:
            rows = self._feed(tokens, n_rows)
            self._tokens += tokens
        except BaseException:
            self._restore()
            raise
        return rows

    def _restore(self) -> None:
        """After a pass that failed half-way: back to what the cache held before it, at worst to nothing."""
        try:
            if self._tokens and self._held() != self.n_cached:
                self._cut(self.n_cached)
            restored = bool(self._tokens) and self._held() == self.n_cached
        except Exception:  # the failure of the pass is what matters to the caller
            restored = False
        if not restored:
            self.reset()

    # The steps.

    def as_target(self) -> TargetModel:
        """Give the target step of a decoder."""
        return TargetModel(self)

    def as_draft(self) -> DraftModel:
        """Give the draft step of a decoder."""
        return DraftModel(self)


def common_prefix(one: list[int], other: list[int], limit: int) -> int:
    """Count the tokens that two texts have in common at the beginning, at most `limit`.

    By comparing slices: in the usual case one of them, so a text of thousands of tokens costs microseconds.

    Examples
    --------
    >>> from specverify.adapters._cached import common_prefix
    >>> common_prefix([5, 6, 7, 8], [5, 6, 9, 8], 4)
    2
    """
    equal, end = 0, min(len(one), len(other), limit)
    if one[:end] == other[:end]:
        return end
    while end - equal > 1:  # equal up to `equal`, not up to `end`
        middle = (equal + end) // 2
        if one[equal:middle] == other[equal:middle]:
            equal = middle
        else:
            end = middle
    return equal


def check_sizes(**sizes: int | None) -> None:
    """Refuse a context, a batch or a number of threads below 1; None is a default."""
    for name, value in sizes.items():
        if value is not None and value < 1:
            raise ValueError(f"{name}: expected at least 1, got {value}")


def rendered(template: Callable[[list[dict[str, str]]], str], messages: Sequence[Mapping[str, str]], name: str) -> str:
    """Write out messages by the chat template of the model `name`: a program of others, which may refuse them."""
    given = _as_messages(messages)
    try:
        return template(given)
    except ImportError:
        raise
    except Exception as error:
        raise ValueError(f"messages: the chat template of {name} refuses them: {error}") from error


def _as_messages(messages: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Give messages as templates want them; these take what is missing for empty, or break."""
    for i, message in enumerate(messages):
        if not isinstance(message, Mapping):
            raise TypeError(f"messages[{i}]: expected a mapping with role and content, got {type(message).__name__}")
        for key in ("role", "content"):
            if key not in message:
                raise ValueError(f"messages[{i}]: expected role and content, got no {key}")
    return [dict(message) for message in messages]


def _fail_rows(name: str, n_tokens: int, n_last: Any) -> None:
    if n_tokens == 0:
        raise ValueError(f"{name}: expected at least one token, got none")
    raise ValueError(f"n_last: expected 1 to {n_tokens}, the number of tokens, got {n_last}")
