"""How many tokens to draft in the next round: always the same number, or the one that has paid.

Holds the protocol that the draft/verify loop asks, and what fulfils it. The cost model behind it, for whole texts:
cost.py; the loop: decoder.py.
"""

from typing import Protocol

from .generation import Round

__all__ = ["DraftLength", "FixedDraftLength"]


class DraftLength(Protocol):
    """Decides the draft length from round to round.

    To leave the law of a text alone, a choice may depend on the past text, past rounds and past times; never on a token
    that was drawn in the round it is for.
    """

    def begin(self) -> None:
        """Learn that a new text begins."""

    def choose(self, limit: int, /) -> int:
        """Give the tokens to draft in the next round, 0 to `limit`: how many fit into the text before the last one."""

    def observe(self, done: Round, requested: int, /) -> None:
        """Learn from a round for which `requested` tokens were asked of the draft, which may have proposed fewer."""


class FixedDraftLength:
    """The same draft length in every round.

    Parameters
    ----------
    k : int
        Tokens to draft; 0 is plain decoding.

    Raises
    ------
    ValueError
        `k` is negative.

    Examples
    --------
    >>> length = FixedDraftLength(4)
    >>> length.choose(100), length.choose(2)
    (4, 2)
    """

    def __init__(self, k: int) -> None:
        if k < 0:
            raise ValueError(f"k: expected a draft length of 0 or more, got {k}")
        self.k = k

    def begin(self) -> None:
        """Do nothing: no text differs from another."""

    def choose(self, limit: int, /) -> int:
        """Give k, or `limit` where less fits."""
        return min(self.k, limit)

    def observe(self, done: Round, requested: int, /) -> None:
        """Do nothing."""
