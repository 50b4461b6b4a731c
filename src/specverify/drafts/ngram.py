"""A draft that counts the text while it grows, and draws from what it counted.

Holds the draft step: how it follows a text, draws and stops. The counts and their law are in counts.py.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from .._inputs import as_count
from ..rows import SparseRows
from ..steps import Start
from ._following import as_ids, check_k, continues, tokens_of
from .counts import ContextCounts, Followers, interpolated


class NGramDraft:
    """Draw from what followed the same few words in the text so far, and in a corpus read before.

    Parameters
    ----------
    order : int
        The longest sequence counted, at least 1: a token is predicted from the ``order - 1`` before it.
    width : int
        Entries of a row, at least 1: the most probable tokens.
    min_order : int
        Drafting stops where nothing is known of the last ``min_order - 1`` tokens; 1 to `order`. With 1 it stops only
        where nothing is known at all.

    Raises
    ------
    TypeError
        A setting is not an integer.
    ValueError
        A setting is outside its bounds.

    Notes
    -----
    The law of a token is Witten-Bell's interpolation of the counts after the last 0, 1, ..., ``order - 1`` tokens, for
    each length first in the corpus of :meth:`train`, then in the text: a longer context is trusted more than a shorter
    one, and this text more than others. Considered are the `width` most frequent tokens after each context, kept the
    `width` most probable of these, ties by lowest id; a row sums to 1 up to rounding to float32. Rows do not depend on
    the sampler: with one that makes the target's rows sharper, a small `width` fits better.

    Tokens are drawn from exactly the float32 rows that are returned: the smallest id whose cumulative probability, in
    float64 and in the order of ids, exceeds ``uniform *`` total, one uniform of ``start.rng`` a token. A greedy text
    gets the most probable tokens instead, and None for rows. Tokens drafted in a call are context for those after
    them, but are not counted; they are when they come back as part of the text. For one stream and one text the tokens
    are the same on every machine.

    A token costs `order` lookups and a row some `width` times `order`, however long the text. A text that does not go
    on from that of the last call (shorter, or different in the first counted token or in one of those 1, 2, 4, 8, ...
    from the end of the counted ones) is counted anew. One object is for one text at a time, and for one thread.

    References
    ----------
    Witten, Bell: The zero-frequency problem, IEEE Transactions on Information Theory 37 (1991), method C.
    Kuhn, De Mori: A cache-based natural language model for speech recognition, IEEE Transactions on Pattern Analysis
    and Machine Intelligence 12 (1990): counts of the text mixed with those of a corpus.

    Examples
    --------
    Behind 1 stood 2 twice and 3 once: n = 3 and t = 2. Of all seven tokens two are a 2, one is a 3, four are a 1. So 2
    has (2 + 2 * 2/7) / 5, 3 has (1 + 2 * 1/7) / 5, and 1, which never stood there, (2 * 4/7) / 5:

    >>> import numpy as np
    >>> from specverify.drafts import NGramDraft
    >>> from specverify.steps import Start
    >>> draft = NGramDraft(order=2, width=3)
    >>> text = [1, 2, 1, 3, 1, 2, 1]
    >>> draft.begin(Start(text, greedy=False, sampling=None, rng=np.random.default_rng(0)))
    >>> tokens, rows = draft(text, 1)
    >>> rows.ids.tolist(), [round(float(prob), 3) for prob in rows.probs]
    ([1, 2, 3], [0.229, 0.514, 0.257])
    """

    def __init__(self, order: int = 4, width: int = 16, min_order: int = 2) -> None:
        self.order = as_count(order, "order", 1)
        self.width = as_count(width, "width", 1)
        self.min_order = as_count(min_order, "min_order", 1, self.order, "order = ")
        self._corpus = ContextCounts(self.order, self.width)
        self._start: Start | None = None
        self._forget()

    def __repr__(self) -> str:
        return f"NGramDraft(order={self.order}, width={self.width}, min_order={self.min_order})"

    def train(self, tokens: Sequence[int]) -> None:
        """Count a text that is not forgotten when another one begins.

        Parameters
        ----------
        tokens : sequence of int, 0 to 2**63 - 1
            One text; the beginning has no context, whatever was counted before.

        Raises
        ------
        TypeError
            A token is not an integer.
        ValueError
            A token is outside ``[0, 2**63)``.
        """
        self._corpus.count(as_ids(tokens_of(tokens, 0, len(tokens)), "tokens"))

    def begin(self, start: Start, /) -> None:
        """Forget the text, since another one begins; take over its random stream, and whether it is greedy."""
        self._start = start
        self._forget()

    def __call__(self, prefix: Sequence[int], k: int, /) -> tuple[list[int], SparseRows | None]:
        """Draft up to `k` tokens after `prefix`.

        Parameters
        ----------
        prefix : sequence of int, 0 to 2**63 - 1
            The text; not changed, and only its new tokens are looked at.
        k : int
            The most tokens to draft.

        Returns
        -------
        tokens : list of int
            Fewer than `k` where nothing is known of the last tokens.
        rows : SparseRows, or None
            The rows they were drawn from; None for a greedy text.

        Raises
        ------
        RuntimeError
            No text has begun, so that there is no random stream.
        TypeError
            A token is not an integer.
        ValueError
            A token is outside ``[0, 2**63)``; `k` is negative.
        """
        check_k(k)
        if self._start is None:
            raise RuntimeError(
                "NGramDraft: expected begin(start) before the first draft, a specverify.steps.Start with a stream"
            )
        self._follow(prefix)
        context = self._tail(tuple(self._text[-self.order :]))
        tokens: list[int] = []
        rows: list[tuple[list[int], np.ndarray[Any, np.dtype[np.float32]]]] = []
        for _ in range(k):
            experts = self._experts(context)
            if not experts:
                break
            law = interpolated(experts, self.width)
            if self._start.greedy:
                token = law[0][0]
            else:
                law.sort()
                ids = [token for token, _ in law]
                probs = np.array([probability for _, probability in law], np.float32)
                cumulative = list(accumulate(probs.tolist()))
                token = ids[bisect_right(cumulative, self._start.rng.random() * cumulative[-1])]
                rows.append((ids, probs))
            tokens.append(token)
            context = self._tail((*context, token))
        if self._start.greedy:
            return tokens, None
        return tokens, SparseRows([ids for ids, _ in rows], [probs for _, probs in rows])

    def _forget(self) -> None:
        self._text: list[int] = []
        self._counts = ContextCounts(self.order, self.width)

    def _follow(self, prefix: Sequence[int]) -> None:
        """Count what is new in the text."""
        if not continues(prefix, self._text):
            self._forget()
        start = len(self._text)
        new = as_ids(tokens_of(prefix, start, len(prefix)), "prefix", start)
        self._text += new
        try:
            self._counts.count(self._text, start)
        except BaseException:  # interrupted in the middle: better nothing than counts of half a token
            self._forget()
            raise

    def _tail(self, tokens: tuple[int, ...]) -> tuple[int, ...]:
        """The context that tokens leave to the next one."""
        return tokens[max(0, len(tokens) - self.order + 1) :]

    def _experts(self, context: tuple[int, ...]) -> list[Followers]:
        """What followed the context and each of its ends, the shortest first; nothing where too little is known."""
        experts: list[Followers] = []
        known = 0
        for n in range(len(context) + 1):
            end = context[len(context) - n :]
            found = [one for counts in (self._corpus, self._counts) if (one := counts.behind(end)) is not None]
            if not found:
                break
            experts += found
            known = n + 1
        return experts if known >= self.min_order else []
