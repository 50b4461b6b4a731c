"""Prompt lookup: what followed the same words before is proposed again.

Holds the rule and what is done when a text turns out to be another one; the index is compiled (_lookup.pyx).
"""

import threading
from collections.abc import Sequence

from .._inputs import as_count
from .._lookup import SuffixIndex
from ..steps import Start
from ._following import as_ids, check_k, continues, fail, tokens_of

#: Tokens of a match that are compared in the text itself before its continuation is proposed; min_n, if that is more.
_COMPARED = 32
#: The index counts in 32 bits; no text is so long.
_LONGEST = 2**31 - 1


class PromptLookup:
    """Propose the tokens that followed the same words earlier in the text.

    Of the suffixes of the text of `min_n` to `max_n` tokens the longest that occurs earlier is taken, its earliest
    occurrence, and the tokens after that, up to the end of the text. An occurrence may overlap the suffix, but is not
    the suffix itself. Nothing is proposed without an occurrence.

    Parameters
    ----------
    max_n : int
        The longest suffix to look for, at least 1. A larger one costs nothing.
    min_n : int
        The shortest, 1 to `max_n`. Shorter ones propose more often and worse.

    Raises
    ------
    TypeError
        A bound is not an integer.
    ValueError
        A bound is below 1, or `min_n` is above `max_n`.

    Notes
    -----
    Proposals are found, not drawn: verify them with ``draft=None``.

    The text is kept in a suffix automaton that grows with it, along with the place of the longest suffix that occurs
    earlier, so a call takes amortised time in the number of tokens that are new, whatever they are, and in `k`: not in
    the length of the text, nor in `max_n`. At every doubling of the text one call also moves the table of transitions.

    A call whose text does not go on from that of the last call is answered all the same: the text is indexed anew if it
    is shorter, or differs in the first of the tokens that were indexed or in one of those 1, 2, 4, 8, ... from their
    end. A change at other places alone is not noticed at once, and may hide a longer or earlier occurrence. Whatever
    was changed, a proposal is read from the text of the call, and the last 32 tokens of the match (all if it is
    shorter, `min_n` if that is more) are compared in it before.

    One object is for one text at a time: of texts that take turns each is indexed anew. Calls from several threads wait
    for each other, also without the GIL.

    References
    ----------
    Saxena: Prompt Lookup Decoding, 2023, https://github.com/apoorvumang/prompt-lookup-decoding.
    Blumer et al.: The smallest automaton recognizing the subwords of a text, Theoretical Computer Science 40 (1985).

    Examples
    --------
    The text ends with 2, 3, which stood before 4, 9 as well; the match of three tokens is taken:

    >>> from specverify.drafts import PromptLookup
    >>> lookup = PromptLookup(max_n=3)
    >>> lookup([1, 2, 3, 4, 9, 2, 3, 5, 1, 2, 3], 2)
    ([4, 9], None)

    Up to the end of the text, never beyond it:

    >>> PromptLookup(max_n=2)([6, 6, 6, 6], 4)
    ([6, 6], None)
    """

    def __init__(self, max_n: int = 3, min_n: int = 1) -> None:
        self.max_n = as_count(max_n, "max_n", 1)
        self.min_n = as_count(min_n, "min_n", 1, self.max_n, "max_n = ")
        self._index = SuffixIndex(min(self.max_n, _LONGEST))
        self._lock = threading.RLock()  # one that a token with an __index__ of its own can come back through

    def __repr__(self) -> str:
        return f"PromptLookup(max_n={self.max_n}, min_n={self.min_n})"

    def begin(self, start: Start, /) -> None:
        """Forget the text, since another one begins."""
        with self._lock:
            self._index.clear()

    def __call__(self, prefix: Sequence[int], k: int, /) -> tuple[list[int], None]:
        """Propose up to `k` tokens after `prefix`.

        Parameters
        ----------
        prefix : sequence of int, 0 to 2**63 - 1
            The text; not changed, and only its new tokens are looked at.
        k : int
            The most tokens to propose.

        Returns
        -------
        tokens : list of int
            What followed the match; none without one.
        rows : None
            The tokens were not drawn.

        Raises
        ------
        TypeError
            A token is not an integer.
        ValueError
            A token is outside ``[0, 2**63)``; `k` is negative.
        MemoryError
            There is no room for the index, which then is empty.
        """
        check_k(k)
        with self._lock:
            length, end = self._find(prefix)
        if length < self.min_n:
            return [], None
        return as_ids(tokens_of(prefix, end, end + k), "prefix", end), None

    def _find(self, prefix: Sequence[int]) -> tuple[int, int]:
        """Give the length of the longest suffix that occurs earlier, and where it ends first."""
        known = len(self._index)
        if not continues(prefix, self._index):
            self._index.clear()
            known = 0
        self._extend(prefix, known)
        length, end = self._index.longest_repeat()
        if known and length >= self.min_n and not self._is_match(prefix, length, end):
            self._index.clear()
            self._extend(prefix, 0)
            length, end = self._index.longest_repeat()
        return length, end

    def _extend(self, prefix: Sequence[int], known: int) -> None:
        new = tokens_of(prefix, known, len(prefix))
        try:
            self._index.extend(new)
        except (TypeError, ValueError, OverflowError):
            fail(new, "prefix", known)

    def _is_match(self, prefix: Sequence[int], length: int, end: int) -> bool:
        compared = min(length, max(self.min_n, _COMPARED))
        n = len(prefix)
        return tokens_of(prefix, end - compared, end) == tokens_of(prefix, n - compared, n)
